"""The best designs of a sweep in one objective, of which a piece at a time is there."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from dse.explore import pareto
from dse.explore.keep import cells
from dse.keep import Top


class TopKeeper:
    """The `wanted.top` best points; of equal ones the first."""

    def __init__(self, wanted: Top, coarse: xr.Dataset):
        """`coarse`: some of the sweep's designs; raises BadInput."""
        ((self.name, self.sign),) = pareto.signs_of(coarse, wanted.maximize, wanted.minimize, {}).items()
        self.most, self.threshold, self.found = wanted.top, np.inf, list[xr.Dataset]()

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice] | None = None) -> xr.Dataset:
        """The best of a piece, as far as they are no worse than so many before."""
        piece = pareto.prepared(piece, [self.name])
        dims, (column,) = cells.aligned(piece, {self.name: self.sign})
        values = column.ravel()
        left = np.flatnonzero((values <= self.threshold) & np.isfinite(values))
        places = np.unravel_index(left[self._best(values[left])], column.shape)
        return piece.isel({dim: ("point", place) for dim, place in zip(dims, places, strict=True)})

    def take(self, best: xr.Dataset) -> None:
        together = xr.concat([*self.found, best], "point") if self.found else best
        values = together[self.name].values * self.sign
        kept = self._best(values)
        self.found = [together.isel(point=kept)]
        if len(kept) == self.most:
            self.threshold = values[kept[-1]]

    def _best(self, values: np.ndarray) -> np.ndarray:
        """Numbers of the best, in order; first none that is worse than enough others, which is quicker than to sort them all."""
        if len(values) > self.most:
            few = np.flatnonzero(values <= np.partition(values, self.most - 1)[self.most - 1])
        else:
            few = np.arange(len(values))
        return few[np.argsort(values[few], kind="stable")][: self.most]

    def result(self) -> xr.Dataset:
        return self.found[0]
