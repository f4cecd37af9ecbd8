"""Choose the points of a report: the Pareto front of each network and batch, the best designs, and an even sample of the others."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Bool, Int

from dse.html_report.results_files import EXTRA_DIMS
from dse.sweeping.objectives import ACCURACY_DROP, Signs, objective_signs
from dse.sweeping.pareto import group_cells
from dse.sweeping.pareto_front import nondominated, significant_bits

MAX_POINTS = 10_000  # in the page, the fronts aside
MAX_OBJECTIVES = 3  # chosen by default: the front of more takes long for a million designs
COSTS = ("area", "power", "energy")  # minimised by default where they are stored and differ
RESOURCE = r"\.(bandwidth|capacity|peak\.\w+)$"  # an axis that costs silicon

Cells = Int[np.ndarray, "cell"]


@dataclass(frozen=True)
class Group:
    """The results of one network and batch, which compete with each other.

    `cells`: indices into all results; `front`: those that no other dominates; `best`: the fastest within the accuracy drop, else of those
    that lose least; -1 if none fits the memory; `best_unrated`: the fastest whose accuracy nobody measured, -1 unless faster than `best`.
    """

    workload: str
    batch: int
    cells: Cells
    front: Cells
    best: int
    best_unrated: int


def default_objectives(dataset: xr.Dataset) -> Signs:
    """Least latency, then least loss of accuracy and costs, each where it is known and differs; by name: 1 to minimise, -1 to maximise.

    Where no cost is stored, the swept bandwidths, capacities and peaks are the costs. At most `MAX_OBJECTIVES`.
    """
    signs: Signs = {"latency": 1.0} if "latency" in dataset else {"speedup": -1.0}
    costs = [name for name in COSTS if name in dataset and _varies(dataset[name])]
    swept = [str(name) for name in dataset.coords if re.search(RESOURCE, str(name)) and dataset[name].dtype.kind in "if"]
    optional = [ACCURACY_DROP] * (ACCURACY_DROP in dataset.coords) + (costs or swept)
    return dict([*signs.items(), *((name, 1.0) for name in optional if _varies(dataset[name]))][:MAX_OBJECTIVES])


def _varies(variable: xr.DataArray) -> bool:
    finite = variable.values[np.isfinite(variable.values)]
    return bool(len(finite)) and bool(finite.min() < finite.max())


def checked_objectives(dataset: xr.Dataset, maximize: list[str], minimize: list[str]) -> Signs:
    """The objectives of the user, or the default ones; raises InputError where the dataset lacks one."""
    return objective_signs(dataset, maximize, minimize, {}, pool=False) if maximize or minimize else default_objectives(dataset)


def cell_dims(dataset: xr.Dataset) -> tuple[str, ...]:
    """The dims that number the results."""
    return tuple(str(dim) for dim in dataset.dims if dim not in EXTRA_DIMS)


def group_results(dataset: xr.Dataset, signs: Signs, accuracy_tolerance: float) -> list[Group]:
    """The groups of a dataset, each with its front and best result."""
    dims = cell_dims(dataset)
    shape = tuple(dataset.sizes[dim] for dim in dims)
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    groups = []
    for _, indices in group_cells(dataset, dims, pool=False):
        part = dataset.isel(indices)
        cells = numbers[np.ix_(*(indices.get(dim, np.arange(size)) for dim, size in zip(dims, shape, strict=True)))].ravel()
        on_front = np.zeros(len(cells), bool)
        for rows in _comparable_rows(part, dims):
            on_front[rows] = _mark_front(part, dims, signs, rows)
        best, unrated = _fastest(part, dims, accuracy_tolerance)
        workload, batch = (str(np.unique(part[name].values)[0]) for name in ("workload", "batch"))
        groups.append(
            Group(workload, int(float(batch)), cells, cells[on_front], *(int(cells[i]) if i >= 0 else -1 for i in (best, unrated)))
        )
    return groups


def _comparable_rows(part: xr.Dataset, dims: tuple[str, ...]) -> Iterator[Cells]:
    """The results whose accuracies have one metric, for each metric."""
    if "metric" not in part.coords:
        yield np.arange(int(np.prod([part.sizes[dim] for dim in dims])))
        return
    metrics = _flat(part, "metric", dims)
    for metric in dict.fromkeys(np.atleast_1d(part["metric"].values).tolist()):
        yield np.flatnonzero(metrics == metric)


def _flat(part: xr.Dataset, name: str, dims: tuple[str, ...]) -> np.ndarray:
    """Values of a variable for every result, those that it does not depend on included."""
    variable = part[name]
    sizes = [part.sizes[dim] if dim in variable.dims else 1 for dim in dims]
    ordered = variable.transpose(*(dim for dim in dims if dim in variable.dims)).values.reshape(sizes)
    return np.broadcast_to(ordered, [part.sizes[dim] for dim in dims]).ravel()


def _mark_front(part: xr.Dataset, dims: tuple[str, ...], signs: Signs, rows: Cells) -> Bool[np.ndarray, " row"]:
    values = np.stack([sign * _flat(part, name, dims)[rows].astype(float) for name, sign in signs.items()], axis=1)
    finite = np.isfinite(values).all(axis=1)
    marked = np.zeros(len(rows), bool)
    bits = np.array([significant_bits(part[name].dtype) for name in signs])
    marked[np.flatnonzero(finite)] = nondominated(values[finite], bits)
    return marked


def _fastest(part: xr.Dataset, dims: tuple[str, ...], accuracy_tolerance: float) -> tuple[int, int]:
    """Row of the fastest result within the loss of accuracy, and of the fastest of unknown accuracy if that is faster; -1 for none.

    Where no result is within the loss and none is of unknown accuracy, the first is the fastest of those that lose least.
    """
    time = _flat(part, "latency", dims) if "latency" in part else 1 / _flat(part, "speedup", dims)
    time = np.where(_flat(part, "fits", dims), time, np.inf) if "fits" in part else time
    time = np.where(np.isfinite(time), time, np.inf)
    drops = _flat(part, ACCURACY_DROP, dims) if ACCURACY_DROP in part.coords else np.zeros(len(time))
    rated, unrated = (np.where(mask, time, np.inf) for mask in (drops <= accuracy_tolerance, np.isnan(drops)))
    if not np.isfinite(rated.min()) and not np.isfinite(unrated.min()):
        least = np.nanmin(np.where(np.isfinite(time), drops, np.nan)) if np.isfinite(time).any() else np.inf
        rated = np.where(drops <= least, time, np.inf)
    best = int(rated.argmin()) if np.isfinite(rated.min()) else -1
    other = int(unrated.argmin()) if np.isfinite(unrated.min()) and (best < 0 or unrated.min() < rated[best]) else -1
    return best, other


def choose_cells(groups: list[Group], maximum: int = MAX_POINTS) -> Cells:
    """The results that the page holds: every front and best one whole, and an even sample of the others up to `maximum`."""
    special = {cell for group in groups for cell in (group.best, group.best_unrated) if cell >= 0}
    whole = np.union1d(np.concatenate([group.front for group in groups]), sorted(special)).astype(int)
    others = np.setdiff1d(np.concatenate([group.cells for group in groups]), whole)
    room = max(maximum - len(whole), 0)
    if len(others) > room:
        others = np.random.default_rng(0).choice(others, room, replace=False)
    return np.union1d(whole, others).astype(int)
