"""One network state on one accelerator, layer by layer."""

from typing import Any

import jax
import numpy as np
import xarray as xr

from dse.accelerator import Accelerator
from dse.dtype import Dtype
from dse.model import roofline
from dse.model.equation import Case, case, inverse_rates
from dse.model.options import ModelOptions
from dse.model.work import dense_flops
from dse.schema import Part, checked
from dse.spec import Batch
from dse.workload import Variant

ATTRS = {
    "flops": {"units": "FLOP", "long_name": "work at the unit's dense peak: dense FLOPs / gain, all repeats of the layer"},
    "dense_flops": {"units": "FLOP", "long_name": "FLOPs with nothing skipped, all repeats of the layer"},
    "bytes": {"units": "B", "long_name": "bytes moved to and from the outermost memory, all repeats of the layer"},
    "latency": {"units": "s", "long_name": "time of all repeats of the layer"},
    "count": {"units": "1", "long_name": "repeats of the layer"},
    "activation_density": {"units": "1", "long_name": "share of the input activations that is nonzero"},
    "density": {"units": "1", "long_name": "share of the weights that is nonzero"},
    "bound": {"long_name": "resource that sets the time"},
    "unit": {"long_name": "unit that executes the layer"},
    "execution": {"long_name": "unit and run that execute the layer"},
    "rivals": {"long_name": "the other executions that may run the layer, and how many times as long they would take"},
}


class _Question(Part):
    batch: Batch
    dtype: Dtype
    options: ModelOptions


def evaluate(accelerator: Accelerator, variant: Variant, batch: int = 1, dtype: Any = "fp16", **options: Any) -> xr.Dataset:
    """Per-layer results, dim `layer`; `options` are those of a specification's `model`. Raises BadInput.

    Sums over `layer` are the network's: every variable counts all repeats of its layer.
    """
    asked = checked(_Question, {"batch": batch, "dtype": dtype, "options": options})
    found = case(accelerator, variant, asked.batch, asked.dtype, asked.options)
    inverse, _ = inverse_rates(found.executions, accelerator, {})
    with jax.enable_x64(True):
        compute, memory = map(np.asarray, roofline.seconds(np.moveaxis(found.work, -1, 0), inverse.T))
        time = np.asarray(roofline.layer_time(compute, memory, asked.options.overlap))
    choice = time.argmin(axis=1)
    labelled = _labelled(found, variant, choice, inverse, *(_pick(values, choice) for values in (time, compute, memory)))
    labelled["rivals"] = ("layer", np.array([_rivals(found, row) for row in time], object), ATTRS["rivals"])
    names = {"accelerator": accelerator.name, "workload": variant.workload, "variant": str(variant), "dtype": asked.dtype.label}
    chosen = {name: str(value) for name, value in asked.options}
    return labelled.assign_attrs(names | {"batch": asked.batch} | chosen)


def _pick(values: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """`values` [layer, execution] at the chosen execution of each layer [layer]."""
    return np.take_along_axis(values, choice[:, None], axis=1)[:, 0]


def _rivals(found: Case, time: np.ndarray) -> str:
    """Why an execution was chosen: 'vector_unit.csr 4.1x' is how much longer another one would take, fastest first."""
    best, *others = np.argsort(time)
    legal = [number for number in others if np.isfinite(time[number]) and time[best] > 0]  # a row of parameters takes no time
    return ", ".join(f"{found.executions[number].name} {time[number] / time[best]:.3g}x" for number in legal)


def _labelled(
    found: Case, variant: Variant, choice: np.ndarray, inverse: np.ndarray, time: np.ndarray, compute: np.ndarray, memory: np.ndarray
) -> xr.Dataset:
    executions = [found.executions[number] for number in choice]
    bound = [found.resources[-1] if m > c else e.unit for e, c, m in zip(executions, compute, memory, strict=True)]
    columns = {
        "flops": compute / inverse[choice, 1] * found.count,
        "dense_flops": dense_flops(found.layers) * found.count,
        "bytes": _pick(found.work[:, :, 2], choice) * found.count,
        "latency": time * found.count,
        "count": found.count,
        "density": variant.density,
        "activation_density": variant.layers.activation_density if variant.activation_density is None else variant.activation_density,
        "bound": np.array(bound, object),
        "unit": np.array([execution.unit for execution in executions], object),
        "execution": np.array([execution.name for execution in executions], object),
    }
    data = {name: ("layer", column, ATTRS[name]) for name, column in columns.items()}
    return xr.Dataset(data, coords={"layer": np.array(found.layers.name, object)})
