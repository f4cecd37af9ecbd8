"""What all reductions share: their protocol, and cells of the results by their number in the whole sweep.

A cell is one value of each dimension of the results. Its number does not depend on the chunk that it was evaluated in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

Partial = dict[str, np.ndarray]  # what is kept of some chunks: arrays only, so that it can be written to a file or sent to a process
Region = Mapping[str, slice]
Column = Float[np.ndarray, "..."]


class Reducer(Protocol):
    """A reduction of chunks. Its result does not depend on how the sweep is divided into chunks, rounding of sums aside."""

    def reduce_chunk(self, chunk: xr.Dataset, region: Region, /) -> Partial:
        """The partial of one chunk; may run in any thread."""
        ...

    def merge(self, partials: Sequence[Partial], /) -> Partial:
        """Merge several partials, in the order of their chunks, into one."""
        ...

    def learn_from_chunk(self, partial: Partial, /) -> None:
        """Use the partial result of one chunk to discard more of later chunks."""
        ...

    def to_dataset(self, partial: Partial, /) -> xr.Dataset: ...


@dataclass(frozen=True, eq=False)
class ResultFrame:
    """Describes the complete results: dimensions and their sizes, a dataset of labels without variables, and the results of a few
    designs as a template of names, dims and attributes."""

    dims: Mapping[str, int]
    labels: xr.Dataset
    template: xr.Dataset

    def select_cells(self, chunk: xr.Dataset, positions: Mapping[str, np.ndarray], region: Region) -> Partial:
        """Every result at some cells of a chunk, given by their positions in it, and as `at` the numbers of the cells."""
        starts = {dim: region[dim].start if dim in region else 0 for dim in self.dims}
        numbers = np.ravel_multi_index(tuple(starts[dim] + positions[dim] for dim in self.dims), tuple(self.dims.values()))
        return {"at": numbers} | {
            str(name): variable.values[tuple(positions.get(str(dim), slice(None)) for dim in variable.dims)]
            for name, variable in chunk.items()
        }

    def to_dataset(self, partial: Partial) -> xr.Dataset:
        """Cells with their labels and results, along the dimension `point`."""
        positions = np.unravel_index(partial["at"], tuple(self.dims.values()))
        points = self.labels.isel({dim: ("point", position) for dim, position in zip(self.dims, positions, strict=True)})
        extra_dims = {name: [dim for dim in variable.dims if dim not in self.dims] for name, variable in self.template.items()}
        return points.assign({name: (["point", *dims], partial[str(name)], self.template[name].attrs) for name, dims in extra_dims.items()})


def align_columns(dataset: xr.Dataset, signs: Mapping[str, float]) -> tuple[list[str], list[Column]]:
    """Objectives as arrays that broadcast, so that nothing is expanded before it has to be.

    Returns the dimensions that the objectives span together, and each objective times its sign, with size 1 along the dimensions that
    it does not have.
    """
    variables = [dataset[name] for name in signs]
    dims = [str(dim) for dim in dataset.dims if any(dim in variable.dims for variable in variables)]
    columns = []
    for variable, sign in zip(variables, signs.values(), strict=True):
        shared = variable.variable  # without coordinates, which take longer to expand
        column = shared.set_dims({dim: shared.sizes.get(dim, 1) for dim in dims}).transpose(*dims).values
        column = column.astype(float) if column.dtype.kind == "b" else column
        columns.append(column if sign > 0 else -column)
    return dims, columns


def column_extremes(
    columns: Sequence[Column],
) -> tuple[Float[np.ndarray, "objective"], Float[np.ndarray, "objective"], Bool[np.ndarray, "..."]]:
    """Maximum and minimum of each column over the cells that are finite in all columns, and which cells those are.

    The last array is a single True where all cells are finite.
    """
    maximum, minimum = (np.array([end(column) for column in columns]) for end in (np.max, np.min))
    if np.isfinite([maximum, minimum]).all():
        return maximum, minimum, np.array(True)
    finite = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(column) for column in columns)))
    selected = [np.broadcast_to(column, finite.shape)[finite] for column in columns]
    maximum, minimum = (
        np.array([end(column, initial=start) for column in selected]) for end, start in ((np.max, -np.inf), (np.min, np.inf))
    )
    return maximum, minimum, finite
