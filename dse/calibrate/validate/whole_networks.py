"""Compare predicted latencies of whole networks with measured ones.

Nothing is fitted to whole networks, so the errors show what a sum of kernels omits. Only the time of the host, in tables of an eager
runtime, is that which the smallest runs of other networks on the same machine have (`dse.calibrate.fit.host_time`).
"""

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from dse.base import catalog
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, ProblemCollector
from dse.base.input_file import table_name
from dse.base.progress import shows_progress
from dse.calibrate.fit.host_time import HostRun, describe_errors, fit_host, left_out_ratios, list_host_runs
from dse.calibrate.predictions import FIDELITIES
from dse.calibrate.tables.measurement_set import load_device, memoize_by_name
from dse.calibrate.tables.network_measurement import NetworkRow, read_network_rows
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.predicted_layers import predict_layers
from dse.model.efficiency.interval import network_interval, normal_samples
from dse.model.host_time import count_launches
from dse.model.terms import compulsory_terms
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions
from dse.sparsity.windows import window_cover
from dse.workload import Variant, tables

Samples = Float[np.ndarray, "sample"]

# Standard deviation of the logarithm of the host's time where one other network shows it: the networks of the shipped table are 15% off
# by two or more others (`describe_errors`); twice that is assumed.
ONE_NETWORK_DEVIATION = 0.3


@dataclass(frozen=True, eq=False)
class MeasuredNetwork:
    """One row of a table of networks, with its device and the network as dense and pruned variant; `host_time` [s] is its least time,
    up to a standard deviation `host_deviation` of the logarithm."""

    row: NetworkRow
    device: Accelerator
    dense: Variant
    pruned: Variant
    host_time: float = 0.0
    host_deviation: float = 0.0

    @classmethod
    def from_row(cls, row: NetworkRow, device: Accelerator, dense: Variant) -> "MeasuredNetwork":
        """Prune the layers that a row names; raises InputError if no layer matches."""
        is_pruned = np.array([re.fullmatch(row.layers, name) is not None for name in dense.layers.name]) & dense.layers.prunable
        if not is_pruned.any():
            raise InputError(f"no layer of '{dense.workload}' is named '{row.layers}'", "see 'dse list variants'")
        density, pattern = row.stored_density, row.pattern
        pruned = replace(dense, method="measured", pattern=pattern, density=np.where(is_pruned, density, 1.0), nominal_sparsity=1 - density)
        return cls(row, _with_expansion(device, row), dense, pruned)

    @cached_property
    def latency_samples(self) -> dict[Fidelity, tuple[Samples, Samples]]:
        """Latency of the dense and of the pruned network [s] by fidelity; sample 0 is the best estimate."""
        dense, pruned = self.row.dtypes
        return {f: (self._sample(f, self.dense, dense), self._sample(f, self.pruned, pruned)) for f in FIDELITIES}

    @property
    def fits_memory(self) -> bool:
        """Whether the dense and the pruned network fit the part of the memory that the software may use, with the longest sequences."""
        if self.row.memory_share is None:
            return True
        usable = self.row.memory_share * (self.device.value(f"memory.{self.device.outermost}.capacity") or np.inf)
        return all(self._footprint(*each) <= usable for each in zip((self.dense, self.pruned), self.row.dtypes, strict=True))

    def _footprint(self, variant: Variant, dtype: OperandDtypes) -> float:
        """Bytes that a variant occupies when its sequences are longest."""
        footprint = compulsory_terms(self.device, variant, self.row.batch, dtype, ModelOptions.model_validate({})).footprint
        sequence = self.row.named_inputs.get("sequence")
        growth = self.row.longest_sequence / sequence if self.row.longest_sequence and isinstance(sequence, int) else 1.0
        return footprint.total + (growth - 1) * footprint.cache

    @property
    def predicted_latencies(self) -> dict[Fidelity, tuple[float, float]]:
        """Latency of the dense and the pruned network [s] by fidelity."""
        return {fidelity: (float(dense[0]), float(pruned[0])) for fidelity, (dense, pruned) in self.latency_samples.items()}

    @property
    def is_bound_by_host(self) -> bool:
        """Whether the host takes longer than the device is predicted to take for the dense network."""
        return self.predicted_latencies["calibrated"][0] <= self.host_time

    def _sample(self, fidelity: Fidelity, variant: Variant, dtype: OperandDtypes) -> Samples:
        latencies = predict_layers(self.device, variant, self.row.batch, dtype, fidelity).sum(axis=1)
        deviations = np.append(0.0, normal_samples("host"))[: len(latencies)]
        return np.maximum(latencies, self.host_time * np.exp(deviations * self.host_deviation))


def _with_expansion(device: Accelerator, row: NetworkRow) -> Accelerator:
    """The device with the runs that cover the pattern of a row by windows, as the row states."""
    if row.expanded == "none":
        return device
    data: Any = copy.deepcopy(device.document.data)
    for unit, description in device.units.items():
        for name, run in description.runs.items():
            if window_cover(row.pattern, run.pattern) is not None and run.pattern.storage_pattern_for(row.pattern) is None:
                data["units"][unit]["runs"][name]["expanded"] = row.expanded
    return Accelerator.from_document(replace(device.document, data=data))


@dataclass(frozen=True, eq=False)
class NetworkSet:
    """The networks of one table, the reasons of the rows left out, and the errors of the time of the host."""

    name: str
    networks: tuple[MeasuredNetwork, ...]
    left_out: tuple[str, ...] = ()
    host: str = ""


