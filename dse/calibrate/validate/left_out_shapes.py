"""Leave-one-shape-out: each shape is predicted by kernel models that were fitted without it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dse.calibrate.fit.intervals import conformal_half_width, fit_without_each_shape, group_shapes
from dse.calibrate.fit.kernel import MIN_SHAPES, fit_kernel
from dse.calibrate.predictions import FIDELITIES, check_monotone, constant_efficiency, predict_all_fidelities
from dse.calibrate.tables.launches import group_launches, match_shapes, pair_with_baselines
from dse.calibrate.tables.measurement_set import MeasurementSet
from dse.calibrate.validate.comparison import Comparison
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches, PerLaunch
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PARAMETERS
from dse.schema.model_options import Fidelity


class Prediction(NamedTuple):
    """Time of each launch of a kernel [s] by fidelity, and what is not known of the logarithm of the calibrated time.

    `own`: half width of the 90% interval that the kernel itself adds. `device_half_widths`: half widths, with their signs, that each
    parameter of the device adds; they are those of all kernels of the device, and cancel in a speedup as far as their effects are equal.
    """

    times: dict[Fidelity, PerLaunch]
    own: PerLaunch
    device_half_widths: Float[np.ndarray, "launch parameter"]

    @property
    def half_width(self) -> PerLaunch:
        """Half width of the 90% interval of the logarithm of the calibrated time."""
        return np.hypot(self.own, np.linalg.norm(self.device_half_widths, axis=1))

    def take(self, rows: Sequence[int]) -> "Prediction":
        """The prediction of some launches."""
        return Prediction({fidelity: times[rows] for fidelity, times in self.times.items()}, self.own[rows], self.device_half_widths[rows])


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
    predictions = {key: _predict_left_out_shapes(fitted.launches[key], model) for key, model in fitted.models.items()}
    return compare_predictions(fitted, predictions, "shapes")


def _predict_left_out_shapes(launches: KernelLaunches, model: KernelModel) -> Prediction:
    times: dict[Fidelity, PerLaunch] = {fidelity: np.zeros(len(launches)) for fidelity in FIDELITIES}
    deviation = np.ones(len(launches))
    for left_out, fitted in fit_without_each_shape(model, launches):
        efficiency, unseen = constant_efficiency(launches, (~left_out).astype(float)), launches.take(left_out)
        for fidelity, predicted in predict_all_fidelities(unseen, efficiency, fitted).items():
            times[fidelity][left_out] = predicted
        deviation[left_out] = fitted.relative_deviation(unseen)
    half_width = _half_widths_without_own_residuals(launches, np.log(times["calibrated"] / launches.time) / deviation)
    return Prediction(times, half_width * deviation, np.zeros((len(launches), len(PARAMETERS))))


def _half_widths_without_own_residuals(launches: KernelLaunches, residuals: PerLaunch) -> PerLaunch:
    """Half width of the interval of each launch far from all others, from the residuals of the groups of shapes that it is not in."""
    groups, half_width = group_shapes(launches), np.zeros(len(launches))
    for group in np.unique(groups):
        half_width[groups == group] = conformal_half_width(residuals[groups != group], groups[groups != group])
    return half_width


def compare_predictions(fitted: FittedSet, predictions: dict[KernelKey, Prediction], split: str) -> list[Comparison]:
    """Compare predicted times with measured ones, and the speedups over dense baselines whose times are predicted as well."""
    comparisons = []
    for key, prediction in predictions.items():
        launches = fitted.launches[key]
        comparisons += _compare_kernel(fitted, launches, split, "time", launches.time, prediction)
        baseline = fitted.baselines.get(key)
        if baseline in predictions:
            dense = fitted.launches[baseline]
            rows, dense_rows = match_shapes(launches, dense)
            matched = launches.take(np.array(rows, int))
            speedup = _divide(predictions[baseline].take(dense_rows), prediction.take(rows))
            comparisons += _compare_kernel(fitted, matched, split, "speedup", dense.time[dense_rows] / matched.time, speedup)
    return comparisons


def _divide(dense: Prediction, sparse: Prediction) -> Prediction:
    """The speedup of a sparse kernel over a dense one, whose own errors are independent of each other."""
    times: dict[Fidelity, PerLaunch] = {fidelity: dense.times[fidelity] / sparse.times[fidelity] for fidelity in FIDELITIES}
    return Prediction(times, np.hypot(dense.own, sparse.own), dense.device_half_widths - sparse.device_half_widths)


def _compare_kernel(
    fitted: FittedSet, launches: KernelLaunches, split: str, quantity: str, measured: PerLaunch, prediction: Prediction
) -> Iterator[Comparison]:
    key = launches.key
    name = " ".join(filter(None, (key.kernel, key.release)))
    about = (fitted.measurements.name, split, key.device, name, key.family, key.dtype, quantity)
    low, high = (prediction.times["calibrated"] * np.exp(sign * prediction.half_width) for sign in (-1, 1))
    for row, shape in enumerate(launches.shapes):
        sparsity = round(1 - float(launches.density[row]), 4)
        by_fidelity: dict[Fidelity, float] = {fidelity: float(prediction.times[fidelity][row]) for fidelity in FIDELITIES}
        interval = float(low[row]), float(high[row])
        yield Comparison(*about, shape, sparsity, float(measured[row]), by_fidelity, interval)
