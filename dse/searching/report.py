"""What a search's designs mean: what limits each, what each number is worth, how far the search was from chance and from the optimum."""

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import optuna
import pandas as pd
import xarray as xr
from optuna.distributions import BaseDistribution, FloatDistribution

from dse.base import catalog
from dse.base.errors import InputError
from dse.model.efficiency.fitted import case
from dse.model.efficiency.kernel_selection import kernels_of
from dse.model.layer_results import described
from dse.schema import accelerator
from dse.searching import exhaustive, uncertainty
from dse.searching.archive import Outcome
from dse.searching.evaluator import Designs
from dse.searching.local_search import derivatives, variants
from dse.searching.optuna_sampler import distribution
from dse.searching.simplicity import simplified
from dse.searching.space import Dimension, Space
from dse.sweeping.pareto_front import hypervolume

SHOWN = 10  # designs in the table of the best
ACTIVE = 0.02  # a limit within so much of its bound sets the design
SAMPLE = 2000  # random designs that importances are estimated from
MOST_RANDOM = 1_000_000  # random designs beside a search
AFFORDABLE = 2_000_000  # designs of a grid that are exhausted to tell the regret


def simplify(outcome: Outcome) -> None:
    """Put the simplest equivalent designs in the place of those that are reported: the front and the best ones."""
    known: set[bytes] = set()
    while len(rows := [n for n in _reported(outcome) if outcome.points[n].tobytes() not in known]):
        points = outcome.points[rows]
        simpler = simplified(outcome.designs, points)
        known |= {point.tobytes() for point in simpler}
        if len(changed := np.flatnonzero((points != simpler).any(axis=1))):
            outcome.replace(points[changed], simpler[changed])


def _reported(outcome: Outcome) -> np.ndarray:
    return np.union1d(outcome.front(), outcome.ranked()[:SHOWN])


def best(outcome: Outcome) -> pd.DataFrame:
    """The best designs, one a row: rank, values, results, active limits, what bounds each network, and which variant of it runs; of
    several networks the results of each, and the axes whose condition does not hold, where there are any conditions."""
    points, designs = outcome.points[outcome.ranked()[:SHOWN]], outcome.designs
    scores = designs.scores(points)
    table = pd.DataFrame(designs.space.described(points) | scores.combined | uncertainty.limits(designs, points))
    table.insert(0, "rank", np.arange(1, len(points) + 1))
    excess = designs.objectives(points)[1]
    table["active"] = [
        ", ".join(str(limit) for limit, e in zip(designs.question.search.limits, row, strict=True) if e > -ACTIVE) for row in excess
    ]
    if any(dimension.when for dimension in designs.space.dimensions):
        off = [np.where(dimension.holds(points), "", dimension.path) for dimension in designs.space.dimensions]
        table["inactive"] = [", ".join(filter(None, row)) for row in np.stack(off, axis=1)]
    if len(designs.question.states) > 1:
        table["networks"] = [_of_each(designs, scores.each, number) for number in range(len(points))]
    limits = [_limits(designs, point) for point in points]
    table["bound"] = [bound for bound, _ in limits]
    table["states"] = [states for _, states in limits]
    return table


def _of_each(designs: Designs, each: dict[str, np.ndarray], number: int) -> str:
    """'resnet50: performance 1.32, speedup 1.2, latency 0.0021 s' for each network."""
    texts = []
    for network, name in enumerate(designs.question.states):
        figures = [f"{result} {values[network, number]:.5g} {UNITS[result].removeprefix('1')}".strip() for result, values in each.items()]
        texts.append(f"{name}: {', '.join(figures)}")
    return "; ".join(texts)


def _limits(designs: Designs, point: np.ndarray) -> tuple[str, str]:
    """'resnet50: tensor_core 61%, dram 39%' and 'resnet50: magnitude_pruning unstructured 0.8' for each network."""
    asked, chip, bounds, states = designs.question, designs.space.accelerator_at(point), [], []
    for name, state in designs.chosen(point).items():
        found = case(chip, state, asked.batch, asked.dtype, asked.options, asked.kernels, designs.space.accelerator)
        layers = described(found, chip, state, asked.dtype, asked.options, asked.batch)
        share = layers.latency.groupby(layers.bound).sum() / layers.latency.sum()
        parts = sorted(zip(share.bound.values, share.values, strict=True), key=lambda part: -part[1])
        bounds.append(f"{name}: " + ", ".join(f"{resource} {100 * part:.0f}%" for resource, part in parts))
        combined = f" with {state.combined_with}" if state.combined_with else ""
        states.append(f"{name}: {state}{combined}")
    return "; ".join(bounds), "; ".join(states)


def elasticities(outcome: Outcome) -> dict[str, float]:
    """Change of the first objective, relative to its value, with the logarithm of every numeric dimension, at the best design; none
    where its value is 0."""
    designs, point = outcome.designs, outcome.points[outcome.best()]
    if not designs.numeric:
        return {}
    (_, sign), *_ = designs.question.search.objectives
    values = designs.space.values(point[None])
    with jax.enable_x64(True):
        objective, *_ = derivatives(designs, designs.structure(point))
        found = objective(np.log([values[path][0] for path in designs.numeric]), variants(designs, point))
    value, slope = map(np.asarray, found)
    if not value:
        return {}
    return {path: float(share / abs(value)) for path, share in zip(designs.numeric, sign * slope, strict=True)}


