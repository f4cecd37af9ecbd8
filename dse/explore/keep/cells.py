"""The cells of a dataset as arrays that broadcast, so that nothing is multiplied out before it has to be."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr


def aligned(dataset: xr.Dataset, signs: Mapping[str, float]) -> tuple[list[str], list[np.ndarray]]:
    """The dims that some variables and coordinates span together, and each times its sign, with length 1 along dims that it has not."""
    found = [(dataset[name], sign) for name, sign in signs.items()]
    dims = [str(dim) for dim in dataset.dims if any(dim in one.dims for one, _ in found)]
    columns = [(one.expand_dims([dim for dim in dims if dim not in one.dims]).transpose(*dims).values, sign) for one, sign in found]
    return dims, [column if sign > 0 else -column for column, sign in columns]


def extremes(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The greatest and the least of each column, over cells that have a finite value in all of them; and which those are, or True."""
    most, least = (np.array([end(column) for column in columns]) for end in (np.max, np.min))
    if np.isfinite([most, least]).all():
        return most, least, np.array(True)
    known = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(column) for column in columns)))
    left = [np.broadcast_to(column, known.shape)[known] for column in columns]
    return np.array([np.max(one, initial=-np.inf) for one in left]), np.array([np.min(one, initial=np.inf) for one in left]), known
