"""Kernels that were not measured on a device, predicted by those of the same library and by the other kernels of the device.

`dse validate` predicts the devices that it leaves out in this way, and every result of the fidelity `calibrated` its kernels without a fit.
"""

from collections.abc import Sequence

import numpy as np

from dse.model.efficiency import interval
from dse.model.efficiency.kernels.discrepancy import Discrepancy, shared_discrepancy
from dse.model.efficiency.kernels.launches import KernelKey
from dse.model.efficiency.kernels.parameters import PARAMETERS
from dse.model.efficiency.kernels.population import KernelPrediction, MixedPopulation, similar_kernels
from dse.model.efficiency.kernels.record import DiscrepancyRecord, KernelRecord
from dse.model.efficiency.parameter import Estimate

IS_LAUNCH = np.array([parameter.name == "launch" for parameter in PARAMETERS])
NEW_LIBRARY = 0.9  # quantile of the half widths of other kernels that a kernel of a library without measurements has


def predict_kernel(
    candidates: Sequence[KernelRecord], key: KernelKey, memory: str, kernels: Sequence[KernelRecord]
) -> tuple[KernelRecord, KernelPrediction]:
    """Predict a kernel of a device with a kind of memory from the `candidates` and from all `kernels` of the device itself."""
    others = _deviations_of_others(candidates, key.device, memory, kernels)
    prediction = MixedPopulation.of_records(candidates).predict(key.kernel, key.device, memory, others)
    prediction = _with_common_launch(prediction, candidates, key, memory, kernels)
    return _predicted_record(candidates, key, prediction), prediction


def _with_common_launch(
    prediction: KernelPrediction, candidates: Sequence[KernelRecord], key: KernelKey, memory: str, kernels: Sequence[KernelRecord]
) -> KernelPrediction:
    """The prediction with the launch of dense kernels of all units, where a single device has dense kernels of this unit.

    How long a launch takes depends on how it is measured more than on the unit, and the times of a single device do not show which.
    """
    everywhere = [kernel for kernel in kernels if kernel.family == "dense" and not kernel.has_scales and kernel.device != key.device]
    if key.family != "dense" or key.has_scales or len({kernel.device for kernel in candidates}) > 1 or not everywhere:
        return prediction
    common = MixedPopulation.of_records(everywhere).predict(most_measured_library(everywhere), memory=memory)
    arrays = {name: np.where(IS_LAUNCH, getattr(common, name), getattr(prediction, name)) for name in vars(prediction)}
    return KernelPrediction(**arrays)


def most_measured_library(candidates: Sequence[KernelRecord]) -> str:
    """The library that was measured on most devices, of several the one with most shapes."""

    def rank(library: str) -> tuple[int, int, str]:
        of_library = [kernel for kernel in candidates if kernel.kernel == library]
        return -len({kernel.device for kernel in of_library}), -sum(kernel.shapes for kernel in of_library), library

    return min({kernel.kernel for kernel in candidates}, key=rank)


def discrepancy_of_library(kernels: Sequence[KernelRecord], library: str) -> Discrepancy | None:
    """What a library leaves unexplained on every device, from kernels for the same patterns and widths; None if they do not show it."""
    of_devices: dict[str, list[Discrepancy]] = {}
    for kernel in kernels:
        discrepancy = kernel.fitted_discrepancy
        if kernel.kernel == library and discrepancy is not None and not discrepancy.own:  # one that was taken from the library adds nothing
            of_devices.setdefault(kernel.device, []).append(discrepancy)
    return shared_discrepancy(of_devices)


def _deviations_of_others(candidates: Sequence[KernelRecord], device: str, memory: str, kernels: Sequence[KernelRecord]) -> np.ndarray:
    """How far theta of each kernel of a device that is no candidate is from the prediction by kernels like it on other devices."""
    deviations, keys = [], {candidate.key for candidate in candidates}
    for kernel in kernels:
        elsewhere = [other for other in similar_kernels(kernel, kernels) if other.device != device]
        if kernel.device == device and kernel.key not in keys and elsewhere:
            deviations.append(kernel.theta - MixedPopulation.of_records(elsewhere).predict(kernel.kernel, memory=memory).theta)
    return np.reshape(deviations, (-1, len(PARAMETERS)))


def _predicted_record(candidates: Sequence[KernelRecord], key: KernelKey, prediction: KernelPrediction) -> KernelRecord:
    """A record of the predicted parameters, for the densities and sizes at which any of the candidates was measured.

    It has the tiles of the candidates if all have the same, else any.
    """
    first, devices = candidates[0], sorted({kernel.device for kernel in candidates})
    parameters = {
        p.name: Estimate(
            value=p.from_theta(theta), low=p.from_theta(theta - width), high=p.from_theta(theta + width), unit=p.unit, kind="derived"
        )
        for p, theta, width in zip(PARAMETERS, prediction.theta, interval.Z_SCORE * prediction.distribution.deviation, strict=True)
    }
    densities = [kernel.density for kernel in candidates]
    sizes = [kernel.sizes for kernel in candidates if kernel.sizes]
    tiles = {(kernel.tile, kernel.splits, kernel.least) for kernel in candidates}
    half_width, shared = _half_width(candidates, key.kernel), discrepancy_of_library(candidates, key.kernel)
    return first.model_copy(
        update={
            "device": devices[0] if len(devices) == 1 else f"{len(devices)} devices",
            "kernel": key.kernel, "release": "", "dtype": key.dtype,
            **({} if len(tiles) == 1 else {"tile": None, "splits": True, "least": 1}), "processors": None, "parameters": parameters,
            "error": float(np.median([kernel.error for kernel in candidates])),
            "half_width": half_width, "discrepancy": shared and DiscrepancyRecord.of(shared, half_width),
            "constant": float(np.exp(np.mean(np.log([kernel.constant for kernel in candidates])))),
            "density": (min(low for low, _ in densities), max(high for _, high in densities)),
            "sizes": tuple((min(low for low, _ in size), max(high for _, high in size)) for size in zip(*sizes, strict=False)),
        }
    )  # fmt: skip


def _half_width(candidates: Sequence[KernelRecord], library: str) -> float:
    """Half width of the 90% interval of the logarithm of the times of another kernel, whose parameters are known.

    The median of the candidates, or of those of the library if that is wider; of a library without measurements as for the worst tenth of
    the candidates.
    """
    all_of_them, own = (
        [kernel.half_width_or_estimate for kernel in candidates if name is None or kernel.kernel == name] for name in (None, library)
    )
    return float(max(np.median(all_of_them), np.median(own)) if own else np.quantile(all_of_them, NEW_LIBRARY))
