"""The front of a sweep, of which a piece at a time is there: what is beaten in its own piece is beaten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float

from dse.explore import pareto
from dse.explore.front import nondominated
from dse.explore.keep import cells
from dse.explore.keep.cells import Frame, Kept
from dse.keep import Front

CELLS = 2**16  # of a `Sieve`: it stays in the cache
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
    """`dse.pareto` of all of a sweep.

    Kept of some pieces: cells that may be on the front (`at` and every result), as `points` [point, objective, minimised], and of all
    cells there the `worst` and the `best` [objective] and how many are known and left out (`counts`).
    """

    def __init__(self, wanted: Front, frame: Frame, coarse: xr.Dataset):
        """`coarse`: some of the sweep's designs, which it meets again; raises BadInput."""
        self.signs = pareto.signs_of(coarse, wanted.front.maximize, wanted.front.minimize, {})
        self.frame = replace(frame, labels=pareto.prepared(frame.labels, list(self.signs)))
        self.front = np.empty((0, len(self.signs)))  # of what was met so far
        self.sieve = Sieve.of(self.front)
        self.learn(self.narrowed(coarse, {}))

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice]) -> Kept:
        """The front of a piece, as far as the sieve lets it through."""
        dims, columns = cells.aligned(pareto.prepared(piece, list(self.signs)), self.signs)
        worst, best, known = cells.extremes(columns)
        shape = np.broadcast_shapes(*(column.shape for column in columns))
        left = self.sieve.passes(columns)
        left = left[np.broadcast_to(known, shape).ravel()[left]] if known.ndim else left
        places = np.unravel_index(left, shape)
        points = np.stack([np.broadcast_to(column, shape)[places] for column in columns], axis=-1).astype(float)
        front = nondominated(points)
        count = int(np.broadcast_to(known, shape).sum()) if known.ndim else int(np.prod(shape))
        counts = np.array([count, int(np.prod(shape)) - count])
        designs = self.frame.taken(piece, {dim: place[front] for dim, place in zip(dims, places, strict=True)}, region)
        return {"points": points[front], "worst": worst, "best": best, "counts": counts, **designs}

    def together(self, parts: Sequence[Kept]) -> Kept:
        points = np.concatenate([part["points"] for part in parts])
        front = nondominated(points)
        found = {name: np.concatenate([part[name] for part in parts])[front] for name in parts[0] if name not in WHOLE}
        return found | {name: reduce([part[name] for part in parts], axis=0) for name, reduce in WHOLE.items()}

    def learn(self, part: Kept) -> None:
        """What a point that was met beats need not be kept."""
        if len(part["points"]):
            points = np.concatenate([self.front, part["points"]])
            self.front = points[nondominated(points)]
            self.sieve = Sieve.of(self.front)

    def result(self, kept: Kept) -> xr.Dataset:
        known, left_out = kept["counts"].tolist()
        pareto.check_known(known, self.signs)
        first = np.argsort(kept["at"])
        order = first[pareto.ordered(kept["points"][first], next(iter(self.signs.values())), ties=True)]
        measured = pareto.measures(kept["points"][order], kept["worst"], kept["best"], self.signs, {})
        designs = self.frame.dataset({name: values[order] for name, values in kept.items() if name not in WHOLE})
        return designs.assign_attrs(measured | {"points": known, "left_out": left_out})
