"""Notes about on-chip capacities that are swept or searched, but hardly change the latency under the options of the model."""

import xarray as xr

from dse.model.memory_levels import capacity_paths
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, ModelOptions
from dse.sweeping.plan import Plan

NEGLIGIBLE = 0.02  # relative difference in latency between the smallest and the largest capacity


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
