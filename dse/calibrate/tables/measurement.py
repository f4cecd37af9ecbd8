"""Row of a table of measured kernels: the time of one kernel at one shape and pattern, and of a dense kernel at the same shape."""

from typing import Self

from pydantic import Field, model_validator

from dse.base.dtype import OperandDtypes
from dse.base.strict_model import StrictModel, field_error
from dse.sparsity.grammar import PatternField
from dse.sparsity.kinds import DENSE
from dse.sparsity.pattern import Pattern

MIN_STORED_WEIGHTS = 0.5  # that a density keeps; rounded, one
MAX_CONTRADICTION = 0.02  # relative deviation of a stated speedup or density that rounding explains


def check_density(pattern: Pattern, stated: float | None) -> None:
    """Raise a field error if neither a row nor its pattern sets the density, or if they contradict each other."""
    of_pattern = pattern.density
    if stated is None and of_pattern is None:
        raise field_error(f"the density is missing: '{pattern}' may keep any fraction", "add a column 'density'")
    if stated is not None and of_pattern is not None and abs(stated / of_pattern - 1) > MAX_CONTRADICTION:
        raise field_error(f"a density of {stated:g} contradicts '{pattern}', which keeps {of_pattern:g}", "remove the wrong one")


class Measurement(StrictModel):
    """Time of C[m, n] = A[m, k] B[k, n] on a device: outputs, weights of a pattern, activations. The fields are columns of the table."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    kernel: str = Field(min_length=1, examples=["cuSPARSELt"])
    release: str = ""
    pattern: PatternField = Field(examples=["2:4"])
    dtype: OperandDtypes = Field(examples=["fp16"], description="a name, then each operand with another, as in 'int8 outputs=int32'")
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
    row_std: float | None = Field(
        None, ge=0, le=10**8, allow_inf_nan=False, description="standard deviation of the nonzeros in the rows of A"
    )
    spread: float | None = Field(None, ge=0, allow_inf_nan=False, description="interquartile range of the repeats over their median")
    power_w: float | None = Field(None, gt=0, allow_inf_nan=False, description="mean power of the device during the repeats [W]")
    power_limit_w: float | None = Field(None, gt=0, allow_inf_nan=False, description="power limit of the device [W]")
    staged_kib: float | None = Field(None, gt=0, le=2**20, allow_inf_nan=False, description="scratchpad that a tile takes [KiB]")
    weight_copies: int = Field(1, gt=0, le=10**6, description="matrices A that the repeats multiply in turn, which occupy caches together")
    source: str = Field(min_length=1, examples=["dse measure, 2026-01-01"])

    @model_validator(mode="after")
    def _check_density(self) -> Self:
        check_density(self.pattern, self.density)
        kept = self.stored_density
        if kept * self.m * self.k < MIN_STORED_WEIGHTS:
            raise field_error(f"a density of {kept:g} keeps no weight of {self.m} x {self.k}", "write the share of weights kept")
        return self

    @model_validator(mode="after")
    def _check_baseline(self) -> Self:
        if self.speedup is not None and self.dense_ms is None:
            raise field_error("a speedup without the dense time that it is relative to", "add columns 'dense_kernel' and 'dense_ms'")
        stated, of_times = self.speedup, self.dense_ms and self.dense_ms / self.time_ms
        if stated and of_times and abs(stated / of_times - 1) > MAX_CONTRADICTION:
            raise field_error(f"a speedup of {stated:.4g} contradicts the times, whose ratio is {of_times:.4g}", "remove the wrong one")
        if self.dense_ms and not self.dense_kernel:
            raise field_error("a dense time without its kernel", "name it in a column 'dense_kernel'")
        return self

    @property
    def stored_density(self) -> float:
        """Share of the weights of A that are stored, as stated or set by the pattern."""
        return float(self.density if self.density is not None else self.pattern.density or 1.0)

    @property
    def launch(self) -> tuple[object, ...]:
        """What identifies the launch among those of its kernel: rows with the same are repeats, if their times agree."""
        size = self.m, self.k, self.n, self.pattern, self.stored_density
        return *size, self.row_std, self.staged_kib, self.weight_copies

    @property
    def dense_baseline(self) -> "Measurement | None":
        """The dense kernel of this row as a row of its own."""
        if self.dense_ms is None:
            return None
        release = self.release if self.dense_release is None else self.dense_release
        return Measurement.model_construct(
            device=self.device, kernel=self.dense_kernel, release=release, pattern=DENSE, dtype=self.dense_dtype or self.dtype, unit=None,
            m=self.m, k=self.k, n=self.n, density=1.0, time_ms=self.dense_ms, weight_copies=self.weight_copies,
            source=self.source,
        )  # fmt: skip

    @property
    def timed_kernels(self) -> "list[tuple[Measurement, str]]":
        """This row and its dense baseline, each with the column of its time."""
        baseline = self.dense_baseline
        return [(self, "time_ms"), *([] if baseline is None else [(baseline, "dense_ms")])]
