"""The first screen of a report, in sentences: which design is best, how much faster at what accuracy, what limits it, how sure is that."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from dse.base.display_units import format_number, format_quantity
from dse.html_report.display import PageContents, describe_value
from dse.html_report.fronts import Group, cell_dims
from dse.html_report.points import select_points, variant_label
from dse.html_report.results_files import read_json

FIDELITIES = {
    "sol": "Fidelity sol (speed of light): a lower bound on time. Every kernel reaches its peak or its bandwidth; measured kernels are "
    "slower, sparse ones often more than dense ones, so that real speedups may be smaller. 'dse validate' prints the errors.",
    "r3": "Fidelity r3: kernels reach a constant share of the peak, as the description states it for each unit and pattern.",
    "capacity": "Fidelity capacity: latencies lie between a lower bound, which no schedule of the on-chip memory can beat, and a figure "
    "that a schedule attains; kernels reach their peak.",
    "calibrated": "Fidelity calibrated: kernels were fitted to measurements; intervals hold 90% of the samples of their parameters. "
    "'dse validate' prints the errors on kernels and devices that a fit had not seen.",
}
ACCURACY_KINDS = {
    "published": "published", "measured": "measured", "estimated": "estimated, not measured", "assumed": "assumed, not measured",
    "none": "unknown: nobody measured it",
}  # fmt: skip


def answer_rows(dataset: xr.Dataset, groups: list[Group], tolerance: float) -> list[PageContents]:
    """For each network and batch its best result, in sentences with numbers; those with the largest speedup come first."""
    rows = [_answer(dataset, group, cell, tolerance) for group in groups for cell in (group.best, group.best_unrated) if cell >= 0]
    return sorted(rows, key=lambda row: (not row["accuracy_known"], -(row["speedup"] or 0.0)))


def _answer(dataset: xr.Dataset, group: Group, cell: int, tolerance: float) -> PageContents:
    point = select_points(dataset, np.array([cell])).isel(point=0)
    known = bool(np.isfinite(point["accuracy_drop"])) if "accuracy_drop" in point.coords else str(point["method"].item()) == "dense"
    return {
        "cell": cell,
        "workload": group.workload,
        "batch": group.batch,
        "design": describe_design(point, cell_dims(dataset)),
        "variant": variant_label(group.workload, *(point[name].item() for name in ("method", "pattern", "nominal_sparsity"))),
        "speedup": float(point["speedup"]) if "speedup" in point else None,
        "latency": format_quantity(float(point["latency"]), "s") if "latency" in point else "",
        "throughput": _throughput(point, dataset),
        "accuracy": _accuracy(point, dataset),
        "accuracy_known": known,
        "within": known and float(point["accuracy_drop"] if "accuracy_drop" in point.coords else 0.0) <= tolerance,
        "limit": ", ".join(_limits(point)),
        "interval": ", ".join(_intervals(point)),
        "costs": ", ".join(_costs(point)),
        "tolerance": tolerance,
    }


def describe_design(point: xr.Dataset, dims: tuple[str, ...]) -> str:
    """The accelerator of a point with the values of its axes: 'a100-sxm4-80gb, memory.dram.bandwidth 2 TB/s'."""
    axes = [str(name) for name in point.coords if "." in str(name)] or [dim for dim in dims if "." in dim]
    return ", ".join([str(point["accelerator"].item()), *(f"{axis} {describe_value(point[axis])}" for axis in axes)])


def _throughput(point: xr.Dataset, dataset: xr.Dataset) -> str:
    """Samples or, of a language model, tokens in a second."""
    if "latency" not in point:
        return ""
    inputs = read_json(dataset.attrs, "run_on", {}).get(str(point["workload"].item()), {})
    per_second = int(point["batch"]) / float(point["latency"])
    if inputs.get("phase") == "decode":
        return f"{format_number(per_second)} tokens/s"
    if inputs.get("phase") == "prefill" and "sequence" in inputs:
        return f"{format_number(per_second * inputs['sequence'])} tokens/s of the prompt"
    return f"{format_number(per_second)} samples/s"


def _accuracy(point: xr.Dataset, dataset: xr.Dataset) -> str:
    """The accuracy, its loss against the dense network, and where it is from."""
    if str(point["method"].item()) == "dense":
        return "the dense network"
    kind = str(point["accuracy_kind"].item()) if "accuracy_kind" in point.coords else "none"
    if "accuracy_drop" not in point.coords or not np.isfinite(point["accuracy_drop"]):
        return f"accuracy {ACCURACY_KINDS.get(kind, kind)}" if kind == "none" else "accuracy without a dense network to compare with"
    workload, metric = str(point["workload"].item()), str(point["metric"].item())
    unit = read_json(dataset.attrs, "metrics", {}).get(workload, {}).get(metric, {}).get("unit", "")
    value, drop = float(point["accuracy"]), float(point["accuracy_drop"])
    if np.isnan(value):
        return f"{metric} {_points(drop)} worse than dense, {ACCURACY_KINDS.get(kind, kind)}"
    change = f"{_points(abs(drop))} {'worse' if drop > 0 else 'better'} than dense" if drop else "equal to dense"
    low, high = (float(point[name]) if name in point.coords else np.nan for name in ("accuracy_low", "accuracy_high"))
    interval = f"90% interval {low:.4g} to {high:.4g}; " if np.isfinite(low) else ""
    return f"{metric} {value:.4g}{'' if unit == '%' else ' '}{unit} ({interval}{change}; {ACCURACY_KINDS.get(kind, kind)})"


def _points(number: float) -> str:
    return f"{number:.3g} point{'' if number == 1 else 's'}"


def _limits(point: xr.Dataset) -> Iterator[str]:
    """Resources by the share of the latency that each sets, the largest first."""
    if "bound_share" in point:
        shares = sorted(zip(point["resource"].values, point["bound_share"].values, strict=True), key=lambda pair: -pair[1])
        yield from (f"{name} {100 * share:.0f}%" for name, share in shares if share >= 0.005)


def _intervals(point: xr.Dataset) -> Iterator[str]:
    """The intervals that a point has; of a dense network only those of its latency, since it is as fast as itself."""
    is_pruned = str(point["method"].item()) != "dense"
    if "speedup_low" in point and is_pruned:
        yield f"speedup {float(point['speedup_low']):.3g}x to {float(point['speedup_high']):.3g}x"
    if "faster_probability" in point and is_pruned:
        yield f"faster than dense with a probability of {100 * float(point['faster_probability']):.0f}%"
    if "latency_low" in point:
        yield " to ".join(format_quantity(float(point[name]), "s") for name in ("latency_low", "latency_high"))
    if "latency_bound" in point:
        yield f"at least {format_quantity(float(point['latency_bound']), 's')} under any schedule"


def _costs(point: xr.Dataset) -> Iterator[str]:
    for name in ("area", "power", "energy"):
        if name in point:
            yield f"{name} {format_quantity(float(point[name]), str(point[name].attrs.get('units', '1')))}"


def headlines(rows: list[PageContents], count: int) -> list[str]:
    """The first sentences of a report: about its best result, and about a faster one of the same network whose accuracy nobody knows."""
    if not rows:
        return ["No result fits the memory and has a finite latency."]
    first, *others = rows
    same = [row for row in others if not row["accuracy_known"] and (row["workload"], row["batch"]) == (first["workload"], first["batch"])]
    if not first["accuracy_known"] or not same:
        return _headline(first, count)
    faster = same[0]
    results = ", ".join(filter(None, [faster["latency"], faster["speedup"] and f"{_times(faster['speedup'])} as fast as dense"]))
    return [*_headline(first, count), f"Faster, but of unknown accuracy: {faster['variant']} on {faster['design']}, {results}."]


def _headline(row: PageContents, count: int) -> list[str]:
    place = f"{row['workload']}, batch {row['batch']}" if count > 1 else f"{row['workload']} at batch {row['batch']}"
    time = f", {row['latency']} ({row['throughput']})" if row["latency"] else ""
    within = f" of all results that lose at most {_points(row['tolerance'])} of accuracy" if row["within"] else ""
    fastest = f"the fastest{within}" if row["within"] or not row["accuracy_known"] else "the fastest of those that lose least"
    none = f"no pruned result is known to lose at most {_points(row['tolerance'])} of accuracy; " * (not row["within"])
    sentences = [f"{place}: {none}{fastest} is {row['variant']} on {row['design']}{time}."]
    if row["speedup"] is not None:
        sentences.append(_speedup_sentence(row))
    if row["limit"]:
        sentences.append(f"What limits it: {row['limit']} of the time.")
    return sentences + ([f"It takes {row['costs']}."] if row["costs"] else [])


def _speedup_sentence(row: PageContents) -> str:
    if row["variant"] == "dense":
        return "No pruned variant of the dataset is faster within that loss of accuracy."
    change = f"{_times(row['speedup'])} as fast as the dense network on the same design"
    dense = " Without pruning, this design is faster." if row["speedup"] < 1 else ""
    return f"It is {change}, with {row['accuracy']}.{dense}"


def _times(ratio: float) -> str:
    """'1.20x' or '12.3x'."""
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.3g}x"


def certainty(dataset: xr.Dataset, fidelity: str, row: PageContents | None) -> list[str]:
    """How sure the results are: what the fidelity means, the interval of the best result, and the errors of the cost model."""
    sentences = [FIDELITIES.get(fidelity, f"Fidelity {fidelity}.")]
    if row is not None and row["interval"]:
        sentences.append(f"Interval of the best result: {row['interval']}.")
    errors = dict.fromkeys(str(variable.attrs["model_error"]) for variable in dataset.data_vars.values() if "model_error" in variable.attrs)
    return sentences + [f"{text[0].upper()}{text[1:]}." for text in errors]
