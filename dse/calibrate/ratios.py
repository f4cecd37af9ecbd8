"""How unequal measured kernels are: the share of its speed of light that a sparse one reaches, over that of the dense one beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dse.calibrate import fidelities, measured_set
from dse.calibrate.measured_launches import kernel_of, launches
from dse.calibrate.measured_set import SHIPPED_MEASUREMENTS, MeasuredSet
from dse.calibrate.validate.networks import is_networks
from dse.model.efficiency.launches import KernelKey


@dataclass(frozen=True)
class Ratio:
    """E_sparse / E_dense [1]: the geometric mean over all launches of a kernel, and nine tenths of them between low and high."""

    kernel: KernelKey
    mean: float
    low: float
    high: float
    launches: int


@cache
def shipped() -> tuple[Ratio, ...]:
    """Of every kernel that ships."""
    return tuple(r for path in sorted(SHIPPED_MEASUREMENTS.glob("*.csv")) if not is_networks(path) for r in ratios(measured_set.load(path)))


def ratios(measured: MeasuredSet) -> Sequence[Ratio]:
    """Of the kernels of a set that have a dense one beside them."""
    found = launches(measured)
    beside = {kernel_of(row, measured): kernel_of(dense, measured) for row in measured.rows if (dense := row.dense)}
    return [_ratio(kernel, found[kernel], found[dense]) for kernel, dense in beside.items()]


def _ratio(kernel: KernelKey, sparse: fidelities.KernelLaunches, dense: fidelities.KernelLaunches) -> Ratio:
    rows = [dense.shapes.index(shape) for shape in sparse.shapes]
    shares = [fidelities.speed_of_light(found) / found.time for found in (sparse, dense)]
    share = shares[0] / shares[1][rows]
    low, high = np.quantile(share, [0.05, 0.95])
    return Ratio(kernel, float(np.exp(np.log(share).mean())), float(low), float(high), len(share))
