"""Per-layer results of terms that are known: the dataset that `dse.evaluate` returns."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
import xarray as xr

from dse.base.dtype import OperandDtypes
from dse.model.compaction import compaction_warnings
from dse.model.cost.design import Design
from dse.model.efficiency.constant import missing_efficiency_warnings
from dse.model.efficiency.interval import quantiles
from dse.model.executions import Execution
from dse.model.fusion import fusion_warnings
from dse.model.host_time import HOST_RESOURCE, add_waits, host_warnings
from dse.model.layer_times import (
    POWER_RESOURCE,
    LayerTimes,
    choose_executions,
    energy_columns,
    energy_share,
    fastest_times,
    layer_times,
    limit_power,
    of_chosen,
)
from dse.model.memory_levels import memory_level_warnings, memory_levels
from dse.model.rates import STORED_FLOPS, inverse_rates
from dse.model.roofline import bounding_resource
from dse.model.terms import OVERHEAD_RESOURCE, LayerTerms
from dse.model.work import dense_flops
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.workload import Variant

ATTRS = {
    "flops": {"units": "FLOP", "long_name": "work at the unit's dense peak: dense FLOPs / gain, all repeats of the layer"},
    "gated_flops": {"units": "FLOP", "long_name": "FLOPs with a zero operand that take time, but no energy, all repeats of the layer"},
    "dense_flops": {"units": "FLOP", "long_name": "FLOPs with nothing skipped, all repeats of the layer"},
    "bytes": {"units": "B", "long_name": "bytes moved to and from the outermost memory, all repeats of the layer"},
    "latency": {"units": "s", "long_name": "time of all repeats of the layer"},
    "latency_low": {"units": "s", "long_name": "5% quantile of the latency over samples of the fitted kernels, all repeats of the layer"},
    "latency_high": {"units": "s", "long_name": "95% quantile of the latency over samples of the fitted kernels, all repeats of the layer"},
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
    share = energy_share(layer_times(terms, rates, options.resource_overlap), terms, design, options.fidelity)

    def times_of(terms: LayerTerms) -> LayerTimes:
        times = layer_times(terms, rates, options.resource_overlap)
        return limit_power(times, terms, design, share) if power_limited else times

    times = times_of(terms)
    choice = choose_executions(times, terms, accelerator)
    columns = _columns(terms, variant, batch, choice, rates, times) | _interval(terms, choice, times)
    if times.power_limited is not None:
        columns["bound"] = np.where(of_chosen(times.power_limited, choice), POWER_RESOURCE, columns["bound"])
    if (bound := terms.lower_bound) is not None:
        columns |= _bounds(terms, bound, choice, fastest_times(times_of(bound))[0])
    latency = of_chosen(times.by_execution[0], choice) * terms.count
    columns["latency"] = latency if terms.host is None else add_waits(latency[None], terms.host.best)[0]
    columns["bound"] = np.where(columns["latency"] > 2 * latency, HOST_RESOURCE, columns["bound"])
    energies, warnings = energy_columns(terms, design, choice, columns["latency"], share)
    columns |= energies
    columns["rivals"] = np.array([_alternatives(terms, variant, n, c, times) for n, c in enumerate(choice)], object)
    data = {name: (("layer", "memory")[: columns[name].ndim], columns[name], ATTRS[name]) for name in ATTRS if name in columns}
    coords = {"layer": np.array(terms.layers.name, object)}
    if terms.lower_bound is not None:
        coords["memory"] = np.array([level.name for level in memory_levels(accelerator, options.fidelity)], object)
    return xr.Dataset(data, coords, _attributes(terms, accelerator, variant, dtype, options, batch, warnings))


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
    return {"latency_low": low, "latency_high": high, "kernel": of_chosen(terms.kernels, choice)}


def _bounds(terms: LayerTerms, bound: LayerTerms, choice: np.ndarray, fastest: np.ndarray) -> dict[str, np.ndarray]:
    """Variables of fidelity `capacity`: bounds and traffic; `fastest` [layer] is the least time of any schedule and execution [s]."""
    return {
        "latency_bound": add_waits((fastest * terms.count)[None], None if terms.host is None else terms.host.best)[0],
        "bytes_bound": of_chosen(bound.traffic[..., 0], choice) * terms.count,
        "traffic": np.stack([of_chosen(moved, choice) * terms.count for moved in np.moveaxis(terms.traffic, -1, 0)], axis=1),
    }


def _columns(
    terms: LayerTerms, variant: Variant, batch: int, choice: np.ndarray, rates: np.ndarray, times: LayerTimes
) -> dict[str, np.ndarray]:
    """The columns that every fidelity has."""
    executions, uncompacted = [terms.executions[number] for number in choice], variant.layers.at_batch(batch)
    by_resource = np.stack([of_chosen(resource, choice) for resource in times.by_resource[:, 0]])
    with jax.enable_x64(True):
        bounding = np.asarray(bounding_resource(list(by_resource)))
    bound = [execution.resources(True)[number] for execution, number in zip(executions, bounding, strict=True)]
    if terms.overhead is not None:
        bound = np.where(of_chosen(terms.overhead[0], choice) > by_resource.max(axis=0), OVERHEAD_RESOURCE, bound)
    slowdown = 1.0 if terms.slowdown is None else of_chosen(terms.slowdown[0, :, :, STORED_FLOPS], choice)
    return {
        "flops": by_resource[0] / rates[choice, STORED_FLOPS] / slowdown * terms.count,
        "gated_flops": (of_chosen(terms.stored_flops, choice) - of_chosen(terms.energy_flops, choice)) * terms.count,
        "dense_flops": dense_flops(uncompacted) * terms.count,
        "bytes": of_chosen(terms.traffic[..., 0], choice) * terms.count,
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
