"""Compare predicted times of modules of sparse attention with measured ones.

Split `shapes`: each fifth of the shapes of a kernel is predicted by a fit to the others. Split `devices`: a kernel is predicted by the fit
of the kernel with the same phase and network on another device, if one was measured. Few parameters serve all networks and dtypes of a
kernel.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from tqdm import tqdm

from dse.base.progress import shows_progress
from dse.calibrate.fit.intervals import conformal_half_width
from dse.calibrate.modules.fit import ModuleModel, fit_features, fit_module, join_features, measured_times, take_features
from dse.calibrate.modules.launches import ModuleKey, ModuleLaunches, PerLaunch
from dse.calibrate.modules.module_set import ModuleSet
from dse.calibrate.validate.comparison import Comparison
from dse.schema.model_options import Fidelity

FOLDS = 5


class ModuleKernel(NamedTuple):
    """One kernel: its launches in each network and dtype, and the model fitted to all of them."""

    set_name: str
    groups: list[ModuleLaunches]
    model: ModuleModel

    @property
    def key(self) -> ModuleKey:
        """The key of the first group, with the device, kernel, release and phase of all."""
        return self.groups[0].key

    @property
    def networks(self) -> set[str]:
        """The networks with launches."""
        return {launches.key.network for launches in self.groups}

    @property
    def weight_dtypes(self) -> set[str]:
        """The dtypes of the weights of the launches."""
        return {launches.key.weight_dtype for launches in self.groups}


class LeftOutPrediction(NamedTuple):
    """Of each launch: the number of its group of shapes, the calibrated time without that group [s], and the half width of its interval."""

    group: Int[np.ndarray, "launch"]
    time: PerLaunch
    half_width: PerLaunch


def fit_kernels(sets: Sequence[ModuleSet]) -> list[ModuleKernel]:
    """Fit all kernels of all sets that have enough shapes."""
    fittable = [(module_set.name, groups) for module_set in sets for groups in module_set.fittable]
    progress = tqdm(fittable, unit=" kernels", desc="fitting modules", delay=2, disable=not shows_progress())
    return [ModuleKernel(name, groups, fit_module(groups)) for name, groups in progress]


def compare_modules(kernels: Sequence[ModuleKernel], left_out: Sequence[LeftOutPrediction]) -> list[Comparison]:
    """Times of all launches of fitted kernels, by both splits."""
    comparisons = list[Comparison]()
    for kernel, prediction in zip(kernels, left_out, strict=True):
        efficiency = _constant_efficiency(kernel, prediction.group)
        comparisons += _compare(kernel, "shapes", prediction.time, prediction.half_width, efficiency)
        if other := _of_other_device(kernel, kernels):
            comparisons += _compare_with_other_device(kernel, other)
    return comparisons


def predict_left_out(kernels: Sequence[ModuleKernel]) -> list[LeftOutPrediction]:
    """Of each kernel, the prediction of each fifth of its shapes by a fit to the others."""
    progress = tqdm(kernels, unit=" kernels", desc="leaving out shapes", delay=2, disable=not shows_progress())
    return [predict_left_out_shapes(kernel) for kernel in progress]


def predict_left_out_shapes(kernel: ModuleKernel) -> LeftOutPrediction:
    """Predict each fifth of the shapes by a fit to the others; its interval comes from the residuals of the others."""
    features, time = join_features(kernel.groups, kernel.model.attends_to_all_slots), measured_times(kernel.groups)
    group, predicted, half_width = _groups_of_shapes(kernel), np.zeros(len(time)), np.zeros(len(time))
    for number in range(FOLDS):
        out = group == number
        if out.any() and not out.all():
            model = fit_features(kernel.model, take_features(features, ~out), time[~out])
            predicted[out] = model.predict_features(take_features(features, out))
    residuals = np.log(predicted / time)
    for number in range(FOLDS):
        out = group == number
        half_width[out] = conformal_half_width(residuals[~out], np.arange(np.count_nonzero(~out)))
    return LeftOutPrediction(group, predicted, half_width)


def _groups_of_shapes(kernel: ModuleKernel) -> Int[np.ndarray, "launch"]:
    """Number of the fifth of the shapes that each launch belongs to, at random; networks and dtypes share shapes."""
    shapes = [shape for launches in kernel.groups for shape in launches.shapes]
    distinct = sorted(set(shapes))
    numbers = dict(zip(distinct, np.random.default_rng(0).permutation(len(distinct)) % FOLDS, strict=True))
    return np.array([numbers[shape] for shape in shapes])


def _constant_efficiency(kernel: ModuleKernel, group: Int[np.ndarray, "launch"]) -> PerLaunch:
    """The efficiency of `r3` [1]: geometric mean of the shares of the speed of light of the other groups of shapes, at most 1."""
    logs = np.log(_sol(kernel) / measured_times(kernel.groups))
    means = [np.mean(logs[group != number]) if (group != number).any() else 0.0 for number in range(FOLDS)]
    return np.minimum(np.exp(np.array(means)), 1.0)[group]


def _sol(kernel: ModuleKernel) -> PerLaunch:
    return np.concatenate([launches.sol for launches in kernel.groups])


def _of_other_device(kernel: ModuleKernel, kernels: Sequence[ModuleKernel]) -> ModuleKernel | None:
    """A kernel on another device with the same phase, all networks and at least one dtype of weights."""
    for other in kernels:
        same = other.key.phase == kernel.key.phase and kernel.networks <= other.networks and kernel.weight_dtypes & other.weight_dtypes
        if same and other.key.device != kernel.key.device:
            return other
    return None


def _compare_with_other_device(kernel: ModuleKernel, other: ModuleKernel) -> Iterator[Comparison]:
    """Times by the parameters of another device, for the dtypes that were measured on it; two devices give no interval."""
    known = kernel._replace(groups=[launches for launches in kernel.groups if launches.key.weight_dtype in other.weight_dtypes])
    efficiency = min(1.0, float(np.exp(np.mean(np.log(_sol(other) / measured_times(other.groups))))))
    return _compare(known, "devices", other.model.predict_times(known.groups), None, efficiency)


def _compare(
    kernel: ModuleKernel, split: str, time: PerLaunch, half_width: PerLaunch | None, efficiency: PerLaunch | float
) -> Iterator[Comparison]:
    keys = [launches.key for launches in kernel.groups for _ in range(len(launches))]
    shapes = [shape for launches in kernel.groups for shape in launches.shapes]
    sol, measured, efficiency = _sol(kernel), measured_times(kernel.groups), efficiency * np.ones(len(time))
    for row, (key, shape) in enumerate(zip(keys, shapes, strict=True)):
        times: dict[Fidelity, float] = {
            "sol": float(sol[row]), "r3": float(sol[row] / efficiency[row]), "capacity": float(sol[row]), "calibrated": float(time[row]),
        }  # fmt: skip
        factor = None if half_width is None else float(np.exp(half_width[row]))
        interval = None if factor is None else (times["calibrated"] / factor, times["calibrated"] * factor)
        name = " ".join(filter(None, (key.kernel, key.release)))
        about = kernel.set_name, split, key.device, name, f"{key.phase} {key.network}", "", "time"
        yield Comparison(*about, shape, 0.0, float(measured[row]), times, interval)
