"""Whole networks, predicted against measured: nothing of them is fitted, so they say what the sum of kernels leaves out."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from dse.base import catalog
from dse.base.csv_table import read_rows
from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes, storage_dtype
from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import read_text
from dse.base.strict_model import StrictModel, field_error
from dse.calibrate.fidelities import RUNGS
from dse.calibrate.measured_set import described, once
from dse.calibrate.validate.shapes import Point
from dse.model.efficiency.fitted import select_for_variant
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.layer_results import evaluate
from dse.model.peak import executions
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions
from dse.sparsity.grammar import PatternField
from dse.workload import Variant, tables


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise field_error(f"'{text}' is no expression for names: {error}", "write one as in '.*mlp.*'") from error
    return text


class NetworkRow(StrictModel):
    """A network of which the layers that the expression `layers` matches keep `density` in a pattern. Times in ms."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    workload: str = Field(min_length=1, examples=["deit-b"])
    layers: Annotated[str, AfterValidator(_expression)] = Field(".*", description="of the prunable ones, by name")
    batch: int = Field(gt=0, examples=["256"])
    dtype: str = Field(examples=["fp16"])
    pattern: PatternField = Field(examples=["2:4"])
    density: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    time_ms: float = Field(gt=0, allow_inf_nan=False, examples=["42"])
    dense_ms: float = Field(gt=0, allow_inf_nan=False, examples=["60"])
    source: str = Field(min_length=1)


@dataclass(frozen=True, eq=False)
class Network:
    """One row, with the device that it speaks of, and the network dense and pruned."""

    row: NetworkRow
    device: Accelerator
    dense: Variant
    pruned: Variant

    @classmethod
    def of(cls, row: NetworkRow, device: Accelerator, dense: Variant) -> "Network":
        """Raises InputError for a dtype that is not known, and for layers that the network lacks."""
        if storage_dtype(row.dtype) not in BITS_PER_ELEMENT:
            raise InputError(f"unknown dtype '{row.dtype}'", "write one as in 'fp16'")
        named = np.array([re.fullmatch(row.layers, name) is not None for name in dense.layers.name]) & dense.layers.prunable
        if not named.any():
            raise InputError(f"no layer of '{dense.workload}' is named '{row.layers}'", "see 'dse list variants'")
        kept = row.density if row.density is not None else row.pattern.density or 1.0
        pruned = replace(dense, method="measured", pattern=row.pattern, density=np.where(named, kept, 1.0), nominal_sparsity=1 - kept)
        return cls(row, device, dense, pruned)

    @cached_property
    def predicted(self) -> dict[str, tuple[float, float]]:
        """Time dense and pruned [s] on each rung; on `r3` each run has the one efficiency of the kernel that stands for it."""
        return {rung: (self._time(rung, self.dense), self._time(rung, self.pruned)) for rung in RUNGS}

    def _time(self, rung: Fidelity, state: Variant) -> float:
        device = _with_constants(self.device, state, self.row.dtype) if rung == "r3" else self.device
        return float(evaluate(device, state, self.row.batch, self.row.dtype, fidelity=rung).latency.sum())


def _with_constants(device: Accelerator, state: Variant, name: str) -> Accelerator:
    """The device with the mean efficiency of a measured kernel at each run: at the one that 'calibrated' takes first."""
    data: Any = copy.deepcopy(device.document.data)
    width = OperandDtypes.model_validate(name)
    kernels = available_kernels(device, ModelOptions.model_validate({"fidelity": "calibrated"}))
    for execution in executions(device, width, "r3"):
        run = data["units"][execution.unit].setdefault("runs", {}).setdefault(execution.run, {"pattern": "dense"})
        chosen = select_for_variant(execution, state, device, width, kernels)
        run["efficiency"] = chosen.kernels[0].constant / chosen.slowdown_over_dense
    return device.document.validate(Accelerator, data)


@dataclass(frozen=True, eq=False)
class NetworkSet:
    name: str
    networks: tuple[Network, ...]


def is_networks(path: Path) -> bool:
    """Whether a file of measurements speaks of whole networks: its head has a column for them."""
    return "workload" in (name.strip() for name in read_text(path).partition("\n")[0].split(","))


def load(path: Path) -> NetworkSet:
    """Read measured networks; a workload is one of the catalogue, or a folder beside the file. Raises InputError with every row."""
    problems, found = ProblemCollector(), []
    load_device = once(lambda name: described(name, path.parent))
    load_network = once(lambda name: tables.load(catalog.find_path("workloads", name, path.parent)).dense)
    for line, row in read_rows(path, NetworkRow, problems):
        with problems.collect(path, line):
            found.append(Network.of(row, load_device(row.device), load_network(row.workload)))
    problems.raise_if_any()
    return NetworkSet(path.stem, tuple(found))


def points(measured: NetworkSet) -> list[Point]:
    """Times, each dense one once, and speedups."""
    dense = {(n.device.name, n.dense.workload, n.row.batch, n.row.dtype): n for n in measured.networks}
    found = [_point(measured, n, "dense", "time", n.row.dense_ms / 1e3, {r: t[0] for r, t in n.predicted.items()}) for n in dense.values()]
    return [*found, *(point for n in measured.networks for point in _pruned(measured, n))]


def _pruned(measured: NetworkSet, one: Network) -> Iterator[Point]:
    family, times = str(one.row.pattern), one.predicted
    yield _point(measured, one, family, "time", one.row.time_ms / 1e3, {rung: pruned for rung, (_, pruned) in times.items()})
    speedups = {rung: dense / pruned for rung, (dense, pruned) in times.items()}
    yield _point(measured, one, family, "speedup", one.row.dense_ms / one.row.time_ms, speedups)


def _point(measured: NetworkSet, one: Network, family: str, quantity: str, seen: float, predicted: dict[str, float]) -> Point:
    row, sparsity = one.row, 0.0 if family == "dense" else round(float(one.pruned.nominal_sparsity), 4)
    return Point(
        measured.name, "networks", row.device, one.dense.workload, family, row.dtype, quantity, (row.batch,), sparsity, seen, predicted
    )
