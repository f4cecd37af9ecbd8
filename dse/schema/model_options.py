"""The options of the latency model: the choice of factors in time = W / (P * E)."""

from typing import Literal

from pydantic import Field, model_validator

from dse.base.strict_model import StrictModel, field_error

Fidelity = Literal["sol", "r3", "capacity", "calibrated"]
CAPACITY_FIDELITIES = ("capacity", "calibrated")  # those whose bytes moved depend on on-chip capacity
ConvolutionReads = Literal["implicit", "im2col"]
InputReads = Literal["needed", "all"]
Overlap = Literal["full", "none"]
ResourceOverlap = Literal["full", "none", "pipelined"]  # pipelined: a smooth maximum, as measured kernels show
Fusion = Literal["none", "fitting"]


class ModelOptions(StrictModel):
    """The assumptions of an evaluation; `model:` in a specification."""

    fidelity: Fidelity = Field(
        "sol",
        description="sol: E = 1; r3: the efficiency of each run; capacity: bytes by on-chip capacity; calibrated: measured kernels",
    )
    efficiencies: str | None = Field(
        default=None,
        description="file that 'dse calibrate' wrote, for 'calibrated'; default: that of the accelerator, else the shipped one",
        examples=["efficiencies.yaml"],
    )
    activations: ConvolutionReads = Field(
        "implicit", description="input of a convolution; implicit: each element is read once; im2col: the unrolled matrix is read"
    )
    inputs: InputReads = Field("needed", description="needed: only inputs that some kept weight multiplies; all: every input")
    dense_fallback: bool = Field(False, description="whether a pruned layer may run dense where that is faster")
    overlap: Overlap = Field("full", description="full: the slowest resource sets the time; none: times of resources add up")
    fusion: Fusion = Field("none", description="fitting: activations stay on chip between layers where they fit (with 'capacity')")

    @property
    def resource_overlap(self) -> ResourceOverlap:
        """How the times of resources combine into the time of a layer."""
        return "pipelined" if self.fidelity == "calibrated" and self.overlap == "full" else self.overlap

    @model_validator(mode="after")
    def _check_fidelity(self) -> "ModelOptions":
        if self.efficiencies is not None and self.fidelity != "calibrated":
            message = f"fidelity '{self.fidelity}' uses no measured kernels"
            raise field_error(message, "write 'fidelity: calibrated', or leave 'efficiencies' out")
        if self.fusion != "none" and self.fidelity not in CAPACITY_FIDELITIES:
            message = f"fusion needs on-chip capacity, which fidelity '{self.fidelity}' leaves out"
            raise field_error(message, "write 'fidelity: capacity'")
        return self
