"""The plan of a sweep: everything that its specification names, and the designs that its axes span.

Outer-loop axes (categorical and tabulated ones) are iterated outside the compiled functions; inner axes are evaluated at once.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Shaped

from dse.base.display_units import format_quantity
from dse.base.dtype import OperandDtypes
from dse.base.yaml_document import YamlDocument
from dse.model.efficiency.efficiency_file import FittedRecord
from dse.model.efficiency.interval import SAMPLES
from dse.schema.accelerator import Accelerator
from dse.schema.stored_results import DESIGN_VARIABLES, EXTRA_DIMS, with_interval_variables
from dse.schema.sweep import SweepSpec
from dse.sweeping.axis import Axis, Role, iterate_combinations
from dse.workload import Variant, Workload

Position = dict[str, int]  # along some dimensions of the results
VARIANT_OBJECTIVES = ("accuracy", "accuracy_drop", "sparsity", "nominal_sparsity")
ROLE_EFFECTS: dict[Role, str] = {
    "rate": "scales a rate",
    "categorical": "changes what runs",
    "tabulated": "changes bytes or kernel efficiencies",
    "unused": "does not change the latency",
}


@dataclass(frozen=True)
class Plan:
    """A sweep whose files are read and checked; `fitted_kernels`: of each accelerator, none where the fidelity needs none."""

    spec: SweepSpec
    document: YamlDocument
    accelerators: tuple[Accelerator, ...]
    workloads: tuple[Workload, ...]
    variants: tuple[Variant, ...]
    axes: tuple[Axis, ...]
    fitted_kernels: tuple[tuple[FittedRecord, ...], ...]

    @property
    def dims(self) -> dict[str, int]:
        """Dimensions of the results and their sizes."""
        axes = {axis.path: len(axis) for axis in self.axes}
        sizes = {"batch": len(self.spec.batch), "dtype": len(self.spec.dtype), "variant": len(self.variants)}
        return {"accelerator": len(self.accelerators), **axes, **sizes}

    def dims_of(self, name: str) -> tuple[str, ...]:
        """Dimensions of a stored result, an axis or an objective of the variants."""
        paths = [axis.path for axis in self.axes]
        if name in paths:
            return (name,)
        if name in VARIANT_OBJECTIVES:
            return ("variant",)
        if name in DESIGN_VARIABLES:
            return ("accelerator", *paths)
        numeric = {axis.path for axis in self.axes if axis.role != "categorical"} if name == "footprint" else ()
        return (*(dim for dim in self.dims if dim not in numeric), *EXTRA_DIMS.get(name, ()))

    @property
    def inner_axes(self) -> list[Axis]:
        """The axes that one job covers completely."""
        return [axis for axis in self.axes if not axis.is_outer_loop]

    @property
    def outer_combination_count(self) -> int:
        """Number of combinations of the outer-loop axes."""
        return math.prod(len(axis) for axis in self.axes if axis.is_outer_loop)

    @property
    def rate_axes(self) -> dict[str, Shaped[np.ndarray, "value"]]:
        """Values of the axes that scale a rate, by path."""
        return {axis.path: axis.values for axis in self.axes if axis.role == "rate"}

    @property
    def rate_grid_size(self) -> int:
        """Number of designs that the rate axes span."""
        return math.prod(map(len, self.rate_axes.values()))

    @property
    def design_count(self) -> int:
        return math.prod(size for dim, size in self.dims.items() if dim not in ("batch", "dtype", "variant"))

    @cached_property
    def dense_variants(self) -> dict[str, Variant]:
        """The dense baseline of each workload, by name."""
        return {workload.name: workload.dense for workload in self.workloads}

    @property
    def needs_dense_latency(self) -> bool:
        return bool({"dense_latency", "speedup"} & set(self.spec.store.variables))

    @property
    def needs_breakdown(self) -> bool:
        """Whether the latency is stored by resource or by execution."""
        return bool({"bound_share", "execution_share"} & set(self.spec.store.variables))

    @property
    def has_lower_bound(self) -> bool:
        """Whether the fidelity gives a lower bound of the latency besides the attainable one."""
        return self.spec.model.fidelity == "capacity"

    @property
    def has_intervals(self) -> bool:
        """Whether the results have prediction intervals, from samples of the fitted kernel parameters."""
        return self.spec.model.fidelity == "calibrated" and bool({"latency", "dense_latency", "speedup"} & set(self.spec.store.variables))

    @property
    def result_variables(self) -> list[str]:
        """Names of the variables of the dataset, in their order."""
        return with_interval_variables(self.spec.store.variables, self.spec.model.fidelity)

    @property
    def result_bytes(self) -> int:
        """Upper bound of the size of the results in memory."""
        units = sum(len(accelerator.units) for accelerator in self.accelerators)
        runs = sum(1 + len(unit.runs) for accelerator in self.accelerators for unit in accelerator.units.values())
        widths = {"bound_share": 2 * units + len(self.accelerators), "execution_share": runs}
        width = sum(widths.get(name, 1) for name in self.result_variables)
        inner_size = math.prod(map(len, self.inner_axes))
        arrays = 5 if self.has_intervals else 0  # dense, its unpruned layers, pruned, a ratio, and one of them sorted
        samples = arrays * SAMPLES * inner_size
        return (math.prod(self.dims.values()) * width + samples) * np.dtype(self.spec.store.dtype).itemsize

    def categorical_designs(self) -> Iterator[tuple[Position, Accelerator]]:
        """Each accelerator with each combination of the categorical axes, all other axes at their first value."""
        first_values: dict[str, object] = {axis.path: axis.yaml_values[0] for axis in self.axes}
        for number, accelerator in enumerate(self.accelerators):
            for position, values in iterate_combinations(self.axes, "categorical"):
                yield {"accelerator": number, **position}, accelerator.replace({**first_values, **values})

    def tabulated_designs(self, accelerator: Accelerator) -> list[tuple[Position, Accelerator]]:
        """An accelerator with each combination of the tabulated axes."""
        combinations = iterate_combinations(self.axes, "tabulated")
        return [(position, accelerator.replace(values) if values else accelerator) for position, values in combinations]

    def batches_and_dtypes(self) -> Iterator[tuple[Position, int, OperandDtypes]]:
        for (b, batch), (d, dtype) in itertools.product(enumerate(self.spec.batch), enumerate(self.spec.dtype)):
            yield {"batch": b, "dtype": d}, batch, dtype


def _range_text(axis: Axis) -> str:
    """The ends of an axis of numbers: ' from 1 TB/s to 8 TB/s'."""
    if axis.values.dtype.kind not in "if":
        return ""
    low, high = (format_quantity(float(end), axis.unit) for end in (axis.values.min(), axis.values.max()))
    return f" from {low} to {high}"


def describe_plan(plan: Plan) -> str:
    """What a sweep would evaluate, and how large its results would be: the text of `dse sweep --dry-run`."""
    spec = plan.spec
    layers = ", ".join(f"{len(workload.layers)} of {workload.name}" for workload in plan.workloads)
    counts = f"{plan.design_count} designs x {len(plan.variants)} variants x {len(spec.batch)} batch sizes x {len(spec.dtype)} dtypes"
    lines = [
        f"sweep        {spec.name} ({plan.document.path})",
        f"accelerators {', '.join(accelerator.name for accelerator in plan.accelerators)}",
        f"workloads    {', '.join(workload.name for workload in plan.workloads)}",
        *(f"run on       {workload.name}: {workload.run_on}" for workload in plan.workloads if workload.run_on),
        *(f"axis         {axis.path}: {len(axis)} values{_range_text(axis)} ({ROLE_EFFECTS[axis.role]})" for axis in plan.axes),
        *(f"linked       {path} = {axis.link}" for path, axis in spec.linked_axes.items()),
        f"evaluates    {counts}, layers: {layers}",
        f"results      at most {plan.result_bytes / 1e6:.3g} MB: {', '.join(spec.store.variables)}",
        *(f"variant      {variant.workload}: {variant}" for variant in plan.variants),
    ]
    return "\n".join(lines)
