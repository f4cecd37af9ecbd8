"""The choice of factors in time = W / (P * E)."""

from typing import Literal

from pydantic import Field, model_validator

from dse.base.strict_model import StrictModel, field_error

Fidelity = Literal["sol", "r3", "capacity", "calibrated"]
CAPACITY_FIDELITIES = ("capacity", "calibrated")  # bytes follow from what is on chip
ConvolutionReads = Literal["implicit", "im2col"]
InputReads = Literal["needed", "all"]
Overlap = Literal["full", "none"]
ResourceOverlap = Literal["full", "none", "pipelined"]  # how times of resources make that of a layer: pipelines round the maximum
Fusion = Literal["none", "fitting"]


class ModelOptions(StrictModel):
    """What an evaluation assumes; `model:` in a specification."""

    fidelity: Fidelity = Field(
        "sol", description="sol: E = 1; r3: the efficiency of each run; capacity: bytes by on-chip capacity; calibrated: measured kernels"
    )
    efficiencies: str | None = Field(
        default=None, description="what 'dse calibrate' wrote, for 'calibrated'; default: the description's, else those that ship"
    )
    activations: ConvolutionReads = Field("implicit", description="how often a convolution reads its input")
    inputs: InputReads = Field("needed", description="needed: inputs that some kept weight multiplies; all: every input once")
    dense_fallback: bool = Field(False, description="may a pruned layer run dense where that is faster")
    overlap: Overlap = Field("full", description="full: the slowest resource sets the time; none: they add up")
    fusion: Fusion = Field("none", description="fitting: activations stay in a memory between layers where they fit (with 'capacity')")

    @property
    def resource_overlap(self) -> ResourceOverlap:
        return "pipelined" if self.fidelity == "calibrated" and self.overlap == "full" else self.overlap

    @model_validator(mode="after")
    def _check_fusion(self) -> "ModelOptions":
        if self.efficiencies is not None and self.fidelity != "calibrated":
            raise field_error(
                f"fidelity '{self.fidelity}' takes no measured kernels", "write 'fidelity: calibrated', or leave 'efficiencies' out"
            )
        if self.fusion != "none" and self.fidelity not in CAPACITY_FIDELITIES:
            raise field_error(f"fusion needs on-chip capacity, which fidelity '{self.fidelity}' leaves out", "write 'fidelity: capacity'")
        return self
