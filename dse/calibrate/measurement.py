"""Measured kernels: one row a kernel, a shape and a pattern, with its time and that of the dense kernel beside it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dse import accelerator, catalog, dtype
from dse.accelerator import Accelerator
from dse.calibrate import published
from dse.errors import BadInput, Collector, Problem, suggestion
from dse.schema import Part, refusal
from dse.sparsity.grammar import WrittenPattern
from dse.sparsity.kinds import DENSE
from dse.workload.rows import read_rows

CONTRADICTION = 0.02  # of a speedup and its two times, or of two densities: more than rounding explains
ABOVE_PEAK = 1.05  # boost clocks pass the data sheet by a few percent


class Measurement(Part):
    """C[m, n] = A[m, k] B[k, n] on a device, A of a pattern. Times in ms; `row_std`: of the nonzeros in A's rows; `staged_kib`: of the
    scratchpad of a processor, that each tile takes for its operands."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    kernel: str = Field(min_length=1, examples=["cuSPARSELt"])
    release: str = ""
    pattern: WrittenPattern = Field(examples=["2:4"])
    dtype: str = Field(examples=["fp16"])
    unit: str | None = None
    m: int = Field(gt=0, examples=["4096"])
    k: int = Field(gt=0, examples=["4096"])
    n: int = Field(gt=0, examples=["4096"])
    density: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    time_ms: float = Field(gt=0, allow_inf_nan=False, examples=["0.25"])
    dense_kernel: str = ""
    dense_release: str | None = None
    dense_dtype: str | None = None
    dense_ms: float | None = Field(None, gt=0, allow_inf_nan=False)
    speedup: float | None = Field(None, gt=0, allow_inf_nan=False)
    row_std: float | None = Field(None, ge=0, allow_inf_nan=False)
    spread: float | None = Field(None, ge=0, allow_inf_nan=False, description="interquartile range of the repeats over their median")
    staged_kib: float | None = Field(None, gt=0, allow_inf_nan=False, description="of a processor's scratchpad, that a tile takes")
    source: str = Field(min_length=1, examples=["dse measure, 2026-01-01"])

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in (self.dtype, self.dense_dtype):
            if name is not None and dtype.storage(name) not in dtype.BITS:
                raise refusal(f"unknown dtype '{name}'", suggestion(name, dtype.BITS))
        if self.density is None and self.pattern.density is None:
            raise refusal(f"the density is missing: '{self.pattern}' may keep any fraction", "add a column 'density'")
        own = self.pattern.density
        if self.density is not None and own is not None and abs(self.density / own - 1) > CONTRADICTION:
            raise refusal(f"a density of {self.density:g} contradicts '{self.pattern}', which keeps {own:g}", "leave out what is wrong")
        if self.speedup is not None and self.dense_ms is None:
            raise refusal("a speedup without the dense time that it is over", "add columns 'dense_kernel' and 'dense_ms'")
        told, times = self.speedup, self.dense_ms and self.dense_ms / self.time_ms
        if told and times and abs(told / times - 1) > CONTRADICTION:
            raise refusal(f"a speedup of {told:.4g} contradicts the times, whose ratio is {times:.4g}", "leave out what is wrong")
        if self.dense_ms and not self.dense_kernel:
            raise refusal("a dense time without its kernel", "name it in a column 'dense_kernel'")
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


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """The rows of one file, the devices that they ran on, and what of the file is left out and why."""

    name: str
    rows: tuple[Measurement, ...]
    devices: dict[str, Accelerator]
    left_out: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Measurement]:
        """The rows, and the dense kernels beside them."""
        return [one for row in self.rows for one in (row, row.dense) if one is not None]


def load(path: Path) -> MeasuredSet:
    """Read measurements; a device is one of the catalogue, a path, or described in DEVICE.yaml beside the file.

    Raises BadInput with every problem and its row: what is missing, negative or contradictory, a device without a
    description, a rate above its peak.
    """
    problems, devices, left_out = Collector(), dict[str, Accelerator](), list[str]()
    if path.name in published.TABLES:
        rows, left_out = published.read(path, Measurement, problems)
    else:
        rows = read_rows(path, Measurement, problems)
    for line, row in rows:
        with problems.at(path, line, "device"):
            if row.device not in devices:
                devices[row.device] = described(row.device, path.parent)
    for line, row in rows:
        if row.device in devices:
            _check(path, line, row, devices[row.device], problems)
    problems.raise_all()
    return MeasuredSet(path.stem, tuple(row for _, row in rows), devices, tuple(left_out))


def described(name: str, folder: Path) -> Accelerator:
    """The device that a row in `folder` speaks of: NAME.yaml beside it, one of the catalogue, or a path; raises BadInput with the
    problems of a description, and with one more for the row that wants it."""
    beside = folder / f"{name}.yaml"
    path = beside if os.path.exists(beside) else catalog.find("accel_models", name, folder)
    try:
        return accelerator.load(path)
    except BadInput as error:
        raise BadInput([*error.problems, Problem(f"the description of '{name}' cannot be used", f"mend '{path}'")]) from error


def unit_of(device: Accelerator, row: Measurement) -> str | None:
    """The unit that a kernel runs on: the one that the row names, else the fastest that has the dtype."""
    having = [name for name, unit in device.units.items() if row.dtype in unit.peak]
    if row.unit is not None:
        return row.unit if row.unit in having else None
    return max(having, key=lambda name: device.units[name].peak[row.dtype].value, default=None)


def _check(path: Path, line: int, row: Measurement, device: Accelerator, problems: Collector) -> None:
    for one, column in ((row, "time_ms"), (row.dense, "dense_ms")):
        if one is None:
            continue
        unit = unit_of(device, one)
        if unit is None:
            offered = {name for found in device.units.values() for name in found.peak}
            what = f"'{device.name}' has no unit {one.unit or ''} that computes in '{one.dtype}'".replace("  ", " ")
            problems.add(Problem(what, suggestion(one.dtype, offered), path, line, "dtype"))
            continue
        rate, peak = 2 * one.m * one.k * one.n * one.kept / (one.time_ms / 1e3), device.units[unit].peak[one.dtype].value
        if rate > ABOVE_PEAK * peak:
            what = f"{rate / 1e12:.4g} TFLOP/s is above the peak of '{unit}' in {one.dtype}, {peak / 1e12:.4g}"
            problems.add(Problem(what, "mend the time, the shape or the dtype", path, line, column))
