"""A part of a dataset, chosen by the values of its coordinates."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from dse.base.errors import InputError, did_you_mean


def at(dataset: xr.Dataset, chosen: Mapping[str, str]) -> xr.Dataset:
    """What stands at the values, given as text (numbers in the coordinate's unit); every dim stays. Raises InputError."""
    for name, text in chosen.items():
        known = [str(key) for key, coord in dataset.coords.items() if coord.ndim == 1]
        if name not in known:
            raise InputError(f"the dataset has no coordinate '{name}'", did_you_mean(name, known))
        dataset = dataset.isel({dataset[name].dims[0]: _matches(dataset[name], text)})
    return dataset


def _matches(coordinate: xr.DataArray, text: str) -> np.ndarray:
    values = coordinate.values
    numeric = values.dtype.kind in "if"
    try:
        matches = np.isclose(values, float(text), rtol=1e-6, atol=0) if numeric else values.astype(str) == text
    except ValueError:
        matches = np.zeros(len(values), bool)
    if not matches.any():
        labels = {f"{value:g}" if numeric else str(value) for value in values}
        raise InputError(f"no '{coordinate.name}' is '{text}'", did_you_mean(text, labels))
    return matches


def pairs(written: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE each; raises InputError."""
    for text in written:
        if not all(text.partition("=")):
            raise InputError(f"'{text}' is no NAME=VALUE", "write it as in 'batch=32'")
    return {name: value for name, _, value in (text.partition("=") for text in written)}


def numbers(chosen: Mapping[str, str]) -> dict[str, float]:
    """The values as numbers; raises InputError."""
    try:
        return {name: float(text) for name, text in chosen.items()}
    except ValueError as error:
        raise InputError(str(error), "write a number, in the unit of the dataset") from error
