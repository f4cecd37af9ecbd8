"""A published table of measurements: its columns, and the conversion of a row to the columns of `Measurement`."""

from collections.abc import Callable
from dataclasses import dataclass

from dse.calibrate.published.device_names import find_devices, nearest_device

Cells = dict[str, str]  # by column; empty where the row states none


class RowLeftOut(Exception):  # noqa: N818 - not an error
    """A row is left out; the message is the reason."""


@dataclass(frozen=True)
class PublishedTable:
    """The columns that identify a published table and are read, and the function that converts a row to the columns of `Measurement`.

    `reason`: why all rows are left out, in a table that holds no products of two matrices.
    """

    columns: tuple[str, ...]
    convert_row: Callable[[Cells], Cells] | None = None
    reason: str = ""


def device_name(name: str) -> str:
    """Name in the catalogue of the GPU of a table; raises RowLeftOut if it has no description, or may have several."""
    devices = find_devices(name)
    if not devices:
        raise RowLeftOut(f"no description of '{name}', did you mean '{nearest_device(name)}'?")
    first, *others = devices
    if others:
        raise RowLeftOut(f"'{name}' may be any of {', '.join(devices)}")
    return first
