"""Leave-one-device-out: each device is predicted from its description and from kernels that were fitted on other devices."""

from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from dse.base.progress import shows_progress
from dse.calibrate.fit.device_effects import FewLaunches, fit_few_launches, similar_to
from dse.calibrate.fit.discrepancy import with_discrepancy
from dse.calibrate.fit.export import build_record
from dse.calibrate.fit.intervals import HalfWidths, half_widths_of
from dse.calibrate.fit.joint import JointFit, fit_jointly
from dse.calibrate.fit.kernel import stratify
from dse.calibrate.fit.shape_selection import choose_launches
from dse.calibrate.predictions import constant_efficiency, predict_all_fidelities
from dse.calibrate.tables.measurement_set import MeasurementSet
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.left_out_shapes import FittedSet, Prediction, compare_predictions
from dse.model.efficiency.interval import LEVEL, Z_SCORE
from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PARAMETERS
from dse.model.efficiency.kernels.population import KernelPrediction
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.selection import BETWEEN_UNITS

FEW_SHAPES = 5  # measurements of each kernel of the device in the split 'few'
FEW_LAUNCHES = 64  # among which they are chosen


def compare_left_out_devices(sets: Sequence[FittedSet], shipped: Sequence[KernelRecord] = ()) -> list[Comparison]:
    """Times and speedups of every kernel of each device, predicted by the kernels of all other devices and sets, which are fitted jointly
    without the device; then with a few measurements of its own.

    `shipped`: kernels that belong to the populations of other devices as they are, unless the sets measure them.
    """
    fits = [JointFit(model, fitted.launches[key]) for fitted in sets for key, model in fitted.models.items()]
    measurements = {key: fitted.measurements for fitted in sets for key in fitted.models}
    comparisons = list[Comparison]()
    for device in tqdm(
        sorted({key.device for fitted in sets for key in fitted.launches}),
        unit=" devices",
        desc="leaving out",
        delay=2,
        disable=not shows_progress(),
    ):
        elsewhere = [kernel for kernel in shipped if kernel.device != device and kernel.key not in measurements]
        jointly = fit_jointly([fit for fit in fits if fit.model.key.device != device], elsewhere)
        records = [_build_record(fit, measurements[fit.model.key]) for fit in jointly]
        for fitted in sets:
            comparisons += _compare_device(fitted, device, [*records, *elsewhere])
    return comparisons


def _compare_device(fitted: FittedSet, device: str, kernels: Sequence[KernelRecord]) -> list[Comparison]:
    predictions, few = {}, list[FewLaunches]()
    for key, launches in fitted.launches.items():
        if key.device == device and (similar := similar_to(key, kernels)):
            predicted = FewLaunches.predicted_by(similar, launches, kernels)
            of_units = 0.0 if predicted.record.unit == key.unit else Z_SCORE * BETWEEN_UNITS
            half_width = float(np.hypot(predicted.half_width, of_units))
            predictions[key] = _predict(predicted.model, launches, predicted.record.constant, half_width, predicted.prediction)
            if len(launches) > 2 * FEW_SHAPES:
                few.append(predicted._replace(launches=_choose_few(predicted)))
    from_few = {fit.model.key: _predict_from_few(fit, fitted, kernels) for fit in fit_few_launches(few)}
    return compare_predictions(fitted, predictions, "devices") + compare_predictions(fitted, from_few, "few")


def _choose_few(kernel: FewLaunches) -> KernelLaunches:
    """The launches that narrow the intervals of the others the most."""
    candidates = stratify(kernel.launches, FEW_LAUNCHES)
    chosen = choose_launches(kernel.model, candidates, kernel.prediction.distribution, FEW_SHAPES, kernel.noise)
    return candidates.take(np.array(chosen))


def _build_record(fit: JointFit, measurements: MeasurementSet) -> KernelRecord:
    """The record of a kernel with its discrepancy, and the half widths of its parameters alone."""
    return build_record(fit._replace(model=with_discrepancy(fit.model, fit.launches)), measurements, _residual_half_widths(fit))


def _residual_half_widths(fit: JointFit) -> HalfWidths:
    """Half widths of the 90% interval of the logarithm of the times of a kernel that was fitted to them, without discrepancy."""
    half_width = float(np.quantile(np.abs(np.log(fit.model.predict_times(fit.launches) / fit.launches.time)), LEVEL))
    return HalfWidths(half_width, half_width)


def _predict(model: KernelModel, launches: KernelLaunches, efficiency: float, residual: float, predicted: KernelPrediction) -> Prediction:
    gradient = model.log_time_gradient(launches)
    own = np.hypot(residual * model.relative_deviation(launches), Z_SCORE * np.sqrt((gradient**2) @ predicted.kernel_deviation**2))
    return Prediction(predict_all_fidelities(launches, efficiency, model), own, Z_SCORE * gradient * predicted.device_deviation)


def _predict_from_few(fit: JointFit, fitted: FittedSet, kernels: Sequence[KernelRecord]) -> Prediction:
    """Predict all launches of a kernel that was fitted to few, with the interval that `dse calibrate` gives it; `kernels` are its prior."""
    launches = fitted.launches[fit.model.key]
    record = build_record(fit, fitted.measurements, half_widths_of(fit, kernels))
    times = predict_all_fidelities(launches, constant_efficiency(fit.launches), fit.model)
    return Prediction(times, record.interval_half_width(launches), np.zeros((len(launches), len(PARAMETERS))))
