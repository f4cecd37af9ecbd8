"""`dse search`: a search, its tables and figures in a folder."""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from dse.base import atomic_write, catalog, lock
from dse.base.errors import InputError
from dse.searching import report
from dse.searching import run as searching
from dse.searching.archive import MOST_TIED, Archive
from dse.searching.evaluator import Evaluator
from dse.sweeping import store


def execute(options: Namespace) -> str:
    """Search, write the folder (default: named as the specification), and describe the best design. Raises InputError, InfeasibleError."""
    name, evaluator = catalog.find_path("sweeps", options.spec).stem, searching.load(options.spec)
    folder = options.out or Path(evaluator.problem.name)
    journal = folder / "study.journal"
    atomic_write.check_writable(*_files(folder), *([] if options.storage else [journal]))
    for network, states in evaluator.problem.feasible_variants.items():
        if states[0].run_on:
            print(f"{network}: run on {states[0].run_on}", file=sys.stderr)
    if options.join:
        storage = _storage(journal, options.storage, known=True)
        archive = searching.look(evaluator, name, storage, options.resume, True, progress=True)
        return f"joined: {archive.evaluated} designs are judged"
    with lock.hold_write_lock(journal):
        return _searched(options, name, evaluator, folder, journal)


def _searched(options: Namespace, name: str, evaluator: Evaluator, folder: Path, journal: Path) -> str:
    """Search and write the folder, which no other process writes to meanwhile."""
    storage = _storage(journal, options.storage, options.resume)
    archive = searching.look(evaluator, name, storage, options.resume, False, progress=True)
    archive.check()
    best, devices, random = report.best(archive), report.devices(evaluator), report.chance(archive, archive.evaluated)
    front = searching.to_dataset(archive, random)
    written = _write(archive, random, best, devices, front, folder)
    return str(best.to_json(orient="records", indent=2)) if options.json else _told(best, front, written)


def _storage(journal: Path, url: str | None, known: bool) -> Any:
    from optuna.storages import JournalStorage, RDBStorage

    from dse.searching.journal import Journal

    if url is None:
        if known and not journal.exists():
            raise InputError(f"there is no search in '{journal.parent}'", "start it without --resume and --join")
        journal.parent.mkdir(parents=True, exist_ok=True)
        return JournalStorage(Journal(journal))
    try:
        return RDBStorage(url)
    except Exception as error:  # whatever the driver of a database raises
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the storage '{url}' cannot be used ({reason})", "give the URL of a database that runs, as in postgresql+psycopg://..."
        ) from error


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in ("front.nc", "front.csv", "best.csv", "search.png", "search.csv")]


def _write(archive: Archive, random: Archive, best: pd.DataFrame, devices: pd.DataFrame, front: xr.Dataset, folder: Path) -> list[Path]:
    from dse.plot import save_figure, search

    store.write(front, folder / "front.nc")
    atomic_write.replace_file(folder / "front.csv", lambda path: front.to_dataframe().to_csv(path, index=False))
    atomic_write.replace_file(folder / "best.csv", lambda path: best.to_csv(path, index=False))
    figure, table = search.draw_figure(archive, random, devices)
    save_figure(figure, table, folder / "search")
    return _files(folder)


def _told(best: pd.DataFrame, front: xr.Dataset, written: list[Path]) -> str:
    """The best design, what each number is worth at it, and how the search fared."""
    row = best.drop(columns="rank").iloc[0].to_dict()
    inactive = row.pop("inactive", "").split(", ")
    lines = [
        f"{name}: {_shown(value)}" + " (as described: its condition does not hold)" * (name in inactive)
        for name, value in row.items()
        if value != ""
    ]
    lines += _ties(front)
    slopes = sorted(json.loads(front.attrs["elasticities"]).items(), key=lambda item: -abs(item[1]))
    lines += ["", "1% more of each changes the objective by", *(f"  {path}: {slope:+.3f}%" for path, slope in slopes)]
    lines += [
        "what decides among random designs",
        *(f"  {path}: {100 * s:.1f}%" for path, s in json.loads(front.attrs["importances"]).items()),
    ]
    lines += ["", f"{front.attrs['evaluated']} designs judged, {front.attrs['feasible']} feasible; share of the hypervolume "
              f"{front.attrs['hypervolume_share']:.4f}, of random search {front.attrs['hypervolume_share_of_random']:.4f}"]  # fmt: skip
    lines += [f"{100 * front.attrs['regret']:.3g}% from the best of all"] if "regret" in front.attrs else []
    return "\n".join([*lines, *map(str, written)])


def _ties(front: xr.Dataset) -> list[str]:
    """How many designs equal the best one, and which of them is shown."""
    if (tied := int(front.attrs["tied"])) < 2:
        return []
    objectives = " and ".join(text.partition(" ")[2] for text in json.loads(front.attrs["objectives"]))
    count = f"at least {tied}" if tied == MOST_TIED else str(tied)
    return [f"{count} of the designs are equal in {objectives}: this one is the best of them in what is limited, then the simplest"]


def _shown(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
