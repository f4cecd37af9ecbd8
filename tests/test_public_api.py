"""The public interface: what `import dse` offers, and that nothing heavy is imported before it is used."""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import dse
import dse.sparsity

FUNCTIONS = [name for name in dse.__all__ if inspect.isfunction(getattr(dse, name))]
CLASSES = [name for name in dse.__all__ if inspect.isclass(getattr(dse, name))]
API_PAGES = "\n".join(page.read_text() for page in (Path(__file__).parents[1] / "docs/reference/api").glob("*.md"))


def test_dir_and_all_agree():
    assert dir(dse) == sorted(dse.__all__)
    assert len(dse.__all__) == 18


@pytest.mark.parametrize("name", [name for name in dse.__all__ if name != "__version__"])
def test_every_public_name_has_a_line_in_the_module_docstring(name):
    assert f"\n    {name} " in str(dse.__doc__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_documents_its_arguments_and_has_an_example(name):
    function = getattr(dse, name)
    text = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters:
        assert f"\n    {parameter}: " in text
    for section in ("Args", "Returns", "Raises", "Examples"):
        assert f"\n{section}:\n" in text


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_class_has_an_example(name):
    assert "\nExamples:\n" in (inspect.getdoc(getattr(dse, name)) or "")


@pytest.mark.parametrize("name", FUNCTIONS + CLASSES)
def test_every_public_name_is_rendered_on_a_page(name):
    assert f"\n::: dse.{name}\n" in API_PAGES


@pytest.mark.parametrize("name", dse.sparsity.__all__)
def test_every_public_name_of_sparsity_is_rendered_on_a_page(name):
    assert f"\n::: dse.sparsity.{name}\n" in API_PAGES


@pytest.mark.parametrize(
    ("path", "members"), re.findall(r"^::: dse\.([\w.]+)\n    options:\n      members: \[(.*)\]$", API_PAGES, re.MULTILINE)
)
def test_every_member_on_a_page_exists_and_is_documented(path, members):
    module, _, name = f"dse.{path}".rpartition(".")
    documented = getattr(importlib.import_module(module), name)
    for member in members.split(", "):
        assert inspect.getdoc(inspect.getattr_static(documented, member)), member


def test_the_version_is_that_of_the_distribution():
    assert dse.__version__ == version("sparse-dse")


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'dse' has no attribute 'evalute'"):
        dse.evalute  # noqa: B018 - the access is what is tested


def test_packages_do_not_hide_the_functions_with_similar_names():
    """`dse.sweep` and `dse.search` are functions, so their packages are `dse.sweeping` and `dse.searching`."""
    importlib.import_module("dse.sweeping.run")
    importlib.import_module("dse.searching.run")
    assert inspect.isfunction(dse.sweep)
    assert inspect.isfunction(dse.search)


def test_importing_dse_does_not_import_jax():
    code = "import sys, dse; dse.load_accelerator('a100-sxm4-80gb'); print([name for name in ('jax', 'optuna', 'matplotlib') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def modules_with_examples() -> list[str]:
    found = {getattr(dse, name).__module__ for name in dse.__all__ if name != "__version__"}
    return sorted(name for name in found if ">>> " in inspect.getsource(importlib.import_module(name)))


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
    assert tried > 0


def test_every_public_name_has_its_example_executed():
    assert {getattr(dse, name).__module__ for name in FUNCTIONS + CLASSES} <= set(modules_with_examples())
