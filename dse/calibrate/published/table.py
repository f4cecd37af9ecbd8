"""A published table of measurements: its columns, and the conversion of a row to the columns of `Measurement`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from dse.base.errors import InputError
from dse.calibrate.device_names import find_devices, nearest_device

T = TypeVar("T")
Cells = dict[str, str]  # by column; empty where the row states none


class RowLeftOut(Exception):  # noqa: N818 - not an error
    """A row is left out; the message is the reason."""


@dataclass(frozen=True)
class PublishedTable:
    """The columns that identify a published table and are read, and the function that converts a row to our columns.

    `reason`: why all rows are left out, in a table that holds no products of two matrices.
    """

    columns: tuple[str, ...]
    convert_row: Callable[[Cells], Cells] | None = None
    reason: str = ""


def device_name(name: str) -> str:
    """Name in the catalogue of the GPU of a table; raises RowLeftOut if it has no description, or may have several."""
    if not name:
        raise InputError("the name of the device is missing", "write that of a GPU, as in 'H100 SXM'")
    devices = find_devices(name)
    if not devices:
        raise RowLeftOut(f"no description of '{name}', did you mean '{nearest_device(name)}'?")
    first, *others = devices
    if others:
        raise RowLeftOut(f"'{name}' may be any of {', '.join(devices)}")
    return first


def split_release(text: str) -> tuple[str, str]:
    """Framework and version of a release: ('vllm', '0.24.0') of 'vllm/0.24.0', 'vLLM-v0.24.0' and 'vLLM 0.24.0'."""
    number = re.search(r"v?\d", text.casefold())
    start = number.start() if number else len(text)
    return re.sub(r"[^a-z]", "", text[:start].casefold()), text[start:].casefold().removeprefix("v")


def known_value(row: Cells, column: str, known: Mapping[str, T], kind: str = "dtype") -> T:
    """What a cell means in the converted row; raises RowLeftOut for an unknown one, InputError for an empty one."""
    if not row[column]:
        raise InputError("the cell is empty", "write what the published table has", key=column)
    if row[column] not in known:
        raise RowLeftOut(f"no {kind} for '{row[column]}'")
    return known[row[column]]


def measured_time(row: Cells, column: str) -> str:
    """The time of a row; raises RowLeftOut where the source leaves it empty, InputError if it is not positive."""
    if not row[column]:
        raise RowLeftOut("no time")
    if not float(row[column]) > 0:
        raise InputError(f"{row[column]} is not a time", "write a number above 0, or leave the cell empty", key=column)
    return row[column]
