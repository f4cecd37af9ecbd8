"""The command line: exit codes, stdout and stderr; in a process of its own where that matters."""

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dse.base import catalog
from dse.cli import entry

Completed = subprocess.CompletedProcess[str]


def process(*arguments: object, cwd: Path) -> Completed:
    words = [sys.executable, "-m", "dse.cli", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def dse(*arguments: object, cwd: Path = Path()) -> Completed:
    """As `process`, but without the seconds that a process takes to start; an exception here would be a traceback there."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = entry.main([*map(str, arguments)])
        except SystemExit as end:
            code = int(end.code or 0)
    return Completed(arguments, code, out.getvalue(), err.getvalue())


def test_help_names_every_subcommand_and_imports_nothing_heavy():
    """So `--help` answers at once."""
    script = "import sys, contextlib, dse.cli\nwith contextlib.suppress(SystemExit): dse.cli.main(['--help'])\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(
        subcommand in done.stdout
        for subcommand in ("sweep", "plot", "pareto", "trace", "io", "check", "list", "iso", "pattern", "schema", "calibrate", "r3")
    )
    assert not {"jax", "xarray", "matplotlib", "optuna", "pydantic", "numpy", "numba", "pint"} & set(done.stdout.split())


def test_the_package_runs_as_the_command(tmp_path):
    done = subprocess.run([sys.executable, "-m", "dse", "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == dse("--version").stdout
    wrong = subprocess.run([sys.executable, "-m", "dse", "swep"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (wrong.returncode, wrong.stderr[:11]) == (2, "usage: dse ")


def test_importing_the_package_imports_neither_matplotlib_nor_optuna_nor_jax():
    script = "import sys, dse\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"jax", "matplotlib", "numba", "optuna"} & set(done.stdout.split())


EVALUATING = {"jax", "scipy.interpolate", "scipy.optimize", "xarray", "pandas", "matplotlib", "optuna", "numba", "tqdm"}


def test_checking_shipped_descriptions_imports_nothing_that_evaluates(tmp_path):
    """Reading a specification takes half a second; importing what evaluates and draws takes up to three more."""
    calibrated = [tmp_path / name for name in ("cache_aware.yaml", "next_tensor_core.yaml")]
    for path in calibrated:
        text = catalog.find_path("sweeps", path.stem).read_text()
        path.write_text(re.sub("fidelity: (sol|capacity)", "fidelity: calibrated", text))
    files = [*map(str, calibrated)] + [
        str(catalog.find_path(shelf, name)) for shelf in get_args(catalog.CatalogFolder) for name in catalog.list_names(shelf)
    ]
    script = f"import sys, dse.cli\nprint(dse.cli.main(['check', *{files!r}]))\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *lines, code, modules = done.stdout.splitlines()
    assert (code, len(lines)) == ("0", len(files)), done.stderr
    assert sum(": ok, search " in line for line in lines) >= 5
    assert EVALUATING & set(modules.split()) == set()


def test_a_sweep_writes_a_dataset_and_its_figures(tmp_path):
    done = process("sweep", "sparsity_roofline", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in (tmp_path / "sparsity_roofline").iterdir())
    assert written == ["results.nc", "roofline.csv", "roofline.png", "sparsity_roofline.csv", "sparsity_roofline.png"]
    assert sorted(Path(line).name for line in done.stdout.splitlines()) == written
    assert "Traceback" not in done.stderr


def test_files_by_path_from_another_folder_with_paths_relative_to_the_file(folder, tmp_path):
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    done = dse("sweep", folder / "small.yaml", "-o", "mine.nc", cwd=elsewhere)
    assert (done.returncode, done.stdout) == (0, "mine.nc\n"), done.stderr
    again = dse("plot", "mine.nc", "--kind", "speedup", cwd=elsewhere)
    assert again.stdout.split() == ["mine.speedup.png", "mine.speedup.csv"]
    assert (elsewhere / "mine.speedup.png").read_bytes().startswith(b"\x89PNG")


def test_a_bad_sweep_exits_2_with_every_problem_and_writes_nothing(folder, edited):
    edited("chip.yaml", ("1 TB/s", "1"))
    edited("net/variants/pruned.csv", ("stem,4704", "stem,9999999"))
    done = process("sweep", "small.yaml", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(":")[:2] for line in done.stderr.splitlines()] == [["chip.yaml", "14"], ["net/variants/pruned.csv", "2"]]
    assert "Traceback" not in done.stderr
    assert not (folder / "small").exists()


def test_a_dry_run_describes_the_plan_and_writes_nothing(folder):
    done = dse("sweep", "small.yaml", "--dry-run", cwd=folder)
    assert done.returncode == 0
    assert "evaluates    1 designs x 4 variants x 2 batch sizes x 1 dtypes, layers: " in done.stdout
    assert not (folder / "small").exists()


def test_check_continues_after_a_bad_file(folder, edited):
    edited("chip.yaml", ("2:4", "5:4"))
    done = dse("check", "chip.yaml", "net", "net/workload.yaml", "small.yaml", cwd=folder)
    assert done.returncode == 2
    assert done.stdout.splitlines() == ["net: ok, workload 'net'", "net/workload.yaml: ok, workload 'net'"]
    lines = [line for line in done.stderr.splitlines() if "'5:4' keeps 5 of 4" in line]
    assert len(lines) == 2  # once for the file, once for the sweep that names it


def test_check_accepts_good_files(folder):
    done = dse("check", "chip.yaml", "net", "small.yaml", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("what", ["accelerators", "workloads", "sweeps"])
def test_list_as_a_table_and_as_json(what):
    names = [row["name"] for row in json.loads(dse("list", what, "--json").stdout)]
    table = dse("list", what).stdout
    assert names
    assert all(name in table for name in names)


def test_list_marks_unverified_numbers():
    table = dse("list", "accelerators").stdout
    assert "71 TFLOP/s (?)" in table
    assert "312 TFLOP/s (?)" not in table
    assert table.endswith("(?) not read at its source: verify before you rely on it\n")
    assert "not read at its source" not in dse("list", "sweeps").stdout
    rows = {row["name"]: row for row in json.loads(dse("list", "accelerators", "--json").stdout)}
    assert rows["rtx3090"]["fp16/bf16"] == {"value": 71e12, "unit": "FLOP/s", "text": "71 TFLOP/s", "unverified": True}
    assert rows["a100-native-1m"]["hypothetical"] is True


def test_list_variants():
    rows = json.loads(dse("list", "variants", "resnet50", "--json").stdout)
    assert sum("DLMC" in row["accuracy source"] for row in rows) == 21
    assert all(bool(row["accuracy source"]) == (row["kind"] == "published") for row in rows)
    assert dse("list", "variants").returncode == 2
    assert "did you mean 'resnet50'?" in dse("list", "variants", "resnet").stderr


@pytest.mark.parametrize("kind", ["accelerator", "workload", "sweep", "search"])
def test_schema_is_json_schema(kind):
    schema = json.loads(dse("schema", kind).stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("arguments", [[], ["swep"], ["sweep"], ["plot", "none.nc"], ["sweep", "none"], ["schema", "x"]])
def test_invalid_arguments_exit_2_with_a_message(arguments, tmp_path):
    done = dse(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_an_output_that_cannot_be_written_is_reported_before_the_evaluation(folder):
    (folder / "taken").write_text("")
    done = dse("sweep", "small.yaml", "-o", "taken", cwd=folder)
    assert done.returncode == 2
    assert f"'taken' cannot be created as a folder: '{folder / 'taken'}' is a file; give another path" in done.stderr


def test_an_interrupt_exits_130(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dse.report.catalog_tables.list_catalog", interrupted)
    assert entry.main(["list"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_plot_draws_all_that_a_dataset_without_accuracies_allows(edited, folder):
    edited("small.yaml", ("{methods: all}", "{methods: [blocky]}"))
    assert dse("sweep", "small.yaml", "-o", "out", cwd=folder).returncode == 0
    done = dse("plot", "out/results.nc", cwd=folder)
    assert done.stdout.split() == [
        "out/speedup.png",
        "out/speedup.csv",
        "out/roofline.png",
        "out/roofline.csv",
        "out/layers.png",
        "out/layers.csv",
    ]


def test_plot_names_the_figures_that_need_a_changed_description(folder, edited):
    dse("sweep", "small.yaml", "-o", "out", cwd=folder)
    edited("chip.yaml", ("1 TB/s", "2 TB/s"))
    done = dse("plot", "out/results.nc", cwd=folder)
    assert done.returncode == 1
    assert "layers was not drawn: changed since the dataset was computed: accelerator chip" in done.stderr
    written = {path.name for path in (folder / "out").iterdir()}
    assert written >= {"results.nc", "sparsity_roofline.png", "sparsity_roofline.csv"}
    assert not written & {"layers.png", "layers.csv", "roofline.png", "roofline.csv"}


def test_warnings_go_to_stderr(folder, edited):
    edited("chip.yaml", ("pattern: unstructured,", "enabled: false, pattern: unstructured,"))
    done = process("sweep", "small.yaml", "-o", "out.nc", cwd=folder)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: 'chip' has no enabled run for 'unstructured' in fp16: its layers run dense\nsmall: ")
