"""Leave-one-shape-out residuals of a fitted kernel, and the conformal 90% interval that follows from them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit

from dse.accuracy.interval import conformal_quantile
from dse.calibrate.fit.discrepancy import with_discrepancy
from dse.calibrate.fit.joint import JointFit
from dse.calibrate.fit.kernel import stratify
from dse.calibrate.fit.parameters import NOISE, fit_parameters, posterior_deviation
from dse.model.efficiency.interval import LEVEL, Z_SCORE
from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PRIOR
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.parameter import Distribution

MAX_GROUPS = 20  # up to this number shapes are left out one by one, beyond in groups
MANY_SHAPES, FEW_GROUPS = 200, 5  # groups of so many shapes that further fits would differ little
SIMILAR_WEIGHT = 2  # shapes that the spread of similar kernels counts as: their half widths differ by factors of two
REFIT_LAUNCHES = 256  # launches that parameters are fitted to again, from those of all launches


def group_shapes(launches: KernelLaunches) -> Int[np.ndarray, "launch"]:
    """Number of the group with which the shape of each launch is left out."""
    numbers = {shape: number for number, shape in enumerate(sorted(set(launches.shapes)))}
    count = MAX_GROUPS if len(numbers) < MANY_SHAPES else FEW_GROUPS
    return np.array([numbers[shape] % count for shape in launches.shapes])


def fit_without_each_shape(
    model: KernelModel, launches: KernelLaunches, prior: Distribution = PRIOR, noise: float = NOISE
) -> Iterator[tuple[Bool[np.ndarray, "launch"], KernelModel]]:
    """Fit parameters and discrepancy without each group of shapes; yields the mask of the launches left out, and the model."""
    groups = group_shapes(launches)
    for group in range(groups.max() + 1):
        known = launches.take(groups != group)
        yield groups == group, with_discrepancy(fit_parameters(model, stratify(known, REFIT_LAUNCHES), prior=prior, noise=noise), known)


def leave_one_shape_out_residuals(
    model: KernelModel, launches: KernelLaunches, prior: Distribution = PRIOR, noise: float = NOISE
) -> Float[np.ndarray, "2 launch"]:
    """Logarithm of predicted over measured time, each shape predicted by a fit without it.

    First that of the parameters alone, then that with the discrepancy, over its relative deviation.
    """
    residuals = np.zeros((2, len(launches)))
    for left_out, fitted in fit_without_each_shape(model, launches, prior, noise):
        unseen = launches.take(left_out)
        of_parameters, corrected = (
            np.log(each.predict_times(unseen) / unseen.time) for each in (replace(fitted, discrepancy=None), fitted)
        )
        residuals[:, left_out] = of_parameters, corrected / fitted.relative_deviation(unseen)
    return residuals


def conformal_half_width(residuals: Float[np.ndarray, "launch"], groups: Int[np.ndarray, "launch"]) -> float:
    """Half width of the 90% interval of the logarithm of a time: the conformal quantile of the absolute residuals.

    With fewer than 20 groups that quantile is among the largest residuals, so Student's t for the number of groups is used where it is
    wider.
    """
    group_count = len(set(groups.tolist()))
    student = stdtrit(group_count, (1 + LEVEL) / 2) * np.sqrt(np.mean(residuals**2) * (1 + 1 / group_count))
    return float(
        max(conformal_quantile(np.abs(residuals), LEVEL), student if group_count < MAX_GROUPS and len(residuals) < MANY_SHAPES else 0.0)
    )


class HalfWidths(NamedTuple):
    """Half widths of the 90% interval of the logarithm of a time: of the parameters alone, and with the discrepancy
    where no measured launch is near."""

    of_parameters: float
    corrected: float


def similar_to_few(fit: JointFit, others: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The other kernels of its kind, if a kernel has few shapes of its own; none otherwise. They are the prior of its parameters."""
    if len(set(fit.launches.shapes)) >= MAX_GROUPS:
        return []
    return [kernel for kernel in others if kernel.key.group == fit.model.key.group and kernel.key != fit.model.key]


def half_widths_of(fit: JointFit, others: Sequence[KernelRecord] = ()) -> HalfWidths:
    """Half widths of a fitted kernel, from leave-one-shape-out residuals; for few shapes also from those of similar kernels."""
    if similar := similar_to_few(fit, others):
        half_width = _half_width_from_few(fit, float(np.median([kernel.half_width_or_estimate for kernel in similar])))
        return HalfWidths(half_width, half_width)
    groups = group_shapes(fit.launches)
    return HalfWidths(*(conformal_half_width(residuals, groups) for residuals in leave_one_shape_out_residuals(*fit)))


def _half_width_from_few(fit: JointFit, of_similar: float) -> float:
    """Half width of a kernel with few shapes: Student's t with the variance of their residuals and that of similar kernels.

    The latter counts as if it had been seen in `SIMILAR_WEIGHT` shapes, with what the few launches leave open of the parameters, since
    those of similar kernels are known. A single shape has no residual.
    """
    open_deviation = np.linalg.norm(fit.model.log_time_gradient(fit.launches) * posterior_deviation(*fit), axis=1).max()
    of_prior = (of_similar / Z_SCORE) ** 2 + open_deviation**2
    count = len(set(fit.launches.shapes))
    seen = count if count > 1 else 0
    of_shapes = np.mean(leave_one_shape_out_residuals(*fit)[0] ** 2) if seen else 0.0
    pooled = (SIMILAR_WEIGHT * of_prior + seen * of_shapes) / (SIMILAR_WEIGHT + seen)
    return float(stdtrit(SIMILAR_WEIGHT + seen, (1 + LEVEL) / 2) * np.sqrt(pooled))
