"""Completeness of docs/reference: every key of a file, option of a command, variable of a result, package and path has its place there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import dse
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.network_measurement import NetworkRow
from dse.model.efficiency.efficiency_file import EfficiencyFile
from dse.networks.layers import LayerRow
from dse.schema.accelerator import Accelerator
from dse.schema.figures import FIGURE_KINDS, NEEDS, SHOWS
from dse.schema.search import SearchSpec
from dse.schema.stored_results import Variable
from dse.schema.sweep import SweepSpec
from dse.workload.schema import AccuracyRow, Description, VariantRow
from tests.test_documentation import PAGES, SPAN, help_text, name, prose, subcommands
from tests.test_imports import LAYERS

TOP = Path(__file__).parents[1]
REFERENCE = TOP / "docs" / "reference"
FILES = {  # page: what it describes; formats are on the page of patterns, searches on their own
    "accelerator.md": (Accelerator,),
    "sweep.md": (SweepSpec,),
    "search.md": (SearchSpec,),
    "workload.md": (Description, LayerRow, VariantRow, AccuracyRow),
    "measurements.md": (Measurement, NetworkRow, EfficiencyFile),
}
COMPLETED_BY = {"accelerator.md": "patterns.md", "sweep.md": "search.md"}


def read(page: str) -> str:
    return (REFERENCE / page).read_text()


def keys(model: type[BaseModel]) -> set[str]:
    """Every key of a description, those of its parts included; keys of a published network configuration are not ours."""
    schema = model.model_json_schema()
    parts = [part for part_name, part in schema.get("$defs", {}).items() if "model_type" not in part.get("properties", {})]
    return {key for part in (schema, *parts) for key in part.get("properties", {})}


def missing(words: set[str], text: str) -> list[str]:
    return sorted(word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text))


def test_what_is_not_described_is_found():
    assert missing({"gain", "gains"}, "`gain` (at least 1)") == ["gains"]
    assert {"units", "peak", "decode", "bandwidth", "process"} <= keys(Accelerator)


@pytest.mark.parametrize("page", FILES)
def test_every_key_of_a_file_is_described(page):
    text = read(page) + (read(COMPLETED_BY[page]) if page in COMPLETED_BY else "")
    assert missing({key for model in FILES[page] for key in keys(model)}, text) == []


def test_every_option_of_a_command_is_described(capsys):
    page = REFERENCE / "command-line.md"
    for subcommand in subcommands(page):
        options = set(re.findall(r"^  (?:-\w \w+, )?(--[a-z][a-z-]+)", help_text(subcommand, capsys), re.MULTILINE)) - {"--out"}
        assert missing(options, page.read_text()) == [], subcommand


def test_every_kind_of_figure_is_described():
    assert all(f"| `{kind}` | {SHOWS[kind]} | {NEEDS[kind]} |\n" in read("sweep.md") for kind in FIGURE_KINDS)


def datasets() -> Iterator[Any]:
    """A sweep with every variable, and the layers of a network, under each fidelity that has variables of its own."""
    pruned = dse.load_workload("resnet50").variant("magnitude_pruning", sparsity=0.9)
    for fidelity in ("sol", "capacity", "calibrated"):
        variables = list(get_args(Variable))
        yield dse.sweep({
            "name": "everything", "accelerators": ["a100-sxm4-80gb"], "dtype": "fp16", "model": {"fidelity": fidelity},
            "workloads": {"resnet50": {"methods": ["magnitude_pruning"], "sparsities": [0.9]}}, "store": {"variables": variables},
        })  # fmt: skip
        yield dse.evaluate("a100-sxm4-80gb", pruned, fidelity=fidelity)


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_every_variable_and_coordinate_of_a_result_is_described():
    text = read("results.md")
    for dataset in datasets():
        assert missing({str(variable) for variable in dataset.variables}, text) == []


def test_every_attribute_of_a_sweep_is_described():
    sweep = next(datasets())
    assert missing({str(key) for key in sweep.attrs}, read("results.md")) == []


def test_the_architecture_lists_every_package_from_the_command_line_down():
    page = (TOP / "docs" / "explanation" / "architecture.md").read_text()
    assert tuple(row for row in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) if row in LAYERS) == LAYERS[::-1]


def test_the_modules_of_the_model_that_the_architecture_names_exist():
    page = (TOP / "docs" / "explanation" / "architecture.md").read_text()
    table = page.partition("| module of `dse/model` |")[2].partition("\n\n")[0]
    modules = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert len(modules) > 5
    assert [module for module in modules if not (TOP / "dse" / "model" / f"{module}.py").exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_of_the_repository_named_exists(page):
    spans = [span.strip("`") for span in SPAN.findall(prose(page))]
    paths = [span for span in spans if re.fullmatch(r"(dse|tests|docs|accel_models)/[a-z0-9_./-]*", span)]
    assert [path for path in paths if not (TOP / path).exists()] == []
