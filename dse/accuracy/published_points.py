"""Published accuracies of structured patterns, each with the curve of unstructured pruning of the same network.

Points are compared only with a curve of one dense network. Where a source of structured points has no curve, `CURVES` names that of another
source of the same network, and losses against each source's own dense network are compared. Methods that include quantisation are
no points. published_points.csv has the networks without a folder in `workloads`.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dse.accuracy.interval import Interval
from dse.accuracy.reference_curve import ReferenceCurve
from dse.base import catalog
from dse.networks.layers import LayerArrays, make_layer_row
from dse.sparsity.kinds import UNSTRUCTURED
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.workload import tables
from dse.workload.accuracy import AccuracyCurve, accuracy_curves, accuracy_loss
from dse.workload.schema import Metric
from dse.workload.variant import Variant
from dse.workload.workload import Workload

TABLE = Path(__file__).with_name("published_points.csv")
CURVES = {  # workload: method of structured points -> method of the unstructured curve
    "resnet50": {"sr_ste": "str", "sr_ste_nhwc": "str", "asp": "agp", "agp_blocks": "agp"},
    "bert-base": {"obert_recipe": "obert_recipe", "magnitude": "obert_recipe"},
    "llama-2-7b": {"wanda": "wanda_wikitext", "sparsegpt": "sparsegpt", "magnitude": "magnitude"},
    "llama-2-13b": {"wanda": "wanda", "sparsegpt": "sparsegpt", "magnitude": "magnitude"},
}
MEASURED, MEASURED_METHOD = ("digits-mixer", "digits-resnet", "digits-vit"), "lr_rewinding"
NO_SIZE = 4096  # rows and columns of the one layer of a network without a folder


@dataclass(frozen=True, eq=False)
class PublishedPoint:
    """The accuracy of a structured pattern, on the scale of the curve; `low` and `high` end its 90% interval, where it has one."""

    request: PrunedPattern
    value: float
    source: str
    low: float = np.nan
    high: float = np.nan

    @property
    def interval(self) -> Interval:
        """The 90% interval of the value; the value alone where none is known."""
        return Interval(self.value, self.value) if np.isnan(self.low) else Interval(self.low, self.high)


@dataclass(frozen=True, eq=False)
class PublishedGrid:
    """Structured points of one network and recipe, and the unstructured curve that they are compared with."""

    network: str
    recipe: str
    curve: ReferenceCurve
    points: tuple[PublishedPoint, ...]
    workload: Workload | None = None

    def __str__(self) -> str:
        return f"{self.network} {self.recipe}"


def published_grids() -> list[PublishedGrid]:
    """All grids, those of shipped workloads first."""
    grids = []
    for name, methods in CURVES.items():
        workload = tables.load(catalog.find_path("workloads", name))
        grids += [_grid_of_workload(workload, structured, curve) for structured, curve in methods.items()]
    return grids + list(_grids_of_table(TABLE))


def measured_grids() -> list[PublishedGrid]:
    """The grids of the small networks that `dse accuracy train` measured under many patterns."""
    workloads = [tables.load(catalog.find_path("workloads", name)) for name in MEASURED]
    return [_grid_of_workload(workload, MEASURED_METHOD, MEASURED_METHOD) for workload in workloads]


def _grid_of_workload(workload: Workload, structured: str, curve_method: str) -> PublishedGrid:
    metric = workload.description.metric
    (curve,) = accuracy_curves(workload, curve_method, "unstructured")
    variants = [v for v in workload.variants if v.method == structured and v.pattern != UNSTRUCTURED and v.metric == metric.name]
    known = [v for v in variants if np.isfinite(v.accuracy)]
    points = _points(curve, [(_request(v), v.accuracy, v.dense_accuracy, v.accuracy_source) for v in known])
    with_intervals = tuple(_with_interval(point, variant) for point, variant in zip(points, known, strict=True))
    return PublishedGrid(workload.name, structured, ReferenceCurve(curve), with_intervals, workload)


def _with_interval(point: PublishedPoint, variant: Variant) -> PublishedPoint:
    """The point with the interval of its variant, moved to the scale of the curve."""
    shift = point.value - variant.accuracy
    return replace(point, low=variant.accuracy_low + shift, high=variant.accuracy_high + shift)


def _request(variant: Variant) -> PrunedPattern:
    density = variant.pattern.density
    return PrunedPattern(variant.pattern, variant.nominal_sparsity if density is None else 1 - density)


def _points(curve: AccuracyCurve, points: Sequence[tuple[PrunedPattern, float, float, str]]) -> Iterator[PublishedPoint]:
    """Points with the losses against their own dense network, on the scale of the curve; perplexities keep their ratio."""
    for request, value, dense, source in points:
        if curve.metric.direction == "lower":
            yield PublishedPoint(request, value / dense * curve.dense_accuracy, source)
        else:
            yield PublishedPoint(request, curve.dense_accuracy - accuracy_loss(value, dense, "higher"), source)


def _grids_of_table(path: Path) -> Iterator[PublishedGrid]:
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            groups.setdefault((row["network"], row["method"]), []).append(row)
    for (network, method), rows in groups.items():
        metric = Metric(name=rows[0]["metric"], unit="", direction="lower" if rows[0]["direction"] == "lower" else "higher")
        dense = float(rows[0]["dense_value"])
        unstructured = [(float(row["sparsity"]), float(row["value"])) for row in rows if row["pattern"] == "unstructured"]
        curve = _curve(network, method, metric, dense, unstructured)
        others = [row for row in rows if row["pattern"] != "unstructured"]
        points = [(_request_of(row), float(row["value"]), float(row["dense_value"]), row["source"]) for row in others]
        yield PublishedGrid(network, method, ReferenceCurve(curve), tuple(_points(curve, points)))


def _request_of(row: dict[str, str]) -> PrunedPattern:
    return PrunedPattern.parse(row["pattern"] if ":" in row["pattern"].removeprefix("block:") else f"{row['pattern']}@{row['sparsity']}")


def _curve(network: str, method: str, metric: Metric, dense: float, points: Sequence[tuple[float, float]]) -> AccuracyCurve:
    """A curve of a network of which only the accuracies are known: the dense network, then the points."""
    layers = LayerArrays.from_rows([make_layer_row(name="all", kind="gemm", m=NO_SIZE, k=NO_SIZE, n=1)])
    first = Variant(
        network, layers, method, UNSTRUCTURED, 0.0, np.ones(1), dense, dense, accuracy_kind="published", metric=metric.name
    )  # fmt: skip
    later = [replace(first, nominal_sparsity=s, density=np.array([1 - s]), accuracy=value) for s, value in points]
    return AccuracyCurve((first, *later), metric)
