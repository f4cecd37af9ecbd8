"""Leave-one-shape-out residuals of a fitted kernel, and the conformal 90% interval that follows from them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit

from dse.calibrate.fit_kernel import fit_tiles_by_depth
from dse.calibrate.fit_parameters import fit_parameters
from dse.model.efficiency.interval import LEVEL
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelLaunches, PerLaunch

MAX_GROUPS = 20  # up to this number shapes are left out one by one, beyond in groups


def group_shapes(launches: KernelLaunches) -> Int[np.ndarray, "launch"]:
    """Number of the group with which the shape of each launch is left out."""
    shapes = sorted(set(launches.shapes))
    return np.array([shapes.index(shape) % MAX_GROUPS for shape in launches.shapes])


def fit_without_each_shape(model: KernelModel, launches: KernelLaunches) -> Iterator[tuple[Bool[np.ndarray, "launch"], KernelModel]]:
    """Fit parameters and ranges of k without each group of shapes; yields the mask of the launches left out, and the model."""
    groups = group_shapes(launches)
    for group in range(groups.max() + 1):
        weight = (groups != group).astype(float)
        if model.tiles_by_depth:
            undivided = replace(model, tile=None, tiles_by_depth=())
            fitted = fit_tiles_by_depth(fit_parameters(undivided, launches, weight=weight), launches, weight)
        else:
            fitted = fit_parameters(model, launches, weight=weight)
        yield groups == group, fitted


def leave_one_shape_out_residuals(model: KernelModel, launches: KernelLaunches) -> PerLaunch:
    """Logarithm of predicted over measured time, each shape predicted by a fit without it."""
    residuals = np.zeros(len(launches))
    for left_out, fitted in fit_without_each_shape(model, launches):
        residuals[left_out] = np.log(fitted.predict_times(launches) / launches.time)[left_out]
    return residuals


def conformal_half_width(residuals: Float[np.ndarray, "launch"], groups: Int[np.ndarray, "launch"]) -> float:
    """Half width of the 90% interval of the logarithm of a time: the conformal quantile of the absolute residuals.

    With fewer than 20 groups that quantile is among the largest residuals, so Student's t for the number of groups is used where it is
    wider.
    """
    ordered, group_count = np.sort(np.abs(residuals)), len(set(groups.tolist()))
    rank = min(len(ordered), int(np.ceil(LEVEL * (len(ordered) + 1))))
    student = stdtrit(group_count, (1 + LEVEL) / 2) * np.sqrt(np.mean(residuals**2) * (1 + 1 / group_count))
    return float(max(ordered[rank - 1], student if group_count < MAX_GROUPS else 0.0))
