"""The notebooks of docs/tutorial run, and print what is stored in them."""

import os
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the notebooks need the extra 'docs'")
nbclient = pytest.importorskip("nbclient", reason="the notebooks need the extra 'docs'")
pytest.importorskip("ipykernel", reason="the notebooks need the extra 'docs'")
pytest.importorskip("safetensors", reason="a notebook needs the extra 'safetensors'")

TOP = Path(__file__).parents[1]
NOTEBOOKS = sorted((TOP / "docs" / "tutorial").glob("*.ipynb"))
SECONDS = 300  # for one cell on a busy machine; a whole notebook takes less than a minute on an idle one


def outputs(notebook) -> list:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def printed(notebook) -> str:
    return "".join(output.text for output in outputs(notebook) if output.output_type == "stream" and output.name == "stdout")


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_executed_without_warnings_and_paths_of_a_machine(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for output in outputs(notebook) if output.output_type == "error" or output.get("name") == "stderr"]
    text = path.read_text()
    assert not [place for place in (str(TOP), sys.prefix, str(Path.home()), "/tmp/", "site-packages") if place in text]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_is_stored(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TOP), prepend=os.pathsep)  # the package of this checkout, installed or not
    notebook = nbformat.read(path, 4)
    stored = printed(notebook)
    nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(notebook) == stored
