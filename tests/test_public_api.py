"""The public interface: what `import dse` offers, and that nothing heavy is imported before it is used."""

import importlib
import inspect
import subprocess
import sys
from importlib.metadata import version

import pytest

import dse


def test_dir_and_all_agree():
    assert dir(dse) == sorted(dse.__all__)
    assert len(dse.__all__) == 16


@pytest.mark.parametrize("name", [name for name in dse.__all__ if name != "__version__"])
def test_every_public_name_has_a_line_in_the_module_docstring(name):
    assert f"\n    {name} " in dse.__doc__


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
