"""A sweep before it runs: every file read, every name resolved, every problem told at once."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dse.base import catalog
from dse.base.available_memory import available_bytes
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.progress import progress_bar
from dse.base.yaml_document import YamlDocument
from dse.model.cost import scaling
from dse.model.cost.design import DRIVER, Design
from dse.model.efficiency.fitted import LAUNCH, drivers
from dse.model.efficiency.interval import SAMPLES
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.levels import capacities
from dse.model.peak import executions
from dse.model.terms import rate_paths
from dse.schema.accelerator import Accelerator
from dse.schema.figures import SweepContents, lacks_speedup, unmet_needs
from dse.schema.reduction import TopReduction, objective_signs
from dse.schema.sweep import SCALAR_VARIABLES, SweepSpec, read_sweep, with_interval_variables
from dse.sweeping.axis import Axis, iterate_combinations, mark_rate_axes, parse_axis
from dse.sweeping.descriptions import load_accelerators, load_workloads
from dse.sweeping.variants import select
from dse.workload import Variant, Workload


@dataclass(frozen=True)
class Plan:
    spec: SweepSpec
    document: YamlDocument
    accelerators: tuple[Accelerator, ...]
    workloads: tuple[Workload, ...]
    variants: tuple[Variant, ...]
    axes: tuple[Axis, ...]
    fitted_kernels: tuple[tuple[KernelRecord, ...], ...]  # that stand for each accelerator, where the fidelity asks for them

    @property
    def dims(self) -> dict[str, int]:
        """Dimensions of the results and their sizes."""
        axes = {axis.path: len(axis) for axis in self.axes}
        sizes = {"batch": len(self.spec.batch), "dtype": len(self.spec.dtype), "variant": len(self.variants)}
        return {"accelerator": len(self.accelerators), **axes, **sizes}

    @property
    def rate_axes(self) -> dict[str, np.ndarray]:
        return {axis.path: axis.values for axis in self.axes if axis.role == "rate"}

    @property
    def rate_grid_size(self) -> int:
        """How many designs the rate axes make."""
        return math.prod(map(len, self.rate_axes.values()))

    @cached_property
    def dense_variants(self) -> dict[str, Variant]:
        """The dense baseline of each workload, by name."""
        return {workload.name: workload.dense for workload in self.workloads}

    @property
    def needs_dense_latency(self) -> bool:
        return bool({"dense_latency", "speedup"} & set(self.spec.store.variables))

    @property
    def needs_breakdown(self) -> bool:
        """Whether it is told what runs and what bounds it."""
        return bool({"bound_share", "execution_share"} & set(self.spec.store.variables))

    @property
    def has_lower_bound(self) -> bool:
        """Whether a latency has a lower bound of its own, besides what is attainable."""
        return self.spec.model.fidelity == "capacity"

    @property
    def has_intervals(self) -> bool:
        """Whether a latency has limits from what measured kernels leave open."""
        return self.spec.model.fidelity == "calibrated" and bool({"latency", "dense_latency", "speedup"} & set(self.spec.store.variables))

    @property
    def result_variables(self) -> list[str]:
        """Of the dataset."""
        return with_interval_variables(self.spec.store.variables, self.spec.model.fidelity)

    @property
    def design_count(self) -> int:
        return math.prod(size for dim, size in self.dims.items() if dim not in ("batch", "dtype", "variant"))

    @property
    def result_bytes(self) -> int:
        """Size of the results, at most."""
        units = sum(len(accelerator.units) for accelerator in self.accelerators)
        runs = sum(1 + len(unit.runs) for accelerator in self.accelerators for unit in accelerator.units.values())
        widths = {"bound_share": 2 * units + len(self.accelerators), "execution_share": runs}
        width = sum(widths.get(name, 1) for name in self.result_variables)
        at_once = math.prod(len(axis) for axis in self.axes if axis.role not in ("categorical", "tabulated"))
        drawn = 4 * SAMPLES * at_once if self.has_intervals else 0  # dense, pruned, their ratio, in order
        return (math.prod(self.dims.values()) * width + drawn) * np.dtype(self.spec.store.dtype).itemsize

    @property
    def first_values(self) -> dict[str, Any]:
        """Each axis at its first value, as it stands in a description."""
        return {axis.path: axis.yaml_values[0] for axis in self.axes}

    def categorical_designs(self) -> Iterator[tuple[dict[str, int], Accelerator]]:
        """Each accelerator under each structure, with its place in the results; rate axes stand at their first value."""
        for number, accelerator in enumerate(self.accelerators):
            for place, values in iterate_combinations(self.axes, "categorical"):
                yield {"accelerator": number, **place}, accelerator.replace({**self.first_values, **values})

    def tabulated_designs(self, design: Accelerator) -> list[tuple[dict[str, int], Accelerator]]:
        """A design with each capacity that the latency depends on, and its place in the results."""
        return [(place, design.replace(values) if values else design) for place, values in iterate_combinations(self.axes, "tabulated")]

    def batches_and_dtypes(self) -> Iterator[tuple[dict[str, int], int, OperandDtypes]]:
        for (b, batch), (d, dtype) in itertools.product(enumerate(self.spec.batch), enumerate(self.spec.dtype)):
            yield {"batch": b, "dtype": d}, batch, dtype


def load_plan(reference: catalog.Reference) -> Plan:
    """Read a sweep, by name, path or as a mapping, and all it names; raises InputError with every problem found."""
    return build_plan(*read_sweep(catalog.resolve_specification(reference)))


def build_plan(spec: SweepSpec, document: YamlDocument, progress: bool = False) -> Plan:
    """Everything that a specification names, read and checked against each other; raises InputError."""
    spec, problems = spec.with_stored_variables(), ProblemCollector()
    accelerators = load_accelerators(spec, document, problems)
    workloads = load_workloads(spec, document, problems, progress)
    problems.raise_if_any()
    _check_names(document, accelerators, workloads, problems)
    variants: list[Variant] = []
    with progress_bar("choosing network states", len(workloads), progress) as advance:
        for key, workload in workloads:
            variants += select(workload, spec.workloads[key], document, ("workloads", key), problems)
            advance()
    for index, dtype in enumerate(spec.dtype):
        for accelerator in accelerators:
            with problems.collect(*document.locate(("dtype", index))):
                executions(accelerator, dtype, spec.model.fidelity)
    kernels = _kernels(spec, document, accelerators, problems)
    axes = _axes(spec, document, accelerators, problems)
    _check_cost(spec, document, accelerators, axes, problems)
    _check_plots(spec, document, variants, axes, problems)
    _check_keep(spec, document, problems)
    problems.raise_if_any()
    networks = tuple(workload for _, workload in workloads)
    plan = Plan(spec, document, tuple(accelerators), networks, tuple(variants), tuple(axes), tuple(kernels))
    _check_designs(plan, problems)
    problems.raise_if_any()
    return replace(plan, axes=mark_rate_axes(axes, _rate_paths(plan)))


MAX_RESULT_BYTES = 32 * 10**9
MAX_OUTER_COMBINATIONS = 1000


def check_result_size(plan: Plan) -> None:
    """Raises InputError where the results are too large to be kept in memory."""
    most = min(MAX_RESULT_BYTES, available_bytes())
    if plan.spec.keep == "all" and plan.result_bytes > most:
        what = f"the results would take {plan.result_bytes / 1e9:.3g} GB, and are kept in memory"
        fix = f"write them to a Zarr store ('-o {plan.spec.name}.zarr'), keep a part ('keep: summary'), or stay below {most / 1e9:.3g} GB"
        raise InputError.from_problems([plan.document.make_problem(("axes",), what, fix)])


def _check_designs(plan: Plan, problems: ProblemCollector) -> None:
    """Values that are right one by one may be too many together, or not go together: a pattern with another axis's format."""
    structures = math.prod(len(axis) for axis in plan.axes if axis.is_outer_loop)
    if structures > MAX_OUTER_COMBINATIONS:
        what = f"{structures} combinations of patterns, formats, dtypes, switches and capacities, which are taken one by one, are too many"
        problems.add(plan.document.make_problem(("axes",), what, f"write at most {MAX_OUTER_COMBINATIONS}"))
        return
    try:
        list(plan.categorical_designs())
    except InputError as error:
        for problem in error.problems:
            axis = next((axis.path for axis in plan.axes if problem.key.startswith(axis.path)), None)
            place = plan.document.locate(("axes", axis) if axis else ("axes",))
            problems.add(Problem(f"{problem.key}: {problem.message}" if not axis else problem.message, problem.fix, *place))


