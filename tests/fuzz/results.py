"""Damaged results: stores, netCDF files, parts of what is kept, journals of searches and checkpoints with one file deleted, cut, changed
or replaced. Each is refused, or evaluated again to the very same results; it is never read as if it were whole."""

import atexit
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import optuna
import xarray as xr

import dse
from dse.base.errors import InputError
from dse.searching.journal import Journal
from dse.sweeping import store
from tests.conftest import described
from tests.fuzz.outcome import call, captured, run_command

CASES = 40
AXES = """
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 4, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
store: {variables: [latency, dense_latency, speedup, bound_share, fits]}
"""
IO = ("io", "random:24x16x8,density=0.4", "--memory", "6values", "--moves", "200", "--json", "-o")
AGAIN = "damaged results are evaluated again"


def prepare() -> None:
    """Make what is damaged, and run each command once: what is imported and compiled does not count as a case's time."""
    captured(["pareto", str(whole() / "whole.nc"), "--minimize", "latency", "-o", str(whole() / "warm")])
    captured(["sweep", str(whole() / "small.yaml"), "-o", str(whole() / "whole.zarr"), "--resume"])
    captured(["sweep", str(whole() / "kept.yaml"), "-o", str(whole() / "warm" / "x.nc")])


def case(random: Random, folder: Path) -> str:
    kind = random.choice(("store", "store", "store", "netcdf", "parts", "journal", "checkpoint"))
    return f"{kind}: {KINDS[kind](random, folder)}"


@cache
def whole() -> Path:
    """One undamaged example of each, made once in a process."""
    folder = described(Path(tempfile.mkdtemp(prefix="dse-fuzz-results-")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text() + AXES)
    (folder / "kept.yaml").write_text(spec.read_text() + "keep: {front: {minimize: [latency], maximize: [speedup]}}\n")
    with warnings.catch_warnings(action="ignore"):
        dse.sweep(spec, folder / "whole.zarr")
        dse.sweep(spec, folder / "whole.nc")
        dse.sweep(folder / "kept.yaml", folder / "kept.nc", shard=(1, 2))
        dse.sweep(folder / "kept.yaml", folder / "other.nc", shard=(2, 2))
        dse.sweep(folder / "kept.yaml", folder / "front.nc")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(study_name="search", storage=optuna.storages.JournalStorage(Journal(folder / "study.journal")))
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=8)
    assert captured([*IO, str(folder / "io")])[0] == 0
    return folder


def damage(random: Random, path: Path, others: list[Path]) -> str:
    """Do something to a file; returns what."""
    content = path.read_bytes()
    change = random.choice(("delete", "cut", "flip", "flip", "overwrite", "append", "replace", "empty"))
    place = random.randrange(max(1, len(content)))
    if change == "delete":
        path.unlink()
    elif change == "replace":
        path.write_bytes(random.choice(others).read_bytes())
    elif change == "overwrite":
        path.write_bytes(content[:place] + random.randbytes(random.randint(1, 64)) + content[place + 64 :])
    elif change == "flip":
        flipped = bytes([content[place] ^ 1 << random.randrange(8)]) if content else b"x"
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
    else:
        path.write_bytes({"cut": content[:place], "append": content + random.randbytes(random.randint(1, 30)), "empty": b""}[change])
    unchanged = path.exists() and path.read_bytes() == content
    return "unchanged" if unchanged else change


def damaged_store(random: Random, folder: Path) -> str:
    shutil.copytree(whole() / "whole.zarr", folder / "x.zarr")
    files = sorted(path for path in (folder / "x.zarr").rglob("*") if path.is_file())
    path = random.choice(files)
    change = damage(random, path, files)
    before = None if change == "unchanged" else store_reads(folder / "x.zarr")
    if random.random() < 0.6:
        verb = random.choice((["plot"], ["pareto", "--minimize", "latency", "--maximize", "accuracy"], ["show"]))
        out = [] if verb == ["show"] else ["-o", folder / "figures"]
        outcome = run_command(verb[0], folder / "x.zarr", *verb[1:], *out, names="x.zarr", folder=folder)
        assert (outcome == "refused") == (change != "unchanged"), f"{change} of {path}: {outcome}"
        return f"read {outcome}"
    code, _, err = captured(["sweep", str(whole() / "small.yaml"), "-o", str(folder / "x.zarr"), "--resume"])
    assert code in (0, 2), err
    assert "Traceback" not in err
    if code == 2:
        assert change != "unchanged"
        assert "x.zarr" in err
        return "resume refused"
    assert AGAIN in err or change == "unchanged" or (before == "not complete"), f"{change} of {path} is not reported: {err}"
    xr.testing.assert_identical(store.read(folder / "x.zarr"), store.read(whole() / "whole.zarr"))
    return "resumed"


