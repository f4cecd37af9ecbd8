"""Columns of a table, with numbers in the units that a person reads (mm^2, TB/s, ms)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from dse.base.display_units import format_quantity, select_unit

PageContents = dict[str, Any]  # of a part of the page, as JSON

SIGNIFICANT_DIGITS = 6  # of numbers in the page
LOG_RATIO = 30  # largest over smallest value from which an axis is logarithmic


def describe_value(coordinate: xr.DataArray) -> str:
    """A single value of a coordinate with its unit, or its label."""
    value = coordinate.item()
    return format_quantity(value, coordinate.attrs.get("units", "1")) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Column:
    """Numbers in a unit for display, or labels; `name` is that of the variable in the dataset."""

    name: str
    label: str
    unit: str
    values: np.ndarray
    description: str = ""
    scale: float = 1.0  # size of the unit in the SI unit of the dataset

    @property
    def is_number(self) -> bool:
        return self.values.dtype.kind in "if"

    @property
    def title(self) -> str:
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    @property
    def is_wide(self) -> bool:
        """Whether the values span so much that a logarithmic axis shows them better."""
        finite = self.values[np.isfinite(self.values)] if self.is_number else self.values[:0]
        return bool(len(finite)) and bool(finite.min() > 0) and bool(finite.max() > LOG_RATIO * finite.min())

    def to_json(self) -> PageContents:
        """Fields for the page: numbers with null for NaN, or labels with an index into them for each value."""
        fields = {"name": self.name, "title": self.title, "label": self.label, "unit": self.unit, "description": self.description}
        if self.is_number:
            return fields | {"log": self.is_wide, "scale": self.scale, "values": round_numbers(self.values)}
        labels, codes = np.unique(self.values.astype(str), return_inverse=True)
        return fields | {"labels": labels.tolist(), "values": codes.ravel().tolist()}


def round_numbers(values: ArrayLike) -> list[float | int | None]:
    """Numbers with few digits, None for NaN and infinity, and whole numbers without a point."""
    rounded = (float(f"{value:.{SIGNIFICANT_DIGITS}g}") if np.isfinite(value) else None for value in np.ravel(values).tolist())
    return [int(value) if value is not None and value.is_integer() and abs(value) < 1e15 else value for value in rounded]


def make_column(variable: xr.DataArray, label: str | None = None, unit: str | None = None) -> Column:
    """A column of a one-dimensional variable, with its numbers in the unit that a person reads."""
    name, values = str(variable.name), variable.values
    description = str(variable.attrs.get("long_name", ""))
    if values.dtype.kind not in "if":
        texts = np.array([_label_text(value) for value in values], object)
        return Column(name, label or label_of(name), "", texts, description)
    stated = str(variable.attrs.get("units", "1")) if unit is None else unit
    shown = select_unit(stated, values)
    converted = values if shown.size == 1 else shown.convert(values)
    return Column(name, label or label_of(name), shown.text, converted, description, shown.size)


def _label_text(value: object) -> str:
    return {True: "yes", False: "no"}[bool(value)] if isinstance(value, bool | np.bool_) else str(value)


def label_of(name: str) -> str:
    """The name of a variable as a person reads it; the dotted path of an axis stays as it is."""
    return name if "." in name else name.replace("_", " ")
