"""Warnings and notes about the results of a sweep.

Warnings are about assumptions of the model that a reader would not expect, notes about on-chip capacities that are swept or searched, but
hardly change the latency under the options of the model.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import xarray as xr

from dse.model.compaction import compaction_warnings
from dse.model.cost.power import POWER_TOLERANCE
from dse.model.device_warning import DeviceWarning, merge_warnings
from dse.model.efficiency.constant import missing_efficiency_warnings
from dse.model.efficiency.fitted import transfer_warnings
from dse.model.executions import Execution
from dse.model.fusion import fusion_warnings
from dse.model.host_time import host_warnings
from dse.model.memory_levels import capacity_paths, memory_level_warnings
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, ModelOptions
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.cost import power_limited_latency
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import list_unused_axes

Group = TypeVar("Group", bound=Hashable)
NEGLIGIBLE = 0.02  # relative difference in latency between the smallest and the largest capacity


class ModelWarning(UserWarning):
    """A property of the results that a reader should know: an assumption, or an option or axis without effect.

    Examples:
        >>> import warnings
        >>> import dse
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always", dse.ModelWarning)
        ...     results = dse.sweep({
        ...         "name": "cache", "accelerators": ["a100-sxm4-80gb"], "workloads": {"resnet50": {"methods": ["dense"]}},
        ...         "dtype": "fp16", "axes": {"memory.l2.capacity": ["20 MB", "40 MB"]},
        ...     })
        >>> print(caught[0].message)
        axes.memory.l2.capacity: ...
    """


def collect_warnings(compiled: CompiledSweep) -> list[str]:
    """Texts of the warnings that are known before any result is evaluated."""
    plan, jobs = compiled.plan, compiled.jobs
    texts = [
        *map(str, list_unused_axes(plan)),
        *_missing_runs(jobs, plan),
        *merge_warnings(_ignored_memory_levels(plan)),
        *_missing_efficiencies(jobs, plan),
        *_assumptions_about_networks(plan),
        *merge_warnings(warning for job in jobs for warning in transfer_warnings(job.terms, job.accelerator.name)),
        *merge_warnings(warning for job in jobs for warning in host_warnings(job.accelerator.name, job.terms.host)),
    ]
    return list(dict.fromkeys(texts))


def _missing_runs(jobs: tuple[Job, ...], plan: Plan) -> Iterator[str]:
    """Warn of pruned layers that run dense because no design of an accelerator has an enabled run for their pattern."""
    dtypes = _group(((accelerator, pattern), dtype) for accelerator, pattern, dtype in _unsupported_patterns(jobs, plan))
    patterns = _group(((accelerator, ", ".join(listed)), pattern) for (accelerator, pattern), listed in dtypes.items())
    accelerators = _group(((tuple(unsupported), listed), accelerator) for (accelerator, listed), unsupported in patterns.items())
    for (unsupported, listed), names in accelerators.items():
        who, whose = f"{', '.join(map(repr, names))} {'has' if len(names) == 1 else 'have'}", "its" if len(unsupported) == 1 else "their"
        yield f"{who} no enabled run for {', '.join(map(repr, unsupported))} in {listed}: {whose} layers run dense"


def _unsupported_patterns(jobs: tuple[Job, ...], plan: Plan) -> list[tuple[str, str, str]]:
    """Accelerator, pattern and dtype where some layer has no enabled run on any design."""
    supported: dict[tuple[str, str, str], bool] = {}
    for job in jobs:
        if not job.is_dense_baseline:
            dtype, pattern = plan.spec.dtype[job.indices["dtype"]].label, plan.variants[job.variants[0]].pattern
            key = job.accelerator.name, str(pattern), dtype
            supported[key] = supported.get(key, False) or not job.terms.unsupported
    return [key for key, is_supported in supported.items() if not is_supported]


def _group(pairs: Iterable[tuple[Group, str]]) -> dict[Group, list[str]]:
    """The names of each group, in the order of their first occurrence."""
    groups: dict[Group, list[str]] = {}
    for group, name in pairs:
        groups.setdefault(group, []).append(name)
    return groups


def _ignored_memory_levels(plan: Plan) -> Iterator[DeviceWarning]:
    """Warn of memory levels that the fidelity ignores because the accelerator lacks a number."""
    if plan.spec.model.fidelity in CAPACITY_FIDELITIES:
        for _, accelerator in plan.categorical_designs():
            yield from memory_level_warnings(accelerator)


def _missing_efficiencies(jobs: tuple[Job, ...], plan: Plan) -> Iterator[str]:
    """Warn of accelerators that state no efficiency for the fidelity on any of their designs."""
    executions: dict[tuple[str, int], list[Execution]] = {}
    for job in jobs:
        executions.setdefault((job.accelerator.name, job.indices["dtype"]), []).extend(job.terms.candidates)
    for (name, dtype), listed in executions.items():
        yield from missing_efficiency_warnings(
            name, (execution.run for execution in listed), plan.spec.dtype[dtype].label, plan.spec.model.fidelity
        )


def _assumptions_about_networks(plan: Plan) -> Iterator[str]:
    """Warn of what is assumed about networks whose layer graph is not known."""
    for variant in plan.variants:
        yield from compaction_warnings(variant)
        yield from fusion_warnings(variant, plan.spec.model)


def collect_power_warnings(results: xr.Dataset, plan: Plan) -> dict[str, str]:
    """A warning for each accelerator that states a power and has results that it limits, about the one that takes most.

    `results` has the latency, energy, power and leakage; there are no warnings where the specification stores no energy.
    """
    if "energy" not in results:
        return {}
    least = 1 - POWER_TOLERANCE if plan.spec.model.fidelity == "calibrated" else 1 + POWER_TOLERANCE
    relative = (results.energy / results.latency / results.power).transpose(*plan.dims)
    texts = {}
    for number, accelerator in enumerate(plan.accelerators):
        values = relative.values[number]
        if accelerator.value("cost.power") is None or not np.any(values > least):
            continue
        position = np.unravel_index(np.argmax(values), values.shape)
        worst = results.isel(dict(zip(plan.dims, (number, *position), strict=True)))
        texts[accelerator.name] = _power_warning(accelerator.name, worst, plan, float(np.mean(values > least)))
    return texts


def _power_warning(accelerator: str, worst: xr.Dataset, plan: Plan, share: float) -> str:
    variant, power = plan.variants[int(worst.variant)], float(worst.power)
    result = f"'{accelerator}': '{variant.workload}', {variant}, batch {int(worst.batch)}, {worst.dtype.item()} takes"
    average = float(worst.energy / worst.latency)
    if average <= power * (1 + POWER_TOLERANCE):  # 'calibrated' counts no more
        return f"{result} the {power:.4g} W of the design on average: its modelled energy is larger ({share:.0%} of the results)"
    return (
        f"{result} {average:.4g} W on average, above the {power:.4g} W of the design: its latency of "
        f"{float(worst.latency):.3g} s is not attainable, at that power it is at least {float(power_limited_latency(worst)):.3g} s "
        f"({share:.0%} of the results are above); store 'power_limited_latency'"
    )


def on_chip_capacities(accelerator: Accelerator) -> list[str]:
    """Dotted paths of the capacities of all levels but the outermost."""
    return capacity_paths(accelerator, "capacity")


def capacity_note(path: str, gain: float, options: ModelOptions) -> str:
    """Why the largest capacity is only `gain` times as fast as the smallest one, and what to write; empty if the options are no reason."""
    if gain > 1 + NEGLIGIBLE:
        return ""
    text = f"the latency is the same within {100 * NEGLIGIBLE:g}% for the smallest and the largest value of '{path}'"
    if options.fidelity not in CAPACITY_FIDELITIES:
        what = f"Fidelity '{options.fidelity}' moves every operand once, also with more on-chip memory"
        return f"{text}. {what}; 'model: {{fidelity: capacity}}' counts it"
    if options.fusion == "none":
        what = "With 'fusion: none' the activations of every layer go to memory; 'model: {fusion: fitting}' keeps those on chip that fit"
        return f"{text}. {what}"
    return ""


def sweep_capacity_notes(plan: Plan, results: xr.Dataset) -> list[str]:
    """A note for each swept capacity that changes no latency of the results by more than `NEGLIGIBLE`."""
    known = {path for accelerator in plan.accelerators for path in on_chip_capacities(accelerator)}
    notes = []
    for path in (axis.path for axis in plan.axes if axis.path in known and axis.path in results.dims and "latency" in results):
        values = results[path].values
        gain = results.latency.isel({path: values.argmin()}) / results.latency.isel({path: values.argmax()})
        notes.append(capacity_note(path, float(gain.max()), plan.spec.model))
    return list(filter(None, notes))
