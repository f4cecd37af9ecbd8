"""`dse search`: search for the best designs and write the front, tables and a figure."""

import json
from argparse import Namespace
from pathlib import Path

import pandas as pd
import xarray as xr
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage

from dse.base import catalog, output_file
from dse.base.display_units import format_quantity
from dse.base.errors import InputError
from dse.base.progress import logger, shows_progress
from dse.base.yaml_document import load_document
from dse.cli.destination import CONTINUE, check_modes
from dse.searching import report, run, saved_design
from dse.searching.analysis import search_randomly
from dse.searching.archive import MAX_TIED, Archive
from dse.searching.evaluator import Evaluator
from dse.searching.journal import Journal


def execute(options: Namespace) -> str:
    """Search, write the output folder and describe the best design. Raises InputError, and InfeasibleError if no design is feasible."""
    check_modes(options)
    _check_new(options)
    name, evaluator = catalog.find_path("sweeps", options.spec).stem, run.load_evaluator(options.spec)
    folder = options.out or Path(evaluator.problem.name)
    journal = folder / "study.journal"
    output_file.check_writable(*_output_files(folder), *([] if options.storage else [journal]))
    for network in evaluator.problem.own_networks:
        if run_on := evaluator.problem.feasible_variants[network][0].run_on:
            logger.info(f"{network}: run on {run_on}")
    if options.join:
        storage = _open_storage(journal, options.storage, must_exist=True)
        archive = run.run_search(evaluator, name, storage, options.resume, True, progress=shows_progress())
        return f"joined: {archive.evaluated_count} designs evaluated by all workers"
    with output_file.hold_write_lock(journal):
        if options.force:
            journal.unlink(missing_ok=True)
        return _search(options, name, evaluator, folder, journal)


def _check_new(options: Namespace) -> None:
    """Raise InputError, before the specification is evaluated, if the output folder has a search that is not to be continued."""
    if options.resume or options.join or options.storage is not None:
        return
    spec = catalog.find_path("sweeps", options.spec)
    folder = options.out or Path(str(load_document(spec).data.get("name", spec.stem)))
    output_file.check_not_overwritten(folder / "study.journal", force=options.force, fix=CONTINUE)


def _search(options: Namespace, name: str, evaluator: Evaluator, folder: Path, journal: Path) -> str:
    """Search and write the output folder, which is locked against other processes."""
    storage = _open_storage(journal, options.storage, must_exist=options.resume)
    archive = run.run_search(evaluator, name, storage, options.resume, False, progress=shows_progress())
    archive.check_feasible()
    return _write_results(options, archive, folder)


def _write_results(options: Namespace, archive: Archive, folder: Path) -> str:
    """Write the output folder and describe the best design."""
    from dse.plot import save_figure  # imported late, because a search shows its first designs after a few seconds
    from dse.plot import search as search_figure
    from dse.sweeping import store

    evaluator, random = archive.evaluator, search_randomly(archive)
    front = run.to_dataset(archive, random)
    best = pd.DataFrame(json.loads(front.attrs["best_designs"]))
    store.write(front, folder / "front.nc")
    output_file.replace_file(folder / "front.csv", lambda path: front.to_dataframe().to_csv(path, index=False))
    output_file.replace_file(folder / "best.csv", lambda path: best.to_csv(path, index=False))
    output_file.replace_file(folder / "best.yaml", lambda path: path.write_text(saved_design.best_design_text(archive), encoding="utf-8"))
    problem = evaluator.problem_at(archive.designs[archive.best_index()])
    save_figure(*search_figure.draw_figure(archive, random, report.evaluate_devices(evaluator, problem)), folder / "search")
    for note in json.loads(front.attrs["notes"]):
        logger.info(f"note: {note}")
    if options.json:
        return str(best.to_json(orient="records", indent=2))
    return "\n".join([*_best_design_lines(best, front), *_progress_lines(front), *map(str, _output_files(folder))])


def _output_files(folder: Path) -> list[Path]:
    return [folder / name for name in ("front.nc", "front.csv", "best.csv", "best.yaml", "search.png", "search.csv")]


def _open_storage(journal: Path, url: str | None, must_exist: bool) -> BaseStorage:
    if url is None:
        if must_exist and not journal.exists():
            raise InputError(f"there is no search in '{journal.parent}'", "start it without --resume and --join")
        journal.parent.mkdir(parents=True, exist_ok=True)
        return JournalStorage(Journal(journal))
    from sqlalchemy.exc import SQLAlchemyError  # imported late, because few searches have a database

    try:
        return RDBStorage(url)
    except (SQLAlchemyError, OptunaError, ImportError, OSError, ValueError) as error:
        message = f"the storage '{url}' cannot be used ({str(error).splitlines()[0]})"
        raise InputError(message, "give the URL of a running database, as in postgresql+psycopg://...") from error


def _best_design_lines(best: pd.DataFrame, front: xr.Dataset) -> list[str]:
    """The values and results of the best design, and what changing a number of it would change."""
    attrs, row = front.attrs, best.drop(columns="rank").iloc[0].to_dict()
    row.pop("pattern_shares", None)  # the sentence about the samples has them
    inactive = row.pop("inactive", "").split(", ")
    units = json.loads(attrs["best_designs_units"])
    lines = [attrs["inferred_accuracies"]] if "inferred_accuracies" in attrs else []
    lines += [
        f"{name}: {_value_text(value, units[name])}" + " (as described: its condition does not hold)" * (name in inactive)
        for name, value in row.items()
        if value != ""
    ]
    lines += [f"samples of the accuracies: {attrs['accuracy_samples']}"] if "accuracy_samples" in attrs else []
    slopes = sorted(json.loads(attrs["elasticities"]).items(), key=lambda item: -abs(item[1]))
    lines += _ties_lines(front)
    return [*lines, "", "1% more of each changes the objective by", *(f"  {path}: {round(slope, 3) + 0.0:+.3f}%" for path, slope in slopes)]


def _ties_lines(front: xr.Dataset) -> list[str]:
    """How many designs equal the best one, and which of them is reported."""
    near, tolerance = int(front.attrs["near_tied"]), front.attrs["tie_tolerance"]
    if (tied := int(front.attrs["tied"])) < 2 and near < 2:
        return []
    if near > tied:
        return [f"{near} designs are within {100 * tolerance:g}% of the best; reported is the one with the least area, then power"]
    objectives = " and ".join(text.partition(" ")[2] for text in json.loads(front.attrs["objectives"]))
    count = f"at least {tied}" if tied == MAX_TIED else str(tied)
    return [f"{count} designs are equal in {objectives}; reported is the one with the best constrained values, then the simplest"]


def _progress_lines(front: xr.Dataset) -> list[str]:
    """Lines about the whole search: importances, numbers of designs, hypervolumes and regret."""
    attrs = front.attrs
    lines = ["importance of each axis among random designs (PED-ANOVA)"]
    lines += [f"  {path}: {100 * share:.1f}%" for path, share in json.loads(attrs["importances"]).items()]
    volumes = f"{attrs['hypervolume_share']:.4f}, random search {attrs['hypervolume_share_of_random']:.4f}"
    lines += ["", f"{attrs['evaluated']} designs evaluated, {attrs['feasible']} feasible; share of the hypervolume: {volumes}"]
    return [*lines, f"regret: {100 * attrs['regret']:.3g}% against the best of all designs"] if "regret" in attrs else lines


def _value_text(value: object, unit: str) -> str:
    return format_quantity(value, unit) if isinstance(value, float) else str(value)