def other_parts() -> list[Path]:
    """Parts of another sweep, and what says which one."""
    return sorted((whole() / "other.nc.parts").iterdir())


def store_reads(path: Path) -> str:
    try:
        store.read(path)
    except InputError as error:
        return "not complete" if "is not complete" in str(error) else "refused"
    raise AssertionError("a damaged store is read")


def damaged_netcdf(random: Random, folder: Path) -> str:
    path = Path(shutil.copy(whole() / "whole.nc", folder / "x.nc"))
    change = damage(random, path, [whole() / name for name in ("front.nc", "small.yaml", "study.journal")] + other_parts())
    if change == "replace" and path.read_bytes() == (whole() / "front.nc").read_bytes():
        return "another dataset " + run_command("plot", path, "-o", folder / "figures", names="all results of a sweep", folder=folder)
    code, _, err = captured(["pareto", str(path), "--minimize", "latency", "--maximize", "accuracy", "-o", str(folder / "front.nc")])
    assert "Traceback" not in err
    if code == 0 and change != "unchanged":
        assert "has no checksum" in err, f"{change} is not reported"
        with warnings.catch_warnings(action="ignore"):
            xr.testing.assert_identical(store.read(path), store.read(whole() / "whole.nc"))
        return "same, reported"
    assert code == (0 if change == "unchanged" else 2), err
    assert code == 0 or "x.nc" in err
    return {0: "accepted", 2: "refused"}[code]


def damaged_parts(random: Random, folder: Path) -> str:
    shutil.copytree(whole() / "kept.nc.parts", folder / "x.nc.parts")
    files = sorted(path for path in (folder / "x.nc.parts").iterdir())
    path = random.choice(files)
    change = damage(random, path, [*files, *other_parts()])
    code, _, err = captured(["sweep", str(whole() / "kept.yaml"), "-o", str(folder / "x.nc"), "--resume"])
    assert code in (0, 2), err
    assert "Traceback" not in err
    if code == 2:
        assert "x.nc.parts" in err
        return "refused"
    assert AGAIN in err or change in ("unchanged", "delete"), f"{change} of {path} is not reported: {err}"
    strip = {"created": "", "command": ""}
    found, expected = store.read(folder / "x.nc"), store.read(whole() / "front.nc")
    xr.testing.assert_identical(found.assign_attrs(strip), expected.assign_attrs(strip))
    return "resumed"


def damaged_journal(random: Random, folder: Path) -> str:
    path = Path(shutil.copy(whole() / "study.journal", folder / "study.journal"))
    change = damage(random, path, [whole() / name for name in ("whole.nc", "small.yaml")] + other_parts())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if call(Journal, path, names="study.journal") == "refused":
            return "refused"
        trials = trials_of(path)
    complete = path.stat().st_size == 0 or (whole() / "study.journal").read_bytes().startswith(path.read_bytes())
    assert complete, f"{change} is read"
    assert told or change in ("unchanged", "delete", "empty") or path.read_bytes().endswith(b"\n"), f"{change} is not reported"
    assert trials == trials_of(whole() / "study.journal")[: len(trials)]
    return "the lines that are there"


def trials_of(journal: Path) -> list[tuple]:
    storage = optuna.storages.JournalStorage(Journal(journal))
    studies = storage.get_all_studies()
    trials = storage.get_all_trials(studies[0]._study_id, states=(optuna.trial.TrialState.COMPLETE,)) if studies else []
    return [(trial.number, trial.values, trial.params) for trial in trials]


def damaged_checkpoint(random: Random, folder: Path) -> str:
    shutil.copytree(whole() / "io", folder / "io")
    (path,) = (folder / "io" / "annealing").iterdir()
    change = damage(random, path, [*other_parts(), whole() / "whole.nc"])
    code, out, err = captured([*IO, str(folder / "io")])
    assert code == 0, err
    assert change in ("unchanged", "delete") or path.name in err, f"{change} is not reported"
    assert out == captured([*IO, str(whole() / "io")])[1]
    np.load(path).close()
    return "annealed again"


KINDS = {
    "store": damaged_store,
    "netcdf": damaged_netcdf,
    "parts": damaged_parts,
    "journal": damaged_journal,
    "checkpoint": damaged_checkpoint,
}
