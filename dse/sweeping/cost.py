"""Area, power and energy as results of a sweep, where its `store.variables` ask for them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dse.model.cost.area import area
from dse.model.cost.coefficients import doubtful, published
from dse.model.cost.design import Design
from dse.model.cost.network import Layers, spent_energy
from dse.model.cost.power import power
from dse.model.cost.power import static as static_power
from dse.model.levels import levels
from dse.model.terms import inverse_rates
from dse.schema.accelerator import Accelerator
from dse.sweeping.common import Common
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan

BY_ENERGY = {"energy", "edp", "average_power", "power_limited_latency"}
TOLERANCE = 1e-6  # of a comparison between powers, which are stored with seven digits or more
NEEDED_BY = {
    "area": {"area", "performance_per_area"},
    "power": {"power", "performance_per_watt", *BY_ENERGY},  # what the average power is compared with
    "leakage": BY_ENERGY,
    "energy": BY_ENERGY,
}


def design(plan: Plan, place: Mapping[str, int], accelerator: Accelerator) -> Design:
    """An accelerator at one place of some axes, the others as arrays that broadcast."""
    axes = [axis for axis in plan.axes if axis.path not in place]
    shapes = [[-1 if other is axis else 1 for other in axes] for axis in axes]
    return Design(
        accelerator, {a.path: a.values.reshape(s) for a, s in zip(axes, shapes, strict=True)}, plan.accelerators[place["accelerator"]]
    )


def arrays(plan: Plan) -> dict[str, np.ndarray]:
    """Area, power and leakage of each design, [accelerator, *axes], and room for the energy, over all dims."""
    shape, precision = tuple(plan.dims.values()), plan.spec.store.dtype
    designs = shape[: 1 + len(plan.axes)]
    sizes = {"area": designs, "power": designs, "leakage": designs, "energy": shape}
    found = {name: np.zeros(sizes[name], precision) for name, users in NEEDED_BY.items() if users & plan.spec.store.cost_variables}
    for name, function in (("area", area), ("power", power), ("leakage", static_power)):
        for place, accelerator in plan.categorical_designs() if name in found else ():
            at = (place["accelerator"], *(place.get(axis.path, slice(None)) for axis in plan.axes))
            found[name][at] = function(design(plan, place, accelerator))
    return found


def static(plan: Plan, job: Job) -> np.ndarray:
    """Leakage of the designs of a job [W]."""
    return static_power(design(plan, job.place, job.accelerator))


@dataclass(frozen=True)
class Energies:
    """The energy of each job; `layers`: the most of any, so that one compilation serves them all."""

    plan: Plan
    common: Common
    layers: int
    sizes: tuple[int, ...]  # of the rate axes of the whole sweep

    @classmethod
    def of(cls, jobs: list[Job], plan: Plan, common: Common) -> "Energies | None":
        """None where nothing asks for them."""
        if not plan.spec.store.needs_energy:
            return None
        sizes = tuple(map(len, plan.rate_axes.values()))
        return cls(plan, common, max(len(Layers.of(job.case).count) for job in jobs), sizes)

    def dynamic(self, job: Job) -> np.ndarray:
        """Energy of the work [J] over the axes that change no structure."""
        axes = [axis for axis in self.plan.axes if axis.path not in job.place]
        processes = [axis.values for axis in axes if axis.path == "cost.process"]
        given = [{"cost.process": process} for process in processes[0]] if processes else [{}]
        base = self.plan.accelerators[job.place["accelerator"]]
        spent = np.stack([self._over_rates(job, Design(job.accelerator, process, base)) for process in given])
        order = sorted(range(len(axes)), key=lambda n: (axes[n].path != "cost.process", n))  # the process is the first axis here
        sizes = [len(axes[n]) if axes[n].role == "rate" or axes[n].path == "cost.process" else 1 for n in order]
        return spent.reshape(sizes).transpose(np.argsort(order))

    def _over_rates(self, job: Job, at: Design) -> np.ndarray:
        layers, case = Layers.of(job.case), job.case
        energy = layers.energy(case, at, self.plan.spec.dtype[job.place["dtype"]].compute)
        work, energy, fixed = self._padded(layers, energy)
        options = {"compute": self.common.compute, "overlap": self.plan.spec.model.resource_overlap}
        spent = partial(spent_energy, work, energy, fixed=fixed, **options)
        rates = inverse_rates(case.executions, job.accelerator, self.plan.rate_axes)
        return self.common.grid(*rates, self.sizes).evaluated(spent)

    def _padded(self, found: Layers, energy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """To the shape of all jobs: absent layers and executions take too long to be chosen."""
        layers, executions, terms = found.timed.shape
        whole = np.zeros((self.layers, self.common.executions, self.common.terms[-1] + 1))
        whole[..., 1] = np.inf
        whole[:layers, :executions, :terms] = found.timed
        missing, precision = ((0, self.layers - layers), (0, self.common.executions - executions)), self.common.precision
        fixed = None if found.fixed is None else np.pad(found.fixed, missing).astype(precision)
        return whole[..., list(self.common.terms)].astype(precision), np.pad(energy, missing).astype(precision), fixed


def with_variables(found: xr.Dataset, plan: Plan, arrays: dict[str, np.ndarray]) -> xr.Dataset:
    """The dataset, with what is asked for of area, power and energy, and what follows from them."""
    for name, array in arrays.items():
        found[name] = (tuple(plan.dims)[: array.ndim], array)
    derived = {
        "edp": lambda: found.energy * found.latency,
        "performance_per_area": lambda: found.batch / found.latency / found.area,
        "performance_per_watt": lambda: found.batch / found.latency / found.power,
        "average_power": lambda: found.energy / found.latency,
        "power_limited_latency": lambda: power_limited_latency(found),
    }
    return found.assign({name: make().transpose(*plan.dims) for name, make in derived.items() if name in plan.spec.store.cost_variables})


def power_limited_latency(found: xr.Dataset) -> xr.DataArray:
    """Latency [s] at which work and leakage take at most the power of the design on average; from `latency`, `energy` and `leakage`."""
    work, left = found.energy - found.leakage * found.latency, found.power - found.leakage
    return xr.where(left > 0, np.maximum(found.latency, work / left.where(left > 0)), np.inf)


def power_warnings(found: xr.Dataset, plan: Plan) -> dict[str, str]:
    """For each accelerator that states a power, the result of a sweep that is furthest above that of its design, if any is; `found` has
    every result that is needed."""
    if "energy" not in found:
        return {}
    excess = (found.energy / found.latency / found.power).transpose(*plan.dims)
    told = {}
    for number, accelerator in enumerate(plan.accelerators):
        values = excess.values[number]
        if accelerator.value("cost.power") is None or not np.any(values > 1 + TOLERANCE):
            continue
        place = np.unravel_index(np.argmax(values), values.shape)
        worst = found.isel(dict(zip(plan.dims, (number, *place), strict=True)))
        state = plan.variants[int(worst.variant)]
        told[accelerator.name] = (
            f"'{accelerator.name}': '{state.workload}', {state}, batch {int(worst.batch)}, {worst.dtype.item()} takes "
            f"{float(worst.energy / worst.latency):.3g} W on average, above the {float(worst.power):.3g} W of the design: its latency of "
            f"{float(worst.latency):.3g} s is not attainable, at that power it is at least {float(power_limited_latency(worst)):.3g} s "
            f"({np.mean(values > 1 + TOLERANCE):.0%} of the results are above); store 'power_limited_latency'"
        )
    return told


def basis(name: str, plan: Plan) -> dict[str, Any]:
    """What a variable rests on: published figures or the model, accelerator by accelerator, and the model's own error."""
    of = {"area": "area", "performance_per_area": "area"} | dict.fromkeys(
        ("power", "performance_per_watt", "power_limited_latency"), "power"
    )
    if name not in plan.spec.store.cost_variables:
        return {}
    errors = ", ".join(f"{key} {error.text}" for key, error in published().stated_error.items())
    attrs = {"model_error": f"mean error of the cost model for a die that it does not know, relative: {errors}"}
    attrs["coefficients"] = doubtful()
    if name in NEEDED_BY["energy"]:
        counted = {a.name: [level.name for level in levels(a, plan.spec.model.fidelity)] for a in plan.accelerators}
        attrs["memory_levels"] = json.dumps(counted)  # whose bytes take energy
    if name not in of:
        return attrs
    stated = {a.name: a.at(f"cost.{of[name]}") for a in plan.accelerators}
    told = {
        name: f"{figure.text} ({figure.kind}), differences by the cost model" if figure else "cost model alone"
        for name, figure in stated.items()
    }
    return attrs | {"basis": json.dumps(told)}
