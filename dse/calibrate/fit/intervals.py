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
from dse.calibrate.fit.kernel import MIN_SHAPES, stratify
from dse.calibrate.fit.parameters import fit_parameters, posterior_deviation
from dse.model.efficiency.interval import LEVEL, Z_SCORE
from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PRIOR
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.parameter import Distribution

MAX_GROUPS = 20  # up to this number shapes are left out one by one, beyond in groups
MANY_SHAPES, FEW_GROUPS = 200, 5  # groups of so many shapes that further fits would differ little
REFIT_LAUNCHES = 256  # launches that parameters are fitted to again, from those of all launches


def group_shapes(launches: KernelLaunches) -> Int[np.ndarray, "launch"]:
    """Number of the group with which the shape of each launch is left out."""
    numbers = {shape: number for number, shape in enumerate(sorted(set(launches.shapes)))}
    count = MAX_GROUPS if len(numbers) < MANY_SHAPES else FEW_GROUPS
    return np.array([numbers[shape] % count for shape in launches.shapes])


def fit_without_each_shape(
    model: KernelModel, launches: KernelLaunches, prior: Distribution = PRIOR
) -> Iterator[tuple[Bool[np.ndarray, "launch"], KernelModel]]:
    """Fit parameters and discrepancy without each group of shapes; yields the mask of the launches left out, and the model."""
    groups = group_shapes(launches)
    for group in range(groups.max() + 1):
        known = launches.take(groups != group)
        yield groups == group, with_discrepancy(fit_parameters(model, stratify(known, REFIT_LAUNCHES), prior=prior), known)


def leave_one_shape_out_residuals(
    model: KernelModel, launches: KernelLaunches, prior: Distribution = PRIOR
) -> Float[np.ndarray, "2 launch"]:
    """Logarithm of predicted over measured time, each shape predicted by a fit without it.

    First that of the parameters alone, then that with the discrepancy, over its relative deviation.
    """
    residuals = np.zeros((2, len(launches)))
    for left_out, fitted in fit_without_each_shape(model, launches, prior):
        of_parameters, corrected = (
            np.log(each.predict_times(launches) / launches.time) for each in (replace(fitted, discrepancy=None), fitted)
        )
        residuals[:, left_out] = np.stack([of_parameters, corrected / fitted.relative_deviation(launches)])[:, left_out]
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
    """Half widths of the 90% interval of the logarithm of a time: of the parameters alone, and corrected, far from all launches."""

    of_parameters: float
    corrected: float


def half_widths_of(fit: JointFit, others: Sequence[KernelRecord] = ()) -> HalfWidths:
    """Half widths of a fitted kernel, from leave-one-shape-out residuals.

    For few shapes of a kind of kernel that others of `others` have, from the half widths of those, and from what the measurements leave
    open of the parameters.
    """
    model, launches, prior = fit
    similar = [kernel for kernel in others if kernel.key.group == model.key.group and kernel.key != model.key]
    if similar and len(set(launches.shapes)) < MIN_SHAPES:
        deviation = model.log_time_gradient(launches) * posterior_deviation(model, launches, prior)
        open_width = Z_SCORE * float(np.linalg.norm(deviation, axis=1).max())
        half_width = float(np.hypot(np.median([kernel.half_width or kernel.error for kernel in similar]), open_width))
        return HalfWidths(half_width, half_width)
    groups = group_shapes(launches)
    return HalfWidths(*(conformal_half_width(residuals, groups) for residuals in leave_one_shape_out_residuals(model, launches, prior)))
