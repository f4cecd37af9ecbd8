"""What a user names is replaced with --force alone; in a folder, the files of a command are replaced when it runs again."""

import shutil
from pathlib import Path

import pytest

from dse.cli.entry import main
from tests.conftest import described
from tests.searching import search_specs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = described(tmp_path_factory.mktemp("inputs"))
    (folder / "front.yaml").write_text((folder / "small.yaml").read_text() + "keep: {front: {maximize: [speedup, accuracy]}}\n")
    assert main(["sweep", str(folder / "small.yaml"), "-o", str(folder / "done")]) == 0
    search_specs.write(described(folder / "wanted"), search_specs.LIMITED)
    return folder


NAMED = {  # by file that the user names: a command that writes it
    "mine.nc": "sweep small.yaml -o OUT",
    "mine.csv": "sweep small.yaml -o OUT",
    "mine.zarr": "sweep small.yaml -o OUT",
    "reduced.nc": "sweep front.yaml -o OUT",
    "front.nc": "pareto done/results.nc --maximize speedup accuracy -o OUT",
    "front.csv": "pareto done/results.nc --maximize speedup accuracy -o OUT",
    "text.txt": "explain a100-sxm4-80gb h100-sxm5-80gb --shape 64x64x64 -o OUT",
    "report.html": "report done/results.nc -o OUT",
}


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in (path.rglob("*") if path.is_dir() else ()) if file.is_file()}


@pytest.mark.parametrize("name", NAMED)
def test_a_file_that_is_named_is_replaced_with_force_alone(name, inputs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(inputs)
    out = tmp_path / name
    words = NAMED[name].replace("OUT", str(out)).split()
    assert main(words) == 0
    before = content(tmp_path)
    capsys.readouterr()
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"'{out}' exists already; ")
    assert content(tmp_path) == before
    assert main([*words, "--force"]) == 0
    assert content(tmp_path).keys() == before.keys()


def test_an_existing_store_is_refused_before_the_specification_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dse.cli.sweep.read_sweep", None)
    (tmp_path / "results.zarr").mkdir()
    assert main(["sweep", "sparsity_roofline", "-o", str(tmp_path / "results.zarr")]) == 2
    assert capsys.readouterr().err == (
        f"'{tmp_path / 'results.zarr'}' exists already; continue it with --resume, start again with --force, or give another path\n"
    )


def test_force_removes_no_folder_that_is_not_a_store(inputs, tmp_path, capsys):
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "thesis.tex").write_text("...")
    assert main(["sweep", str(inputs / "small.yaml"), "-o", str(tmp_path / "mine.zarr"), "--force"]) == 2
    assert "is not a store of a sweep" in capsys.readouterr().err
    assert (tmp_path / "mine.zarr" / "thesis.tex").exists()


def test_a_sweep_in_a_folder_can_be_run_again(inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["sweep", str(inputs / "small.yaml")]) == 0
        assert main(["plot", "small", "--kind", "speedup"]) == 0
        assert main(["pareto", "small/results.nc", "--maximize", "speedup", "accuracy"]) == 0


def test_a_store_is_continued_with_resume_and_is_then_the_same(inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(inputs)
    words = ["sweep", "small.yaml", "-o", str(tmp_path / "mine.zarr")]
    assert main(words) == 0
    before = content(tmp_path)
    assert main([*words, "--resume"]) == 0
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", "--force"], "--force and --resume exclude each other; leave one of them out\n"),
        (["--shard", "1/2", "--force"], "--force and --shard exclude each other; leave one of them out\n"),
    ],
)
def test_replacing_and_continuing_exclude_each_other(words, message, inputs, tmp_path, capsys):
    assert main(["sweep", str(inputs / "small.yaml"), "-o", str(tmp_path / "x.zarr"), *words]) == 2
    assert capsys.readouterr().err == message


def test_a_search_is_continued_or_started_again_on_request_alone(inputs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(inputs)
    monkeypatch.setattr("dse.searching.run.load_evaluator", None)
    (tmp_path / "study.journal").write_text("")
    assert main(["search", "wanted/search.yaml", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"'{tmp_path / 'study.journal'}' exists already; continue it with --resume, start again with --force, or give another path\n"
    )


@pytest.mark.parametrize("name", ["out.xlsx", "out.json", "out.pdf"])
def test_a_format_that_is_not_written_is_refused(name, inputs, tmp_path, capsys):
    assert main(["sweep", str(inputs / "small.yaml"), "-o", str(tmp_path / name)]) == 2
    assert f"results cannot be written as '{Path(name).suffix}'; end the path in .nc, .zarr, .csv, .parquet" in capsys.readouterr().err
    shutil.rmtree(tmp_path / name, ignore_errors=True)
