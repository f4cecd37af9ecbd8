"""Measured kernels: one row a kernel, a shape and a pattern, with its time and that of the dense kernel beside it."""

from typing import Self

from pydantic import Field, model_validator

from dse.base.dtype import OperandDtypes
from dse.base.strict_model import StrictModel, field_error
from dse.sparsity.grammar import PatternField
from dse.sparsity.kinds import DENSE

FEWEST = 0.5  # weights that a density keeps, rounded to one
CONTRADICTION = 0.02  # of a speedup and its two times, or of two densities: more than rounding explains


class Measurement(StrictModel):
    """C[m, n] = A[m, k] B[k, n] on a device: outputs, weights of a pattern, activations. Times in ms; `dtype`: a name, and what differs
    from it (`int8 outputs=int32`); `row_std`: of the nonzeros in A's rows; `staged_kib`: of the scratchpad of a processor, that each
    tile takes for its operands."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    kernel: str = Field(min_length=1, examples=["cuSPARSELt"])
    release: str = ""
    pattern: PatternField = Field(examples=["2:4"])
    dtype: OperandDtypes = Field(examples=["fp16"])
    unit: str | None = None
    m: int = Field(gt=0, le=10**8, examples=["4096"])
    k: int = Field(gt=0, le=10**8, examples=["4096"])
    n: int = Field(gt=0, le=10**8, examples=["4096"])
    density: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    time_ms: float = Field(gt=0, le=1e9, allow_inf_nan=False, examples=["0.25"])
    dense_kernel: str = ""
    dense_release: str | None = None
    dense_dtype: OperandDtypes | None = None
    dense_ms: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False)
    speedup: float | None = Field(None, gt=0, allow_inf_nan=False)
    row_std: float | None = Field(None, ge=0, le=10**8, allow_inf_nan=False)
    spread: float | None = Field(None, ge=0, allow_inf_nan=False, description="interquartile range of the repeats over their median")
    staged_kib: float | None = Field(
        None, gt=0, le=2**20, allow_inf_nan=False, description="of a processor's scratchpad, that a tile takes"
    )
    source: str = Field(min_length=1, examples=["dse measure, 2026-01-01"])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.density is None and self.pattern.density is None:
            raise field_error(f"the density is missing: '{self.pattern}' may keep any fraction", "add a column 'density'")
        own = self.pattern.density
        if self.density is not None and own is not None and abs(self.density / own - 1) > CONTRADICTION:
            raise field_error(f"a density of {self.density:g} contradicts '{self.pattern}', which keeps {own:g}", "leave out what is wrong")
        if self.kept * self.m * self.k < FEWEST:
            raise field_error(f"a density of {self.kept:g} keeps no weight of {self.m} x {self.k}", "write the share of weights kept")
        if self.speedup is not None and self.dense_ms is None:
            raise field_error("a speedup without the dense time that it is over", "add columns 'dense_kernel' and 'dense_ms'")
        told, times = self.speedup, self.dense_ms and self.dense_ms / self.time_ms
        if told and times and abs(told / times - 1) > CONTRADICTION:
            raise field_error(f"a speedup of {told:.4g} contradicts the times, whose ratio is {times:.4g}", "leave out what is wrong")
        if self.dense_ms and not self.dense_kernel:
            raise field_error("a dense time without its kernel", "name it in a column 'dense_kernel'")
        return self

    @property
    def kept(self) -> float:
        return float(self.density if self.density is not None else self.pattern.density or 1.0)

    @property
    def dense(self) -> "Measurement | None":
        """The dense kernel beside this one."""
        if self.dense_ms is None:
            return None
        release = self.release if self.dense_release is None else self.dense_release
        return Measurement.model_construct(
            device=self.device, kernel=self.dense_kernel, release=release, pattern=DENSE, dtype=self.dense_dtype or self.dtype, unit=None,
            m=self.m, k=self.k, n=self.n, density=1.0, time_ms=self.dense_ms, source=self.source,
        )  # fmt: skip
