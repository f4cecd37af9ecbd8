"""The front of a sweep, of which a piece at a time is there: what is beaten in its own piece is beaten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float

from dse.explore import pareto
from dse.explore.front import nondominated
from dse.explore.keep import cells
from dse.keep import Front

CELLS = 2**16  # of a `Sieve`: it stays in the cache


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


@dataclass(frozen=True)
class Candidates:
    """What may be on the front of a piece, and of all its points [objective, minimised] the worst and the best."""

    designs: xr.Dataset
    points: Float[np.ndarray, "point objective"]
    worst: Float[np.ndarray, "objective"]
    best: Float[np.ndarray, "objective"]
    known: int  # points that have a value in every objective
    left_out: int


class FrontKeeper:
    """`dse.pareto` of all of a sweep."""

    def __init__(self, wanted: Front, coarse: xr.Dataset):
        """`coarse`: some of the sweep's designs, which it meets again; raises BadInput."""
        self.signs = pareto.signs_of(coarse, wanted.front.maximize, wanted.front.minimize, {})
        self.found = list[Candidates]()
        self.sieve = Sieve.of(np.empty((0, len(self.signs))))
        self.ahead = self.narrowed(coarse, {}).points
        self.sieve = Sieve.of(self.ahead)

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice]) -> Candidates:
        """The front of a piece, as far as the sieve lets it through."""
        piece = pareto.prepared(piece, list(self.signs))
        dims, columns = cells.aligned(piece, self.signs)
        worst, best, known = cells.extremes(columns)
        shape = np.broadcast_shapes(*(column.shape for column in columns))
        left = self.sieve.passes(columns)
        left = left[np.broadcast_to(known, shape).ravel()[left]] if known.ndim else left
        places = np.unravel_index(left, shape)
        points = np.stack([np.broadcast_to(column, shape)[places] for column in columns], axis=-1).astype(float)
        front = nondominated(points)
        designs = piece.isel({dim: ("point", place[front]) for dim, place in zip(dims, places, strict=True)})
        count = int(np.broadcast_to(known, shape).sum()) if known.ndim else int(np.prod(shape))
        return Candidates(designs, points[front], worst, best, count, int(np.prod(shape)) - count)

    def take(self, candidates: Candidates) -> None:
        self.found = [_together([*self.found, candidates])]
        self.sieve = Sieve.of(np.concatenate([self.found[0].points, self.ahead]))

    def result(self) -> xr.Dataset:
        (found,) = self.found
        pareto.check_known(found.known, self.signs)
        order = pareto.ordered(found.points, next(iter(self.signs.values())), ties=True)
        measured = pareto.measures(found.points[order], found.worst, found.best, self.signs, {})
        return found.designs.isel(point=order).assign_attrs(measured | {"points": found.known, "left_out": found.left_out})


def _together(found: list[Candidates]) -> Candidates:
    points = np.concatenate([one.points for one in found])
    front = nondominated(points)
    parts = np.split(front, np.cumsum([len(one.points) for one in found])[:-1])
    designs = [one.designs.isel(point=part) for one, part in zip(found, parts, strict=True) if part.any()]
    worst, best = np.max([one.worst for one in found], axis=0), np.min([one.best for one in found], axis=0)
    counts = (sum(one.known for one in found), sum(one.left_out for one in found))
    return Candidates(xr.concat(designs, "point") if designs else found[0].designs, points[front], worst, best, *counts)
