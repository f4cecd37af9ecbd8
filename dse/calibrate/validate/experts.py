"""Compare predicted times of the experts of a layer with measured ones.

Nothing is fitted to experts: `calibrated` predicts them by the kernels of plain products, of which one launch computes all experts that the
tokens use. Tokens are taken to be routed uniformly.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from dse.base.errors import ProblemCollector
from dse.base.input_file import table_name
from dse.base.progress import shows_progress
from dse.calibrate.predictions import FIDELITIES
from dse.calibrate.tables.experts_measurement import ExpertsMeasurement, read_experts_rows
from dse.calibrate.tables.measurement_set import load_device, memoize_by_name
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.predicted_layers import predict_layers
from dse.model.efficiency.interval import network_interval
from dse.networks.experts import add_experts
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity
from dse.workload import Variant, Workload
from dse.workload.schema import Description, Metric

MAX_LAUNCHES = 300  # of a kernel that are compared; a random sample of more


class ExpertsKernel(NamedTuple):
    """A kernel on one device in one dtype."""

    device: str
    name: str
    dtype: str


@dataclass(frozen=True, eq=False)
class ExpertsSet:
    """The measurements of one table by kernel, their devices, and the reason of each row left out."""

    name: str
    rows: dict[ExpertsKernel, list[ExpertsMeasurement]]
    devices: dict[str, Accelerator] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def load_experts(path: Path) -> ExpertsSet:
    """Read a table of experts; rows whose device does not compute in their dtype are left out. Raises InputError with all errors."""
    problems, devices, by_kernel = ProblemCollector(), dict[str, Accelerator](), dict[ExpertsKernel, list[ExpertsMeasurement]]()
    rows, left_out = read_experts_rows(path, problems)
    load_once = memoize_by_name(lambda name: load_device(name, path.parent))
    for line, row in rows:
        with problems.collect(path, line, "device"):
            device = load_once(row.device)
            if not any(row.dtypes.compute in unit.peak for unit in device.units.values()):
                left_out.append(f"'{device.name}' has no unit that computes in {row.dtypes.compute}")
                continue
            devices[device.name] = device
            kernel = ExpertsKernel(device.name, " ".join(filter(None, (row.kernel, row.release))), row.dtype)
            by_kernel.setdefault(kernel, []).append(row)
    problems.raise_if_any()
    return ExpertsSet(table_name(path), by_kernel, devices, tuple(left_out))


def compare_experts(measured: ExpertsSet) -> list[Comparison]:
    """Times of a sample of the launches of each kernel."""
    comparisons = list[Comparison]()
    for kernel, rows in tqdm(measured.rows.items(), unit=" kernels", desc=measured.name, delay=2, disable=not shows_progress()):
        sample = np.random.default_rng(0).permutation(len(rows))[:MAX_LAUNCHES]
        comparisons += _compare(measured, kernel, [rows[index] for index in sorted(sample)])
    return comparisons


def _compare(measured: ExpertsSet, kernel: ExpertsKernel, rows: Sequence[ExpertsMeasurement]) -> Iterator[Comparison]:
    variant, device = experts_variant(rows), measured.devices[kernel.device]
    samples: dict[Fidelity, Float[np.ndarray, "sample row"]] = {
        fidelity: _sum_of_rows(predict_layers(device, variant, 1, rows[0].dtypes, fidelity), len(rows)) for fidelity in FIDELITIES
    }
    for number, row in enumerate(rows):
        predicted: dict[Fidelity, float] = {fidelity: float(each[0, number]) for fidelity, each in samples.items()}
        calibrated = samples["calibrated"][:, number]
        low, high = network_interval(calibrated[1:]) if len(calibrated) > 1 else (np.nan, np.nan)
        interval = None if np.isnan(low) else (float(low), float(high))
        shape = row.tokens, row.hidden, row.inner, row.experts, row.active
        about = measured.name, "experts", kernel.device, kernel.name, "dense", kernel.dtype, "time"
        yield Comparison(*about, shape, 0.0, row.time_ms / 1e3, predicted, interval)


def _sum_of_rows(latencies: Float[np.ndarray, "sample layer"], rows: int) -> Float[np.ndarray, "sample row"]:
    """Latency of each row [s], which has as many layers as every other one."""
    return latencies.reshape(len(latencies), rows, -1).sum(axis=2)


def experts_variant(rows: Iterable[ExpertsMeasurement]) -> Variant:
    """The experts of all rows as the layers of one network, without any other layer."""
    layers = LayerListBuilder()
    for number, row in enumerate(rows):
        add_experts(layers, f"{number}", row.hidden, row.inner, row.tokens, row.experts, row.active, units=("gate_up_proj",))
    metric = Metric(name="none", unit="", direction="higher")
    description = Description.model_validate({"name": "experts", "task": "experts", "metric": metric, "sources": ["their sizes"]})
    return Workload(description, LayerArrays.from_rows(layers), (), Path(), {}).dense
