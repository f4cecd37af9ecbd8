"""Per-layer results of one variant on one accelerator: what `dse.evaluate` returns."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from dse.base.catalog import Reference
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, ProblemCollector
from dse.base.strict_model import StrictModel, validate_mapping
from dse.model.compaction import compaction_warnings
from dse.model.cost.design import Design
from dse.model.cost.energy import execution_preference
from dse.model.efficiency.constant import missing_efficiency_warnings
from dse.model.efficiency.interval import quantiles
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.executions import Execution
from dse.model.fusion import fusion_warnings
from dse.model.host_time import HOST_RESOURCE, add_waits, host_warnings
from dse.model.layer_times import (
    POWER_RESOURCE,
    LatencySamples,
    LayerTimes,
    check_same_layers,
    energy_columns,
    fastest_times,
    layer_times,
    limit_power,
    power_warnings,
    speedup_over_baseline,
)
from dse.model.memory_levels import memory_level_warnings, memory_levels
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import STORED_FLOPS, inverse_rates
from dse.model.roofline import bounding_resource, choose
from dse.model.terms import OVERHEAD_RESOURCE, LayerTerms
from dse.model.work import dense_flops
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.references import load_accelerator, load_workload
from dse.schema.sweep import Batch
from dse.workload import Variant, Workload

ATTRS = {
    "flops": {"units": "FLOP", "long_name": "work at the unit's dense peak: dense FLOPs / gain, all repeats of the layer"},
    "gated_flops": {"units": "FLOP", "long_name": "FLOPs with a zero operand that take time, but no energy, all repeats of the layer"},
    "dense_flops": {"units": "FLOP", "long_name": "FLOPs with nothing skipped, all repeats of the layer"},
    "bytes": {"units": "B", "long_name": "bytes moved to and from the outermost memory, all repeats of the layer"},
    "latency": {"units": "s", "long_name": "time of all repeats of the layer"},
    "latency_low": {"units": "s", "long_name": "5% quantile of the latency over samples of the fitted kernels, all repeats of the layer"},
    "latency_high": {"units": "s", "long_name": "95% quantile of the same"},
    "latency_bound": {"units": "s", "long_name": "time that no schedule of the on-chip memory can beat, all repeats of the layer"},
    "bytes_bound": {
        "units": "B",
        "long_name": "bytes that every schedule moves to and from the outermost memory, all repeats of the layer",
    },
    "energy": {"units": "J", "long_name": "energy of all repeats of the layer, leakage included"},
    "power_limited_latency": {
        "units": "s",
        "long_name": "latency at which the average power is at most the power of the design, all repeats of the layer",
    },
    "traffic": {"units": "B", "long_name": "bytes moved to and from each memory, all repeats of the layer"},
    "count": {"units": "1", "long_name": "repeats of the layer"},
    "activation_density": {"units": "1", "long_name": "share of the input activations that is nonzero"},
    "density": {"units": "1", "long_name": "share of the weights that is nonzero"},
    "bound": {"long_name": "resource that sets the time"},
    "unit": {"long_name": "unit that executes the layer"},
    "execution": {"long_name": "unit and run that execute the layer"},
    "kernel": {"long_name": "fitted kernel of the execution, and whether it was measured, transferred or assumed"},
    "rivals": {"long_name": "the other executions: their time over that of the chosen one, or why they may not run the layer"},
}


class _Arguments(StrictModel):
    batch: Batch
    dtype: OperandDtypes
    power_limited: bool
    options: ModelOptions


def evaluate(
    accelerator: Accelerator | str | Path | Mapping[str, object],
    variant: Variant | Workload | str | Path | Mapping[str, object],
    batch: int = 1,
    dtype: str | Mapping[str, object] | OperandDtypes = "fp16",
    power_limited: bool = False,
    baseline: Variant | Workload | str | Path | Mapping[str, object] | None = None,
    **options: object,
) -> xr.Dataset:
    """Evaluate one network on one accelerator, layer by layer.

    Args:
        accelerator: an accelerator, a name of the catalogue, the path of a YAML file, or a mapping with the keys of such a file.
        variant: a variant of a workload. A workload, or its name, path or description, is evaluated dense.
        batch: number of samples that are evaluated together.
        dtype: of weights, activations and outputs, as in `"fp16"`, or one for each, as in `"int8 outputs=int32"`.
        power_limited: whether each layer takes at least the time in which it stays below the power of the accelerator (`cost.power`);
            `bound` is then `power` where that sets the time.
        baseline: a variant with the same layers (a workload: its dense one), over which the speedup of each layer is computed.
        options: those of a specification's `model`, as in `fidelity="capacity"`.

    Returns:
        A dataset with the dim `layer`, in SI units. Every variable counts all repeats of its layer, so that sums over `layer` are those of
        the network. Variables: `latency` [s], `flops` [FLOP], `bytes` [B], `bound` (the resource that sets the latency), `unit` and
        `execution` that run the layer, `rivals` (the other executions, with their latency relative to the chosen one), and others.
        An accelerator that states its process adds `energy` [J] and `power_limited_latency` [s]: the latency at which the layer takes at
        most the power of the design.
        Fidelity `capacity` adds `latency_bound` [s] and `bytes_bound` [B], which no schedule can beat, and `traffic` [B] with the dim
        `memory`. Fidelity `calibrated` adds `latency_low` and `latency_high` [s], the ends of a 90% interval, and the `kernel`.
        A `baseline` adds `baseline_latency` [s] and `speedup`; with fidelity `calibrated` also `speedup_low`, `speedup_high` and
        `faster_probability`, the probability that a layer is faster than in the baseline.

    Raises:
        InputError: a description or an argument is invalid; lists every problem.

    Examples:
        >>> import dse
        >>> resnet = dse.load_workload("resnet50")
        >>> layers = dse.evaluate("a100-sxm4-80gb", resnet.variant("magnitude_pruning", sparsity=0.9), batch=32, dtype="fp16")
        >>> dense = dse.evaluate("a100-sxm4-80gb", resnet, batch=32, dtype="fp16")
        >>> round(float(dense.latency.sum() / layers.latency.sum()), 2)  # speedup
        1.4
        >>> layers.sizes["layer"]
        54
    """
    arguments = {"batch": batch, "dtype": dtype, "power_limited": power_limited, "options": options}
    device, chosen, base, checked = _read_inputs(accelerator, variant, variant if baseline is None else baseline, arguments)
    efficiency = efficiency_of(checked.options, available_kernels(device, checked.options))
    setting = checked.batch, checked.dtype, checked.options, efficiency
    terms = network_terms(device, chosen, *setting)
    results = layer_results(terms, device, chosen, checked.dtype, checked.options, checked.batch, checked.power_limited)
    if baseline is None:
        return results
    check_same_layers(chosen.layers, base.layers)
    samples = (_latency_samples(each, device, checked) for each in (terms, network_terms(device, base, *setting)))
    return results.assign(speedup_over_baseline(*samples))


def _read_inputs(
    accelerator: Reference | Accelerator, variant: object, baseline: object, arguments: Mapping[str, object]
) -> tuple[Accelerator, Variant, Variant, _Arguments]:
    """Load what is given by name or path, and check the arguments; raises InputError with every problem."""
    readers = {
        "accelerator": partial(load_accelerator, accelerator),
        "variant": partial(_read_variant, variant),
        "baseline": partial(_read_variant, baseline),
        "": partial(validate_mapping, _Arguments, arguments),
    }
    problems, values = ProblemCollector(), list[Any]()
    for path, read in readers.items():
        with problems.collect(key=path):
            values.append(read())
    problems.raise_if_any()
    device, chosen, base, checked = values
    return device, chosen, base, checked


def _latency_samples(terms: LayerTerms, accelerator: Accelerator, arguments: _Arguments) -> LatencySamples:
    times = layer_times(terms, inverse_rates(terms.executions, accelerator), arguments.options.resource_overlap)
    if arguments.power_limited:
        times = limit_power(times, terms, Design(accelerator))
    return add_waits(fastest_times(times) * terms.count, terms.host)


def _read_variant(given: object) -> Variant:
    if isinstance(given, Workload | str | Path | Mapping):
        return load_workload(given).dense
    if not isinstance(given, Variant):
        message = f"'{type(given).__name__}' is not the type of a variant"
        raise InputError(message, "give one of a workload, as 'load_workload(...).variant(...)', or a workload")
    return given


def layer_results(
    terms: LayerTerms,
    accelerator: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    options: ModelOptions,
    batch: int,
    power_limited: bool = False,
) -> xr.Dataset:
    """Per-layer results of terms that are known already; raises InputError for a power limit on a design without a known process."""
    rates, design = inverse_rates(terms.executions, accelerator), Design(accelerator)

    def times_of(terms: LayerTerms) -> LayerTimes:
        times = layer_times(terms, rates, options.resource_overlap)
        return limit_power(times, terms, design) if power_limited else times

    times = times_of(terms)
    preference = execution_preference(terms, accelerator)
    with jax.enable_x64(True):
        choice = np.asarray(choose(list(times.by_execution[0].T), list(preference.T)), int)
    columns = _columns(terms, variant, batch, choice, rates, times) | _interval(terms, choice, times)
    if times.power_limited is not None:
        columns["bound"] = np.where(_pick(times.power_limited, choice), POWER_RESOURCE, columns["bound"])
    if (bound := terms.lower_bound) is not None:
        columns |= _bounds(terms, bound, choice, fastest_times(times_of(bound))[0])
    latency = _pick(times.by_execution[0], choice) * terms.count
    columns["latency"] = latency if terms.host is None else add_waits(latency[None], terms.host.best)[0]
    columns["bound"] = np.where(columns["latency"] > 2 * latency, HOST_RESOURCE, columns["bound"])
    columns |= energy_columns(terms, design, choice, columns["latency"])
    columns["rivals"] = np.array([_alternatives(terms, variant, n, c, times) for n, c in enumerate(choice)], object)
    data = {name: (("layer", "memory")[: columns[name].ndim], columns[name], ATTRS[name]) for name in ATTRS if name in columns}
    coords = {"layer": np.array(terms.layers.name, object)}
    if terms.lower_bound is not None:
        coords["memory"] = np.array([level.name for level in memory_levels(accelerator, options.fidelity)], object)
    return xr.Dataset(data, coords, _attributes(terms, accelerator, variant, dtype, options, batch, power_warnings(accelerator, columns)))


def _attributes(
    terms: LayerTerms,
    accelerator: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    options: ModelOptions,
    batch: int,
    warnings: Sequence[str],
) -> Mapping[str, object]:
    names = {"accelerator": accelerator.name, "workload": variant.workload, "variant": str(variant), "dtype": dtype.label}
    names |= {"run_on": variant.run_on} if variant.run_on else {}
    assumptions = [*compaction_warnings(variant), *map(str, host_warnings(accelerator.name, terms.host))]
    if terms.lower_bound is not None:
        assumptions = [*map(str, memory_level_warnings(accelerator)), *fusion_warnings(variant, options), *assumptions]
    runs = (execution.run for execution in terms.candidates)
    assumptions = [*assumptions, *missing_efficiency_warnings(accelerator.name, runs, dtype.label, options.fidelity), *warnings]
    shown = {"notes": "; ".join(assumptions)} if assumptions or terms.lower_bound is not None else {}
    return names | {"batch": batch} | {name: str(value) for name, value in options} | shown


def _interval(terms: LayerTerms, choice: np.ndarray, times: LayerTimes) -> dict[str, np.ndarray]:
    """Variables of fitted kernels: their names, and a 90% interval of the latency [s]."""
    if terms.kernels is None:
        return {}
    latencies = add_waits(fastest_times(times) * terms.count, terms.host)
    low, high = quantiles(latencies[1:] if len(latencies) > 1 else latencies)
    return {"latency_low": low, "latency_high": high, "kernel": _pick(terms.kernels, choice)}


def _bounds(terms: LayerTerms, bound: LayerTerms, choice: np.ndarray, fastest: np.ndarray) -> dict[str, np.ndarray]:
    """Variables of fidelity `capacity`: bounds and traffic; `fastest` [layer] is the least time of any schedule and execution [s]."""
    return {
        "latency_bound": add_waits((fastest * terms.count)[None], None if terms.host is None else terms.host.best)[0],
        "bytes_bound": _pick(bound.traffic[..., 0], choice) * terms.count,
        "traffic": np.stack([_pick(moved, choice) * terms.count for moved in np.moveaxis(terms.traffic, -1, 0)], axis=1),
    }


def _pick(values: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """`values` [layer, execution] at the chosen execution of each layer [layer]."""
    return np.take_along_axis(values, choice[:, None], axis=1)[:, 0]


def _columns(
    terms: LayerTerms, variant: Variant, batch: int, choice: np.ndarray, rates: np.ndarray, times: LayerTimes
) -> dict[str, np.ndarray]:
    """The columns that every fidelity has."""
    executions, uncompacted = [terms.executions[number] for number in choice], variant.layers.at_batch(batch)
    by_resource = np.stack([_pick(resource, choice) for resource in times.by_resource[:, 0]])
    with jax.enable_x64(True):
        bounding = np.asarray(bounding_resource(list(by_resource)))
    bound = [execution.resources(True)[number] for execution, number in zip(executions, bounding, strict=True)]
    if terms.overhead is not None:
        bound = np.where(_pick(terms.overhead[0], choice) > by_resource.max(axis=0), OVERHEAD_RESOURCE, bound)
    slowdown = 1.0 if terms.slowdown is None else _pick(terms.slowdown[0, :, :, STORED_FLOPS], choice)
    return {
        "flops": by_resource[0] / rates[choice, STORED_FLOPS] / slowdown * terms.count,
        "gated_flops": (_pick(terms.stored_flops, choice) - _pick(terms.energy_flops, choice)) * terms.count,
        "dense_flops": dense_flops(uncompacted) * terms.count,
        "bytes": _pick(terms.traffic[..., 0], choice) * terms.count,
        "count": terms.count,
        "density": variant.density,
        "activation_density": variant.input_density,
        "bound": np.array(bound, object),
        "unit": np.array([execution.unit for execution in executions], object),
        "execution": np.array([execution.name for execution in executions], object),
    }


def _alternatives(terms: LayerTerms, variant: Variant, layer: int, best: np.integer, times: LayerTimes) -> str:
    """Why an execution was chosen: 'vector_unit.csr 4.1x' is the time of another one over that of the chosen one, fastest first; of the
    others why they may not run the layer."""
    time = times.by_execution[0, layer]
    others = [number for number in np.argsort(time, kind="stable") if number != best]
    legal = [number for number in others if terms.legal[layer, number] and time[best] > 0]  # a row of parameters takes no time
    slower = [f"{terms.executions[number].name} {time[number] / time[best]:.3g}x" for number in legal]
    barred = [e for e, may in zip(terms.candidates, terms.legal_candidates[layer], strict=True) if not may]
    reasons = [f"{execution.name}: {_reason(terms, variant, layer, execution)}" for execution in barred if terms.layers.has_weights[layer]]
    return ", ".join([*slower, *reasons])


def _reason(terms: LayerTerms, variant: Variant, layer: int, execution: Execution) -> str:
    if variant.density[layer] == 1:
        return "not pruned"
    if not execution.is_sparse:
        return "dense_fallback is false"
    is_contained = execution.pattern.storage_pattern_for(variant.pattern) is not None
    if execution.is_expanded and is_contained:
        return f"'{variant.pattern}' fits '{execution.pattern}' without windows"
    if execution.is_expanded:
        return f"windows of '{execution.pattern}' store no less than all of '{variant.pattern}'"
    if is_contained:
        return f"too large for the numbers of '{execution.format.kind}'"
    return f"'{variant.pattern}' does not fit '{execution.pattern}'"
