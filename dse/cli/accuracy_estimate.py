"""`dse accuracy estimate`: estimate the accuracy of patterns, print the table, and write accuracy.csv."""

import sys
from argparse import Namespace
from math import isnan

from dse.accuracy.accuracy_file import add_to_workload, check_folder, write_accuracy_file
from dse.accuracy.estimate import Estimate, Estimates, LeftOut, estimate_accuracies, measure_shares
from dse.accuracy.reference_curve import ReferenceCurve, choose_curve
from dse.base import catalog
from dse.base.errors import InputError, ProblemCollector
from dse.base.output_file import check_not_overwritten, check_writable
from dse.base.progress import announced_step
from dse.base.table_format import Row, format_json, format_table
from dse.sparsity.pruned_pattern import PrunedPattern, parse_pruned_patterns
from dse.workload import tables
from dse.workload.workload import Workload


def execute(options: Namespace) -> str:
    """Estimate, write and return the table of estimates; raises InputError with every problem."""
    workload, curve, requests = _read_inputs(options)
    with announced_step("pruning"):
        shares, basis = measure_shares(workload, requests, options.weights, options.saliency, options.curvature)
    result = estimate_accuracies(curve, shares, basis)
    for left_out in result.left_out:
        print(f"warning: {left_out.request.text} is left out: {left_out.reason}", file=sys.stderr)
    _write(options, workload, result)
    return format_result(result, options.json)


def _read_inputs(options: Namespace) -> tuple[Workload, ReferenceCurve, tuple[PrunedPattern, ...]]:
    problems = ProblemCollector()
    workload: Workload | None = None
    curve: ReferenceCurve | None = None
    requests: tuple[PrunedPattern, ...] = ()
    with problems.collect():
        requests = parse_pruned_patterns(options.patterns)
    with problems.collect():
        workload = tables.load(catalog.find_path("workloads", options.workload))
        curve = choose_curve(workload, options.method, options.metric)
    for key, path in (("--weights", options.weights), ("--curvature", options.curvature)):
        with problems.collect(key=key):
            if path is not None and not path.exists():
                raise InputError("no such file", "give a file of arrays by layer", path, key=key)
    with problems.collect(key="--saliency"):
        if (options.saliency == "second_order") != (options.curvature is not None):
            raise InputError("second-order saliency and its curvatures go together", "give --saliency second_order --curvature FILE")
        if options.saliency == "second_order" and options.weights is None:
            raise InputError("second-order saliency needs weights", "give --weights FILE")
    with problems.collect():
        _check_destination(options, workload)
    problems.raise_if_any()
    assert workload is not None
    assert curve is not None
    return workload, curve, requests


def _check_destination(options: Namespace, workload: Workload | None) -> None:
    if options.out is not None:
        check_not_overwritten(options.out, force=options.force)
        check_writable(options.out)
    if options.into is not None:
        check_writable(options.into / "accuracy.csv")
        if workload is not None:
            check_folder(options.into, workload)


def _write(options: Namespace, workload: Workload, result: Estimates) -> None:
    if (options.out is not None or options.into is not None) and not result.estimates:
        raise InputError("no pattern has an estimate", "take patterns and sparsities that the measured curve reaches", key="--patterns")
    if options.out is not None:
        write_accuracy_file(options.out, result.rows())
    if options.into is not None:
        add_to_workload(options.into, workload, result.rows())


def format_result(result: Estimates, as_json: bool) -> str:
    """A table of all requests, those without an estimate last."""
    rows = [_row(result.curve, estimate) for estimate in result.estimates] + [_left_out_row(each) for each in result.left_out]
    if as_json:
        origin = {"curve": str(result.curve), "saliency": result.basis, "method": result.method}
        return format_json([origin | row for row in rows])
    heading = f"{result.curve}; {result.basis}; estimated, with 90% intervals"
    return f"{heading}\n{format_table(rows)}"


def _row(curve: ReferenceCurve, estimate: Estimate) -> Row:
    return {
        "pattern": str(estimate.request.pattern),
        "sparsity": round(estimate.request.sparsity, 6),
        "retained": round(estimate.retained, 4),
        "equivalent": round(estimate.equivalent_sparsity, 4),
        "value": float(f"{estimate.value:.4g}"),
        "low": float(f"{estimate.interval.low:.4g}"),
        "high": float(f"{estimate.interval.high:.4g}"),
        "loss": round(curve.loss(estimate.value), 3),
        "left out": None,
    }


def _left_out_row(left_out: LeftOut) -> Row:
    nothing = dict.fromkeys(("value", "low", "high", "loss"))
    numbers = {"retained": left_out.retained, "equivalent": left_out.equivalent_sparsity}
    known = {name: None if isnan(number) else round(number, 4) for name, number in numbers.items()}
    request = left_out.request
    return {
        "pattern": str(request.pattern), "sparsity": round(request.sparsity, 6), **known, **nothing, "left out": left_out.reason,
    }  # fmt: skip
