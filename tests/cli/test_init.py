"""`dse init`, and names of the catalogue for `dse check` and `dse show`."""

import json

import jsonschema
import pytest
import yaml
from yamlcore import CoreLoader

from dse.base import catalog
from dse.cli.entry import main


def test_a_file_that_exists_is_replaced_with_force_alone(tmp_path, capsys):
    path = tmp_path / "chip.yaml"
    path.write_text("mine")
    assert main(["init", "accelerator", str(path)]) == 2
    assert capsys.readouterr().err == f"'{path}' exists already; give another path, or replace it with --force\n"
    assert path.read_text() == "mine"
    assert main(["init", "accelerator", str(path), "--force"]) == 0
    assert path.read_text() != "mine"


def test_no_file_of_a_workload_is_written_if_one_exists(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "layers.csv").write_text("mine")
    assert main(["init", "workload", str(tmp_path / "net")]) == 2
    assert [file.name for file in (tmp_path / "net").iterdir()] == ["layers.csv"]


@pytest.mark.parametrize("kind", ["accelerator", "workload", "sweep", "search"])
def test_an_editor_finds_the_schema_in_the_first_line(kind, tmp_path, capsys):
    target = tmp_path / ("net" if kind == "workload" else "mine.yaml")
    assert main(["init", kind, str(target), "--editor"]) == 0
    description, schema = (tmp_path / name for name in capsys.readouterr().out.split() if name.endswith((".yaml", ".json")))
    text = description.read_text()
    assert text.splitlines()[0] == f"# yaml-language-server: $schema=./{schema.name}"
    assert schema.parent == description.parent
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(yaml.load(text, CoreLoader))


@pytest.mark.parametrize(
    ("name", "described"),
    [("t4", "accelerator 't4'"), ("bert-base", "workload 'bert-base'"), ("edge_accelerator", "search 'edge_accelerator'")],
)
def test_names_of_the_catalogue_are_checked_and_shown(name, described, capsys):
    assert main(["check", name]) == 0
    assert capsys.readouterr().out == f"{name}: ok, {described}\n"
    (path,) = catalog.find_named(name)
    file = path / "workload.yaml" if path.is_dir() else path
    assert main(["show", name]) == 0
    assert capsys.readouterr().out == f"# {file}\n{file.read_text()}"


def test_an_unknown_name_is_reported_with_the_nearest_one(capsys):
    assert main(["check", "t44"]) == 2
    assert capsys.readouterr().err == "'t44' is neither a file nor a name of the catalogue; did you mean 't4'?\n"
