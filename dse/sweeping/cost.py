"""Area, power and energy of the designs of a sweep, where `store.variables` of its specification lists them."""

import json
import math
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from dse.base.units import Quantity
from dse.model.cost.area import area
from dse.model.cost.coefficients import describe_uncertain_coefficients, published_coefficients
from dse.model.cost.design import Design
from dse.model.cost.manufacturing import describe_assumptions, manufacturing_cost
from dse.model.cost.power import network_energy, power, power_limited_time, static_power
from dse.model.memory_levels import memory_levels
from dse.schema.accelerator import Accelerator
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan
from dse.sweeping.serving import tokens_per_run

CACHED_DESIGNS = 2**19  # whose arrays stay in the cache
ENERGY_VARIABLES = {"energy", "edp", "average_power", "power_limited_latency", "energy_per_token"}
NEEDED_BY = {  # array: variables of the results that need it
    "area": {"area", "performance_per_area"},
    "power": {"power", "performance_per_watt", "tokens_per_s_per_watt", *ENERGY_VARIABLES},  # the average power is compared with it
    "leakage": ENERGY_VARIABLES,
    "energy": ENERGY_VARIABLES,
    "cost_usd": {"cost_usd"},
}
STATED_BY = {  # variable of the results: figure under `cost` of an accelerator that it starts from
    "area": "area",
    "performance_per_area": "area",
    "power": "power",
    "performance_per_watt": "power",
    "tokens_per_s_per_watt": "power",
    "power_limited_latency": "power",
}


def allocate_arrays(plan: Plan) -> dict[str, np.ndarray]:
    """Area [m^2], power [W], leakage [W] and manufacturing cost [USD] of each design [accelerator, *axes].

    The energy has zeros, over all dimensions.
    """
    shape, dtype = tuple(plan.dims.values()), plan.spec.store.dtype
    names = [name for name, variables in NEEDED_BY.items() if variables & plan.spec.store.cost_variables]
    arrays = {name: np.zeros(shape if name == "energy" else shape[: 1 + len(plan.axes)], dtype) for name in names}
    for name, evaluate in (("area", area), ("power", power), ("leakage", static_power), ("cost_usd", manufacturing_cost)):
        for position, accelerator in plan.categorical_designs() if name in arrays else ():
            for part in _parts(plan, position):
                index = (position["accelerator"], *({**part, **position}.get(axis.path, slice(None)) for axis in plan.axes))
                arrays[name][index] = evaluate(_design_at(plan, position, accelerator, part))
    return arrays


def _parts(plan: Plan, position: Mapping[str, int]) -> Iterator[dict[str, slice]]:
    """Slices of the longest axis without a position; each has few enough designs that NumPy's intermediate arrays stay in the cache."""
    lengths = {axis.path: len(axis) for axis in plan.axes if axis.path not in position}
    if not lengths:
        yield {}
        return
    longest = max(lengths, key=lambda path: lengths[path])
    step = max(1, CACHED_DESIGNS * lengths[longest] // math.prod(lengths.values()))
    yield from ({longest: slice(start, start + step)} for start in range(0, lengths[longest], step))


def total_energy(plan: Plan, job: Job, dynamic_energy: np.ndarray, latency: np.ndarray) -> np.ndarray:
    """Energy [J] of the designs of a job, leakage included, from that of their work [J] and their latency [s]."""
    return network_energy(_design_at(plan, job.indices, job.accelerator), dynamic_energy, latency, plan.spec.model.fidelity)


def _design_at(plan: Plan, position: Mapping[str, int], accelerator: Accelerator, part: Mapping[str, slice] | None = None) -> Design:
    """An accelerator at a position on some axes, with the values of all others, or a part of them, as arrays that broadcast."""
    axes = [axis for axis in plan.axes if axis.path not in position]
    shapes = [[-1 if other is axis else 1 for other in axes] for axis in axes]
    part = part or {}
    values = {axis.path: axis.values[part.get(axis.path, slice(None))].reshape(shape) for axis, shape in zip(axes, shapes, strict=True)}
    return Design(accelerator, values, plan.accelerators[position["accelerator"]].base)


def add_variables(dataset: xr.Dataset, plan: Plan) -> xr.Dataset:
    """Add the stored variables that follow from the latency and the arrays of `allocate_arrays`, which the dataset has."""
    derived = {
        "edp": lambda: dataset.energy * dataset.latency,
        "performance_per_area": lambda: dataset.batch / dataset.latency / dataset.area,
        "performance_per_watt": lambda: dataset.batch / dataset.latency / dataset.power,
        "energy_per_token": lambda: dataset.energy / tokens_per_run(dataset),
        "tokens_per_s_per_watt": lambda: tokens_per_run(dataset) / dataset.latency / dataset.power,
        "average_power": lambda: dataset.energy / dataset.latency,
        "power_limited_latency": lambda: power_limited_latency(dataset),
    }
    stored = [name for name in derived if name in plan.spec.store.cost_variables]
    return dataset.assign({name: derived[name]().transpose(*plan.dims) for name in stored}) if stored else dataset


def power_limited_latency(results: xr.Dataset) -> xr.DataArray:
    """Latency [s] at which the average power, leakage included, is at most the power of the design; infinite where leakage exceeds it.

    Reads `latency`, `energy`, `power` and `leakage`.
    """
    dynamic_energy = results.energy - results.leakage * results.latency
    return xr.apply_ufunc(power_limited_time, results.latency, dynamic_energy, results.power, results.leakage)


def source_attributes(name: str, plan: Plan) -> dict[str, str]:
    """Attributes that say where a cost variable comes from: published figures or the cost model, and the error of that model."""
    if name not in plan.spec.store.cost_variables:
        return {}
    errors = ", ".join(f"{key} {error.value:.0%}" for key, error in published_coefficients().stated_error.items())
    attributes = {
        "model_error": f"mean error of the cost model on dies left out, with those that are never fitted: {errors}",
        "coefficients": describe_uncertain_coefficients(),
    }
    if name == "cost_usd":
        attributes["assumptions"] = describe_assumptions()
    if name in NEEDED_BY["energy"]:  # of the traffic at these levels
        names = {a.name: [level.name for level in memory_levels(a, plan.spec.model.fidelity)] for a in plan.accelerators}
        attributes["memory_levels"] = json.dumps(names)
    if name in STATED_BY:
        figures = {a.name: a.at(f"cost.{STATED_BY[name]}") for a in plan.accelerators}
        attributes["basis"] = json.dumps({accelerator: _basis(figure) for accelerator, figure in figures.items()})
    return attributes


def _basis(figure: Quantity | None) -> str:
    return f"{figure.text} ({figure.kind}), differences by the cost model" if figure else "cost model alone"
