"""Keep the best designs of a sweep in one objective."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dse.schema.stored_results import TopReduction
from dse.sweeping import objectives
from dse.sweeping.reduce.reducer import Partial, ResultFrame, align_columns


class TopReducer:
    """The `top` best cells, best first; of equal ones the first in the order of the results. A partial holds such cells."""

    def __init__(self, spec: TopReduction, frame: ResultFrame):
        """Raises InputError if the objective is not among the results."""
        ((self.name, self.sign),) = objectives.objective_signs(frame.template, spec.maximize, spec.minimize, {}).items()
        self.count, self.frame = spec.top, frame
        self.threshold = np.inf  # the value of the last cell that is kept, once there are enough

    def reduce_chunk(self, chunk: xr.Dataset, region: Mapping[str, slice]) -> Partial:
        dims, (column,) = align_columns(chunk, {self.name: self.sign})
        values = column.ravel()
        cells = np.flatnonzero((values <= self.threshold) & np.isfinite(values))
        cells = cells[self._preselect(values[cells])]
        positions = dict(zip(dims, np.unravel_index(cells, column.shape), strict=True))
        return self._select_best(self.frame.select_cells(chunk, positions, region))

    def merge(self, partials: Sequence[Partial]) -> Partial:
        return self._select_best({name: np.concatenate([partial[name] for partial in partials]) for name in partials[0]})

    def learn_from_chunk(self, partial: Partial) -> None:
        if len(partial["at"]) == self.count:
            self.threshold = min(self.threshold, partial[self.name][-1] * self.sign)

    def to_dataset(self, partial: Partial) -> xr.Dataset:
        return self.frame.to_dataset(partial)

    def _select_best(self, partial: Partial) -> Partial:
        values = partial[self.name] * self.sign
        cells = self._preselect(values)
        order = cells[np.lexsort((partial["at"][cells], values[cells]))][: self.count]
        return {name: column[order] for name, column in partial.items()}

    def _preselect(self, values: Float[np.ndarray, "cell"]) -> Int[np.ndarray, "selected"]:
        """Indices of the best cells with all ties of the last one: faster than sorting all cells."""
        if len(values) <= self.count:
            return np.arange(len(values))
        return np.flatnonzero(values <= np.partition(values, self.count - 1)[self.count - 1])