def _kernels(
    spec: SweepSpec, document: YamlDocument, accelerators: list[Accelerator], problems: ProblemCollector
) -> list[tuple[KernelRecord, ...]]:
    """By accelerator; most fidelities ask for none."""
    found = []
    for accelerator in accelerators:
        with problems.collect(*document.locate(("model", "efficiencies"))):
            found.append(available_kernels(accelerator, spec.model, document.path.parent))
    return found


def _check_names(
    document: YamlDocument, accelerators: list[Accelerator], workloads: list[tuple[str, Workload]], problems: ProblemCollector
) -> None:
    """Results are labelled by name, so names must differ."""
    for key, names in (("accelerators", [a.name for a in accelerators]), ("workloads", [w.name for _, w in workloads])):
        for name in sorted(name for name, count in Counter(names).items() if count > 1):
            problems.add(document.make_problem((key,), f"two are named '{name}'", "list it once, or change the 'name' in one of the files"))


def _check_plots(spec: SweepSpec, document: YamlDocument, variants: list[Variant], axes: list[Axis], problems: ProblemCollector) -> None:
    """Check what each figure needs before hours of work, not after them."""
    contents = SweepContents(
        variables=spec.store.variables,
        axis_sizes={axis.path: len(axis) for axis in axes},
        variants=len(variants),
        any_accuracy=not variants or any(np.isfinite(variant.accuracy) for variant in variants),
        any_pruned=not variants or any(variant.method != "dense" for variant in variants),
        any_flops=not variants or any(variant.layers.has_flops.any() for variant in variants),
    )
    for index, kind in enumerate(spec.plots):
        for message, fix in unmet_needs(kind, contents):
            problems.add(document.make_problem(("plots", index), message, fix))
        if lacks_speedup(kind, contents):
            problems.add(document.make_problem(("store", "variables"), f"the figure '{kind}' needs 'speedup'", "add it"))


