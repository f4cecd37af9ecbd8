"""Run a search: propose designs, refine the best ones, report the front (the function `dse.search`) and warn of assumptions."""

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import xarray as xr
from optuna.storages import BaseStorage
from tqdm import tqdm

from dse.base import catalog
from dse.model.compaction import compaction_warnings
from dse.model.cost.design import COST_PATH
from dse.model.device_warning import merge_warnings
from dse.model.efficiency.constant import missing_efficiency_warnings
from dse.model.efficiency.fitted import LAUNCH_LATENCY, transfer_warnings
from dse.model.executions import Execution
from dse.model.fusion import fusion_warnings
from dse.model.host_time import HOST_PATHS, host_warnings
from dse.model.memory_levels import memory_level_warnings
from dse.model.rates import rate_paths
from dse.schema.model_options import CAPACITY_FIDELITIES
from dse.searching.accuracy_uncertainty import sample_designs
from dse.searching.analysis import compute_elasticities, compute_regret, estimate_importances, hypervolume_histories, search_randomly
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.local_search import refine
from dse.searching.optuna_study import finish_stale_trials, open_study, recall_trials
from dse.searching.problem import load_problem
from dse.searching.report import (
    best_designs_attributes,
    best_designs_table,
    front_dataset,
    inferred_accuracies,
    list_notes,
    simplify_reported,
)
from dse.searching.samplers import evaluate_all, run_trials
from dse.sweeping.linked_axes import changed_paths
from dse.sweeping.model_warnings import ModelWarning


def search(
    spec: str | Path | Mapping[str, object],
    *,
    storage: str | BaseStorage | None = None,
    resume: bool = False,
    join: bool = False,
    progress: bool = False,
) -> xr.Dataset:
    """Search the designs of a specification for the best ones within constraints.

    Args:
        spec: a name of the catalogue, the path of a YAML file, or a mapping with the keys of such a file, in which accelerators and
            workloads may be objects.
        storage: where Optuna keeps the study: a URL, a storage object, or None for memory.
        resume: continue the study in `storage`; trials that were running when it stopped are evaluated again.
        join: work on the study in `storage` while other processes do.
        progress: show a progress bar.

    Returns:
        The Pareto front of the feasible designs along `point` (of the objectives; of a single one and the results that constraints
        limit), in SI units: the value of every axis, and every result (`performance`
        [1], `speedup` [1], `latency` [s], `energy` [J], `area` [m^2], `power` [W]) that the search uses. `best` marks the design that is
        the best in the first objective. Attributes: `evaluated` and `feasible` (numbers of designs), `elasticities`, `importances`,
        `best_designs` and others, as JSON where they are not a number. Where accuracies of patterns are assumed, `assumed_accuracies`
        names the networks and patterns of each point. Where accuracies have intervals, `accuracy_samples` says how often
        the pattern of each network stays the best over samples of them, and `decided` whether each does in at least 90%.

    Raises:
        InputError: the specification is invalid; lists every problem with file, line and fix.
        InfeasibleError: no design meets every constraint; names the hardest one.

    Examples:
        >>> import dse
        >>> front = dse.search({
        ...     "name": "small_search", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16", "batch": 32,
        ...     "axes": {"memory.dram.bandwidth": {"from": "1 TB/s", "to": "8 TB/s", "steps": 8}},
        ...     "search": {"maximize": ["performance"], "constraints": ["accuracy_drop <= 1.0"], "sampler": "exhaustive"},
        ... })
        >>> front["memory.dram.bandwidth"].values[front.best]
        array([8.e+12])
    """
    evaluator = load_evaluator(spec)
    archive = run_search(evaluator, _study_name(spec), storage, resume, join, progress)
    archive.check_feasible()
    return to_dataset(archive, search_randomly(archive))


def _study_name(spec: catalog.Reference) -> str:
    return str(spec["name"]) if isinstance(spec, Mapping) else catalog.find_path("sweeps", spec).stem


def load_evaluator(reference: catalog.Reference) -> Evaluator:
    """The evaluator of the designs that a specification spans; raises InputError with every problem."""
    return Evaluator(*load_problem(reference))


def run_search(evaluator: Evaluator, name: str, storage: str | BaseStorage | None, resume: bool, join: bool, progress: bool) -> Archive:
    """Propose and evaluate designs, refine the best ones, and simplify those that are reported; `name`: of Optuna's study."""
    search = evaluator.problem.search
    if search.sampler == "exhaustive":
        archive = Archive(evaluator)
        with tqdm(total=evaluator.space.size, unit=" designs", disable=not progress) as bar:
            evaluate_all(archive, bar.update)
    else:
        archive = _run_sampler(evaluator, name, storage, resume, join, progress)
        if search.polish:
            refine(archive, max(search.trials, archive.evaluated_count))
    if archive.feasible_count:
        archive.prefer_cheapest()
        simplify_reported(archive)
    undefined = [
        f"'{text}' is not a finite number for {count} of {archive.evaluated_count} designs, which are infeasible"
        for text, count in archive.undefined_counts.items()
    ]
    for text in (*collect_search_warnings(evaluator), *undefined):
        warnings.warn(text, ModelWarning, stacklevel=3)
    return archive


def _run_sampler(evaluator: Evaluator, name: str, storage: str | BaseStorage | None, resume: bool, join: bool, progress: bool) -> Archive:
    """Run Optuna's trials; returns an archive of all trials of the study, those of other workers included."""
    archive, search = Archive(evaluator), evaluator.problem.search
    study = open_study(name, evaluator.problem, storage, resume, join)
    if resume:
        recall_trials(archive, study)
        finish_stale_trials(archive, study)
    with tqdm(total=search.trials, initial=archive.evaluated_count, unit=" designs", disable=not progress) as bar:

        def advance(count: int, best: str) -> None:
            bar.set_postfix_str(best, refresh=False)
            bar.update(count)

        run_trials(archive, study, advance)
    archive = Archive(evaluator)
    recall_trials(archive, study)
    return archive


