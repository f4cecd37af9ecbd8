"""Templates and descriptions that start from others: valid at once, complete, and with their comments and paths."""

import os
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel
from yamlcore import CoreLoader

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.yaml_document import parse_document
from dse.cli.entry import main
from dse.schema.accelerator import Accelerator
from dse.schema.compute_unit import Unit
from dse.schema.device import Cost, Memory, Overhead
from dse.schema.json_schema import SCHEMAS, Kind
from dse.schema.search import SearchSpec
from dse.schema.sweep import SweepSpec
from dse.schema.template import new_files
from dse.schema.unit_run import Activations, Run
from dse.schema.workload_selection import HypotheticalPatterns, WorkloadSelection
from dse.workload import tables
from dse.workload.schema import Description, PublishedCounts

KINDS: tuple[Kind, ...] = get_args(Kind)
FILE_KINDS: tuple[Kind, ...] = ("accelerator", "sweep", "search")
OPTIONAL = re.compile(r"^( *)# (\w+: .*)$", re.MULTILINE)
PARTS: dict[Kind, tuple[type[BaseModel], ...]] = {  # whose keys a template names
    "accelerator": (Accelerator, Unit, Run, Activations, Memory, Overhead, Cost),
    "workload": (Description, PublishedCounts),
    "sweep": (SweepSpec, WorkloadSelection, HypotheticalPatterns),
    "search": (SearchSpec,),
}
OF_OTHER_TEMPLATES = {"sweep": {"search", "workload"}, "accelerator": {"unverified"}}


def write(kind: Kind, target: Path, like: str | None = None) -> Path:
    for path, text in new_files(kind, target, like).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return target


def target(kind: Kind, folder: Path) -> Path:
    return folder / (f"mine_{kind}" if kind == "workload" else f"mine_{kind}.yaml")


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_passes_the_check_and_has_the_name_of_its_file(kind, tmp_path, capsys):
    path = write(kind, target(kind, tmp_path))
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: ok, {kind} 'mine_{kind}'\n"


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_every_optional_key_of_a_template_is_valid_when_its_comment_is_removed(kind, tmp_path):
    (text,) = new_files(kind, target(kind, tmp_path)).values()
    lines = [match for match in OPTIONAL.finditer(text) if not match[2].startswith("source: numbers of a")]
    assert len(lines) >= 4
    for match in lines:
        uncommented = f"{text[: match.start()]}{match[1]}{match[2]}{text[match.end() :]}"
        parse_document(tmp_path / "uncommented.yaml", uncommented).validate(SCHEMAS[kind])


@pytest.mark.parametrize("line", ["network", "published", "other_metrics"])
def test_every_optional_key_of_a_workload_is_valid_when_its_comment_is_removed(line, tmp_path):
    folder = write("workload", tmp_path / "mine")
    text = (folder / "workload.yaml").read_text()
    (folder / "workload.yaml").write_text(
        re.sub(rf"^# (?={line}: |inputs: )" if line == "network" else rf"^# (?={line}: )", "", text, flags=re.MULTILINE)
    )
    if line == "network":
        (folder / "layers.csv").unlink()
        (folder / "variants" / "magnitude.csv").unlink()
    assert tables.load(folder).layers.name


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_names_every_key_of_the_schema(kind, tmp_path):
    keys = {key for part in PARTS[kind] for key in part.model_fields} - OF_OTHER_TEMPLATES.get(kind, set())
    text = "".join(new_files(kind, target(kind, tmp_path)).values())
    assert sorted(key for key in keys if not re.search(rf"\b{key}\b", text)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_of_a_template_fits_the_screen(kind, tmp_path):
    assert max(len(line) for text in new_files(kind, target(kind, tmp_path)).values() for line in text.splitlines()) <= 140


@pytest.mark.parametrize("name", catalog.list_names("accel_models"))
def test_a_copy_of_an_accelerator_differs_in_its_name_alone(name, tmp_path):
    copy = write("accelerator", tmp_path / "mine.yaml", name).read_text()
    original = catalog.find_path("accel_models", name).read_text()
    assert copy.startswith(f"# started from '{name}'")
    assert re.findall("#.*", copy)[1:] == re.findall("#.*", original)
    described, expected = (yaml.load(text, CoreLoader) for text in (copy, original))
    assert described == expected | {"name": "mine"}


def test_relative_paths_lead_to_the_same_files(tmp_path, capsys):
    copy = write("sweep", tmp_path / "deep" / "mine.yaml", "realised_reduction")
    described = yaml.load(copy.read_text(), CoreLoader)
    paths = [*described["accelerators"], *described["workloads"]]
    sweeps = catalog.data_root() / "sweeps"
    assert [os.path.realpath(copy.parent / path) for path in paths] == [
        os.path.realpath(sweeps / "gale2022" / name) for name in ("v100.yaml", "a100.yaml", "gemm-4096")
    ]
    assert main(["check", str(copy)]) == 0, capsys.readouterr().err


def test_a_copy_of_a_workload_has_all_its_tables(tmp_path):
    copy = tables.load(write("workload", tmp_path / "mine", "resnet50"))
    original = tables.load(catalog.find_path("workloads", "resnet50"))
    assert copy.name == "mine"
    assert [v.accuracy for v in copy.variants] == pytest.approx([v.accuracy for v in original.variants], nan_ok=True)
    assert copy.layers.name == original.layers.name


@pytest.mark.parametrize(
    ("kind", "name", "like", "message"),
    [
        ("accelerator", "chip", None, "'chip' is not the name of a description; end it in .yaml, as in 'chip.yaml'"),
        ("accelerator", "my chip.yaml", None, "'my chip' is not a valid name; write letters, digits, '_', '.' and '-', as in 'my_chip'"),
        (
            "accelerator",
            "chip.yaml",
            "t44",
            "'t44' is not an accelerator of the catalogue; did you mean 't4'? (a path needs a '/', or the ending .yaml or .yml)",
        ),
        ("search", "mine.yaml", "zoo", "'zoo' is a sweep; write 'dse init sweep --like zoo', or name a search"),
        (
            "sweep",
            "mine.yaml",
            "edge_accelerator",
            "'edge_accelerator' is a search; write 'dse init search --like edge_accelerator', or name a sweep",
        ),
    ],
)
def test_what_cannot_be_started_says_why(kind, name, like, message):
    with pytest.raises(InputError) as error:
        new_files(kind, Path(name), like)
    assert str(error.value) == message