def _check_keep(spec: SweepSpec, document: YamlDocument, problems: ProblemCollector) -> None:
    """What is kept is chosen by stored results, axes or what is known of a variant; figures are of all results."""
    known = [
        *(name for name in spec.store.variables if name in SCALAR_VARIABLES),
        *spec.axes,
        "accuracy",
        "accuracy_drop",
        "sparsity",
        "nominal_sparsity",
    ]
    chosen = set(objective_signs(spec.keep))
    for name in sorted(chosen - set(known)):
        fix = f"add '{name}' to the 'variables' of 'store'" if name in SCALAR_VARIABLES else did_you_mean(name, [*known, *SCALAR_VARIABLES])
        problems.add(document.make_problem(("keep",), f"there is no '{name}' to choose by", fix))
    if chosen and chosen <= {*known} - {*SCALAR_VARIABLES} | {"area", "power"}:
        fix = "write another objective, as 'latency'" if isinstance(spec.keep, TopReduction) else "add 'latency'"
        problems.add(document.make_problem(("keep",), "nothing of this is about the network", fix))
    if spec.keep != "all" and spec.plots:
        problems.add(document.make_problem(("plots",), "figures need all results", "leave 'plots' out, or write 'keep: all'"))


def _check_cost(
    spec: SweepSpec, document: YamlDocument, accelerators: list[Accelerator], axes: list[Axis], problems: ProblemCollector
) -> None:
    given = {axis.path: axis.values for axis in axes}
    for index, accelerator in enumerate(accelerators if spec.store.cost_variables else ()):
        with problems.collect(*document.locate(("accelerators", index))):
            for design in (Design(accelerator), Design(accelerator, given)):
                scaling.check(design)


def _axes(spec: SweepSpec, document: YamlDocument, accelerators: list[Accelerator], problems: ProblemCollector) -> list[Axis]:
    found: list[Axis] = []
    for path, written in spec.axes.items():
        with problems.collect(*document.locate(("axes", path))):
            parsed = parse_axis(path, written, accelerators)
            counts = any(path in _in_turn(accelerator, spec) for accelerator in accelerators)
            found.append(replace(parsed, role="tabulated") if counts else parsed)
    return found


def _in_turn(accelerator: Accelerator, spec: SweepSpec) -> list[str]:
    """Paths of numbers that no rate is a product of, but that the latency depends on: capacities on chip, and under `calibrated` what
    tiles, instructions and launches depend on."""
    kernels = [*drivers(accelerator, spec.dtype, spec.axes), LAUNCH] if spec.model.fidelity == "calibrated" else []
    return capacities(accelerator, spec.model.fidelity) + kernels


def _rate_paths(plan: Plan) -> set[str]:
    """What the rates of any design depend on: under every structure, since a run may be there in one and not in another."""
    found: set[str] = set()
    for _, accelerator in plan.categorical_designs():
        for _, _, dtype in plan.batches_and_dtypes():
            found |= rate_paths(executions(accelerator, dtype, plan.spec.model.fidelity))
    return found


def list_unused_axes(plan: Plan) -> list[Problem]:
    """Axes that change no latency under this model, as remarks: capacity decides what fits, what costs is asked for, so they count."""
    counted = {f"memory.{accelerator.outermost}.capacity" for accelerator in plan.accelerators}
    counted |= {axis.path for axis in plan.axes if plan.spec.store.cost_variables and DRIVER.fullmatch(axis.path)}
    idle = [axis.path for axis in plan.axes if axis.role == "unused" and axis.path not in counted]
    return [
        plan.document.make_problem(
            ("axes", path), f"does not change the latency under fidelity '{plan.spec.model.fidelity}'", "leave it out"
        )
        for path in idle
    ]
