"""Leave-one-shape-out: each shape is predicted by kernel models that were fitted without it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from dse.calibrate.fit_kernel import MIN_SHAPES, fit_kernel
from dse.calibrate.intervals import fit_without_each_shape
from dse.calibrate.measured_launches import group_launches, pair_with_baselines
from dse.calibrate.measurement_set import MeasurementSet
from dse.calibrate.predictions import FIDELITIES, check_monotone, constant_efficiency, predict_all_fidelities
from dse.calibrate.validate.comparison import Comparison
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelKey, KernelLaunches, PerLaunch
from dse.schema.model_options import Fidelity

PredictedTimes = dict[Fidelity, PerLaunch]


@dataclass(frozen=True, eq=False)
class FittedSet:
    """A set of measurements with the launches of each kernel, its dense baseline, and the model fitted to all of its launches."""

    measurements: MeasurementSet
    launches: dict[KernelKey, KernelLaunches]
    baselines: dict[KernelKey, KernelKey]
    models: dict[KernelKey, KernelModel]

    @classmethod
    def fit(cls, measurements: MeasurementSet, devices: Collection[str] | None = None) -> "FittedSet":
        """Fit a model to every kernel with enough shapes, of `devices` only if they are given; raises ImplausibleResultError."""
        launches = group_launches(measurements)
        models = {
            key: fit_kernel(of_kernel)
            for key, of_kernel in launches.items()
            if _has_enough_shapes(of_kernel) and (devices is None or key.device in devices)
        }
        for key, model in models.items():
            check_monotone(model, launches[key])
        return cls(measurements, launches, pair_with_baselines(measurements), models)

    @property
    def kernels_without_model(self) -> list[str]:
        """Each kernel that was not fitted, with its number of shapes."""
        kernels = [key for key in self.launches if key not in self.models]
        return [f"{key}: {len(set(self.launches[key].shapes))} shapes, fewer than {MIN_SHAPES}" for key in kernels]


def _has_enough_shapes(launches: KernelLaunches) -> bool:
    return len(set(launches.shapes)) >= MIN_SHAPES


def compare_left_out_shapes(fitted: FittedSet) -> list[Comparison]:
    """Times and speedups of every kernel that has a model, each shape predicted by a fit without it."""
    times = {key: _predict_left_out_shapes(fitted.launches[key], model) for key, model in fitted.models.items()}
    return compare_times(fitted, times, "shapes")


def _predict_left_out_shapes(launches: KernelLaunches, model: KernelModel) -> PredictedTimes:
    times: PredictedTimes = {fidelity: np.zeros(len(launches)) for fidelity in FIDELITIES}
    for left_out, fitted in fit_without_each_shape(model, launches):
        efficiency = constant_efficiency(launches, (~left_out).astype(float))
        predicted = predict_all_fidelities(launches, efficiency, fitted)
        for fidelity in FIDELITIES:
            times[fidelity][left_out] = predicted[fidelity][left_out]
    return times


def compare_times(fitted: FittedSet, times: dict[KernelKey, PredictedTimes], split: str) -> list[Comparison]:
    """Compare predicted times with measured ones, and the speedups over dense baselines whose times are predicted as well."""
    comparisons = []
    for key, predicted in times.items():
        launches = fitted.launches[key]
        comparisons += _compare_kernel(fitted, key, split, "time", launches.time, predicted)
        baseline = fitted.baselines.get(key)
        if baseline in times:
            dense = fitted.launches[baseline]
            rows = [dense.shapes.index(shape) for shape in launches.shapes]
            speedups: PredictedTimes = {fidelity: times[baseline][fidelity][rows] / predicted[fidelity] for fidelity in FIDELITIES}
            comparisons += _compare_kernel(fitted, key, split, "speedup", dense.time[rows] / launches.time, speedups)
    return comparisons


def _compare_kernel(
    fitted: FittedSet, key: KernelKey, split: str, quantity: str, measured: PerLaunch, predicted: PredictedTimes
) -> Iterator[Comparison]:
    launches, name = fitted.launches[key], " ".join(filter(None, (key.kernel, key.release)))
    about = (fitted.measurements.name, split, key.device, name, key.family, key.dtype, quantity)
    for row, shape in enumerate(launches.shapes):
        sparsity = round(1 - float(launches.density[row]), 4)
        by_fidelity: dict[Fidelity, float] = {fidelity: float(predicted[fidelity][row]) for fidelity in FIDELITIES}
        yield Comparison(*about, shape, sparsity, float(measured[row]), by_fidelity)
