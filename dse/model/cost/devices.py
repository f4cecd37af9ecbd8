"""Published dies with their areas and design powers, as designs that the cost model can evaluate."""

from functools import cache
from typing import Any, Literal

from dse.base.csv_table import read_rows
from dse.base.strict_model import StrictModel
from dse.model.cost.coefficients import FOLDER
from dse.model.cost.design import Design
from dse.schema.accelerator import Accelerator

MATRIX_DTYPES = ("tf32", "fp16", "fp8", "int8", "fp4")
VECTOR_DTYPES = ("fp32", "fp16")


class PublishedDevice(StrictModel):
    """A row of `devices.csv`; rates in TFLOP/s or TOP/s. Devices with the same `die` are not independent evidence of its area."""

    device: str
    accelerator: str = ""
    die: str
    process_nm: float
    die_mm2: float
    tdp_w: float
    dram_gbs: float
    onchip_mb: float
    onchip_gbs: float | None = None
    vector_fp32: float | None = None
    vector_fp16: float | None = None
    matrix_tf32: float | None = None
    matrix_fp16: float | None = None
    matrix_fp8: float | None = None
    matrix_int8: float | None = None
    matrix_fp4: float | None = None
    sparse: str | None = None
    fitted: Literal["yes", "no"]
    note: str = ""
    unverified: str = ""
    source: str

    @property
    def area(self) -> float:
        """Published area of the die [m^2]."""
        return self.die_mm2 * 1e-6

    @property
    def design(self) -> Design:
        """The device as a design, without its published area and power."""
        units: dict[str, Any] = {"matrix": {"peak": self._peaks("matrix", MATRIX_DTYPES)}}
        if self.sparse:
            units["matrix"]["runs"] = {"sparse": {"pattern": self.sparse, "gain": 2}}
        if vector := self._peaks("vector", VECTOR_DTYPES):
            units["vector"] = {"peak": vector}
        l2 = {"capacity": f"{self.onchip_mb} MB"} | ({"bandwidth": f"{self.onchip_gbs} GB/s"} if self.onchip_gbs else {})
        memory = {"dram": {"bandwidth": f"{self.dram_gbs} GB/s"}, "l2": l2}
        cost = {"process": f"{self.process_nm} nm"}
        description = {"name": self.device, "source": self.source, "units": units, "memory": memory, "cost": cost}
        return Design(Accelerator.model_validate(description))

    def _peaks(self, unit: str, dtypes: tuple[str, ...]) -> dict[str, str]:
        return {name: f"{rate} TFLOP/s" for name in dtypes if (rate := getattr(self, f"{unit}_{name}", None))}


@cache
def load_published_devices() -> tuple[PublishedDevice, ...]:
    """All rows of `devices.csv`."""
    return tuple(row for _, row in read_rows(FOLDER / "devices.csv", PublishedDevice))
