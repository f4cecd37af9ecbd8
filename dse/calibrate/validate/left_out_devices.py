"""Leave-one-device-out: each device is predicted from its description and from kernel models that were fitted on other devices."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.calibrate.export import build_record
from dse.calibrate.predictions import constant_efficiency, predict_all_fidelities
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.left_out_shapes import FittedSet, Prediction, compare_predictions
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.kernel_selection import BETWEEN_DEVICES, BETWEEN_VENDORS, most_similar_device
from dse.model.efficiency.launches import KernelKey, KernelLaunches


class FittedKernel(NamedTuple):
    """A kernel as `dse calibrate` would record it, its model, and the launches that the model was fitted to."""

    record: KernelRecord
    model: KernelModel
    launches: KernelLaunches


def list_fitted_kernels(sets: Iterable[FittedSet]) -> list[FittedKernel]:
    """All kernels of these sets that have a model."""
    return [
        FittedKernel(build_record(model, fitted.launches[key], fitted.measurements), model, fitted.launches[key])
        for fitted in sets
        for key, model in fitted.models.items()
    ]


def compare_left_out_devices(fitted: FittedSet, kernels: Sequence[FittedKernel]) -> list[Comparison]:
    """Times and speedups of every kernel, predicted by the kernels of all other devices, then by those of each other device alone."""
    comparisons = _compare_transferred(kernels, fitted, "devices")
    for device in sorted({kernel.record.device for kernel in kernels}):
        comparisons += _compare_transferred([kernel for kernel in kernels if kernel.record.device == device], fitted, device)
    return comparisons


def _compare_transferred(kernels: Sequence[FittedKernel], fitted: FittedSet, split: str) -> list[Comparison]:
    predictions = {}
    for key, launches in fitted.launches.items():
        others = [kernel for kernel in kernels if kernel.record.device != key.device]
        if source := _select_source(key, launches, others):
            times = predict_all_fidelities(launches, constant_efficiency(source.launches), source.model)
            deviation = BETWEEN_DEVICES if source.record.unit == key.unit else BETWEEN_VENDORS
            predictions[key] = Prediction(times, source.record.interval_half_width(launches, deviation))
    return compare_predictions(fitted, predictions, split)


def _select_source(key: KernelKey, launches: KernelLaunches, kernels: Sequence[FittedKernel]) -> FittedKernel | None:
    """The kernel from which a prediction of `key` would be transferred: of the same name and width of values, on the most similar device.

    Dense kernels count as the same kernel, whatever the library of a device is called.
    """
    is_dense, width = key.family == "dense", BITS_PER_ELEMENT[storage_dtype(key.precision.compute)]
    same_name = [k for k in kernels if k.record.family == key.family and (is_dense or k.record.kernel == key.kernel)]
    candidates = [kernel.record for kernel in same_name if kernel.record.value_bits == width]
    if not candidates:
        return None
    records = [kernel.record for kernel in kernels]
    selected = most_similar_device(candidates, records, key.device, key.unit, key.precision.compute, launches.rates)[0]
    return next(kernel for kernel in same_name if kernel.record is selected)
