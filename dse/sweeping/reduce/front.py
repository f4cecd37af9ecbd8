"""Keep the Pareto front of a sweep, of which one chunk at a time is in memory.

A point that another point of its chunk dominates is not on the front of the sweep either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jaxtyping import Bool, Float, Int

from dse.base.errors import InputError
from dse.schema.stored_results import FrontReduction
from dse.sweeping import objectives, pareto
from dse.sweeping.pareto_front import nondominated
from dse.sweeping.reduce.reducer import Partial, Region, ResultFrame, align_columns, column_extremes

BUCKETS = 2**16  # of a filter, which then stays in the cache
MAX_POINTS = 10**6  # of a front
TOTALS = {"worst": np.max, "best": np.min, "counts": np.sum}  # statistics of all cells, not of those that are kept


@dataclass(frozen=True)
class DominanceFilter:
    """Lookup table of the values that a front reaches; all objectives are minimised.

    The space of all objectives but the last is divided into buckets. `lowest` holds for each bucket the lowest last objective among the
    points of the front that are below the bucket in all other objectives. `low` is the lower corner of the table, `scale` the number of
    buckets per unit of an objective.
    """

    low: Float[np.ndarray, "other"]
    scale: Float[np.ndarray, "other"]
    lowest: Float[np.ndarray, "..."]

    @classmethod
    def from_front(cls, front: Float[np.ndarray, "point objective"]) -> "DominanceFilter":
        others = front.shape[1] - 1
        size = int(BUCKETS ** (1 / max(1, others)))
        low, high = (end(front[:, :-1], axis=0, initial=start) for end, start in ((np.min, np.inf), (np.max, -np.inf)))
        with np.errstate(all="ignore"):
            scale = np.where(high > low, size / (high - low), 1.0)
        lowest = np.full((size,) * others, np.inf)
        bucket = np.maximum(np.floor((front[:, :-1] - low) * scale) + 1, 1)  # the first bucket that is completely above a point
        inside = (bucket < size).all(axis=1)
        np.minimum.at(lowest.reshape(-1), _flat_index(bucket[inside], lowest.shape), front[inside, -1])
        for axis in range(others):
            lowest = np.minimum.accumulate(lowest, axis=axis)
        return cls(low, scale, lowest)

    def select(self, columns: Sequence[Float[np.ndarray, "..."]]) -> Int[np.ndarray, "selected"]:
        """Flat indices of the points that may be on the front; the columns, one for each objective, broadcast."""
        with jax.enable_x64(True):
            return np.flatnonzero(_may_be_on_front(tuple(columns), self.low, self.scale, self.lowest))


def _flat_index(bucket: Float[np.ndarray, "point other"], shape: tuple[int, ...]) -> Int[np.ndarray, "point"]:
    return np.asarray(np.ravel_multi_index(tuple(bucket.astype(int).T), shape)) if shape else np.zeros(len(bucket), int)


@jax.jit
def _may_be_on_front(columns: tuple[Float[Array, "..."], ...], low: Array, scale: Array, lowest: Array) -> Bool[Array, "..."]:
    others = zip(columns[:-1], low, scale, lowest.shape, strict=True)
    bucket = tuple(jnp.clip((column - start) * per_unit, 0, size - 1).astype(jnp.int32) for column, start, per_unit, size in others)
    return ~(lowest[bucket] < columns[-1])


@dataclass(frozen=True)
class _Columns:
    """The minimised objectives of a chunk, which broadcast over `dims`."""

    dims: list[str]
    columns: list[Float[np.ndarray, "..."]]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(column.shape for column in self.columns))

    def select(self, slices: Mapping[str, slice]) -> "_Columns":
        """The part of the chunk at some slices of its dimensions."""

        def index(column: Float[np.ndarray, "..."]) -> tuple[slice, ...]:
            return tuple(
                slices.get(dim, slice(None)) if size > 1 else slice(None) for dim, size in zip(self.dims, column.shape, strict=True)
            )

        return _Columns(self.dims, [column[index(column)] for column in self.columns])


class FrontReducer:
    """Reduces a sweep to what `dse.pareto` gives for all of its results: one front for each group of networks and batches.

    A partial holds cells that may be on a front (`at` and every result), as `points` [point, objective], minimised, with the index of
    their `group`; and statistics of all cells of each group: the `worst` and the `best` value [group, objective], and `counts` of the
    cells that are finite and of those that are left out [group, 2].
    """

    def __init__(self, spec: FrontReduction, frame: ResultFrame, coarse: xr.Dataset):
        """`coarse`: results of some designs of the sweep, which fill the filters before the first chunk; raises InputError."""
        pool = spec.front.pool
        self.signs = objectives.objective_signs(coarse, spec.front.maximize, spec.front.minimize, {}, pool)
        self.frame = replace(frame, labels=objectives.with_accuracy_drop(frame.labels, list(self.signs)))
        self.groups = pareto.group_cells(frame.labels, tuple(frame.dims), pool)
        self.bits = objectives.objective_bits(objectives.with_accuracy_drop(coarse, list(self.signs)), self.signs)
        self.fronts = [np.empty((0, len(self.signs)))] * len(self.groups)  # of the cells evaluated so far
        self.filters = [DominanceFilter.from_front(front) for front in self.fronts]
        self.learn_from_chunk(self.reduce_chunk(coarse, {}))

    def reduce_chunk(self, chunk: xr.Dataset, region: Region) -> Partial:
        columns = _Columns(*align_columns(objectives.with_accuracy_drop(chunk, list(self.signs)), self.signs))
        parts = [self._reduce_group(group, slices, columns, chunk, region) for group, slices in self._locate_groups(chunk, region)]
        return self.merge(parts)

    def merge(self, partials: Sequence[Partial]) -> Partial:
        if len(partials) == 1:  # a front already
            return partials[0]
        points, groups = (np.concatenate([partial[name] for partial in partials]) for name in ("points", "group"))
        on_front = np.zeros(len(points), bool)
        for group in np.unique(groups):
            members = np.flatnonzero(groups == group)
            on_front[members[nondominated(points[members], self.bits)]] = True
        self._check_size(int(on_front.sum()))
        cells = {name: np.concatenate([partial[name] for partial in partials])[on_front] for name in partials[0] if name not in TOTALS}
        return cells | {name: total([partial[name] for partial in partials], axis=0) for name, total in TOTALS.items()}

    def learn_from_chunk(self, partial: Partial) -> None:
        """Add the points of a chunk to the filters of later chunks."""
        for group in np.unique(partial["group"]).tolist():
            points = np.concatenate([self.fronts[group], partial["points"][partial["group"] == group]])
            self.fronts[group] = points[nondominated(points, self.bits)]
            self.filters[group] = DominanceFilter.from_front(self.fronts[group])
        self._check_size(sum(map(len, self.fronts)))

    def to_dataset(self, partial: Partial) -> xr.Dataset:
        orders = [self._order_group(group, partial) for group in range(len(self.groups))]
        records = [self._measure_group(group, partial["points"][order], partial) for group, order in enumerate(orders)]
        attributes, order = pareto.front_attributes(records, self.signs), np.concatenate(orders)
        cells = {name: values[order] for name, values in partial.items() if name not in (*TOTALS, "group", "points")}
        return self.frame.to_dataset(cells).assign_attrs(attributes)

    def _locate_groups(self, chunk: xr.Dataset, region: Region) -> Iterator[tuple[int, dict[str, slice]]]:
        """The groups that have cells in a chunk, and the slices of the chunk where those are; a group is contiguous along each dim."""
        for group, (_, indices) in enumerate(self.groups):
            slices = {}
            for dim, members in indices.items():
                start = region[dim].start if dim in region else 0
                inside = members[(members >= start) & (members < start + chunk.sizes[dim])] - start
                slices[dim] = slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0)
            if all(covered.stop for covered in slices.values()):
                yield group, slices

    def _reduce_group(self, group: int, slices: dict[str, slice], columns: _Columns, chunk: xr.Dataset, region: Region) -> Partial:
        """The front of one group of a chunk."""
        columns = columns.select(slices)
        worst, best, finite = column_extremes(columns.columns)
        cells = self.filters[group].select(columns.columns)
        cells = cells[np.broadcast_to(finite, columns.shape).ravel()[cells]] if finite.ndim else cells
        positions = np.unravel_index(cells, columns.shape)
        points = np.stack([np.broadcast_to(column, columns.shape)[positions] for column in columns.columns], axis=-1).astype(float)
        front = nondominated(points, self.bits)
        size = int(np.prod(columns.shape))
        count = int(np.broadcast_to(finite, columns.shape).sum()) if finite.ndim else size
        statistics = {"worst": (worst, -np.inf), "best": (best, np.inf), "counts": (np.array([count, size - count]), 0)}
        in_chunk = {
            dim: position[front] + (slices[dim].start if dim in slices else 0)
            for dim, position in zip(columns.dims, positions, strict=True)
        }
        return {
            "points": points[front],
            "group": np.full(int(front.sum()), group),
            **{name: self._among_groups(group, values, missing) for name, (values, missing) in statistics.items()},
            **self.frame.select_cells(chunk, in_chunk, region),
        }

    def _among_groups(self, group: int, values: np.ndarray, missing: float) -> np.ndarray:
        """Values of one group as an array over all groups [group, ...]."""
        among = np.full((len(self.groups), *values.shape), missing, values.dtype)
        among[group] = values
        return among

    def _order_group(self, group: int, partial: Partial) -> np.ndarray:
        """Indices of the points of one group in the order of `dse.pareto`."""
        members = np.flatnonzero(partial["group"] == group)
        members = members[np.argsort(partial["at"][members])]
        return members[pareto.order_front(partial["points"][members], next(iter(self.signs.values())), ties=True)]

    def _measure_group(self, group: int, points: Float[np.ndarray, "point objective"], partial: Partial) -> dict[str, object]:
        finite, left_out = partial["counts"][group].tolist()
        labels, _ = self.groups[group]
        measures = pareto.measure_front(points, partial["worst"][group], partial["best"][group], self.signs, {})
        return labels | {"points": finite, "left_out": left_out} | measures

    def _check_size(self, points: int) -> None:
        """Raise InputError if a front is too large to be kept in memory."""
        if points > MAX_POINTS:
            message = f"more than {MAX_POINTS} points are on the front of {', '.join(self.signs)}"
            fix = "leave an objective out (an axis that is one keeps nearly all of its values), write fewer steps, or keep 'top'"
            raise InputError(message, fix)
