"""Pareto fronts of a sweep's dataset: the designs and variants that no other one dominates, for each network and batch size."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dse.base.errors import InputError
from dse.sweeping import store
from dse.sweeping.accuracy_losses import has_accuracy_intervals, sample_dataset_accuracies, sample_drops
from dse.sweeping.front_probability import MAX_POINTS, front_probability
from dse.sweeping.objectives import ACCURACY_DROP, Signs, objective_bits, objective_columns, objective_signs, with_accuracy_drop
from dse.sweeping.pareto_front import hypervolume, knee, nondominated, round_to_bits, select_candidates

MAX_MANY_OBJECTIVE_POINTS = 1000  # of four or more objectives: their hypervolume takes a second or so
GROUP_NAMES = ("workload", "batch")  # coordinates that a hardware design does not set: points that differ in them do not compete

UNCERTAIN_OBJECTIVES = ("accuracy", ACCURACY_DROP)
PROBABILITY_ATTRS = {"units": "1", "long_name": "share of the samples of the accuracies in which the point is on the front"}

FrontRecord = dict[str, Any]  # one front as listed in the attribute `groups`; see `pareto`
Indices = dict[str, np.ndarray]  # along a dim


def pareto(
    results: xr.Dataset | str | Path,
    maximize: Sequence[str] = (),
    minimize: Sequence[str] = (),
    reference: Mapping[str, float] | None = None,
    ties: bool = True,
    pool: bool = False,
) -> xr.Dataset:
    """Select the Pareto fronts of a sweep: one for each network (with its inputs) and batch size, or one over all of them.

    A point is a cell of the dims that the objectives have. Points with a NaN or infinite objective are left out. Values that differ by
    rounding only are equal.

    Args:
        results: the dataset of a sweep, or the path of its .nc file.
        maximize: names of variables and coordinates. `accuracy_drop` is the loss of accuracy against the dense network of the same
            source.
        minimize: names of variables and coordinates; at least one objective in all.
        reference: the reference point of the hypervolume, by objective. Default: the worst of the points in each objective.
        ties: keep all points that are equal in every objective, or only the first of them.
        pool: find one front over all networks and batch sizes.

    Returns:
        A dataset along `point`, front after front, each ascending in the first objective, with every variable and coordinate of the
        points. Its attributes `objectives` and `groups` are JSON. `groups` lists for each front its `workload` and `batch` (where there
        are several), `size`, `points` and `left_out` (how many there were and how many had no value), `reference_point`, `hypervolume`
        (in the product of the units), `hypervolume_share` (of the box between the reference point and the best value of each
        objective; like `hypervolume` None for large fronts of four objectives or more) and `knee` (an index along `point`). A single
        front has these as attributes, too.

        Where the accuracy or its loss is an objective and accuracies have intervals, `front_probability` [1] is the share of 1000 samples
        of them in which the point is on the front (NaN in fronts of more than 10,000 points).

    Raises:
        InputError: an objective is missing or not a number, or no point has all objectives.

    Examples:
        >>> import dse
        >>> results = dse.sweep({
        ...     "name": "trade_off", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16", "batch": 32,
        ... })
        >>> front = dse.pareto(results, maximize=["speedup"], minimize=["accuracy_drop"])
        >>> front.sizes["point"]
        12
    """
    dataset = store.read(results) if isinstance(results, str | Path) else results
    signs = objective_signs(dataset, maximize, minimize, reference or {}, pool)
    dataset = with_accuracy_drop(dataset, list(signs))
    fronts = _Fronts(dataset, signs, reference or {}, ties)
    return fronts.select([fronts.of_group(*group) for group in group_cells(dataset, fronts.dims, pool)])


@dataclass(frozen=True, eq=False)
class _Front:
    """One front: the position of each point along every dim, its record, and how probably each point is on it, where that is known."""

    positions: Sequence[np.ndarray]
    record: FrontRecord
    probability: np.ndarray | None


class _Fronts:
    """The fronts of a dataset whose objectives have `signs`."""

    def __init__(self, dataset: xr.Dataset, signs: Signs, reference: Mapping[str, float], ties: bool):
        self.dataset, self.signs, self.reference, self.ties = dataset, signs, reference, ties
        self.dims, self.columns = objective_columns(dataset, list(signs))
        self.bits, self.losses = objective_bits(dataset, signs), _sample_objective(dataset, signs)

    def of_group(self, group: Mapping[str, object], indices: Indices) -> _Front:
        """The front of the cells at `indices`."""
        cells = [select_cells(column, self.dims, indices).astype(float, copy=False) for column in self.columns]
        minimized = [column if sign > 0 else -column for column, sign in zip(cells, self.signs.values(), strict=True)]
        front, points, statistics = find_front([column.ravel() for column in minimized], self.bits)
        order = order_front(points, next(iter(self.signs.values())), self.ties)
        located = zip(self.dims, np.unravel_index(front[order], minimized[0].shape), strict=True)
        positions = [indices[dim][index] if dim in indices else index for dim, index in located]
        counts = {"points": statistics.count, "left_out": minimized[0].size - statistics.count}
        measures = measure_front(points[order], statistics.worst, statistics.best, self.signs, self.reference)
        return _Front(positions, {**group, **counts, **measures}, self._probability(front[order], minimized, indices))

    def select(self, fronts: Sequence[_Front]) -> xr.Dataset:
        """The points of all fronts, front after front, with every variable and coordinate."""
        positions = zip(*(front.positions for front in fronts), strict=True)
        selected = {dim: ("point", np.concatenate(parts)) for dim, parts in zip(self.dims, positions, strict=True)}
        points = self.dataset.isel(selected).assign_attrs(front_attributes([front.record for front in fronts], self.signs))
        probabilities = [front.probability for front in fronts if front.probability is not None]
        return points.assign(front_probability=("point", np.concatenate(probabilities), PROBABILITY_ATTRS)) if probabilities else points

    def _probability(self, front: np.ndarray, minimized: Sequence[np.ndarray], indices: Indices) -> np.ndarray | None:
        """How probably each point is on the front; None where no accuracy that is an objective varies."""
        if self.losses is None:
            return None
        variants = np.broadcast_to(_variant_of_cells(self.dataset, self.dims), [self.dataset.sizes[dim] for dim in self.dims])
        own = select_cells(variants, self.dims, indices).ravel()
        return _front_probability(front, minimized, own, self.losses, list(self.signs), self.bits)


def _sample_objective(dataset: xr.Dataset, signs: Signs) -> np.ndarray | None:
    """Samples of the accuracy or of its loss, whichever is an objective, to be minimised [variant, sample]; None where neither varies."""
    uncertain = [name for name in UNCERTAIN_OBJECTIVES if name in signs]
    if len(uncertain) != 1 or not has_accuracy_intervals(dataset) or dataset.accuracy.dims != ("variant",):
        return None
    (name,) = uncertain
    return signs[name] * (sample_drops(dataset) if name == ACCURACY_DROP else sample_dataset_accuracies(dataset))


def _variant_of_cells(dataset: xr.Dataset, dims: Sequence[str]) -> np.ndarray:
    """The position of the variant of each cell, of length 1 along all other dims."""
    return np.arange(dataset.sizes["variant"]).reshape([-1 if dim == "variant" else 1 for dim in dims])


def _front_probability(
    front: np.ndarray, minimized: Sequence[np.ndarray], variants: np.ndarray, losses: np.ndarray, names: Sequence[str], bits: np.ndarray
) -> np.ndarray:
    """The probability of each point of a front (indices of cells); NaN for a long one."""
    if len(front) > MAX_POINTS:
        return np.full(len(front), np.nan)
    finite = np.logical_and.reduce([np.isfinite(column) for column in minimized]).ravel()
    certain = [number for number, name in enumerate(names) if name not in UNCERTAIN_OBJECTIVES]
    columns = [round_to_bits(minimized[number].ravel(), bits[number]) for number in certain]
    others = np.stack(columns, axis=-1) if columns else np.zeros((len(variants), 0))
    return front_probability(others[front], variants[front], others[finite], variants[finite], losses)


@dataclass(frozen=True)
class PointStatistics:
    """Number of points without NaN and infinity, and their largest and smallest value in each objective [objective]."""

    count: int
    worst: np.ndarray
    best: np.ndarray


def select_cells(column: np.ndarray, dims: Sequence[str], indices: Indices) -> np.ndarray:
    """The part of an array over `dims` at some indices; all of it where none are given."""
    if not indices:
        return column
    return column[np.ix_(*(indices.get(str(dim), np.arange(size)) for dim, size in zip(dims, column.shape, strict=True)))]


def find_front(columns: list[np.ndarray], bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, PointStatistics]:
    """Indices and objectives [point, objective] of the front among points with some minimised objectives, and statistics of all points."""
    finite = np.isfinite(columns[0])
    for column in columns[1:]:
        finite &= np.isfinite(column)
    worst, best = (
        np.array([end(column, where=finite, initial=start) for column in columns]) for end, start in ((np.max, -np.inf), (np.min, np.inf))
    )
    if finite.all():
        candidates = select_candidates(columns)
    else:
        complete = np.flatnonzero(finite)
        candidates = complete[select_candidates([column[complete] for column in columns])]
    points = np.stack([column[candidates] for column in columns], axis=-1).astype(float)
    on_front = nondominated(points, bits)
    return candidates[on_front], points[on_front], PointStatistics(int(finite.sum()), worst, best)


def group_cells(dataset: xr.Dataset, dims: Iterable[str], pool: bool) -> list[tuple[dict[str, object], Indices]]:
    """The groups of cells that each have a front: their labels (none for a single group) and their indices along `dims`."""
    groups: list[tuple[dict[str, object], Indices]] = [({}, {})]
    for name in () if pool else GROUP_NAMES:
        if name not in dataset.coords or dataset[name].dims == () or str(dataset[name].dims[0]) not in dims:
            continue
        labels, dim = dataset[name].values, str(dataset[name].dims[0])
        parts = [({name: label}, {dim: np.flatnonzero(labels == label)}) for label in dict.fromkeys(labels.tolist())]
        groups = [(a | b, common) for a, first in groups for b, second in parts if (common := _intersect(first, second))]
    return groups if len(groups) > 1 else [({}, groups[0][1])]


def _intersect(first: Indices, second: Indices) -> Indices | None:
    """The indices that both selections have, by dim; None if there are none."""
    common = first | second | {dim: np.intersect1d(first[dim], second[dim]) for dim in first.keys() & second.keys()}
    return common if all(len(indices) for indices in common.values()) else None


def order_front(front: np.ndarray, sign: float, ties: bool) -> np.ndarray:
    """Indices of the points by ascending first objective (before its sign changed); of equal points all, or the first."""
    indices = np.arange(len(front)) if ties else np.sort(np.unique(front, axis=0, return_index=True)[1])
    return indices[np.argsort(front[indices, 0] * sign, kind="stable")]


def measure_front(front: np.ndarray, worst: np.ndarray, best: np.ndarray, signs: Signs, reference: Mapping[str, float]) -> FrontRecord:
    """Size, hypervolume and knee of a front [point, objective] of minimised objectives.

    `worst` and `best` [objective] are those of all points, on the front or not.
    """
    if not len(front):
        return {"size": 0}
    corner = np.array([s * reference[name] if name in reference else w for (name, s), w in zip(signs.items(), worst, strict=True)])
    volume, box = _hypervolume(front, corner), float(np.prod(np.maximum(corner - best, 0)))
    return {
        "size": len(front),
        "reference_point": {name: float(value * sign) for (name, sign), value in zip(signs.items(), corner, strict=True)},
        "hypervolume": volume,
        "hypervolume_share": volume / box if box else float("nan"),
        "knee": knee(front),
    }


def _hypervolume(front: np.ndarray, corner: np.ndarray) -> float:
    """NaN, with a warning, where it would take long."""
    if front.shape[1] > 3 and len(front) > MAX_MANY_OBJECTIVE_POINTS:
        message = f"the hypervolume of {len(front)} points in {front.shape[1]} objectives would take long and was left out (NaN)"
        warnings.warn(f"{message}; dse.sweeping.pareto_front.hypervolume computes it", stacklevel=4)
        return float("nan")
    return hypervolume(front, corner)


def front_attributes(records: Sequence[FrontRecord], signs: Signs) -> dict[str, object]:
    """Attributes of a dataset of several fronts, in their order along `point`; raises InputError if none of them has a point."""
    records = [record.copy() for record in records]
    nonempty = [record for record in records if record["points"]]
    if not nonempty:
        raise InputError(f"no point has a finite value in all of {', '.join(signs)}", "choose other objectives")
    start = 0
    for record in nonempty:
        record["knee"], start = record["knee"] + start, start + record["size"]
    totals = {name: sum(record[name] for record in records) for name in ("points", "left_out")}
    without_nan = [{name: None if value != value else value for name, value in record.items()} for record in nonempty]
    objectives = {name: "minimize" if sign > 0 else "maximize" for name, sign in signs.items()}
    attributes = {"objectives": json.dumps(objectives), "groups": json.dumps(without_nan), **totals}
    if len(nonempty) == 1:
        (record,) = nonempty
        attributes |= {name: record[name] for name in ("hypervolume", "hypervolume_share", "knee")}
        attributes["reference_point"] = json.dumps(record["reference_point"])
    return attributes


def front_records(front: xr.Dataset) -> list[FrontRecord]:
    """The fronts that a dataset of `pareto` holds, in their order along `point`."""
    return json.loads(front.attrs["groups"])


def objective_directions(front: xr.Dataset) -> dict[str, str]:
    """`maximize` or `minimize` for each objective of a dataset of `pareto`."""
    return json.loads(front.attrs["objectives"])