def to_dataset(archive: Archive, random: Archive) -> xr.Dataset:
    """The Pareto front along `point`, with the figures of the whole search as attributes; `random`: as many random designs."""
    own_volumes, random_volumes = hypervolume_histories(archive, random)
    attributes = _specification_attributes(archive.evaluator) | {
        "front_objectives": json.dumps(archive.front_objectives),
        "evaluated": archive.evaluated_count,
        "feasible": archive.feasible_count,
        "tied": len(archive.tied_designs),
        "near_tied": archive.near_tied_count,
        "tie_tolerance": archive.evaluator.problem.search.tie_tolerance,
        "hypervolume_share": float(own_volumes[-1]),
        "hypervolume_share_of_random": float(random_volumes[-1]),
        "elasticities": json.dumps(compute_elasticities(archive)),
        "importances": json.dumps(estimate_importances(archive.evaluator)),
        "notes": json.dumps(list_notes(archive)),
    }
    sampled = sample_designs(archive)
    attributes |= best_designs_attributes(best_designs_table(archive, sampled), archive.evaluator.space)
    attributes |= {"inferred_accuracies": text} if (text := inferred_accuracies(archive)) else {}
    if sampled is not None:
        attributes |= {"accuracy_samples": sampled.sentence, "decided": int(sampled.is_decided), "better_share": sampled.better_share}
    regret = compute_regret(archive) if archive.evaluator.problem.search.sampler != "exhaustive" else 0.0
    return front_dataset(archive).assign_attrs(attributes | ({} if regret is None else {"regret": regret}))


def _specification_attributes(evaluator: Evaluator) -> dict[str, str | int]:
    """The specification of a search, as attributes of a dataset."""
    problem = evaluator.problem
    search = problem.search
    dense = {name: problem.feasible_variants[name][0] for name in problem.own_networks}
    run_on = {name: variant.run_on for name, variant in dense.items() if variant.run_on}
    return {
        "objectives": json.dumps([f"{'minimize' if sign > 0 else 'maximize'} {expression}" for expression, sign in search.objectives]),
        "constraints": json.dumps([str(constraint) for constraint in search.constraints]),
        "accuracy": str(problem.tolerance),
        "run_on": json.dumps(run_on),
        "accelerator": evaluator.space.accelerator.name,
        "seed": search.seed,
        "sampler": search.sampler,
        **problem.provenance,
    }


def collect_search_warnings(evaluator: Evaluator) -> list[str]:
    """Texts of the warnings, after designs were evaluated: they are about the configurations of these."""
    problem, accelerator = evaluator.problem, evaluator.space.accelerator.name
    terms = [each for config in evaluator.evaluated_configs for each in config.terms]
    executions = [execution for each in terms for execution in each.candidates]
    texts = [*problem.warnings, *_missing_runs(evaluator), *_unused_axes(evaluator, executions)]
    for variant in evaluator.variants:
        texts += [*compaction_warnings(variant), *fusion_warnings(variant, problem.options)]
    texts += merge_warnings(warning for each in terms for warning in transfer_warnings(each, accelerator))
    texts += merge_warnings(warning for each in terms for warning in host_warnings(accelerator, each.host))
    if problem.options.fidelity in CAPACITY_FIDELITIES:
        texts += merge_warnings(warning for config in evaluator.evaluated_configs for warning in memory_level_warnings(config.accelerator))
    if terms:
        runs = (execution.run for execution in executions)
        texts += missing_efficiency_warnings(accelerator, runs, problem.dtype.label, problem.options.fidelity)
    return list(dict.fromkeys(texts))


def _missing_runs(evaluator: Evaluator) -> Iterator[str]:
    """Warn of hypothetical patterns whose layers run dense on every design, for want of an enabled run."""
    configs = evaluator.evaluated_configs
    hypothetical = [index for index, variant in enumerate(evaluator.variants) if variant.method == "hypothetical"]
    without = [index for index in hypothetical if configs and all(config.terms[index].unsupported for config in configs)]
    if patterns := list(dict.fromkeys(repr(str(evaluator.variants[index].pattern)) for index in without)):
        whose = "its" if len(patterns) == 1 else "their"
        yield f"no design has an enabled run for {', '.join(patterns)}: {whose} layers run dense"


def _unused_axes(evaluator: Evaluator, executions: list[Execution]) -> Iterator[str]:
    """Warn of axes that change no result: no rate, no work and no cost of the search depends on them."""
    fidelity, has_costs = evaluator.problem.options.fidelity, bool(evaluator.problem.search.costs)
    used = rate_paths(executions)
    if fidelity == "calibrated":
        used.add(LAUNCH_LATENCY)
    if any(variant.runtime == "eager" for variant in evaluator.variants):
        used |= set(HOST_PATHS)
    if "occupancy" in evaluator.problem.search.results:
        used.add(f"memory.{evaluator.space.accelerator.outermost}.capacity")
    for dimension in evaluator.space.dimensions if used else ():
        changed = changed_paths(evaluator.space.accelerator, dimension.path, evaluator.numeric_paths)
        is_cost = has_costs and any(map(COST_PATH.fullmatch, changed))
        has_tables = dimension.grid is not None or dimension.changes_tables
        if not dimension.categorical and not has_tables and not used & set(changed) and not is_cost:
            yield f"axis '{dimension.path}' changes no result under fidelity '{fidelity}'; leave it out"
