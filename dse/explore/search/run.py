"""Running a search: read the specification, look, polish, report."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from tqdm import tqdm

from dse import accelerator as accelerators
from dse import catalog
from dse import spec as specs
from dse.document import Document
from dse.errors import BadInput, Collector, suggestion
from dse.explore.search import exhaustive, polish, report, sampled, space, states
from dse.explore.search.designs import Designs, Question
from dse.explore.search.outcome import Outcome
from dse.spec import Spec
from dse.workload import tables


def search(spec: str | Path, *, storage: Any = None, resume: bool = False, join: bool = False, progress: bool = False) -> xr.Dataset:
    """Run the search of a specification, by name or path; returns the front of the feasible designs, the best one marked.

    `storage`: what Optuna takes (default: in memory); `resume` goes on with the study there, what was left running included;
    `join` works on it beside others. Raises BadInput, and InfeasibleError where nothing meets every constraint.
    """
    designs = load(spec)
    outcome = look(designs, catalog.find("sweeps", spec).stem, storage, resume, join, progress)
    outcome.check()
    return described(outcome, report.chance(outcome, outcome.evaluated))


def load(reference: str | Path) -> Designs:
    """The designs that a specification speaks of, ready to be judged; raises BadInput with every problem."""
    written, document = specs.load(catalog.find("sweeps", reference))
    problems = Collector()
    _check(written, document, problems)
    problems.raise_all()
    with problems.at(*document.place(("accelerators", 0))):
        base = accelerators.load(catalog.find("accel_models", written.accelerators[0], document.path.parent))
    networks = _networks(written, document, problems)
    problems.raise_all()
    found = space.load(written, document, base)
    assert written.search is not None
    asked = written.model_dump_json(exclude={"search": {"trials", "ask_batch", "sampler", "seed", "polish"}, "plots": True, "store": True})
    origin = hashlib.sha256((asked + base.document.sha256).encode()).hexdigest()
    question = Question(networks, written.batch[0], written.dtype[0], written.model, written.search, origin)
    try:
        return Designs(found, question)
    except BadInput as error:
        raise BadInput(document.problem(("accelerators", 0), problem.what, problem.fix) for problem in error.problems) from error


def _check(written: Spec, document: Document, problems: Collector) -> None:
    if written.search is None:
        problems.add(document.problem((), "the specification has no 'search'", "add 'search: {maximize: [performance]}'"))
        return
    for key, count in (("accelerators", len(written.accelerators)), ("batch", len(written.batch)), ("dtype", len(written.dtype))):
        if count > 1:
            problems.add(document.problem((key,), f"a search starts from one of '{key}', not {count}", "keep one"))
    if not written.axes:
        problems.add(
            document.problem(("axes",), "nothing varies", "add an axis, as in 'memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s}'")
        )
    if "cost.process" in written.axes and {"energy", "edp"} & written.search.costs:
        what = "energy follows a process that is given, not one that varies"
        problems.add(document.problem(("axes", "cost.process"), what, "search at one process, or leave 'energy' and 'edp' out"))
    if written.model.fidelity == "calibrated":
        what = "a search cannot follow measured kernels yet, whose tiles and launches differ from layer to layer"
        problems.add(document.problem(("model", "fidelity"), what, "search at another fidelity, then sweep what it finds at 'calibrated'"))
    for name in written.search.weights:
        if name not in written.workloads:
            fix = suggestion(name, written.workloads)
            problems.add(document.problem(("search", "weights", name), f"'{name}' is no workload of this search", fix))


def _networks(written: Spec, document: Document, problems: Collector) -> Mapping[str, list[Any]]:
    assert written.search is not None
    found: dict[str, list[Any]] = {}
    for reference, selection in written.workloads.items():
        with problems.at(*document.place(("workloads", reference))):
            folder = catalog.find("workloads", reference, document.path.parent)
            for inputs in selection.combinations():
                workload = tables.load(folder, inputs)
                found[workload.name if inputs else reference] = states.tolerated(workload, selection, written.search.drop)
    return found


def look(designs: Designs, name: str, storage: Any, resume: bool, join: bool, progress: bool) -> Outcome:
    """Let the engine look, then polish."""
    outcome, search = Outcome(designs), designs.question.search
    with tqdm(total=search.trials, unit=" designs", disable=not progress) as bar:
        if search.sampler == "exhaustive":
            exhaustive.run(outcome, bar)
        else:
            study = sampled.open_study(name, designs.question, storage, resume or join)
            if resume:
                sampled.recall(outcome, study)
                sampled.finish(outcome, study)
            bar.update(outcome.evaluated)
            sampled.run(outcome, study, bar)
            outcome = Outcome(designs)  # what other workers found counts too
            sampled.recall(outcome, study)
    if search.polish and search.sampler != "exhaustive":
        polish.run(outcome)
    return outcome


def described(outcome: Outcome, random: Outcome) -> xr.Dataset:
    """The front, with what else there is to say as attributes; `random`: what as many random designs found."""
    own, by_chance = (float(volumes[-1]) for volumes in report.volumes(outcome, random))
    search = outcome.designs.question.search
    told = {
        "evaluated": outcome.evaluated, "feasible": outcome.feasible, "hypervolume_share": own, "hypervolume_share_of_random": by_chance,
        "objectives": json.dumps([("minimize " if sign > 0 else "maximize ") + str(found) for found, sign in search.objectives]),
        "constraints": json.dumps([str(found) for found in search.constraints]), "accuracy": str(search.drop),
        "elasticities": json.dumps(report.elasticities(outcome)), "importances": json.dumps(report.importances(outcome.designs)),
        "accelerator": outcome.designs.space.accelerator.name, "seed": search.seed, "sampler": search.sampler,
    }  # fmt: skip
    missed = report.regret(outcome) if search.sampler != "exhaustive" else 0.0
    return report.front(outcome).assign_attrs(told | ({} if missed is None else {"regret": missed}))
