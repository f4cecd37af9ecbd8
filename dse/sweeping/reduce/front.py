"""The front of a sweep, of which a piece at a time is there: what is beaten in its own piece is beaten."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float

from dse.base.errors import InputError
from dse.schema.reduction import FrontReduction
from dse.sweeping import objectives, pareto
from dse.sweeping.pareto_front import nondominated
from dse.sweeping.reduce import cells
from dse.sweeping.reduce.cells import Frame, Kept

CELLS = 2**16  # of a `Sieve`: it stays in the cache
MOST_POINTS = 10**6  # of a front, as of the best
WHOLE = {"worst": np.max, "best": np.min, "counts": np.sum}  # of all cells, not of those that are kept


@dataclass(frozen=True)
class Sieve:
    """What a front certainly beats, looked up: the space of all objectives but the last is cut into cells, and `lowest` is the least
    value of the last one among the points of the front that lie below a cell in all others. Objectives are minimised."""

    low: Float[np.ndarray, "other"]
    scale: Float[np.ndarray, "other"]  # cells along an objective, over its range
    lowest: Float[np.ndarray, "..."]

    @classmethod
    def of(cls, front: Float[np.ndarray, "point objective"]) -> "Sieve":
        others = front.shape[1] - 1
        size = int(CELLS ** (1 / max(1, others)))
        low, high = (end(front[:, :-1], axis=0, initial=start) for end, start in ((np.min, np.inf), (np.max, -np.inf)))
        with np.errstate(all="ignore"):
            scale = np.where(high > low, size / (high - low), 1.0)
        lowest = np.full((size,) * others, np.inf)
        cell = np.maximum(np.floor((front[:, :-1] - low) * scale) + 1, 1)  # the first cell that lies wholly above a point
        inside = (cell < size).all(axis=1)
        np.minimum.at(lowest.reshape(-1), _flat(cell[inside], lowest.shape), front[inside, -1])
        for axis in range(others):
            lowest = np.minimum.accumulate(lowest, axis=axis)
        return cls(low, scale, lowest)

    def passes(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The numbers of the points, given by one array for each objective, which broadcast, that it lets through."""
        with jax.enable_x64(True):
            return np.flatnonzero(_passing(tuple(columns), self.low, self.scale, self.lowest))


