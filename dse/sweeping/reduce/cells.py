"""The cells of a sweep's results: as arrays that broadcast, so that nothing is multiplied out before it has to be, and by their number
in the whole of the results, which is the same whatever piece they came in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

Kept = dict[str, np.ndarray]  # what is kept of some pieces: numbers alone, so that they can go to a file and to other processes


@dataclass(frozen=True, eq=False)
class Frame:
    """`dims`: of the results and their sizes; `labels`: a dataset of them without its variables; `sample`: one of a few designs."""

    dims: Mapping[str, int]
    labels: xr.Dataset
    sample: xr.Dataset

    def taken(self, piece: xr.Dataset, places: Mapping[str, np.ndarray], region: Mapping[str, slice]) -> Kept:
        """Some cells of the piece that covers a region: every result there, and as `at` their numbers."""
        starts = [region[dim].start if dim in region else 0 for dim in self.dims]
        at = np.ravel_multi_index(
            tuple(start + places[dim] for dim, start in zip(self.dims, starts, strict=True)), tuple(self.dims.values())
        )
        found = {str(name): value.values[tuple(places.get(str(dim), slice(None)) for dim in value.dims)] for name, value in piece.items()}
        return {"at": at, **found}

    def dataset(self, kept: Kept) -> xr.Dataset:
        """Cells with all that is known of them, along `point`."""
        places = np.unravel_index(kept["at"], tuple(self.dims.values()))
        designs = self.labels.isel({dim: ("point", place) for dim, place in zip(self.dims, places, strict=True)})
        extra = {name: [dim for dim in value.dims if dim not in self.dims] for name, value in self.sample.items()}
        return designs.assign({name: (["point", *dims], kept[str(name)], self.sample[name].attrs) for name, dims in extra.items()})


def aligned(dataset: xr.Dataset, signs: Mapping[str, float]) -> tuple[list[str], list[np.ndarray]]:
    """The dims that some variables and coordinates span together, and each times its sign, with length 1 along dims that it has not."""
    found = [(dataset[name], sign) for name, sign in signs.items()]
    dims = [str(dim) for dim in dataset.dims if any(dim in one.dims for one, _ in found)]
    columns = [(one.expand_dims([dim for dim in dims if dim not in one.dims]).transpose(*dims).values, sign) for one, sign in found]
    numbers = [(column.astype(float) if column.dtype.kind == "b" else column, sign) for column, sign in columns]
    return dims, [column if sign > 0 else -column for column, sign in numbers]


def extremes(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The greatest and the least of each column, over cells that have a finite value in all of them; and which those are, or True."""
    most, least = (np.array([end(column) for column in columns]) for end in (np.max, np.min))
    if np.isfinite([most, least]).all():
        return most, least, np.array(True)
    known = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(column) for column in columns)))
    left = [np.broadcast_to(column, known.shape)[known] for column in columns]
    return np.array([np.max(one, initial=-np.inf) for one in left]), np.array([np.min(one, initial=np.inf) for one in left]), known
