"""Build the plan of a sweep: read everything that the specification names, resolve its axes, and report all errors at once.

The plan is checked before hours of work start: names, costs, figures, the reduction, and whether the results fit in memory.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from dse.base import catalog
from dse.base.available_memory import available_bytes
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.progress import progress_bar
from dse.base.yaml_document import YamlDocument
from dse.model.cost import coefficients
from dse.model.cost.coefficients import PROCESS_PATH
from dse.model.cost.design import COST_PATH, Design
from dse.model.efficiency.efficiency_file import FittedRecord, available_kernels
from dse.model.efficiency.fitted import LAUNCH_LATENCY, slowdown_paths
from dse.model.executions import list_executions
from dse.model.host_time import HOST_PATHS
from dse.model.memory_levels import capacity_paths
from dse.model.operand_blocks import check_whole_blocks
from dse.model.rates import rate_paths
from dse.schema.accelerator import Accelerator
from dse.schema.figures import SweepContents, lacks_speedup, unmet_needs
from dse.schema.stored_results import SCALAR_VARIABLES, TopReduction, objective_signs
from dse.schema.sweep import SweepSpec, read_sweep
from dse.sweeping.axis import Axis, parse_axis
from dse.sweeping.descriptions import load_accelerators, load_workloads
from dse.sweeping.linked_axes import changed_paths, check_linked_values, link_accelerators, mark_roles
from dse.sweeping.plan import VARIANT_OBJECTIVES, Plan
from dse.sweeping.variants import check_assumed_drops, select_variants
from dse.workload import Variant, Workload

MAX_RESULT_BYTES = 32 * 10**9
MAX_OUTER_COMBINATIONS = 1000


def load_plan(reference: catalog.Reference) -> Plan:
    """Read a sweep, given by name, by path or as a mapping, with all files that it names; raises InputError with every problem."""
    return build_plan(*read_sweep(catalog.resolve_specification(reference)))


def build_plan(spec: SweepSpec, document: YamlDocument, progress: bool = False) -> Plan:
    """Read and check everything that a specification names; raises InputError with every problem."""
    reader = _SpecReader(spec.with_stored_variables(), document)
    accelerators = load_accelerators(reader.spec, document, reader.problems)
    workloads = load_workloads(reader.spec, document, reader.problems, progress)
    accelerators = link_accelerators(reader.spec, document, accelerators, reader.problems)
    reader.problems.raise_if_any()
    variants = reader.select_variants(workloads, progress)
    reader.check_executions(accelerators)
    reader.check_blocks(variants)
    kernels, axes = reader.read_kernels(accelerators), reader.parse_axes(accelerators, variants)
    networks = tuple(workload for _, workload in workloads)
    plan = Plan(reader.spec, document, tuple(accelerators), networks, tuple(variants), tuple(axes), tuple(kernels))
    check_plan(plan, reader.problems)
    reader.problems.raise_if_any()
    check_designs(plan, reader.problems)
    reader.problems.raise_if_any()
    marked = replace(plan, axes=mark_roles(axes, accelerators, _rate_paths(plan)))
    _check_outer_combinations(marked, reader.problems)
    reader.problems.raise_if_any()
    return marked


@dataclass
class _SpecReader:
    """Read what a specification names; collect the problems instead of stopping at the first one."""

    spec: SweepSpec
    document: YamlDocument
    problems: ProblemCollector = field(default_factory=ProblemCollector)

    def select_variants(self, workloads: list[tuple[str, Workload]], progress: bool) -> list[Variant]:
        variants: list[Variant] = []
        with progress_bar("selecting variants", len(workloads), progress) as advance:
            for key, workload in workloads:
                selection, location = self.spec.workloads[key], ("workloads", key)
                variants += select_variants(workload, selection, self.document, location, self.problems)
                check_assumed_drops(workload, selection, False, self.document, location, self.problems)
                advance()
        return variants

    def check_executions(self, accelerators: list[Accelerator]) -> None:
        """Check that every accelerator computes in every dtype."""
        for index, dtype in enumerate(self.spec.dtype):
            for accelerator in accelerators:
                with self.problems.collect(*self.document.locate(("dtype", index))):
                    list_executions(accelerator, dtype, self.spec.model.fidelity)

    def check_blocks(self, variants: list[Variant]) -> None:
        """Check that every dtype can store the operands of every network."""
        distinct = {id(variant.layers): variant.layers for variant in variants}.values()
        for index, dtype in enumerate(self.spec.dtype):
            with self.problems.collect(*self.document.locate(("dtype", index))):
                for layers in distinct:
                    check_whole_blocks(layers, dtype)

    def read_kernels(self, accelerators: list[Accelerator]) -> list[tuple[FittedRecord, ...]]:
        """The fitted kernels of each accelerator; most fidelities need none."""
        kernels = []
        for accelerator in accelerators:
            with self.problems.collect(*self.document.locate(("model", "efficiencies"))):
                kernels.append(available_kernels(accelerator, self.spec.model, self.document.path.parent))
        return kernels

    def parse_axes(self, accelerators: list[Accelerator], variants: list[Variant]) -> list[Axis]:
        """The axes, with the roles that follow from the fidelity; rate axes are marked once the designs are known."""
        tabulated = {path for accelerator in accelerators for path in self._tabulated_paths(accelerator)}
        tabulated |= set(HOST_PATHS) if any(variant.runtime == "eager" for variant in variants) else set()
        axes: list[Axis] = []
        for path, written in self.spec.free_axes.items():
            with self.problems.collect(*self.document.locate(("axes", path))):
                axes.append(parse_axis(path, written, accelerators))
            if getattr(written, "when", {}):
                fix = "remove 'when', or run 'dse search'"
                self.problems.add(self.document.make_problem(("axes", path, "when"), "a sweep has no conditional axes", fix))
        check_linked_values(axes, accelerators, self.document, self.problems)
        return list(mark_roles(axes, accelerators, set(), tabulated))

    def _tabulated_paths(self, accelerator: Accelerator) -> list[str]:
        """Paths of numbers that are not factors of a rate, but that the latency depends on.

        These are the capacities on chip and, with fidelity `calibrated`, what the tiles, instructions and launches of kernels depend on.
        """
        fidelity = self.spec.model.fidelity
        kernel_paths = (
            [*slowdown_paths(accelerator, self.spec.dtype, self.spec.free_axes), LAUNCH_LATENCY] if fidelity == "calibrated" else []
        )
        return capacity_paths(accelerator, fidelity) + kernel_paths


def _rate_paths(plan: Plan) -> set[str]:
    """Paths that the rates of any design depend on. All categorical designs count: a run may be enabled in one of them only."""
    paths: set[str] = set()
    for _, accelerator in plan.categorical_designs():
        for _, _, dtype in plan.batches_and_dtypes():
            paths |= rate_paths(list_executions(accelerator, dtype, plan.spec.model.fidelity))
    return paths


def check_plan(plan: Plan, problems: ProblemCollector) -> None:
    """Collect every problem of a plan that is not about its combinations of categorical axes."""
    _check_unique_names(plan, problems)
    _check_costs(plan, problems)
    _check_figures(plan, problems)
    _check_reduction(plan, problems)


def check_designs(plan: Plan, problems: ProblemCollector) -> None:
    """Collect the problems of combinations of axes: too many, or values that do not go together, as a pattern and a format."""
    if _check_outer_combinations(plan, problems):
        return
    try:
        list(plan.categorical_designs())
    except InputError as error:
        for problem in error.problems:
            axis = next((axis.path for axis in plan.axes if problem.key.startswith(axis.path)), None)
            location = plan.document.locate(("axes", axis) if axis else ("axes",))
            problems.add(Problem(problem.message if axis else f"{problem.key}: {problem.message}", problem.fix, *location))


def _check_outer_combinations(plan: Plan, problems: ProblemCollector) -> bool:
    """Whether there are too many combinations of the axes that are evaluated separately, which is then a problem."""
    if plan.outer_combination_count <= MAX_OUTER_COMBINATIONS:
        return False
    message = (
        f"{plan.outer_combination_count} combinations of patterns, formats, dtypes, switches and capacities, which are evaluated "
        "separately, are too many"
    )
    problems.add(plan.document.make_problem(("axes",), message, f"write at most {MAX_OUTER_COMBINATIONS}"))
    return True


def check_result_size(plan: Plan) -> None:
    """Raise InputError if all results are kept and do not fit in memory; for results that are not written chunk by chunk."""
    limit = min(MAX_RESULT_BYTES, available_bytes())
    if plan.spec.keep == "all" and plan.result_bytes > limit:
        message = f"the results would take {plan.result_bytes / 1e9:.3g} GB, and are kept in memory"
        fix = f"write them to a Zarr store ('-o {plan.spec.name}.zarr'), reduce them ('keep: summary'), or stay below {limit / 1e9:.3g} GB"
        raise InputError.from_problems([plan.document.make_problem(("axes",), message, fix)])


def list_unused_axes(plan: Plan) -> list[Problem]:
    """Axes that change no result; the capacity of the outermost memory decides what fits, and costs depend on more numbers."""
    has_costs, names = bool(plan.spec.store.cost_variables), [axis.path for axis in plan.axes]

    def is_used(path: str, accelerator: Accelerator) -> bool:
        changed = changed_paths(accelerator, path, names)
        return f"memory.{accelerator.outermost}.capacity" in changed or (has_costs and any(map(COST_PATH.fullmatch, changed)))

    unused = [axis.path for axis in plan.axes if axis.role == "unused" and not any(is_used(axis.path, one) for one in plan.accelerators)]
    message = f"does not change the latency under fidelity '{plan.spec.model.fidelity}'"
    return [plan.document.make_problem(("axes", path), message, "leave it out") for path in unused]


def _check_unique_names(plan: Plan, problems: ProblemCollector) -> None:
    """Accelerators and workloads label the results by name, so names must differ."""
    for key, described in (("accelerators", plan.accelerators), ("workloads", plan.workloads)):
        counts = Counter(one.name for one in described)
        for name in sorted(name for name, count in counts.items() if count > 1):
            fix = "list it once, or change the 'name' in one of the files"
            problems.add(plan.document.make_problem((key,), f"two are named '{name}'", fix))


def _check_costs(plan: Plan, problems: ProblemCollector) -> None:
    processes = {axis.path: axis.values for axis in plan.axes if axis.path == PROCESS_PATH}
    for index, accelerator in enumerate(plan.accelerators if plan.spec.store.cost_variables else ()):
        with problems.collect(*plan.document.locate(("accelerators", index))):
            for design in (Design(accelerator), Design(accelerator, processes)):
                coefficients.check_process(design)


def _check_figures(plan: Plan, problems: ProblemCollector) -> None:
    variants = plan.variants  # none where the selection has problems of its own
    contents = SweepContents(
        variables=plan.spec.store.variables,
        axis_sizes={axis.path: len(axis) for axis in plan.axes},
        variants=len(variants),
        any_accuracy=not variants or any(np.isfinite(v.accuracy) or v.assumed_drop for v in variants),
        any_pruned=not variants or any(variant.method != "dense" for variant in variants),
        any_flops=not variants or any(variant.layers.has_flops.any() for variant in variants),
        inputs=[(workload.description.name, {**workload.all_inputs, **workload.assumed}) for workload in plan.workloads],
    )
    for index, kind in enumerate(plan.spec.plots):
        for message, fix in unmet_needs(kind, contents):
            problems.add(plan.document.make_problem(("plots", index), message, fix))
        if lacks_speedup(kind, contents):
            problems.add(plan.document.make_problem(("store", "variables"), f"the figure '{kind}' needs 'speedup'", "add it"))


def _check_reduction(plan: Plan, problems: ProblemCollector) -> None:
    """The objectives of a reduction are stored results, axes or coordinates of a variant; figures need all results."""
    spec, document = plan.spec, plan.document
    stored = [name for name in spec.store.variables if name in SCALAR_VARIABLES]
    available, objectives = [*stored, *spec.free_axes, *VARIANT_OBJECTIVES], set(objective_signs(spec.keep))
    for name in sorted(objectives - set(available)):
        hint = did_you_mean(name, [*available, *SCALAR_VARIABLES])
        fix = f"add '{name}' to the 'variables' of 'store'" if name in SCALAR_VARIABLES else hint
        problems.add(document.make_problem(("keep",), f"'{name}' is not a stored result, an axis or a coordinate of the variants", fix))
    used = {dim for name in objectives for dim in plan.dims_of(name)}
    if objectives and objectives <= set(available) and (missing := [dim for dim in plan.dims if dim not in used]):
        fix = "write another objective, as 'latency'" if isinstance(spec.keep, TopReduction) else "add 'latency'"
        problems.add(document.make_problem(("keep",), f"no objective depends on {', '.join(map(repr, missing))}", fix))
    if spec.keep != "all" and spec.plots:
        problems.add(document.make_problem(("plots",), "figures need all results", "leave 'plots' out, or write 'keep: all'"))
