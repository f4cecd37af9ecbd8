"""Compare predicted latencies of whole networks with measured ones.

Nothing is fitted to whole networks, so the errors show what a sum of kernels omits.
"""

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
from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes, storage_dtype
from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import read_rows, read_text
from dse.base.strict_model import StrictModel, field_error
from dse.calibrate.measurement_set import load_device, memoize_by_name
from dse.calibrate.predictions import FIDELITIES
from dse.calibrate.validate.comparison import Comparison
from dse.model.efficiency.fitted import select_for_variant
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.executions import list_executions
from dse.model.layer_results import evaluate
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions
from dse.sparsity.grammar import PatternField
from dse.workload import Variant, tables


def _check_regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise field_error(f"'{text}' is not a regular expression: {error}", "write one as in '.*mlp.*'") from error
    return text


class NetworkRow(StrictModel):
    """Latencies of a network, dense and with some layers pruned to a pattern. The fields are the columns of the table."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    workload: str = Field(min_length=1, examples=["deit-b"])
    layers: Annotated[str, AfterValidator(_check_regular_expression)] = Field(
        ".*", description="regular expression for the names of the prunable layers that are pruned"
    )
    batch: int = Field(gt=0, examples=["256"])
    dtype: str = Field(examples=["fp16"])
    pattern: PatternField = Field(examples=["2:4"])
    density: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    time_ms: float = Field(gt=0, allow_inf_nan=False, examples=["42"])
    dense_ms: float = Field(gt=0, allow_inf_nan=False, examples=["60"])
    source: str = Field(min_length=1)


@dataclass(frozen=True, eq=False)
class MeasuredNetwork:
    """One row of a table of networks, with its device and the network as dense and pruned variant."""

    row: NetworkRow
    device: Accelerator
    dense: Variant
    pruned: Variant

    @classmethod
    def from_row(cls, row: NetworkRow, device: Accelerator, dense: Variant) -> "MeasuredNetwork":
        """Prune the layers that a row names; raises InputError for an unknown dtype, or if no layer matches."""
        if storage_dtype(row.dtype) not in BITS_PER_ELEMENT:
            raise InputError(f"unknown dtype '{row.dtype}'", "write one as in 'fp16'")
        is_pruned = np.array([re.fullmatch(row.layers, name) is not None for name in dense.layers.name]) & dense.layers.prunable
        if not is_pruned.any():
            raise InputError(f"no layer of '{dense.workload}' is named '{row.layers}'", "see 'dse list variants'")
        kept = row.density if row.density is not None else row.pattern.density or 1.0
        pruned = replace(dense, method="measured", pattern=row.pattern, density=np.where(is_pruned, kept, 1.0), nominal_sparsity=1 - kept)
        return cls(row, device, dense, pruned)

    @cached_property
    def predicted_latencies(self) -> dict[Fidelity, tuple[float, float]]:
        """Latency of the dense and the pruned network [s] by fidelity."""
        return {fidelity: (self._predict(fidelity, self.dense), self._predict(fidelity, self.pruned)) for fidelity in FIDELITIES}

    def _predict(self, fidelity: Fidelity, variant: Variant) -> float:
        device = _with_constant_efficiencies(self.device, variant, self.row.dtype) if fidelity == "r3" else self.device
        return float(evaluate(device, variant, self.row.batch, self.row.dtype, fidelity=fidelity).latency.sum())


def _with_constant_efficiencies(device: Accelerator, variant: Variant, dtype: str) -> Accelerator:
    """The device with an efficiency at each run: as described, else the mean of the kernel that `calibrated` selects first."""
    data: Any = copy.deepcopy(device.document.data)
    dtypes = OperandDtypes.model_validate(dtype)
    kernels = available_kernels(device, ModelOptions.model_validate({"fidelity": "calibrated"}))
    for execution in list_executions(device, dtypes, "r3"):
        run = data["units"][execution.unit].setdefault("runs", {}).setdefault(execution.run_name, {"pattern": "dense"})
        if "efficiency" in run:
            continue
        selection = select_for_variant(execution, variant, device, dtypes, kernels)
        run["efficiency"] = selection.kernels[0].constant / selection.slowdown_over_dense
    return device.document.validate(Accelerator, data)


@dataclass(frozen=True, eq=False)
class NetworkSet:
    """The networks of one table."""

    name: str
    networks: tuple[MeasuredNetwork, ...]


def is_network_table(path: Path) -> bool:
    """Whether a table is of whole networks, which has a column `workload`."""
    return "workload" in (name.strip() for name in read_text(path).partition("\n")[0].split(","))


def load_networks(path: Path) -> NetworkSet:
    """Read a table of measured networks; workloads are names of the catalogue or folders next to the table.

    Raises InputError with the errors of all rows.
    """
    problems, networks = ProblemCollector(), []
    load_device_once = memoize_by_name(lambda name: load_device(name, path.parent))
    load_dense_once = memoize_by_name(lambda name: tables.load(catalog.find_path("workloads", name, path.parent)).dense)
    for line, row in read_rows(path, NetworkRow, problems):
        with problems.collect(path, line):
            networks.append(MeasuredNetwork.from_row(row, load_device_once(row.device), load_dense_once(row.workload)))
    problems.raise_if_any()
    return NetworkSet(path.stem, tuple(networks))


def compare_networks(measured: NetworkSet) -> list[Comparison]:
    """Latency of each dense network once, then latency and speedup of each pruned one."""
    dense = {(n.device.name, n.dense.workload, n.row.batch, n.row.dtype): n for n in measured.networks}
    comparisons = [_compare_dense(measured.name, network) for network in dense.values()]
    return [*comparisons, *(comparison for network in measured.networks for comparison in _compare_pruned(measured.name, network))]


def _compare_dense(set_name: str, network: MeasuredNetwork) -> Comparison:
    latencies: dict[Fidelity, float] = {fidelity: dense for fidelity, (dense, _) in network.predicted_latencies.items()}
    return _comparison(set_name, network, "dense", "time", network.row.dense_ms / 1e3, latencies)


def _compare_pruned(set_name: str, network: MeasuredNetwork) -> Iterator[Comparison]:
    row, predicted = network.row, network.predicted_latencies
    latencies: dict[Fidelity, float] = {fidelity: pruned for fidelity, (_, pruned) in predicted.items()}
    yield _comparison(set_name, network, str(row.pattern), "time", row.time_ms / 1e3, latencies)
    speedups: dict[Fidelity, float] = {fidelity: dense / pruned for fidelity, (dense, pruned) in predicted.items()}
    yield _comparison(set_name, network, str(row.pattern), "speedup", row.dense_ms / row.time_ms, speedups)


def _comparison(
    set_name: str, network: MeasuredNetwork, family: str, quantity: str, measured: float, predicted: dict[Fidelity, float]
) -> Comparison:
    row, sparsity = network.row, 0.0 if family == "dense" else round(float(network.pruned.nominal_sparsity), 4)
    about = (set_name, "networks", row.device, network.dense.workload, family, row.dtype, quantity)
    return Comparison(*about, (row.batch,), sparsity, measured, predicted)
