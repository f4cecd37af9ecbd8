"""Running a search: look, polish, report."""

import json
import warnings
from collections.abc import Mapping
from typing import Any

import xarray as xr
from tqdm import tqdm

from dse.base import catalog
from dse.searching import exhaustive, local_search, optuna_sampler, problem, report
from dse.searching.archive import Outcome
from dse.searching.evaluator import Designs
from dse.sweeping.run import ModelWarning


def search(spec: catalog.Reference, *, storage: Any = None, resume: bool = False, join: bool = False, progress: bool = False) -> xr.Dataset:
    """Run the search of a specification, by name, by path or as a mapping that says what such a file would.

    Returns the front of the feasible designs, the best one marked.
    `storage`: what Optuna takes (default: in memory); `resume` goes on with the study there, what was left running included;
    `join` works on it beside others. Raises InputError, and InfeasibleError where nothing meets every constraint.
    """
    designs = load(spec)
    outcome = look(designs, _study_name(spec), storage, resume, join, progress)
    outcome.check()
    return described(outcome, report.chance(outcome, outcome.evaluated))


def _study_name(spec: catalog.Reference) -> str:
    return str(spec["name"]) if isinstance(spec, Mapping) else catalog.find_path("sweeps", spec).stem


def load(reference: catalog.Reference) -> Designs:
    """The designs that a specification speaks of, ready to be judged; raises InputError with every problem."""
    return Designs(*problem.load(reference))


def look(designs: Designs, name: str, storage: Any, resume: bool, join: bool, progress: bool) -> Outcome:
    """Let the engine look, then polish."""
    outcome, search = Outcome(designs), designs.question.search
    with tqdm(total=search.trials, unit=" designs", disable=not progress) as bar:
        if search.sampler == "exhaustive":
            exhaustive.run(outcome, bar)
        else:
            study = optuna_sampler.open_study(name, designs.question, storage, resume, join)
            if resume:
                optuna_sampler.recall(outcome, study)
                optuna_sampler.finish(outcome, study)
            bar.update(outcome.evaluated)
            optuna_sampler.run(outcome, study, bar)
            outcome = Outcome(designs)  # what other workers found counts too
            optuna_sampler.recall(outcome, study)
    if search.polish and search.sampler != "exhaustive":
        local_search.run(outcome)
    if outcome.feasible:
        report.simplify(outcome)
    undefined = [
        f"'{text}' is not a finite number at {n} of {outcome.evaluated} designs: infeasible" for text, n in outcome.undefined.items()
    ]
    for remark in (*designs.remarks(), *undefined):
        warnings.warn(remark, ModelWarning, stacklevel=3)
    return outcome


def described(outcome: Outcome, random: Outcome) -> xr.Dataset:
    """The front, with what else there is to say as attributes; `random`: what as many random designs found."""
    own, by_chance = (float(volumes[-1]) for volumes in report.volumes(outcome, random))
    search = outcome.designs.question.search
    told = {
        "evaluated": outcome.evaluated, "feasible": outcome.feasible, "tied": len(outcome.tied),
        "hypervolume_share": own, "hypervolume_share_of_random": by_chance,
        "objectives": json.dumps([("minimize " if sign > 0 else "maximize ") + str(found) for found, sign in search.objectives]),
        "constraints": json.dumps([str(found) for found in search.constraints]), "accuracy": str(outcome.designs.question.drop),
        "elasticities": json.dumps(report.elasticities(outcome)), "importances": json.dumps(report.importances(outcome.designs)),
        "run_on": json.dumps({name: states[0].run_on for name, states in outcome.designs.question.states.items() if states[0].run_on}),
        "accelerator": outcome.designs.space.accelerator.name, "seed": search.seed, "sampler": search.sampler,
    }  # fmt: skip
    missed = report.regret(outcome) if search.sampler != "exhaustive" else 0.0
    return report.front(outcome).assign_attrs(told | ({} if missed is None else {"regret": missed}))
