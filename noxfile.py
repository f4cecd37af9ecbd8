"""Every check of the project, each as a session: `nox` runs the quick ones, `nox -l` lists them all.

Each session makes an environment of its own; `nox --no-venv --no-install -s SESSION` runs in the active one as it is.
"""

import nox

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MEASURED = ("networks", "sparsity", "trace", "workload")
"""Packages that their own tests cover, in minutes; the whole suite takes much longer."""

nox.needs_version = ">=2025.2"
nox.options.sessions = ["lint", "types", "docs"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and check the formatting."""
    session.install("ruff>=0.14")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with pyright."""
    session.install("--editable", ".[test]")
    session.run("pyright")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests against the latest dependencies; arguments go to pytest."""
    session.install("--editable", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[0], venv_backend="uv")
def tests_lowest(session: nox.Session) -> None:
    """Run the tests against the lowest versions that pyproject.toml allows; arguments go to pytest."""
    session.install("--resolution", "lowest-direct", "--editable", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; every warning is an error."""
    session.install(".[docs]")
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def notebooks(session: nox.Session) -> None:
    """Execute the notebooks of docs/tutorial and compare what they print."""
    session.install("--editable", ".[docs,safetensors,test]")
    session.run("pytest", "tests/test_notebooks.py", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure the branch coverage of some packages by their own tests; pyproject.toml has the threshold."""
    session.install("--editable", ".[test]", "coverage>=7.6")
    session.run("coverage", "run", "-m", "pytest", "-q", *(f"tests/{name}" for name in MEASURED))
    session.run("coverage", "report", "--skip-covered", "--sort=cover")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure the throughput of a sweep; `nox -s benchmarks -- all` measures every table of the documentation."""
    session.install("--editable", ".[test]")
    session.run("python", "tests/benchmarks" if "all" in session.posargs else "tests/benchmarks/throughput.py")
