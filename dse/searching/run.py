"""Running a search: look, polish, report."""

import json
import warnings
from collections.abc import Mapping
from typing import Any

import xarray as xr
from tqdm import tqdm

from dse.base import catalog
from dse.searching import exhaustive, local_search, optuna_sampler, problem, report
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.sweeping.model_warnings import ModelWarning


def search(spec: catalog.Reference, *, storage: Any = None, resume: bool = False, join: bool = False, progress: bool = False) -> xr.Dataset:
    """Search the designs of a specification for the best ones within constraints.

    Args:
        spec: a name of the catalogue, the path of a YAML file, or a mapping with the keys of such a file, in which accelerators and
            workloads may be objects.
        storage: where Optuna keeps the study: a URL, a storage object, or None for memory.
        resume: continue the study in `storage`; trials that were running when it stopped are evaluated again.
        join: work on the study in `storage` while other processes do.
        progress: show a progress bar.

    Returns:
        The Pareto front of the feasible designs along `point`: the value of every axis, and every result. `best` marks the design that
        is the best in the first objective. Attributes: `evaluated` and `feasible` (numbers of designs), `elasticities`, `importances`
        and others, as JSON where they are not a number.

    Raises:
        InputError: the specification is invalid; lists every problem with file, line and fix.
        InfeasibleError: no design meets every constraint; names the hardest one.

    Examples:
        >>> import dse
        >>> found = dse.search({
        ...     "name": "small_search", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16", "batch": 32,
        ...     "axes": {"memory.dram.bandwidth": {"from": "1 TB/s", "to": "8 TB/s", "steps": 8}},
        ...     "search": {"maximize": ["performance"], "constraints": ["accuracy_drop <= 1.0"], "sampler": "exhaustive"},
        ... })
        >>> found["memory.dram.bandwidth"].values[found.best]
        array([8.e+12])
    """
    evaluator = load(spec)
    archive = look(evaluator, _study_name(spec), storage, resume, join, progress)
    archive.check()
    return to_dataset(archive, report.chance(archive, archive.evaluated))


def _study_name(spec: catalog.Reference) -> str:
    return str(spec["name"]) if isinstance(spec, Mapping) else catalog.find_path("sweeps", spec).stem


def load(reference: catalog.Reference) -> Evaluator:
    """The designs that a specification speaks of, ready to be judged; raises InputError with every problem."""
    return Evaluator(*problem.load(reference))


def look(evaluator: Evaluator, name: str, storage: Any, resume: bool, join: bool, progress: bool) -> Archive:
    """Let the engine look, then polish."""
    archive, search = Archive(evaluator), evaluator.problem.search
    with tqdm(total=search.trials, unit=" designs", disable=not progress) as bar:
        if search.sampler == "exhaustive":
            exhaustive.run(archive, bar)
        else:
            study = optuna_sampler.open_study(name, evaluator.problem, storage, resume, join)
            if resume:
                optuna_sampler.recall(archive, study)
                optuna_sampler.finish(archive, study)
            bar.update(archive.evaluated)
            optuna_sampler.run(archive, study, bar)
            archive = Archive(evaluator)  # what other workers found counts too
            optuna_sampler.recall(archive, study)
    if search.polish and search.sampler != "exhaustive":
        local_search.run(archive)
    if archive.feasible:
        report.simplify(archive)
    undefined = [
        f"'{text}' is not a finite number at {n} of {archive.evaluated} designs: infeasible" for text, n in archive.undefined.items()
    ]
    for remark in (*evaluator.remarks(), *undefined):
        warnings.warn(remark, ModelWarning, stacklevel=3)
    return archive


def to_dataset(archive: Archive, random: Archive) -> xr.Dataset:
    """The Pareto front along `point`, with the figures of the whole search as attributes; `random`: as many random designs."""
    own_volumes, random_volumes = report.volumes(archive, random)
    attributes = _specification_attributes(archive.evaluator) | {
        "evaluated": archive.evaluated,
        "feasible": archive.feasible,
        "tied": len(archive.tied),
        "hypervolume_share": float(own_volumes[-1]),
        "hypervolume_share_of_random": float(random_volumes[-1]),
        "elasticities": json.dumps(report.elasticities(archive)),
        "importances": json.dumps(report.importances(archive.evaluator)),
    }
    regret = report.regret(archive) if archive.evaluator.problem.search.sampler != "exhaustive" else 0.0
    return report.front(archive).assign_attrs(attributes | ({} if regret is None else {"regret": regret}))


def _specification_attributes(evaluator: Evaluator) -> dict[str, Any]:
    """What was searched for, as attributes of a dataset."""
    problem = evaluator.problem
    search = problem.search
    run_on = {name: dense.run_on for name, (dense, *_) in problem.feasible_variants.items() if dense.run_on}
    return {
        "objectives": json.dumps([f"{'minimize' if sign > 0 else 'maximize'} {expression}" for expression, sign in search.objectives]),
        "constraints": json.dumps([str(constraint) for constraint in search.constraints]),
        "accuracy": str(problem.drop),
        "run_on": json.dumps(run_on),
        "accelerator": evaluator.space.accelerator.name,
        "seed": search.seed,
        "sampler": search.sampler,
    }
