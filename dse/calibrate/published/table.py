"""A published table of measurements: its columns, and the conversion of a row to the columns of `Measurement`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from dse.base import catalog

Cells = dict[str, str]  # by column; empty where the row states none
# Form factors that a source does not state are assumed: 'A100' is the SXM4 with 80 GB.
DEVICES = {
    "A100-PCIe-80GB": "a100-pcie-80gb", "A100 PCIe": "a100-pcie-80gb",
    "A100": "a100-sxm4-80gb", "A100-SXM4": "a100-sxm4-80gb", "A100 SXM": "a100-sxm4-80gb",
    "RTX 3090": "rtx3090", "MI210": "mi210", "H100 SXM": "h100-sxm5-80gb", "H200 SXM": "h200-sxm-141gb",
    "B200 SXM": "b200-sxm-180gb", "MI300X": "mi300x",
}  # fmt: skip


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


@cache
def device_name(name: str) -> str:
    """Name in the catalogue of the GPU of a table; raises RowLeftOut if it has no description."""
    known = DEVICES.get(name, name)
    if known not in catalog.list_names("accel_models"):
        raise RowLeftOut(f"no description of {name}")
    return known