def importances(designs: Designs) -> dict[str, float]:
    """How much each dimension decides whether a random design is among the better ones (PED-ANOVA, Watanabe et al. 2023)."""
    points = designs.space.random(SAMPLE, np.random.default_rng(designs.question.search.seed))
    values = designs.objectives(points)[0][:, 0]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    distributions = {dimension.path: _whole(dimension) for dimension in designs.space.dimensions}
    known = np.isfinite(values)
    points, values = points[known], values[known]
    if len(np.unique(values)) < 2:
        return {}
    for point, value in zip(points, values, strict=True):
        params = {d.path: float(x) if d.continuous else int(x) for d, x in zip(designs.space.dimensions, point, strict=True)}
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=float(value)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return optuna.importance.get_param_importances(study, evaluator=evaluator)


def _whole(dimension: Dimension) -> BaseDistribution:
    """All values of a dimension, with the description's own where its condition does not hold."""
    if dimension.continuous:
        own = [dimension.usual] if dimension.when and dimension.usual is not None else []
        ends = [*map(float, dimension.axis.values), *own]
        return FloatDistribution(min(ends), max(ends), log=dimension.log)
    return distribution(replace(dimension, choices=len(dimension.axis)))


def chance(outcome: Outcome, evaluations: int) -> Outcome:
    """What as many random designs would have found."""
    found = Outcome(outcome.designs)
    draw = np.random.default_rng(outcome.designs.question.search.seed + 1)
    size = max(evaluations // 200 + 1, outcome.designs.question.search.ask_batch)
    for start in range(0, min(evaluations, MOST_RANDOM), size):
        found.judge(outcome.designs.space.random(min(size, evaluations - start), draw))
    return found


def volumes(*outcomes: Outcome) -> list[np.ndarray]:
    """Hypervolume in the objectives of each after each batch [batch], as a share of the box between the worst and the best in each
    objective that is on the front of any of them (that of the objectives and of what the limits are about)."""
    number = len(outcomes[0].designs.question.search.objectives)
    known = np.concatenate([values[:, :number] for outcome in outcomes for _, values in outcome.history])
    if not len(known):
        return [np.zeros(len(outcome.history)) for outcome in outcomes]
    low, high = known.min(axis=0), known.max(axis=0)
    span, corner = np.where(high > low, high - low, 1.0), np.full(known.shape[1], 1.0 + 1e-9)
    return [np.array([hypervolume((values[:, :number] - low) / span, corner) for _, values in outcome.history]) for outcome in outcomes]


def devices(designs: Designs) -> pd.DataFrame:
    """Shipped devices that exist and compute in the search's precision, judged as designs are: name and results."""
    found, asked = [], designs.question
    for name in catalog.list_names("accel_models"):
        device = accelerator.load(catalog.find_path("accel_models", name))
        with suppress(InputError):  # another precision, or no process to say what it costs
            if not device.hypothetical:
                kernels = asked.kernels if asked.options.efficiencies else kernels_of(device, asked.options)
                own = Designs(Space(device, ()), replace(asked, kernels=kernels), designs.base)
                found.append({"device": name} | {key: float(values[0]) for key, values in own.results(np.empty((1, 0))).items()})
    return pd.DataFrame(found)


def regret(outcome: Outcome) -> float | None:
    """How far the best design is from the best of the whole grid, relative; None where the grid is too large or that best is 0."""
    size = outcome.designs.space.size
    if size is None or size > AFFORDABLE or len(outcome.designs.question.search.objectives) > 1:
        return None
    from tqdm import tqdm

    every = Outcome(outcome.designs)
    exhaustive.run(every, tqdm(disable=True))
    found, optimum = (each.values[each.best(), 0] for each in (outcome, every))
    if found == optimum:
        return 0.0
    return float(abs(found - optimum) / abs(optimum)) if optimum else None


def front(outcome: Outcome) -> xr.Dataset:
    """The designs that none dominates, along `point`: every dimension and result; the best one is marked."""
    numbers = outcome.front()
    order = numbers[np.argsort(outcome.values[numbers, 0], kind="stable")]
    points = outcome.points[order]
    units = {d.path: d.axis.unit or "1" for d in outcome.designs.space.dimensions if not d.structural}
    coords: dict[str, Any] = {
        path: ("point", values.astype(object) if values.dtype.kind == "U" else values, {"units": units[path]} if path in units else {})
        for path, values in outcome.designs.space.described(points).items()
    }
    found = outcome.designs.results(points) | uncertainty.limits(outcome.designs, points)
    results = {name: ("point", values, _attrs(name)) for name, values in found.items()}
    return xr.Dataset({**results, "best": ("point", order == outcome.best())}, coords)


def _attrs(name: str) -> dict[str, str]:
    result, _, end = name.rpartition("_")
    told = {"low": {"long_name": "5% of what the measured kernels allow"}, "high": {"long_name": "95% of it"}}
    return {"units": UNITS[result], **told[end]} if result else {"units": UNITS[name]}


UNITS = {"performance": "1", "speedup": "1", "latency": "s", "energy": "J", "edp": "J s", "area": "m^2", "power": "W"}
