"""Packages import only from packages below them, and no module imports itself through others."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
LAYERS = (  # lowest first
    "base", "sparsity", "networks", "workload", "schema", "readers", "model", "trace", "accuracy", "io_theory", "calibrate",
    "sweeping", "searching", "explaining", "training", "report", "plot", "html_report", "explorer", "cli",
)  # fmt: skip
"""The public `dse/__init__.py` imports from all of them, when a name is first used, and none of them imports it."""


WITHOUT_LIST = ("", "dse")  # packages whose docstring does not list modules: `dse` lists its public names


def module_files(top: Path) -> dict[str, Path]:
    """Each module below `top`/dse by its dotted name."""
    files = sorted((top / "dse").rglob("*.py"))
    return {".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imported_modules(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports, anywhere in it: in functions and for types alone, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write absolute imports"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else str(node.module) for name in names}
    return found & known.keys()


def import_graph(top: Path) -> dict[str, set[str]]:
    """What each module imports; without the lazy imports of `dse/__init__.py`."""
    files = module_files(top)
    return {name: imported_modules(file, files) for name, file in files.items() if name != "dse"}


def upward_imports(graph: dict[str, set[str]]) -> list[str]:
    """Imports of a package from one below it."""
    level = {name: number for number, name in enumerate(LAYERS)}
    pairs = [(importer, imported) for importer, targets in graph.items() for imported in targets]
    return sorted(f"{a} -> {b}" for a, b in pairs if b == "dse" or level[a.split(".")[1]] < level[b.split(".")[1]])


def import_cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle; empty where there is none."""
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return error.args[1]
    return []


def test_the_docstring_of_a_package_names_its_modules():
    files = module_files(TOP)
    docstrings = {name: ast.get_docstring(ast.parse(file.read_text())) or "" for name, file in files.items() if file.stem == "__init__"}
    parents = [name.rpartition(".")[::2] for name in files]
    assert [
        f"{package}: {module}"
        for package, module in parents
        if package not in WITHOUT_LIST and not module.startswith("__") and not re.search(rf"\b{module}\b", docstrings[package])
    ] == []


def test_packages_import_downwards():
    assert upward_imports(import_graph(TOP)) == []


def test_no_module_imports_itself_through_others():
    assert import_cycle(import_graph(TOP)) == []


def test_every_package_has_its_layer():
    assert {path.parent.name for path in (TOP / "dse").glob("*/__init__.py")} == set(LAYERS)


@pytest.mark.parametrize(
    ("files", "upward", "cyclic"),
    [
        ({"base/a.py": "from dse.model import b", "model/b.py": ""}, ["dse.base.a -> dse.model.b"], False),
        ({"base/a.py": "def f():\n    import dse.base.c", "base/c.py": "from dse.base import a"}, [], True),
        ({"model/b.py": "import dse"}, ["dse.model.b -> dse"], False),
        ({"model/b.py": "from dse.base.a import x", "base/a.py": "x = 1"}, [], False),
    ],
)
def test_wrong_imports_are_found(tmp_path, files, upward, cyclic):
    for name, text in {"__init__.py": "", "base/__init__.py": "", "model/__init__.py": "", **files}.items():
        path = tmp_path / "dse" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = import_graph(tmp_path)
    assert upward_imports(graph) == upward
    assert bool(import_cycle(graph)) is cyclic
