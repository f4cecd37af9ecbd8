"""Checks of a plan before hours of work start: names, costs, figures, the reduction, and whether the results fit in memory."""

from collections import Counter

import numpy as np

from dse.base.available_memory import available_bytes
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.model.cost import scaling
from dse.model.cost.design import COST_PATH, Design
from dse.schema.figures import SweepContents, lacks_speedup, unmet_needs
from dse.schema.reduction import TopReduction, objective_signs
from dse.schema.result_variables import SCALAR_VARIABLES
from dse.sweeping.plan import Plan

MAX_RESULT_BYTES = 32 * 10**9
MAX_OUTER_COMBINATIONS = 1000
VARIANT_OBJECTIVES = ("accuracy", "accuracy_drop", "sparsity", "nominal_sparsity")


def check_plan(plan: Plan, problems: ProblemCollector) -> None:
    """Collect every problem of a plan that is not about its combinations of categorical axes."""
    _check_unique_names(plan, problems)
    _check_costs(plan, problems)
    _check_figures(plan, problems)
    _check_reduction(plan, problems)


def check_designs(plan: Plan, problems: ProblemCollector) -> None:
    """Collect the problems of combinations of axes: too many, or values that do not go together, as a pattern and a format."""
    if plan.outer_combination_count > MAX_OUTER_COMBINATIONS:
        message = (
            f"{plan.outer_combination_count} combinations of patterns, formats, dtypes, switches and capacities, which are evaluated "
            "separately, are too many"
        )
        problems.add(plan.document.make_problem(("axes",), message, f"write at most {MAX_OUTER_COMBINATIONS}"))
        return
    try:
        list(plan.categorical_designs())
    except InputError as error:
        for problem in error.problems:
            axis = next((axis.path for axis in plan.axes if problem.key.startswith(axis.path)), None)
            location = plan.document.locate(("axes", axis) if axis else ("axes",))
            problems.add(Problem(problem.message if axis else f"{problem.key}: {problem.message}", problem.fix, *location))


def check_result_size(plan: Plan) -> None:
    """Raise InputError if all results are kept and do not fit in memory."""
    limit = min(MAX_RESULT_BYTES, available_bytes())
    if plan.spec.keep == "all" and plan.result_bytes > limit:
        message = f"the results would take {plan.result_bytes / 1e9:.3g} GB, and are kept in memory"
        fix = f"write them to a Zarr store ('-o {plan.spec.name}.zarr'), reduce them ('keep: summary'), or stay below {limit / 1e9:.3g} GB"
        raise InputError.from_problems([plan.document.make_problem(("axes",), message, fix)])


def list_unused_axes(plan: Plan) -> list[Problem]:
    """Axes that change no result; the capacity of the outermost memory decides what fits, and costs depend on more numbers."""
    used = {f"memory.{accelerator.outermost}.capacity" for accelerator in plan.accelerators}
    used |= {axis.path for axis in plan.axes if plan.spec.store.cost_variables and COST_PATH.fullmatch(axis.path)}
    unused = [axis.path for axis in plan.axes if axis.role == "unused" and axis.path not in used]
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
    axis_values = {axis.path: axis.values for axis in plan.axes}
    for index, accelerator in enumerate(plan.accelerators if plan.spec.store.cost_variables else ()):
        with problems.collect(*plan.document.locate(("accelerators", index))):
            for design in (Design(accelerator), Design(accelerator, axis_values)):
                scaling.check_process(design)


def _check_figures(plan: Plan, problems: ProblemCollector) -> None:
    variants = plan.variants  # none where the selection has problems of its own
    contents = SweepContents(
        variables=plan.spec.store.variables,
        axis_sizes={axis.path: len(axis) for axis in plan.axes},
        variants=len(variants),
        any_accuracy=not variants or any(np.isfinite(variant.accuracy) for variant in variants),
        any_pruned=not variants or any(variant.method != "dense" for variant in variants),
        any_flops=not variants or any(variant.layers.has_flops.any() for variant in variants),
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
    available, objectives = [*stored, *spec.axes, *VARIANT_OBJECTIVES], set(objective_signs(spec.keep))
    for name in sorted(objectives - set(available)):
        hint = did_you_mean(name, [*available, *SCALAR_VARIABLES])
        fix = f"add '{name}' to the 'variables' of 'store'" if name in SCALAR_VARIABLES else hint
        problems.add(document.make_problem(("keep",), f"'{name}' is not a stored result, an axis or a coordinate of the variants", fix))
    if objectives and objectives <= set(available) - set(SCALAR_VARIABLES) | {"area", "power"}:
        fix = "write another objective, as 'latency'" if isinstance(spec.keep, TopReduction) else "add 'latency'"
        problems.add(document.make_problem(("keep",), "no objective depends on both the network and the design", fix))
    if spec.keep != "all" and spec.plots:
        problems.add(document.make_problem(("plots",), "figures need all results", "leave 'plots' out, or write 'keep: all'"))
