"""What `dse explore` varies: the accelerators, networks, batches and dtypes of some results, and the numbers of an accelerator."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dse.base.display_units import select_unit
from dse.base.dtype import OperandDtypes
from dse.base.units import Count, Efficiency, Gain, Quantity, Width
from dse.html_report.layer_details import NetworkOnDesign, decisive_paths
from dse.html_report.points import variant_label
from dse.html_report.results_files import Results
from dse.html_report.search_section import encode_designs, load_evaluator
from dse.model.cost.area import area
from dse.model.cost.coefficients import has_known_process
from dse.model.cost.design import Design
from dse.model.cost.power import power
from dse.plot.selection import Table
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.sweeping import provenance
from dse.workload import Variant

FACTOR = 10.0  # between the described value and the ends of its slider
STEPS = 41  # values of a slider, the described one in the middle


@dataclass(frozen=True, eq=False)
class Exploration:
    """The choices of a page: accelerators and variants by name (with the dense network of each), batches, dtypes, options of the model."""

    accelerators: dict[str, Accelerator]
    variants: dict[str, tuple[Variant, Variant]]
    batches: tuple[int, ...]
    dtypes: dict[str, OperandDtypes]
    options: ModelOptions

    @classmethod
    def of_results(cls, results: Results) -> "Exploration":
        """The choices of a sweep, or of a search with its best design first; raises InputError if descriptions have changed since."""
        if results.kind == "search":
            return _of_search(results)
        plan = provenance.rebuild_plan(results.dataset)
        dense = plan.dense_variants.values()
        pairs = [(variant, plan.dense_variants[variant.workload]) for variant in plan.variants] + [(each, each) for each in dense]
        accelerators = {each.name: each for each in plan.accelerators}
        dtypes = {dtype.label: dtype for dtype in plan.spec.dtype}
        return cls(accelerators, _named(pairs), tuple(plan.spec.batch), dtypes, plan.spec.model)

    def network(self, accelerator: Accelerator, variant: str, batch: int, dtype: str) -> NetworkOnDesign:
        return NetworkOnDesign(accelerator, *self.variants[variant], batch, self.dtypes[dtype], self.options)

    def sliders(self, accelerator: str, dtype: str) -> dict[str, dict[str, str]]:
        """The values of each slider by path: label for display and text of the description."""
        device = self.accelerators[accelerator]
        paths = decisive_paths(device, self.dtypes[dtype], self.options.fidelity)
        return {path: slider_values(device.at(path)) for path in paths}


def _of_search(results: Results) -> Exploration:
    evaluator = load_evaluator(results.dataset)
    problem, space = evaluator.problem, evaluator.space
    best = int(np.flatnonzero(results.dataset["best"].values)[0])
    design = encode_designs(evaluator, results.dataset.isel(point=[best]))[0]
    accelerators = {f"{space.accelerator.name} (best)": space.accelerator_at(design), space.accelerator.name: space.accelerator}
    own = [problem.feasible_variants[name] for name in problem.own_networks]
    pairs = [(variant, variants[0]) for variants in own for variant in variants]
    return Exploration(accelerators, _named(pairs), (problem.batch,), {problem.dtype.label: problem.dtype}, problem.options)


def _named(pairs: list[tuple[Variant, Variant]]) -> dict[str, tuple[Variant, Variant]]:
    """Variants, each with its dense network, by a label that names the network."""
    return {_label(variant): (variant, dense) for variant, dense in pairs}


def _label(variant: Variant) -> str:
    run_on = f" ({variant.run_on})" if variant.run_on and variant.run_on not in variant.workload else ""
    state = variant_label(variant.workload, variant.method, str(variant.pattern), variant.nominal_sparsity, with_network=True)
    return state + run_on + (f", densities {variant.densities_from}" if variant.densities_from else "")


def slider_values(quantity: Quantity) -> dict[str, str]:
    """Values around a quantity, at most a factor of 10 apart, by the text of the description: evenly spaced in the logarithm."""
    values = quantity.value * np.geomspace(1 / FACTOR, FACTOR, STEPS)
    if isinstance(quantity, Count | Width):
        values = np.unique(np.maximum(np.round(values), 1.0))
    elif isinstance(quantity, Efficiency):
        values = np.unique(np.minimum(values, 1.0))
    elif isinstance(quantity, Gain):
        values = np.unique(np.maximum(values, 1.0))
    texts = [quantity_text(value, quantity) for value in values]
    described = quantity_text(quantity.value, quantity)
    return {text: text for text in (texts if described in texts else [described, *texts])}


def quantity_text(value: float, quantity: Quantity) -> str:
    """A value in the unit of a quantity with six digits, as a description states it: '2.039 TB/s'."""
    unit = select_unit(type(quantity).unit or "1", [float(value)])
    return f"{float(unit.convert(value)):.6g} {unit.text}".rstrip()


def vary(accelerator: Accelerator, chosen: Mapping[str, str]) -> Accelerator:
    """The accelerator with the chosen texts by path, those that are as described left out."""
    changed = {path: text for path, text in chosen.items() if text != quantity_text(accelerator.value(path), accelerator.at(path))}
    return accelerator.replace(changed) if changed else accelerator


@dataclass(frozen=True)
class DesignResults:
    """Results of a network on a design: latencies [s], and area [m^2] and power [W] where the process of the design is known."""

    latency: float
    dense_latency: float
    area: float | None
    power: float | None

    @property
    def speedup(self) -> float:
        return self.dense_latency / self.latency


def evaluate_choice(network: NetworkOnDesign) -> tuple[DesignResults, Table]:
    """The results of a choice, and the table of its layers."""
    rows, dense = network.layers(network.variant), network.layers(network.dense)
    device = network.accelerator
    design = Design(device, {}, device.base)
    costs = (float(area(design)), float(power(design))) if has_known_process(design) else (None, None)
    return DesignResults(float(rows.latency.sum()), float(dense.latency.sum()), *costs), rows
