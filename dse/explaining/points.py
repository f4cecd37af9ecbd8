"""Sides of an explanation that are points of a sweep's results."""

import numpy as np
import xarray as xr

from dse.base.errors import InputError
from dse.explaining.side import Side
from dse.sweeping.axis import Axis
from dse.sweeping.plan import Plan


def side_of_point(point: xr.Dataset, plan: Plan) -> Side:
    """The side that one point of a sweep's results evaluates: its accelerator with its values of the axes, variant, batch and dtype.

    Args:
        point: results in which every dimension of designs, batches, dtypes and variants has one value or is selected.
        plan: the plan of the results (`dse.sweeping.provenance.rebuild_plan`).

    Raises:
        InputError: the dataset is not one point, or was not computed by a sweep.
    """
    missing = [name for name in ("accelerator", "batch", "dtype", "variant") if name not in point.coords]
    names = ["accelerator", "batch", "dtype", "variant", *(axis.path for axis in plan.axes)]
    several = [name for name in names if name in point.coords and point[name].size != 1]
    if missing:
        raise InputError(f"the dataset has no '{missing[0]}'", "give a point of a dataset of 'dse sweep'")
    if several:
        raise InputError(f"the dataset has {point[several[0]].size} values of '{several[0]}'", "select one, as in 'results.isel(batch=0)'")
    accelerator = next(each for each in plan.accelerators if each.name == str(point.accelerator.values.item()))
    dtype = next(each for each in plan.spec.dtype if each.label == str(point.dtype.values.item()))
    values = {axis.path: _yaml_value(point, axis) for axis in plan.axes}
    varied = accelerator.replace(values) if values else accelerator
    return Side(varied, plan.variants[int(point.variant.values.item())], int(point.batch.values.item()), dtype, plan.spec.model)


def _yaml_value(point: xr.Dataset, axis: Axis) -> object:
    """The value of an axis at a point, as a description states it."""
    if axis.path not in point.coords:
        raise InputError(f"the dataset no longer has the axis '{axis.path}'", "keep its coordinate when selecting a point")
    value = point[axis.path].values.item()
    is_number = np.asarray(axis.values).dtype.kind in "if"
    matches = np.isclose(axis.values, value, rtol=1e-6, atol=0) if is_number else np.asarray(axis.values) == value
    if not matches.any():
        raise InputError(f"'{axis.path}' is never '{value}' in the sweep", "select a value that the sweep has")
    return axis.yaml_values[int(np.flatnonzero(matches)[0])]
