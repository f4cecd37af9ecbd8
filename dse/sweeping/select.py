"""Select a part of a dataset by values of its coordinates, as `dse pareto --at NAME=VALUE` gives them."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Bool

from dse.base.errors import InputError, did_you_mean


def select_values(dataset: xr.Dataset, values: Mapping[str, str]) -> xr.Dataset:
    """The cells with the given coordinate values, as text (numbers in the coordinate's unit); every dim stays. Raises InputError."""
    for name, text in values.items():
        names = [str(key) for key, coordinate in dataset.coords.items() if coordinate.ndim == 1]
        if name not in names:
            raise InputError(f"the dataset has no coordinate '{name}'", did_you_mean(name, names))
        dataset = dataset.isel({dataset[name].dims[0]: _matches(dataset[name], text)})
    return dataset


def _matches(coordinate: xr.DataArray, text: str) -> Bool[np.ndarray, " value"]:
    values = coordinate.values
    is_numeric = values.dtype.kind in "if"
    try:
        matches = np.isclose(values, float(text), rtol=1e-6, atol=0) if is_numeric else values.astype(str) == text
    except ValueError:
        matches = np.zeros(len(values), bool)
    if not matches.any():
        labels = {f"{value:g}" if is_numeric else str(value) for value in values}
        raise InputError(f"'{coordinate.name}' is never '{text}'", did_you_mean(text, labels))
    return matches


def parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Split texts of the form NAME=VALUE; raises InputError."""
    for text in texts:
        if not all(text.partition("=")):
            raise InputError(f"'{text}' is not of the form NAME=VALUE", "write it as in 'batch=32'")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def parse_numbers(values: Mapping[str, str]) -> dict[str, float]:
    """The values as numbers; raises InputError."""
    try:
        return {name: float(text) for name, text in values.items()}
    except ValueError as error:
        raise InputError(str(error), "write a number, in the unit of the dataset") from error
