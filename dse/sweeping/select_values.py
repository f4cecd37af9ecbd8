"""Select cells of a dataset by values of its coordinates, written as text: `batch=32`, `memory.dram.bandwidth=2 TB/s`; or by limits of
its results and coordinates: `power <= 75 W`."""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

import numpy as np
import xarray as xr
from jaxtyping import Bool

from dse.base.display_units import format_quantity
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.units import KIND_BY_UNIT, parse_quantity


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


def limit_values(dataset: xr.Dataset, limits: Sequence[str]) -> xr.Dataset:
    """The results within limits such as 'power <= 75 W'; others are NaN, and values of coordinates that only these have are left out.

    Raises InputError with every limit that cannot be read or that no result meets.
    """
    problems, met = ProblemCollector(), list[xr.DataArray]()
    for limit in limits:
        with problems.collect():
            met.append(_is_met(dataset, limit))
    problems.raise_if_any()
    if not met:
        return dataset
    is_met = xr.DataArray(reduce(and_, met))
    if not bool(is_met.any()):
        raise InputError(f"no result meets {' and '.join(map(repr, limits))} together", "write wider limits")
    numbers = [name for name, variable in dataset.items() if variable.dtype.kind == "f" and set(is_met.dims) <= set(variable.dims)]
    dataset = dataset.assign({name: dataset[name].where(is_met).transpose(*dataset[name].dims) for name in numbers})
    return dataset.isel({dim: is_met.any([other for other in is_met.dims if other != dim]).values for dim in is_met.dims})


def _is_met(dataset: xr.Dataset, limit: str) -> xr.DataArray:
    """Which results meet a limit; raises InputError if none does."""
    name, sign, text = (part.strip() for part in (*re.split(r"(<=|>=)", limit, maxsplit=1), "", "")[:3])
    numeric = [str(key) for key, variable in dataset.variables.items() if variable.dtype.kind in "if"]
    if not sign:
        raise InputError(f"'{limit}' is not a limit", "write a result, <= or >= and a bound, as in 'power <= 75 W'")
    if name not in numeric:
        raise InputError(f"the dataset has no number '{name}'", did_you_mean(name, numeric))
    unit = str(dataset[name].attrs.get("units", "1"))
    bound = parse_number(text, unit)
    if bound is None:
        raise InputError(
            f"'{text}' is not a value of '{name}'",
            f"write a number, or one with a unit, as in '{format_quantity(float(dataset[name].max()), unit)}'",
        )
    is_met = dataset[name] <= bound if sign == "<=" else dataset[name] >= bound
    if not bool(is_met.any()):
        low, high = (format_quantity(float(end), unit) for end in (dataset[name].min(), dataset[name].max()))
        raise InputError(f"no result meets '{limit}'", f"'{name}' is {low} to {high}")
    return is_met


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
        return parse_quantity(text, KIND_BY_UNIT[unit]) if unit in KIND_BY_UNIT and text[:1].isdigit() else None