def _flat(cell: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(np.ravel_multi_index(tuple(cell.astype(int).T), shape)) if shape else np.zeros(len(cell), int)


@jax.jit
def _passing(columns: tuple[Float[Array, "..."], ...], low: Array, scale: Array, lowest: Array) -> Bool[Array, "..."]:
    others = list(zip(columns[:-1], low, scale, lowest.shape, strict=True))
    cell = tuple(jnp.clip((column - start) * steps, 0, size - 1).astype(jnp.int32) for column, start, steps, size in others)
    return ~(lowest[cell] < columns[-1])


class FrontKeeper:
    """`dse.pareto` of a whole sweep, of which a chunk at a time is in memory.

    Kept of some chunks: cells that may be on a front (`at` and every result), as `points` [point, objective, minimised] of a `group`,
    and of all cells of each group the `worst` and the `best` [group, objective] and how many are known and left out (`counts`).
    """

    def __init__(self, wanted: FrontReduction, frame: Frame, coarse: xr.Dataset):
        """`coarse`: some of the sweep's designs, which it meets again; raises InputError."""
        pool = wanted.front.pool
        self.signs = objectives.objective_signs(coarse, wanted.front.maximize, wanted.front.minimize, {}, pool)
        self.frame = replace(frame, labels=objectives.with_accuracy_drop(frame.labels, list(self.signs)))
        self.groups = pareto.group_cells(frame.labels, tuple(frame.dims), pool)
        self.bits = objectives.objective_bits(objectives.with_accuracy_drop(coarse, list(self.signs)), self.signs)
        self.fronts = {number: np.empty((0, len(self.signs))) for number in range(len(self.groups))}  # of what was met so far
        self.sieves = {number: Sieve.of(front) for number, front in self.fronts.items()}
        self.learn(self.narrowed(coarse, {}))

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice]) -> Kept:
        """The fronts of a chunk, as far as the sieves let points through."""
        dims, columns = cells.aligned(objectives.with_accuracy_drop(piece, list(self.signs)), self.signs)
        parts = [self._narrowed(number, part, dims, columns, piece, region) for number, part in self._parts(piece, region)]
        return self.together(parts)

    def _parts(self, piece: xr.Dataset, region: Mapping[str, slice]) -> Iterator[tuple[int, dict[str, slice]]]:
        """The groups of which a chunk has cells, and which of its places along the dims that tell groups apart those are."""
        for number, (_, places) in enumerate(self.groups):
            found = {}
            for dim, there in places.items():
                start = region[dim].start if dim in region else 0
                here = there[(there >= start) & (there < start + piece.sizes[dim])] - start
                found[dim] = slice(int(here[0]), int(here[-1]) + 1) if len(here) else slice(0)  # a group is a stretch of them
            if all(part.stop for part in found.values()):
                yield number, found

    def _narrowed(
        self,
        number: int,
        part: dict[str, slice],
        dims: list[str],
        columns: list[np.ndarray],
        piece: xr.Dataset,
        region: Mapping[str, slice],
    ) -> Kept:
        """The front of one group of a chunk."""
        columns = [
            column[tuple(part.get(dim, slice(None)) if size > 1 else slice(None) for dim, size in zip(dims, column.shape, strict=True))]
            for column in columns
        ]
        worst, best, known = cells.extremes(columns)
        shape = np.broadcast_shapes(*(column.shape for column in columns))
        left = self.sieves[number].passes(columns)
        left = left[np.broadcast_to(known, shape).ravel()[left]] if known.ndim else left
        places = np.unravel_index(left, shape)
        points = np.stack([np.broadcast_to(column, shape)[places] for column in columns], axis=-1).astype(float)
        front = nondominated(points, self.bits)
        count = int(np.broadcast_to(known, shape).sum()) if known.ndim else int(np.prod(shape))
        counts = np.array([count, int(np.prod(shape)) - count])
        chosen = {dim: place[front] + (part[dim].start if dim in part else 0) for dim, place in zip(dims, places, strict=True)}
        whole = {"worst": (worst, -np.inf), "best": (best, np.inf), "counts": (counts, 0)}
        at = {name: self._of_groups(number, values, missing) for name, (values, missing) in whole.items()}
        return {"points": points[front], "group": np.full(int(front.sum()), number), **at, **self.frame.taken(piece, chosen, region)}

    def _of_groups(self, number: int, values: np.ndarray, missing: float) -> np.ndarray:
        """Values of one group among all groups [group, ...]."""
        found = np.full((len(self.groups), *values.shape), missing, values.dtype)
        found[number] = values
        return found

    def together(self, parts: Sequence[Kept]) -> Kept:
        points, group = (np.concatenate([part[name] for part in parts]) for name in ("points", "group"))
        front = np.zeros(len(points), bool)
        for number in np.unique(group):
            here = np.flatnonzero(group == number)
            front[here[nondominated(points[here], self.bits)]] = True
        self.check_size(int(front.sum()))
        found = {name: np.concatenate([part[name] for part in parts])[front] for name in parts[0] if name not in WHOLE}
        return found | {name: reduce([part[name] for part in parts], axis=0) for name, reduce in WHOLE.items()}

    def learn(self, part: Kept) -> None:
        """What a point that was met dominates need not be kept."""
        for number in np.unique(part["group"]).tolist():
            points = np.concatenate([self.fronts[number], part["points"][part["group"] == number]])
            self.fronts[number] = points[nondominated(points, self.bits)]
            self.sieves[number] = Sieve.of(self.fronts[number])
        self.check_size(sum(map(len, self.fronts.values())))

    def check_size(self, points: int) -> None:
        """Raises InputError where a front is too large to be kept in memory."""
        if points > MOST_POINTS:
            what = f"more than {MOST_POINTS} points are on the front of {', '.join(self.signs)}"
            fix = "leave an objective out (an axis that is one keeps nearly all of its values), write fewer steps, or keep 'top'"
            raise InputError(what, fix)

    def result(self, kept: Kept) -> xr.Dataset:
        orders, measured = [], []
        for number, (group, _) in enumerate(self.groups):
            here = np.flatnonzero(kept["group"] == number)
            here = here[np.argsort(kept["at"][here])]
            orders.append(here[pareto.order_front(kept["points"][here], next(iter(self.signs.values())), ties=True)])
            known, left_out = kept["counts"][number].tolist()
            ends = kept["worst"][number], kept["best"][number]
            found = pareto.measure_front(kept["points"][orders[-1]], *ends, self.signs, {})
            measured.append(group | {"points": known, "left_out": left_out} | found)
        attributes, order = pareto.front_attributes(measured, self.signs), np.concatenate(orders)
        designs = self.frame.dataset({name: values[order] for name, values in kept.items() if name not in (*WHOLE, "group", "points")})
        return designs.assign_attrs(attributes)
