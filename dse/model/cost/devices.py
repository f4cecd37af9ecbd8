"""Published dies and design powers, as descriptions of the kind that the model takes."""

from functools import cache
from typing import Any, Literal

from dse.base.csv_table import read_rows
from dse.base.strict_model import StrictModel
from dse.model.cost.coefficients import FOLDER
from dse.model.cost.design import Design
from dse.schema.accelerator import Accelerator

MATRIX = ("tf32", "fp16", "fp8", "int8", "fp4")
VECTOR = ("fp32", "fp16")


class Device(StrictModel):
    """A row of `devices.csv`: rates in TFLOP/s or TOP/s. Parts of one `die` are no independent evidence of its area."""

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
    remark: str = ""
    unverified: str = ""
    source: str

    @property
    def area(self) -> float:
        return self.die_mm2 * 1e-6

    @property
    def design(self) -> Design:
        """The model's view of the device: its published area and power are left out."""
        units: dict[str, Any] = {"matrix": {"peak": self._peaks("matrix", MATRIX)}}
        if self.sparse:
            units["matrix"]["runs"] = {"sparse": {"pattern": self.sparse, "gain": 2}}
        if vector := self._peaks("vector", VECTOR):
            units["vector"] = {"peak": vector}
        l2 = {"capacity": f"{self.onchip_mb} MB"} | ({"bandwidth": f"{self.onchip_gbs} GB/s"} if self.onchip_gbs else {})
        described = {"name": self.device, "source": self.source, "units": units, "cost": {"process": f"{self.process_nm} nm"}}
        return Design(Accelerator.model_validate(described | {"memory": {"dram": {"bandwidth": f"{self.dram_gbs} GB/s"}, "l2": l2}}))

    def _peaks(self, unit: str, dtypes: tuple[str, ...]) -> dict[str, str]:
        return {name: f"{rate} TFLOP/s" for name in dtypes if (rate := getattr(self, f"{unit}_{name}", None))}


@cache
def devices() -> tuple[Device, ...]:
    return tuple(row for _, row in read_rows(FOLDER / "devices.csv", Device))