def load_networks(path: Path) -> NetworkSet:
    """Read a table of measured networks; workloads are names of the catalogue or folders next to the table.

    Raises InputError with the errors of all rows.
    """
    problems, networks = ProblemCollector(), []
    rows, left_out = read_network_rows(path, problems)
    load_device_once = memoize_by_name(lambda name: load_device(name, path.parent))
    load_dense_once = _DenseNetworks(path.parent)
    for line, row in rows:
        with problems.collect(path, line):
            network = MeasuredNetwork.from_row(row, load_device_once(row.device), load_dense_once(row))
            if network.fits_memory:
                networks.append(network)
            else:
                left_out.append("the network and its cache take more memory than the software may use")
    problems.raise_if_any()
    launches = count_host_launches(networks)
    runs = list_host_runs((network.row, count) for network, count in zip(networks, launches, strict=True))
    bound = tuple(_with_host_times(networks, launches, runs))
    return NetworkSet(table_name(path), bound, tuple(left_out), describe_errors(runs) if runs else "")


def count_host_launches(networks: Iterable[MeasuredNetwork]) -> list[float]:
    """Kernels that the host launches for each dense network: 0 in a graph."""
    counts, options = dict[tuple[int, str, str], float](), ModelOptions.model_validate({})
    launches = []
    for network in networks:
        row, dense = network.row, network.dense
        key = id(dense), row.device, row.dtype
        if row.runtime == "eager" and key not in counts:
            terms = compulsory_terms(network.device, dense, row.batch, row.dtypes[0], options)
            counts[key] = float(count_launches(dense.layers, terms.has_work).sum())
        launches.append(counts[key] if row.runtime == "eager" else 0.0)
    return launches


def _with_host_times(networks: Sequence[MeasuredNetwork], launches: Sequence[float], runs: Sequence[HostRun]) -> Iterator[MeasuredNetwork]:
    """The networks with the time of the host by the runs of other networks, where one of these is of the same machine."""
    others = {name: [run for run in runs if run.workload != name] for name in {network.row.workload for network in networks}}
    fits = {name: fit_host(of_others) for name, of_others in others.items() if of_others}
    ratios = {name: left_out_ratios(others[name]) for name in fits}
    deviations = {name: np.sqrt(np.mean(np.log(each) ** 2)) if each else ONE_NETWORK_DEVIATION for name, each in ratios.items()}
    for network, count in zip(networks, launches, strict=True):
        row, fit = network.row, fits.get(network.row.workload)
        is_known = fit is not None and row.runtime == "eager" and row.device in fit.scales
        host = {"host_time": fit.time(row.device, count), "host_deviation": float(deviations[row.workload])} if fit and is_known else {}
        yield replace(network, **host)


class _DenseNetworks:
    """Dense networks by workload, inputs and layout, each loaded once; workloads are names of the catalogue, or in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loaded: dict[tuple[str, str, str], Variant] = {}

    def __call__(self, row: NetworkRow) -> Variant:
        key = row.workload, row.inputs, row.sparse_layout
        if key not in self.loaded:
            self.loaded[key] = tables.load(catalog.find_path("workloads", row.workload, self.folder), row.named_inputs).dense
        return self.loaded[key]


def compare_networks(measured: NetworkSet) -> list[Comparison]:
    """Latency of each dense network once, then latency and speedup of each pruned one."""
    dense = {(n.row.device, n.row.workload, n.row.inputs, n.row.batch, n.row.dtype): n for n in measured.networks}
    comparisons = [_compare(measured.name, network, "dense") for network in dense.values()]
    for network in tqdm(measured.networks, unit=" networks", desc=measured.name, delay=2, disable=not shows_progress()):
        comparisons += [_compare(measured.name, network, quantity) for quantity in ("time", "speedup")]
    return comparisons


def _compare(set_name: str, network: MeasuredNetwork, quantity: Literal["dense", "time", "speedup"]) -> Comparison:
    """Compare the time of the dense network, or the time or the speedup of the pruned one."""
    row = network.row
    measured = {"dense": row.dense_ms / 1e3, "time": row.time_ms / 1e3, "speedup": row.dense_ms / row.time_ms}[quantity]
    samples: dict[Fidelity, Samples] = {
        fidelity: {"dense": dense, "time": pruned, "speedup": dense / pruned}[quantity]
        for fidelity, (dense, pruned) in network.latency_samples.items()
    }
    predicted: dict[Fidelity, float] = {fidelity: float(values[0]) for fidelity, values in samples.items()}
    family, sparsity = ("dense", 0.0) if quantity == "dense" else (str(row.pattern), round(float(network.pruned.nominal_sparsity), 4))
    name = (row.label or network.dense.workload.partition(" (")[0]) + (", bound by the host" if network.is_bound_by_host else "")
    about = (set_name, "networks", row.device, name, family, row.dtype.split()[0], "speedup" if quantity == "speedup" else "time")
    return Comparison(
        *about, (row.tokens,), sparsity, measured, predicted, _interval(samples["calibrated"], 2 if quantity == "speedup" else 1)
    )


def _interval(samples: Samples, runs: int) -> tuple[float, float] | None:
    """The 90% interval of a prediction that depends on so many runs; None without samples of fitted kernels."""
    if len(samples) == 1:
        return None
    low, high = network_interval(samples[1:], runs)
    return float(low), float(high)
