"""The best designs of a sweep in one objective, of which a piece at a time is there."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from dse.schema.reduction import TopReduction
from dse.sweeping import objectives
from dse.sweeping.reduce import cells
from dse.sweeping.reduce.cells import Frame, Kept


class TopKeeper:
    """The `wanted.top` best points; of equal ones the first in the order of the results. Kept of some pieces: those points, best first."""

    def __init__(self, wanted: TopReduction, frame: Frame):
        """Raises InputError."""
        ((self.name, self.sign),) = objectives.objective_signs(frame.sample, wanted.maximize, wanted.minimize, {}).items()
        self.most, self.threshold, self.frame = wanted.top, np.inf, frame

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice]) -> Kept:
        """The best of a piece, as far as they are no worse than so many before."""
        dims, (column,) = cells.aligned(piece, {self.name: self.sign})
        values = column.ravel()
        left = np.flatnonzero((values <= self.threshold) & np.isfinite(values))
        left = left[self._few(values[left])]
        places = np.unravel_index(left, column.shape)
        return self._best(self.frame.taken(piece, dict(zip(dims, places, strict=True)), region))

    def together(self, parts: Sequence[Kept]) -> Kept:
        return self._best({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    def learn(self, part: Kept) -> None:
        """What is worse than so many of one piece need not be kept."""
        if len(part["at"]) == self.most:
            self.threshold = min(self.threshold, part[self.name][-1] * self.sign)

    def _best(self, found: Kept) -> Kept:
        few = self._few(found[self.name] * self.sign)
        order = few[np.lexsort((found["at"][few], found[self.name][few] * self.sign))][: self.most]
        return {name: values[order] for name, values in found.items()}

    def _few(self, values: np.ndarray) -> np.ndarray:
        """Numbers of those that are no worse than the last that is kept, which is quicker than to sort them all."""
        if len(values) <= self.most:
            return np.arange(len(values))
        return np.flatnonzero(values <= np.partition(values, self.most - 1)[self.most - 1])

    def result(self, kept: Kept) -> xr.Dataset:
        return self.frame.dataset(kept)
