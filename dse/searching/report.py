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
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.layer_results import layer_results
from dse.model.network_terms import efficiency_of, network_terms
from dse.schema.accelerator import read_accelerator
from dse.searching import exhaustive, uncertainty
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
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


def simplify(archive: Archive) -> None:
    """Put the simplest equivalent designs in the place of those that are reported: the front and the best ones."""
    known: set[bytes] = set()
    while len(rows := [n for n in _reported(archive) if archive.points[n].tobytes() not in known]):
        points = archive.points[rows]
        simpler = simplified(archive.evaluator, points)
        known |= {point.tobytes() for point in simpler}
        if len(changed := np.flatnonzero((points != simpler).any(axis=1))):
            archive.replace(points[changed], simpler[changed])


def _reported(archive: Archive) -> np.ndarray:
    return np.union1d(archive.front(), archive.ranked()[:SHOWN])


def best(archive: Archive) -> pd.DataFrame:
    """The best designs, one a row: rank, values, results, active limits, what bounds each network, and which variant of it runs; of
    several networks the results of each, and the axes whose condition does not hold, where there are any conditions."""
    points, evaluator = archive.points[archive.ranked()[:SHOWN]], archive.evaluator
    scores = evaluator.scores(points)
    table = pd.DataFrame(evaluator.space.described(points) | scores.combined | uncertainty.interval_columns(evaluator, points))
    table.insert(0, "rank", np.arange(1, len(points) + 1))
    excess = evaluator.objectives(points)[1]
    table["active"] = [
        ", ".join(str(limit) for limit, e in zip(evaluator.problem.search.bounds, row, strict=True) if e > -ACTIVE) for row in excess
    ]
    if any(dimension.when for dimension in evaluator.space.dimensions):
        off = [np.where(dimension.holds(points), "", dimension.path) for dimension in evaluator.space.dimensions]
        table["inactive"] = [", ".join(filter(None, row)) for row in np.stack(off, axis=1)]
    if len(evaluator.problem.feasible_variants) > 1:
        table["networks"] = [_of_each(evaluator, scores.each, number) for number in range(len(points))]
    limits = [_limits(evaluator, point) for point in points]
    table["bound"] = [bound for bound, _ in limits]
    table["states"] = [states for _, states in limits]
    return table


def _of_each(evaluator: Evaluator, each: dict[str, np.ndarray], number: int) -> str:
    """'resnet50: performance 1.32, speedup 1.2, latency 0.0021 s' for each network."""
    texts = []
    for network, name in enumerate(evaluator.problem.feasible_variants):
        figures = [f"{result} {values[network, number]:.5g} {UNITS[result].removeprefix('1')}".strip() for result, values in each.items()]
        texts.append(f"{name}: {', '.join(figures)}")
    return "; ".join(texts)


def _limits(evaluator: Evaluator, point: np.ndarray) -> tuple[str, str]:
    """'resnet50: tensor_core 61%, dram 39%' and 'resnet50: magnitude_pruning unstructured 0.8' for each network."""
    asked, chip, bounds, states = evaluator.problem, evaluator.space.accelerator_at(point), [], []
    for name, state in evaluator.chosen_variants(point).items():
        efficiency = efficiency_of(asked.options, asked.kernels, evaluator.space.accelerator, with_samples=False)
        terms = network_terms(chip, state, asked.batch, asked.dtype, asked.options, efficiency)
        layers = layer_results(terms, chip, state, asked.dtype, asked.options, asked.batch)
        share = layers.latency.groupby(layers.bound).sum() / layers.latency.sum()
        parts = sorted(zip(share.bound.values, share.values, strict=True), key=lambda part: -part[1])
        bounds.append(f"{name}: " + ", ".join(f"{resource} {100 * part:.0f}%" for resource, part in parts))
        combined = f" with {state.combined_with}" if state.combined_with else ""
        states.append(f"{name}: {state}{combined}")
    return "; ".join(bounds), "; ".join(states)


def elasticities(archive: Archive) -> dict[str, float]:
    """Change of the first objective, relative to its value, with the logarithm of every numeric dimension, at the best design; none
    where its value is 0."""
    evaluator, point = archive.evaluator, archive.points[archive.best()]
    if not evaluator.numeric:
        return {}
    (_, sign), *_ = evaluator.problem.search.objectives
    values = evaluator.space.values(point[None])
    with jax.enable_x64(True):
        objective, *_ = derivatives(evaluator, evaluator.config(point))
        found = objective(np.log([values[path][0] for path in evaluator.numeric]), variants(evaluator, point))
    value, slope = map(np.asarray, found)
    if not value:
        return {}
    return {path: float(share / abs(value)) for path, share in zip(evaluator.numeric, sign * slope, strict=True)}


