"""Efficiency of measured sparse kernels relative to the dense kernels that were measured with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dse.calibrate.predictions import speed_of_light_time
from dse.calibrate.tables.launches import group_launches, match_shapes, pair_with_baselines
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS, MeasurementSet, load_measurements
from dse.calibrate.tables.network_measurement import is_network_table
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches


@dataclass(frozen=True)
class EfficiencyRatio:
    """E_sparse / E_dense [1] of one kernel: geometric mean, and 5% and 95% quantiles, over the launches at shapes of the dense kernel."""

    kernel: KernelKey
    mean: float
    low: float
    high: float
    launches: int


@cache
def shipped_ratios() -> tuple[EfficiencyRatio, ...]:
    """The ratios of all shipped measurements."""
    paths = [path for path in sorted(SHIPPED_MEASUREMENTS.glob("*.csv")) if not is_network_table(path)]
    return tuple(ratio for path in paths for ratio in compute_ratios(load_measurements(path)))


def compute_ratios(measurements: MeasurementSet) -> Sequence[EfficiencyRatio]:
    """The ratio of every kernel of a set that has a dense baseline."""
    launches = group_launches(measurements)
    return [_ratio(kernel, launches[kernel], launches[dense]) for kernel, dense in pair_with_baselines(measurements).items()]


def _ratio(kernel: KernelKey, sparse: KernelLaunches, dense: KernelLaunches) -> EfficiencyRatio:
    rows, dense_rows = match_shapes(sparse, dense)
    sparse_efficiency, dense_efficiency = (speed_of_light_time(launches) / launches.time for launches in (sparse, dense))
    ratios = sparse_efficiency[rows] / dense_efficiency[dense_rows]
    low, high = np.quantile(ratios, [0.05, 0.95])
    return EfficiencyRatio(kernel, float(np.exp(np.log(ratios).mean())), float(low), float(high), len(ratios))
