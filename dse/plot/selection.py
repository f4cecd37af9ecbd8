"""Select what a figure shows of a dataset: one design, a table of speedups, or single layers evaluated again.

Figures show one value of every swept axis (the first, unless the figure is about that axis) and say which. `Table` is a
pandas.DataFrame; it is typed `Any` because the pandas stubs lose the type of a selection.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dse.base.display_units import format_quantity
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model.evaluate import evaluate
from dse.schema.accelerator import Accelerator
from dse.sweeping.plan import Plan
from dse.workload import Variant

Table = Any
LABEL_DIMS = ("accelerator", "batch", "dtype", "variant")


def select_design(dataset: xr.Dataset, *free_axes: str) -> tuple[xr.Dataset, str]:
    """The dataset with every swept axis but `free_axes` at its first value, and a note that names these values."""
    dataset = dataset.expand_dims([dim for dim in LABEL_DIMS if dim in dataset.coords and dim not in dataset.dims])
    shown = {*LABEL_DIMS, *free_axes, "resource", "execution"}
    selected = dataset.isel({str(dim): 0 for dim in dataset.dims if dim not in shown})
    axes = [str(name) for name in selected.coords if "." in str(name) and name not in free_axes]  # axes are named by dotted paths
    return selected, "; ".join(f"{axis} = {_text(selected[axis])}" for axis in axes)


def _text(coordinate: xr.DataArray) -> str:
    value = coordinate.item()
    return format_quantity(value, str(coordinate.attrs.get("units", "1"))) if isinstance(value, float) else str(value)


def speedup_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row for each accelerator, batch, dtype and variant: speedup, latencies and the coordinates of the variant."""
    variables = [
        name for name in ("speedup", "speedup_low", "speedup_high", "faster_probability", "latency", "dense_latency") if name in dataset
    ]
    return dataset[variables].drop_vars(["resource", "execution"], errors="ignore").to_dataframe().reset_index()


def middle_batch(dataset: xr.Dataset) -> int:
    """The batch size in the middle of those of the dataset."""
    sizes = np.atleast_1d(dataset.batch.values)
    return int(sizes[len(sizes) // 2])


def variant_indices(dataset: xr.Dataset) -> list[int]:
    """Indices of the dataset's variants among those of its plan."""
    return [int(index) for index in np.atleast_1d(dataset.variant.values)]


def first_dtype(dataset: xr.Dataset, plan: Plan) -> OperandDtypes:
    label = str(np.atleast_1d(dataset.dtype.values)[0])
    return next(dtype for dtype in plan.spec.dtype if dtype.label == label)


def selected_accelerators(dataset: xr.Dataset, plan: Plan) -> list[Accelerator]:
    """The accelerators of the dataset, every axis at the dataset's first value. Raises InputError if an axis was removed from it."""
    selected, _ = select_design(dataset)
    values = {}
    for axis in plan.axes:
        if axis.path not in selected.coords:
            raise InputError(f"the dataset no longer has the axis '{axis.path}'", "select one of its values before drawing")
        values[axis.path] = axis.yaml_values[list(axis.values).index(selected[axis.path].item())]
    return [accelerator.replace(values) for accelerator in plan.accelerators if accelerator.name in selected.accelerator]


def layer_table(accelerator: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, plan: Plan) -> Table:
    """One row for each layer of a variant, evaluated under the model options of the plan.

    The columns are the results of `dse.evaluate` that have one value for each layer.
    """
    layers = evaluate(accelerator, variant, batch, dtype.model_dump(), **plan.spec.model.model_dump())
    rows = layers.drop_dims([dim for dim in layers.dims if dim != "layer"]).to_dataframe().reset_index()
    rows.insert(0, "accelerator", accelerator.name)
    rows.insert(1, "state", str(variant))
    return rows