def importances(evaluator: Evaluator) -> dict[str, float]:
    """How much each dimension decides whether a random design is among the better ones (PED-ANOVA, Watanabe et al. 2023)."""
    points = evaluator.space.random(SAMPLE, np.random.default_rng(evaluator.problem.search.seed))
    values = evaluator.objectives(points)[0][:, 0]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    distributions = {dimension.path: _whole(dimension) for dimension in evaluator.space.dimensions}
    known = np.isfinite(values)
    points, values = points[known], values[known]
    if len(np.unique(values)) < 2:
        return {}
    for point, value in zip(points, values, strict=True):
        params = {d.path: float(x) if d.continuous else int(x) for d, x in zip(evaluator.space.dimensions, point, strict=True)}
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


def chance(archive: Archive, evaluations: int) -> Archive:
    """What as many random designs would have found."""
    found = Archive(archive.evaluator)
    draw = np.random.default_rng(archive.evaluator.problem.search.seed + 1)
    size = max(evaluations // 200 + 1, archive.evaluator.problem.search.ask_batch)
    for start in range(0, min(evaluations, MOST_RANDOM), size):
        found.judge(archive.evaluator.space.random(min(size, evaluations - start), draw))
    return found


def volumes(*archives: Archive) -> list[np.ndarray]:
    """Hypervolume in the objectives of each after each batch [batch], as a share of the box between the worst and the best in each
    objective that is on the front of any of them (that of the objectives and of what the limits are about)."""
    number = len(archives[0].evaluator.problem.search.objectives)
    known = np.concatenate([values[:, :number] for archive in archives for _, values in archive.history])
    if not len(known):
        return [np.zeros(len(archive.history)) for archive in archives]
    low, high = known.min(axis=0), known.max(axis=0)
    span, corner = np.where(high > low, high - low, 1.0), np.full(known.shape[1], 1.0 + 1e-9)
    return [np.array([hypervolume((values[:, :number] - low) / span, corner) for _, values in archive.history]) for archive in archives]


def devices(evaluator: Evaluator) -> pd.DataFrame:
    """Shipped devices that exist and compute in the search's precision, judged as designs are: name and results."""
    found, asked = [], evaluator.problem
    for name in catalog.list_names("accel_models"):
        device = read_accelerator(catalog.find_path("accel_models", name))
        with suppress(InputError):  # another precision, or no process to say what it costs
            if not device.hypothetical:
                kernels = asked.kernels if asked.options.efficiencies else available_kernels(device, asked.options)
                own = Evaluator(Space(device, ()), replace(asked, kernels=kernels), evaluator.base)
                found.append({"device": name} | {key: float(values[0]) for key, values in own.results(np.empty((1, 0))).items()})
    return pd.DataFrame(found)


def regret(archive: Archive) -> float | None:
    """How far the best design is from the best of the whole grid, relative; None where the grid is too large or that best is 0."""
    size = archive.evaluator.space.size
    if size is None or size > AFFORDABLE or len(archive.evaluator.problem.search.objectives) > 1:
        return None
    from tqdm import tqdm

    every = Archive(archive.evaluator)
    exhaustive.run(every, tqdm(disable=True))
    found, optimum = (each.values[each.best(), 0] for each in (archive, every))
    if found == optimum:
        return 0.0
    return float(abs(found - optimum) / abs(optimum)) if optimum else None


def front(archive: Archive) -> xr.Dataset:
    """The designs that none dominates, along `point`: every dimension and result; the best one is marked."""
    numbers = archive.front()
    order = numbers[np.argsort(archive.values[numbers, 0], kind="stable")]
    points = archive.points[order]
    units = {d.path: d.axis.unit or "1" for d in archive.evaluator.space.dimensions if not d.categorical}
    coords: dict[str, Any] = {
        path: ("point", values.astype(object) if values.dtype.kind == "U" else values, {"units": units[path]} if path in units else {})
        for path, values in archive.evaluator.space.described(points).items()
    }
    found = archive.evaluator.results(points) | uncertainty.interval_columns(archive.evaluator, points)
    results = {name: ("point", values, _attrs(name)) for name, values in found.items()}
    return xr.Dataset({**results, "best": ("point", order == archive.best())}, coords)


def _attrs(name: str) -> dict[str, str]:
    result, _, end = name.rpartition("_")
    told = {"low": {"long_name": "5% of what the measured kernels allow"}, "high": {"long_name": "95% of it"}}
    return {"units": UNITS[result], **told[end]} if result else {"units": UNITS[name]}


UNITS = {"performance": "1", "speedup": "1", "latency": "s", "energy": "J", "edp": "J s", "area": "m^2", "power": "W"}
