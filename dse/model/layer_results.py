"""One network state on one accelerator, layer by layer."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from dse.base import catalog
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, ProblemCollector
from dse.base.strict_model import StrictModel, validate_mapping
from dse.model import compaction, fusion, roofline
from dse.model.cost.preference import preference
from dse.model.efficiency.constant import unstated
from dse.model.efficiency.fitted import case
from dse.model.efficiency.interval import QUANTILES
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.levels import levels, notes
from dse.model.peak import Execution
from dse.model.terms import BYTES, DECODE, LAUNCH, Case, inverse_rates
from dse.model.work import dense_flops
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.sweep import Batch
from dse.workload import Variant, Workload, tables

ATTRS = {
    "flops": {"units": "FLOP", "long_name": "work at the unit's dense peak: dense FLOPs / gain, all repeats of the layer"},
    "gated_flops": {"units": "FLOP", "long_name": "FLOPs with a zero operand that take time, but no energy, all repeats of the layer"},
    "dense_flops": {"units": "FLOP", "long_name": "FLOPs with nothing skipped, all repeats of the layer"},
    "bytes": {"units": "B", "long_name": "bytes moved to and from the outermost memory, all repeats of the layer"},
    "latency": {"units": "s", "long_name": "time of all repeats of the layer"},
    "latency_low": {"units": "s", "long_name": "5% of the times that the measured kernels allow, all repeats of the layer"},
    "latency_high": {"units": "s", "long_name": "95% of them"},
    "latency_bound": {"units": "s", "long_name": "time that no schedule of the on-chip memory can beat, all repeats of the layer"},
    "bytes_bound": {
        "units": "B",
        "long_name": "bytes that every schedule moves to and from the outermost memory, all repeats of the layer",
    },
    "traffic": {"units": "B", "long_name": "bytes moved to and from each memory, all repeats of the layer"},
    "count": {"units": "1", "long_name": "repeats of the layer"},
    "activation_density": {"units": "1", "long_name": "share of the input activations that is nonzero"},
    "density": {"units": "1", "long_name": "share of the weights that is nonzero"},
    "bound": {"long_name": "resource that sets the time"},
    "unit": {"long_name": "unit that executes the layer"},
    "execution": {"long_name": "unit and run that execute the layer"},
    "kernel": {"long_name": "measured kernel that stands for the execution, and how near it is"},
    "rivals": {"long_name": "the other executions, and how many times as long they would take, or why they may not run the layer"},
}


class _Question(StrictModel):
    batch: Batch
    dtype: OperandDtypes
    options: ModelOptions


def evaluate(
    accelerator: Accelerator | str | Path, variant: Variant | Workload | str | Path, batch: int = 1, dtype: Any = "fp16", **options: Any
) -> xr.Dataset:
    """Per-layer results, dim `layer`; `options` are those of a specification's `model`. Raises InputError with every problem.

    An accelerator may be named as in a specification, by the catalogue or by path. So may a workload in the place of a variant: it is
    taken dense.

    Sums over `layer` are the network's: every variable counts all repeats of its layer. Where on-chip capacity counts, `latency` and
    `bytes` are attainable, `latency_bound` and `bytes_bound` stand beside them, and `traffic` has a dim `memory`. Where measured kernels
    do, `latency_low` and `latency_high` have nine tenths of what they leave open between them, and `kernel` names them.
    """
    question = {"batch": batch, "dtype": dtype, "options": options}
    given = {"accelerator": (_device, accelerator), "variant": (_state, variant), "": (partial(validate_mapping, _Question), question)}
    problems, read = ProblemCollector(), list[Any]()
    for path, (reader, value) in given.items():
        with problems.collect(key=path):
            read.append(reader(value))
    problems.raise_if_any()
    device, state, asked = read
    found = case(device, state, asked.batch, asked.dtype, asked.options, available_kernels(device, asked.options))
    return described(found, device, state, asked.dtype, asked.options, asked.batch)


def _device(given: Any) -> Accelerator:
    if isinstance(given, str | Path | Mapping):
        return read_accelerator(catalog.resolve_accelerator(given))
    if not isinstance(given, Accelerator):
        raise InputError(f"a {type(given).__name__} is no accelerator", "give a name of the catalogue, a path, or one that was loaded")
    return given


def _state(given: Any) -> Variant:
    if isinstance(given, str | Path):
        return tables.load(catalog.find_path("workloads", given)).dense
    if isinstance(given, Workload):
        return given.dense
    if not isinstance(given, Variant):
        raise InputError(f"a {type(given).__name__} is no variant", "give one of a workload, as 'load_workload(...).variant(...)'")
    return given


def described(
    found: Case, accelerator: Accelerator, variant: Variant, dtype: OperandDtypes, options: ModelOptions, batch: int
) -> xr.Dataset:
    """The same, of a case of `variant` that is made."""
    inverse, _ = inverse_rates(found.executions, accelerator, {})
    parts, time = times(found, inverse, options)
    ranks = preference(found, accelerator, dtype.compute)
    choice = roofline.handicapped(time, ranks).argmin(axis=1)
    columns = _columns(found, variant, batch, choice, inverse, parts) | _sampled(found, choice, inverse, options)
    if found.least is not None:
        columns |= _bounds(found, found.least, choice, times(found.least, inverse, options)[1])
    columns["latency"] = _pick(time, choice) * found.count
    columns["rivals"] = np.array([_rivals(found, variant, n, c, row) for n, (c, row) in enumerate(zip(choice, time, strict=True))], object)
    data = {name: (("layer", "memory")[: columns[name].ndim], columns[name], ATTRS[name]) for name in ATTRS if name in columns}
    coords = {"layer": np.array(found.layers.name, object)}
    names = {"accelerator": accelerator.name, "workload": variant.workload, "variant": str(variant), "dtype": dtype.label}
    names |= {"run_on": variant.run_on} if variant.run_on else {}
    chosen, assumed = {name: str(value) for name, value in options}, compaction.notes(variant)
    if found.least is not None:
        coords["memory"] = np.array([level.name for level in levels(accelerator, options.fidelity)], object)
        assumed = [*notes(accelerator), *fusion.notes(variant, options), *assumed]
    assumed = [*assumed, *unstated(accelerator.name, (execution.how for execution in found.candidates), dtype.label, options.fidelity)]
    chosen |= {"notes": "; ".join(assumed)} if assumed or found.least is not None else {}
    return xr.Dataset(data, coords, names | {"batch": batch} | chosen)


def times(found: Case, inverse: np.ndarray, options: ModelOptions) -> tuple[np.ndarray, np.ndarray]:
    """Time [s] of each resource [resource, layer, execution], and of them together [layer, execution]."""
    with jax.enable_x64(True):
        parts = roofline.seconds(np.moveaxis(found.timed, -1, 0), inverse.T, DECODE)
        return np.stack([np.asarray(part) for part in parts]), np.asarray(roofline.layer_time(parts, options.resource_overlap, found.fixed))


def _sampled(found: Case, choice: np.ndarray, inverse: np.ndarray, options: ModelOptions) -> dict[str, np.ndarray]:
    """What measured kernels add: which they are, and the limits of nine tenths of their draws."""
    if found.kernels is None:
        return {}
    drawn = [times(case, inverse, options)[1].min(axis=1) * found.count for case in found.draws or (found,)]
    low, high = np.quantile(drawn, list(QUANTILES.values()), axis=0)
    return {"latency_low": low, "latency_high": high, "kernel": _pick(found.kernels, choice)}


def _bounds(found: Case, least: Case, choice: np.ndarray, time: np.ndarray) -> dict[str, np.ndarray]:
    """What on-chip capacity adds: no schedule, under whichever execution, takes less than `time` [layer, execution]."""
    return {
        "latency_bound": time.min(axis=1) * found.count,
        "bytes_bound": _pick(least.work[:, :, BYTES], choice) * found.count,
        "traffic": np.stack([_pick(term, choice) * found.count for term in np.moveaxis(found.work, -1, 0)[BYTES:]], axis=1),
    }


def _pick(values: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """`values` [layer, execution] at the chosen execution of each layer [layer]."""
    return np.take_along_axis(values, choice[:, None], axis=1)[:, 0]


def _columns(
    found: Case, variant: Variant, batch: int, choice: np.ndarray, inverse: np.ndarray, parts: np.ndarray
) -> dict[str, np.ndarray]:
    """What there is to say of each layer; `parts` [resource, layer, execution] is the time that each resource takes."""
    executions, whole = [found.executions[number] for number in choice], variant.layers.at_batch(batch)
    spent = np.stack([_pick(part, choice) for part in parts])
    bounding = np.asarray(roofline.bounding_resource(list(spent)))
    bound = [execution.resources(True)[number] for execution, number in zip(executions, bounding, strict=True)]
    if found.fixed is not None:
        bound = np.where(_pick(found.fixed, choice) > spent.max(axis=0), LAUNCH, bound)
    slowed = 1.0 if found.slowed is None else _pick(found.slowed[:, :, 1], choice)
    return {
        "flops": spent[0] / inverse[choice, 1] / slowed * found.count,
        "gated_flops": (_pick(found.work[:, :, 1], choice) - _pick(found.done, choice)) * found.count,
        "dense_flops": dense_flops(whole) * found.count,
        "bytes": _pick(found.work[:, :, BYTES], choice) * found.count,
        "count": found.count,
        "density": variant.density,
        "activation_density": variant.input_density,
        "bound": np.array(bound, object),
        "unit": np.array([execution.unit for execution in executions], object),
        "execution": np.array([execution.name for execution in executions], object),
    }


def _rivals(found: Case, variant: Variant, layer: int, best: np.integer, time: np.ndarray) -> str:
    """Why an execution was chosen: 'vector_unit.csr 4.1x' is how much longer another one would take, fastest first; of the others
    why they may not run it."""
    others = [number for number in np.argsort(time, kind="stable") if number != best]
    legal = [number for number in others if np.isfinite(time[number]) and time[best] > 0]  # a row of parameters takes no time
    slower = [f"{found.executions[number].name} {time[number] / time[best]:.3g}x" for number in legal]
    weighty = found.layers.has_weights[layer]
    barred = [e for e, may in zip(found.candidates, found.legal[layer], strict=True) if weighty and not may]
    return ", ".join([*slower, *(f"{execution.name}: {_reason(found, variant, layer, execution)}" for execution in barred)])


def _reason(found: Case, variant: Variant, layer: int, execution: Execution) -> str:
    if variant.density[layer] == 1:
        return "not pruned"
    if not execution.sparse:
        return "dense_fallback is false"
    if execution.pattern.storage_pattern_for(variant.pattern) is not None:
        return f"too large for the numbers of '{execution.format.kind}'"
    return f"'{variant.pattern}' is no '{execution.pattern}'"
