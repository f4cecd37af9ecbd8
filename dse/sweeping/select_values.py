"""Select cells of a dataset by values of its coordinates, written as text: `batch=32`, `memory.dram.bandwidth=2 TB/s`."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from jaxtyping import Bool

from dse.base.display_units import format_quantity
from dse.base.errors import InputError, did_you_mean
from dse.base.units import Area, Bandwidth, Capacity, EnergyPerByte, EnergyPerOperation, Length, Power, Quantity, Rate, Time, parse_quantity

QUANTITIES: dict[str, type[Quantity]] = {
    kind.unit: kind for kind in (Rate, Bandwidth, Capacity, Time, Area, Length, Power, EnergyPerOperation, EnergyPerByte)
}


def select_values(dataset: xr.Dataset, values: Mapping[str, str]) -> xr.Dataset:
    """The cells with the given coordinate values; every dim stays. Numbers have a unit or are in that of the coordinate.

    Raises InputError for a coordinate or a value that the dataset does not have.
    """
    for name, text in values.items():
        names = [str(key) for key, coordinate in dataset.coords.items() if coordinate.ndim == 1]
        if name not in names:
            raise InputError(f"the dataset has no coordinate '{name}'", did_you_mean(name, names))
        dataset = dataset.isel({dataset[name].dims[0]: _matches(dataset[name], text)})
    return dataset


def _matches(coordinate: xr.DataArray, text: str) -> Bool[np.ndarray, " value"]:
    values, unit = coordinate.values, str(coordinate.attrs.get("units", "1"))
    is_numeric = values.dtype.kind in "if"
    number = parse_number(text, unit) if is_numeric else None
    if is_numeric:
        matches = np.zeros(len(values), bool) if number is None else np.isclose(values, number, rtol=1e-6, atol=0)
    else:
        matches = values.astype(str) == text
    if not matches.any():
        labels = {format_quantity(float(value), unit) if is_numeric else str(value) for value in values}
        raise InputError(f"'{coordinate.name}' is never '{text}'", did_you_mean(text, labels))
    return matches


def parse_number(text: str, unit: str) -> float | None:
    """The number that a text states, in the unit of its coordinate or variable; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return parse_quantity(text, QUANTITIES[unit]) if unit in QUANTITIES and text[:1].isdigit() else None
