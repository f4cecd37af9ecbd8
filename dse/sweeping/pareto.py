"""Pareto fronts of a sweep: designs and variants that no other one dominates, for each network and batch."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.sweeping import store
from dse.sweeping.iso_speedup import accuracy_drop
from dse.sweeping.pareto_front import hypervolume, knee, nondominated, significant_bits
from dse.sweeping.results import EXTRA_DIMS

DROP = "accuracy_drop"  # computed when it is asked for
LARGE = 1000  # points of four objectives and more whose hypervolume takes a second or so


GROUPS = ("workload", "batch")  # what a hardware design does not choose: points of different ones do not compete


def pareto(
    results: xr.Dataset | str | Path,
    maximize: Sequence[str] = (),
    minimize: Sequence[str] = (),
    reference: Mapping[str, float] | None = None,
    ties: bool = True,
    pool: bool = False,
) -> xr.Dataset:
    """The Pareto front of a sweep's dataset (or of a .nc file) in any variables and coordinates, by their names: one for each network
    (with its inputs) and batch, or with `pool` one over all of them.

    `accuracy_drop` is what a variant loses against the dense network of its own source. A point is one cell of the dims that the
    objectives have; where one of them is NaN or infinite, it is left out. Values that differ by rounding only are equal (see
    `front.nondominated`). Points that are equal in every objective are all kept, or the first of them (`ties=False`).

    Returns a dataset along `point`, front after front, each ascending in the first objective, with every variable and coordinate of the
    design. Attributes: `objectives` (JSON), `points`, `left_out`, and `groups` (JSON), for each front the `workload` and `batch` that it
    is of, where there are several, and its `size`, `points`, `left_out`, `reference_point` (by default the worst of its points in each
    objective), `hypervolume` up to it (in the product of the objectives' units), `hypervolume_share` of the box between it and the best
    of its points in each objective (both None for large fronts of four objectives or more) and `knee` (a position along `point`, see
    `front.knee`). A single front has these as attributes of their own, too. Raises InputError.
    """
    dataset = store.read(results) if isinstance(results, str | Path) else results
    signs = signs_of(dataset, maximize, minimize, reference or {}, pool)
    dataset = prepared(dataset, list(signs))
    (shape, dims), points = cloud(dataset, list(signs))
    points *= np.array(list(signs.values()))  # now every objective is minimised
    numbers = np.arange(len(points)).reshape(shape)
    fronts, measured = [], []
    for group, places in groups(dataset, dims, pool):
        cells = numbers[np.ix_(*(places.get(dim, np.arange(size)) for dim, size in zip(dims, shape, strict=True)))].ravel()
        known = cells[np.isfinite(points[cells]).all(axis=1)]
        front = known[nondominated(points[known], significant(dataset, signs))]
        fronts.append(front[ordered(points[front], next(iter(signs.values())), ties)])
        counts = {"points": len(known), "left_out": len(cells) - len(known)}
        ends = (points[known].max(axis=0), points[known].min(axis=0)) if len(known) else (points[:0], points[:0])
        measured.append(group | counts | measures(points[fronts[-1]], *ends, signs, reference or {}))
    attributes = described(measured, signs)
    places = dict(zip(dims, np.unravel_index(np.concatenate(fronts), shape), strict=True))
    return dataset.isel({dim: ("point", place) for dim, place in places.items()}).assign_attrs(attributes)


def groups(dataset: xr.Dataset, dims: Iterable[Any], pool: bool) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """What is compared apart: the name of each group of cells, and its places along those `dims` that tell groups apart."""
    found: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = [({}, {})]
    for name in () if pool else GROUPS:
        if name not in dataset.coords or dataset[name].dims == () or dataset[name].dims[0] not in dims:
            continue
        labels = dataset[name].values
        distinct = list(dict.fromkeys(labels.tolist()))
        places = [({name: label}, {str(dataset[name].dims[0]): np.flatnonzero(labels == label)}) for label in distinct]
        found = [(one | other, both) for one, there in found for other, here in places if (both := _shared(there, here))]
    return found if len(found) > 1 else [({}, found[0][1])]


def _shared(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """The places that are in both choices; None if there are none."""
    both = one | other | {dim: np.intersect1d(one[dim], other[dim]) for dim in one.keys() & other.keys()}
    return both if all(len(places) for places in both.values()) else None


def significant(dataset: xr.Dataset, names: Iterable[str]) -> np.ndarray:
    """How many bits of each objective count."""
    return np.array([significant_bits(dataset[name].dtype) for name in names])


def described(fronts: Sequence[dict[str, Any]], signs: Mapping[str, float]) -> dict[str, Any]:
    """The attributes of a dataset of some fronts; raises InputError if none of them has a point."""
    known = [front for front in fronts if front["points"]]
    check_known(len(known), signs)
    start = 0
    for front in known:
        front["knee"], start = front["knee"] + start, start + front["size"]
    objectives = {name: "minimize" if sign > 0 else "maximize" for name, sign in signs.items()}
    totals = {name: sum(front[name] for front in fronts) for name in ("points", "left_out")}
    rows = [{name: None if value != value else value for name, value in front.items()} for front in known]
    found = {"objectives": json.dumps(objectives), "groups": json.dumps(rows), **totals}
    if len(known) == 1:
        found |= {name: known[0][name] for name in ("hypervolume", "hypervolume_share", "knee")}
        found["reference_point"] = json.dumps(known[0]["reference_point"])
    return found


def fronts_of(front: xr.Dataset) -> list[dict[str, Any]]:
    """The fronts that a dataset holds, in their order along `point`."""
    return json.loads(front.attrs["groups"])


def prepared(dataset: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """The dataset with the loss of accuracy, if that is asked for."""
    return dataset.assign_coords({DROP: accuracy_drop(dataset)}) if DROP in names and DROP not in dataset else dataset


def cloud(dataset: xr.Dataset, names: Sequence[str]) -> tuple[tuple[tuple[int, ...], tuple[Any, ...]], np.ndarray]:
    """Every cell in some variables and coordinates: the shape and dims that they span, and their values [point, name]."""
    columns = xr.broadcast(*(dataset[name] for name in names))
    values = np.stack([column.values.ravel() for column in columns], axis=-1).astype(float)
    return (columns[0].shape, columns[0].dims), values


def directions(front: xr.Dataset) -> dict[str, str]:
    """`maximize` or `minimize`, by the name of the objective."""
    return json.loads(front.attrs["objectives"])


def check_known(points: int, names: Iterable[str]) -> None:
    """Raises InputError where no point has a value in every objective."""
    if not points:
        raise InputError(f"no point has a value in every one of {', '.join(names)}", "choose other objectives")


def ordered(front: np.ndarray, sign: float, ties: bool) -> np.ndarray:
    """Numbers of the points by their first objective as it was before its sign changed; of equal points all, or the first."""
    kept = np.arange(len(front)) if ties else np.sort(np.unique(front, axis=0, return_index=True)[1])
    return kept[np.argsort(front[kept, 0] * sign, kind="stable")]


def measures(
    front: np.ndarray, worst: np.ndarray, best: np.ndarray, signs: Mapping[str, float], reference: Mapping[str, float]
) -> dict[str, Any]:
    """Size, hypervolume and knee of a front of minimised objectives, given the worst and the best of all points in each."""
    if not len(front):
        return {"size": 0}
    corner = np.array([s * reference[name] if name in reference else w for (name, s), w in zip(signs.items(), worst, strict=True)])
    volume, box = _hypervolume(front, corner), float(np.prod(np.maximum(corner - best, 0)))
    return {
        "size": len(front),
        "reference_point": {name: float(c * s) for (name, s), c in zip(signs.items(), corner, strict=True)},
        "hypervolume": volume,
        "hypervolume_share": volume / box if box else float("nan"),
        "knee": knee(front),
    }


def _hypervolume(front: np.ndarray, corner: np.ndarray) -> float:
    if front.shape[1] > 3 and len(front) > LARGE:
        what = f"the hypervolume of {len(front)} points in {front.shape[1]} objectives would take long and was left out (NaN)"
        warnings.warn(f"{what}; dse.sweeping.pareto_front.hypervolume computes it", stacklevel=4)
        return float("nan")
    return hypervolume(front, corner)


def signs_of(
    dataset: xr.Dataset, maximize: Sequence[str], minimize: Sequence[str], reference: Mapping[str, float], pool: bool = True
) -> dict[str, float]:
    """-1 for what is maximised, 1 for what is minimised; raises InputError with every mistake in the objectives."""
    names, problems = [*maximize, *minimize], ProblemCollector()
    if not names:
        raise InputError("there is nothing to maximize or minimize", "name a variable or a coordinate, as in '--maximize speedup'")
    for position, name in enumerate(names):
        with problems.collect():
            _check(dataset, name)
            if name in names[:position]:
                raise InputError(f"'{name}' is an objective twice", "name it once")
    for name in reference:
        with problems.collect():
            if name not in names:
                raise InputError(f"the reference '{name}' is no objective", did_you_mean(name, names))
    problems.raise_if_any()
    signs = dict.fromkeys(maximize, -1.0) | dict.fromkeys(minimize, 1.0)
    _check_accuracies(dataset, signs, pool)
    return signs


def _check(dataset: xr.Dataset, name: str) -> None:
    known = {str(key) for key, found in dataset.variables.items() if found.dtype.kind in "ifb"}
    known |= {DROP} if {"accuracy", "dense_accuracy"} <= known and "metrics" in dataset.attrs else set()
    if name in dataset.variables and name not in known:
        raise InputError(f"'{name}' is no number", did_you_mean("", known))
    if name not in known:
        raise InputError(f"the dataset has no '{name}'", did_you_mean(name, known))
    if extra := EXTRA_DIMS.get(name):
        raise InputError(f"'{name}' has a value for each {extra[0]}", f"select one {extra[0]} and give it a name of its own")


def _check_accuracies(dataset: xr.Dataset, signs: dict[str, float], pool: bool) -> None:
    """Accuracies of one front are compared on one metric of one network, and as they are only if all start from one dense network."""
    if not {"accuracy", DROP} & signs.keys() or "metrics" not in dataset.attrs:
        return
    rows = [np.atleast_1d(dataset[name].values) for name in ("workload", "metric", "accuracy", "dense_accuracy")]
    known = [row for row in zip(*rows, strict=True) if np.isfinite(row[2])]
    for workload in [None] if pool else sorted({row[0] for row in known}):
        _check_scale(dataset, signs, [row for row in known if workload in (None, row[0])])


def _check_scale(dataset: xr.Dataset, signs: dict[str, float], known: list[tuple[Any, ...]]) -> None:
    scales, dense = sorted({row[:2] for row in known}), sorted({f"{row[3]:g}" for row in known})
    if len(scales) > 1:
        listed = "; ".join(f"{workload}, {metric}" for workload, metric in scales)
        raise InputError(
            f"accuracies of different networks or metrics cannot be compared ({listed})", "select one, as in '--at metric=...'"
        )
    if len(dense) > 1 and "accuracy" in signs:
        what = f"the accuracies start from different dense networks ({', '.join(dense)})"
        raise InputError(what, f"minimize '{DROP}' instead, the loss against each")
    for workload, metric in scales:
        better = json.loads(dataset.attrs["metrics"])[workload][metric]["direction"]
        if signs.get("accuracy", wanted := -1.0 if better == "higher" else 1.0) != wanted:
            raise InputError(f"{metric} is better {better}", f"{'maximize' if better == 'higher' else 'minimize'} 'accuracy'")
