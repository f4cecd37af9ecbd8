"""Leave-one-device-out: each device is predicted from its description and from kernels that were fitted on other devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from tqdm import tqdm

from dse.base.progress import shows_progress
from dse.calibrate.choose_shapes import choose_launches
from dse.calibrate.fit_jointly import JointFit, fit_jointly
from dse.calibrate.fit_kernel import stratify
from dse.calibrate.fit_parameters import NOISE, fit_parameters, posterior_deviation
from dse.calibrate.mixed_population import MixedPopulation
from dse.calibrate.predictions import constant_efficiency, predict_all_fidelities
from dse.calibrate.validate.comparison import Comparison
from dse.calibrate.validate.left_out_shapes import FittedSet, Prediction, compare_predictions
from dse.model.efficiency.interval import LEVEL, Z_SCORE
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.kernel_selection import BETWEEN_UNITS
from dse.model.efficiency.launches import KernelKey, KernelLaunches
from dse.model.efficiency.population import KernelPrediction

FEW_SHAPES = 5  # measurements of each kernel of the device in the split 'few'
FEW_LAUNCHES = 64  # among which they are chosen
NEW_LIBRARY = 0.9  # quantile of the half widths of other kernels that a kernel of a library without measurements has


def compare_left_out_devices(sets: Sequence[FittedSet], shipped: Sequence[KernelRecord] = ()) -> list[Comparison]:
    """Times and speedups of every kernel of each device, predicted by the kernels of all other devices and sets, which are fitted jointly
    without the device; then with a few measurements of its own.

    `shipped`: kernels that belong to the populations of other devices as they are, unless the sets measure them.
    """
    fits = [JointFit(model, fitted.launches[key]) for fitted in sets for key, model in fitted.models.items()]
    keys, comparisons = {fit.model.key for fit in fits}, list[Comparison]()
    for device in tqdm(
        sorted({key.device for fitted in sets for key in fitted.launches}),
        unit=" devices",
        desc="leaving out",
        delay=2,
        disable=not shows_progress(),
    ):
        elsewhere = [kernel for kernel in shipped if kernel.device != device and kernel.key not in keys]
        others = Others(fit_jointly([fit for fit in fits if fit.model.key.device != device], elsewhere), elsewhere)
        for fitted in sets:
            comparisons += _compare_device(fitted, device, others)
    return comparisons


@dataclass(frozen=True, eq=False)
class Others:
    """Kernels of other devices: those that are fitted here, and shipped ones."""

    fits: Sequence[JointFit]
    shipped: Sequence[KernelRecord]

    def similar_to(self, key: KernelKey) -> "Others":
        """The kernels from which the parameters of a kernel are predicted: of its group, or of another unit if there is none.

        A sparse kernel has those of its own name if there are any; a dense one has those of all libraries, which then count by how far
        libraries differ.
        """
        similar = self._select(lambda other: other.group == key.group) or self._select(lambda other: other.group[1:] == key.group[1:])
        return (similar._select(lambda other: other.kernel == key.kernel) if key.family != "dense" else None) or similar

    def _select(self, is_chosen: Callable[[KernelKey], bool]) -> "Others":
        fits = [fit for fit in self.fits if is_chosen(fit.model.key)]
        return Others(fits, [kernel for kernel in self.shipped if is_chosen(kernel.key)])

    def __bool__(self) -> bool:
        return bool(self.fits or self.shipped)

    def has_unit(self, unit: str) -> bool:
        """Whether a kernel runs on a unit of this name."""
        return any(key.unit == unit for key in self.keys)

    @property
    def common_model(self) -> KernelModel:
        """A model with the tiles of the kernels if all have the same, else with any."""
        models = [*(fit.model for fit in self.fits), *(kernel.model for kernel in self.shipped)]
        tiles = {(model.tile, model.splits_k, model.min_edge) for model in models}
        return models[0] if len(tiles) == 1 else models[0].with_any_tile()

    @property
    def constants(self) -> list[float]:
        """The efficiency of `r3` of each kernel [1]."""
        return [*(constant_efficiency(fit.launches) for fit in self.fits), *(kernel.constant for kernel in self.shipped)]

    @property
    def keys(self) -> list[KernelKey]:
        """The identity of each kernel."""
        return [*(fit.model.key for fit in self.fits), *(kernel.key for kernel in self.shipped)]

    @cached_property
    def population(self) -> MixedPopulation:
        """The parameters of the kernels, by device and library."""
        thetas = [*(fit.model.theta for fit in self.fits), *(kernel.theta for kernel in self.shipped)]
        deviations = [*(posterior_deviation(*fit) for fit in self.fits), *(kernel.theta_deviation for kernel in self.shipped)]
        devices, libraries = [key.device for key in self.keys], [key.kernel for key in self.keys]
        return MixedPopulation.of(devices, libraries, np.array(thetas), np.array(deviations))

    @cached_property
    def half_widths(self) -> list[float]:
        """Half width of the 90% interval of the logarithm of the times of each kernel."""
        return [*(_residual_half_width(fit) for fit in self.fits), *(kernel.half_width or kernel.error for kernel in self.shipped)]

    def half_width_of(self, library: str) -> float:
        """Half width of the 90% interval of the logarithm of the times of another kernel, whose parameters are known.

        The median of the kernels, or of those of the library if that is wider; of a library without measurements as for the worst tenth of
        the kernels.
        """
        own = [width for width, key in zip(self.half_widths, self.keys, strict=True) if key.kernel == library]
        return float(max(np.median(self.half_widths), np.median(own)) if own else np.quantile(self.half_widths, NEW_LIBRARY))


def _compare_device(fitted: FittedSet, device: str, others: Others) -> list[Comparison]:
    predictions, few = {}, {}
    for key, launches in fitted.launches.items():
        if key.device == device and (similar := others.similar_to(key)):
            prediction = similar.population.predict(key.kernel)
            efficiency, residual = float(np.exp(np.mean(np.log(similar.constants)))), similar.half_width_of(key.kernel)
            model = similar.common_model.transferred(key, prediction.theta)
            half_width = residual if similar.has_unit(key.unit) else float(np.hypot(residual, Z_SCORE * BETWEEN_UNITS))
            predictions[key] = _predict(model, launches, efficiency, half_width, prediction)
            if len(launches) > 2 * FEW_SHAPES:
                few[key] = _predict_from_few(model, launches, residual, prediction)
    return compare_predictions(fitted, predictions, "devices") + compare_predictions(fitted, few, "few")


def _residual_half_width(fit: JointFit) -> float:
    """Half width of the 90% interval of the logarithm of the times of a kernel that was fitted to them."""
    return float(np.quantile(np.abs(np.log(fit.model.predict_times(fit.launches) / fit.launches.time)), LEVEL))


def _predict(model: KernelModel, launches: KernelLaunches, efficiency: float, residual: float, predicted: KernelPrediction) -> Prediction:
    gradient = model.log_time_gradient(launches)
    own = np.hypot(residual, Z_SCORE * np.sqrt((gradient**2) @ predicted.of_kernel**2))
    return Prediction(predict_all_fidelities(launches, efficiency, model), own, Z_SCORE * gradient * predicted.of_device)


def _predict_from_few(start: KernelModel, launches: KernelLaunches, residual: float, predicted: KernelPrediction) -> Prediction:
    """Predict all launches from the few that narrow the intervals of the others the most."""
    prior = predicted.distribution
    candidates = stratify(launches, FEW_LAUNCHES)
    chosen = candidates.take(np.array(choose_launches(start, candidates, prior, FEW_SHAPES)))
    weight = np.full(len(chosen), min(1.0, (Z_SCORE * NOISE / residual) ** 2))  # kernels like it deviate from the model as much
    model = replace(fit_parameters(start, chosen, weight=weight, prior=prior), max_k=np.inf)
    posterior = KernelPrediction(model.theta, np.zeros(len(model.theta)), posterior_deviation(model, chosen, prior, weight))
    return _predict(model, launches, constant_efficiency(chosen), residual, posterior)
