"""`dse iso`: the highest sparsity of each pruning method and pattern within an allowed loss of accuracy."""

import math
from typing import TYPE_CHECKING

from dse.base import catalog
from dse.report.table import Row, format_json, format_table, none_if_nan
from dse.workload import tables

if TYPE_CHECKING:
    from dse.workload import Variant
    from dse.workload.accuracy import AccuracyCurve


def list_iso_accuracy(workload: str, drop: float, relative: bool, as_json: bool) -> str:
    """A row for each accuracy curve of a workload, by metric and descending sparsity; raises InputError."""
    from dse.workload import accuracy

    curves = accuracy.accuracy_curves(tables.load(catalog.find_path("workloads", workload)))
    rows = sorted((_curve_row(curve, drop, relative) for curve in curves), key=lambda row: (row["metric"], -(row["sparsity"] or 0)))
    return format_json(rows) if as_json else format_table(rows)


def _curve_row(curve: "AccuracyCurve", drop: float, relative: bool) -> Row:
    variant = None if math.isnan(curve.dense_accuracy) else curve.iso(drop, relative)
    described = variant or curve.sparsest
    return {
        "method": curve.sparsest.method,
        "pattern": str(curve.sparsest.pattern),
        "sparsity": variant and round(variant.sparsity, 4),
        "accuracy": variant and round(float(variant.accuracy), 4),
        "dense": none_if_nan(curve.dense_accuracy),
        "set by": _limiting_factor(curve, variant),
        "includes": curve.sparsest.combined_with,
        "metric": curve.metric.name,
        "kind": described.accuracy_kind,
        "densities": described.densities_from or "traced",
        "accuracy source": described.accuracy_source,
    }


def _limiting_factor(curve: "AccuracyCurve", variant: "Variant | None") -> str:
    """What limits the sparsity, or why no variant is within the loss."""
    if math.isnan(curve.dense_accuracy):
        return "none: the source names no dense network"
    if variant is None:
        return f"none: loses {min(curve.loss(curve.sparsities)):.4g} or more"
    if not curve.is_continuous:
        return "the pattern"
    return "the range measured" if variant is curve.points[-1] else "the drop"
