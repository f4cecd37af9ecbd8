"""What the figures of single layers need: the designs and network states of a dataset, evaluated again layer by layer."""

import numpy as np
import xarray as xr

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model.layer_results import evaluate
from dse.plot import style
from dse.plot.style import Rows
from dse.schema.accelerator import Accelerator
from dse.sweeping.plan import Plan
from dse.workload import Variant


def dtype_of(dataset: xr.Dataset, plan: Plan) -> OperandDtypes:
    label = str(np.atleast_1d(dataset.dtype.values)[0])
    return next(dtype for dtype in plan.spec.dtype if dtype.label == label)


def designs_of(dataset: xr.Dataset, plan: Plan) -> list[Accelerator]:
    """The accelerators that the dataset holds, each axis at the first value that it holds."""
    chosen, _ = style.one_design(dataset)
    values = {}
    for axis in plan.axes:
        if axis.path not in chosen.coords:
            raise InputError(f"the dataset has no '{axis.path}' any more", "select one of its values, then draw")
        values[axis.path] = axis.yaml_values[list(axis.values).index(chosen[axis.path].item())]
    return [accelerator.replace(values) for accelerator in plan.accelerators if accelerator.name in chosen.accelerator]


def state_name(variant: Variant) -> str:
    if variant.method == "dense":
        return "dense"
    free = variant.pattern.density is None
    pattern = f"{variant.pattern} {style.percent(variant.nominal_sparsity)}" if free else str(variant.pattern)
    return f"{variant.method.replace('_', ' ')} {pattern}"


def layers_of(accelerator: Accelerator, state: Variant, batch: int, dtype: OperandDtypes, plan: Plan) -> Rows:
    layers = evaluate(accelerator, state, batch, dtype.model_dump(), **plan.spec.model.model_dump())
    rows = layers.to_dataframe().reset_index()
    rows.insert(0, "accelerator", accelerator.name)
    rows.insert(1, "state", str(state))
    return rows
