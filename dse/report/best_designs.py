"""The best designs of a sweep: of each network and batch size, the designs that rank first with the variant that each of them runs.

A row is a design (an accelerator, values of the axes and a dtype) with the best of the variants that lose little enough accuracy and fit
the memory. All numbers are in SI units; `units` of the table's attributes names them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float, Int

from dse.base.errors import InputError
from dse.report.result_kind import VARIANT_LABELS
from dse.sweeping.accuracy_losses import ASSUMED_DROP, accuracy_drop, accuracy_drop_interval, has_accuracy_intervals, sample_drops
from dse.sweeping.iso_speedup import choice_shares
from dse.sweeping.objectives import objective_signs
from dse.sweeping.serving import tokens_per_sample
from dse.workload.accuracy import ROUNDING_TOLERANCE
from dse.workload.pattern_shares import PatternShares

SETTINGS = ("workload", "batch")  # points that differ in them do not compete
MAX_RESOURCES, MIN_SHARE = 3, 0.01  # of the bounds that a cell names
VARIANT_RESULTS = (
    "faster_probability",
    "energy",
    "edp",
    "average_power",
    "performance_per_area",
    "performance_per_watt",
    "power_limited_latency",
    "energy_per_token",
    "tokens_per_s_per_watt",
)


@dataclass(frozen=True)
class Ranking:
    """How designs are ranked: one objective, and the largest loss of accuracy of the variants (None: any)."""

    objective: str
    sign: float  # -1: maximised, 1: minimised
    drop: float | None

    def __str__(self) -> str:
        return f"{'highest' if self.sign < 0 else 'lowest'} {self.objective.replace('_', ' ')}"


def make_ranking(dataset: xr.Dataset, maximize: str | None, minimize: str | None, drop: float | None) -> Ranking:
    """The ranking by one objective (default: lowest latency, or highest speedup where only that is stored); raises InputError."""
    if maximize is None and minimize is None:
        maximize, minimize = (None, "latency") if "latency" in dataset else ("speedup", None)
    if maximize and minimize:
        raise InputError("designs are ranked by one objective, not by two", "give one; 'dse pareto' finds the front of several")
    ((name, sign),) = objective_signs(dataset, [maximize] if maximize else [], [minimize] if minimize else [], {}).items()
    return Ranking(name, sign, drop)


def check_rows(count: int) -> None:
    """Raise InputError unless a table of so many rows has any."""
    if count < 1:
        raise InputError(f"{count} rows are out of range", "write a whole number of at least 1")


def best_designs(dataset: xr.Dataset, ranking: Ranking, top: int, with_unmeasured: bool = False) -> pd.DataFrame:
    """The best `top` designs of each network and batch size, one row each, in SI units.

    Args:
        dataset: results of a sweep with all their dims (`with_all_dims`).
        ranking: the objective, and the largest loss of accuracy. The dense network competes where its latency is stored.
        top: rows of each network and batch size.
        with_unmeasured: rank the variants whose accuracy nobody measured, and only these.

    Returns:
        The columns `rank`, `workload`, `batch`, the labels of the design and of the variant, every result with its interval, `bound`, and
        `samples_per_s` or, of networks that generate text, `tokens_per_s`. Where accuracies have intervals, `pattern_shares` says in
        which share of samples of them each pattern is the best on the design, and `decided` whether that of the row is in at least 90%.
        Empty if no variant is eligible.

    Raises:
        InputError: `top` is below 1.
    """
    check_rows(top)
    dims = [*(str(dim) for dim in dataset.dims if dim not in ("resource", "execution", "variant")), "variant"]
    values, fits = (dataset[name].broadcast_like(_cells(dataset, dims)).transpose(*dims).values for name in (ranking.objective, "fits"))
    scores = np.where(fits & np.isfinite(values), ranking.sign * values, np.inf)
    dense = None if with_unmeasured else _dense_scores(dataset, ranking, dims)
    eligible = unmeasured_variants(dataset) if with_unmeasured else eligible_variants(dataset, ranking.drop)
    cells, ranks = list[dict[str, int]](), list[int]()
    for workload in dict.fromkeys(dataset.workload.values):
        variants = np.flatnonzero(dataset.workload.values == workload)
        for batch in range(dataset.sizes["batch"]):
            best_cells = _rank_cells(scores, dense, dims, batch, variants, eligible[variants], top)
            cells += best_cells
            ranks += range(1, len(best_cells) + 1)
    indices = {dim: ("point", np.array([cell[dim] for cell in cells], int)) for dim in dims}
    rows = _replace_by_dense(describe_points(dataset.isel(indices)), np.array([cell["dense"] for cell in cells], bool))
    rows.insert(0, "rank", ranks)
    if has_accuracy_intervals(dataset) and "metrics" in dataset.attrs and ranking.drop is not None and not with_unmeasured:
        feasible = sample_drops(dataset) <= ranking.drop + ROUNDING_TOLERANCE
        shares = [_pattern_shares(dataset, scores, dense, dims, cell, feasible) for cell in cells]
        rows["pattern_shares"], rows["decided"] = [str(each) for each in shares], [each.is_decided for each in shares]
    return rows


def _pattern_shares(
    dataset: xr.Dataset,
    scores: Float[np.ndarray, "..."],
    dense: Float[np.ndarray, "..."] | None,
    dims: list[str],
    cell: Mapping[str, int],
    feasible: Bool[np.ndarray, "variant sample"],
) -> PatternShares:
    """How often a variant of each pattern is the best on the design of a cell, over samples of the accuracies."""
    own = np.flatnonzero(dataset.workload.values == dataset.workload.values[cell["variant"]])
    position = tuple(own if dim == "variant" else cell[dim] for dim in dims)
    values, within, patterns = scores[position], feasible[own], [str(pattern) for pattern in dataset.pattern.values[own]]
    if dense is not None:
        values, patterns = np.append(values, dense[position][0]), [*patterns, "dense"]
        within = np.append(within, np.ones((1, within.shape[1]), bool), axis=0)
    shares = dict.fromkeys(patterns, 0.0)
    for pattern, share in zip(patterns, choice_shares(values[None], within)[0].tolist(), strict=True):
        shares[pattern] += share
    return PatternShares(shares, "dense" if cell["dense"] else str(dataset.pattern.values[cell["variant"]]))


def with_all_dims(dataset: xr.Dataset) -> xr.Dataset:
    """The results with the dims that a selection removed, and with `fits`, which is true where it is not stored."""
    dims = [dim for dim in ("accelerator", "batch", "dtype") if dim not in dataset.dims]
    if "variant" not in dataset.dims:
        dataset = dataset.expand_dims("variant")
        labels = [name for name in VARIANT_LABELS if name in dataset.coords and dataset[name].ndim == 0]
        dataset = dataset.assign_coords({name: ("variant", np.atleast_1d(dataset[name].values)) for name in labels})
    return dataset.expand_dims(dims) if "fits" in dataset else dataset.expand_dims(dims).assign(fits=True)


def unmeasured_variants(dataset: xr.Dataset) -> Bool[np.ndarray, " variant"]:
    """Whether nobody measured the accuracy of each variant."""
    if "metrics" not in dataset.attrs:
        return np.ones(dataset.sizes["variant"], bool)
    return ~np.isfinite(accuracy_drop(dataset).values)


def eligible_variants(dataset: xr.Dataset, drop: float | None) -> Bool[np.ndarray, " variant"]:
    """Whether each variant is known to lose at most `drop` (in the unit of its metric); all variants where any loss is allowed."""
    if drop is None:
        return np.ones(dataset.sizes["variant"], bool)
    if "metrics" not in dataset.attrs:
        return np.zeros(dataset.sizes["variant"], bool)
    return accuracy_drop(dataset).values <= drop + ROUNDING_TOLERANCE


def _cells(dataset: xr.Dataset, dims: list[str]) -> xr.DataArray:
    return xr.DataArray(np.broadcast_to(0.0, [dataset.sizes[dim] for dim in dims]), dims=dims)


def _dense_scores(dataset: xr.Dataset, ranking: Ranking, dims: list[str]) -> Float[np.ndarray, "..."] | None:
    """Scores of the dense network of each variant, where the objective is a time; else None.

    Infinite where no variant of the network fits the memory, and of networks whose dense state is a variant of its own.
    """
    if ranking.objective not in ("latency", "speedup") or "dense_latency" not in dataset:
        return None
    latency = dataset.dense_latency if ranking.objective == "latency" else xr.ones_like(dataset.dense_latency)
    fits = dataset.fits.broadcast_like(latency).transpose(*dims).values.copy()
    for workload in set(dataset.workload.values):
        own = dataset.workload.values == workload
        any_fits = fits[..., own].any(axis=-1, keepdims=True) & ~(dataset.method.values[own] == "dense").any()
        fits[..., own] = any_fits
    return np.where(fits, ranking.sign * latency.transpose(*dims).values, np.inf)


def _rank_cells(
    scores: Float[np.ndarray, "..."],
    dense: Float[np.ndarray, "..."] | None,
    dims: list[str],
    batch: int,
    variants: Int[np.ndarray, " variant"],
    eligible: Bool[np.ndarray, " variant"],
    top: int,
) -> list[dict[str, int]]:
    """Indices by dim of the best cells of a network and batch size, at most one of each design, best first.

    `dense` of a cell is 1 where the dense network is the best; its variant is then the first of the network.
    """
    order = [dim for dim in dims if dim not in ("batch", "variant")]
    part = np.moveaxis(scores, (dims.index("batch"), dims.index("variant")), (0, -1))[batch][..., variants[eligible]]
    if dense is not None:
        own = np.moveaxis(dense, (dims.index("batch"), dims.index("variant")), (0, -1))[batch][..., variants[:1]]
        part = np.concatenate([own, part], axis=-1)  # of equal ones, the dense network comes first
    if not part.shape[-1]:
        return []
    labels = [(int(variants[0]), 1)] * (dense is not None) + [(int(variant), 0) for variant in variants[eligible]]
    best = part.argmin(axis=-1)
    lowest = np.take_along_axis(part, best[..., None], axis=-1)[..., 0].ravel()
    finite = np.flatnonzero(np.isfinite(lowest))
    if len(finite) > top:
        finite = finite[lowest[finite] <= np.partition(lowest[finite], top - 1)[top - 1]]
    first = finite[np.argsort(lowest[finite], kind="stable")][:top]
    positions = np.stack(np.unravel_index(first, best.shape), axis=-1) if order else np.zeros((len(first), 0), int)
    chosen = [labels[best.ravel()[index]] for index in first]
    return [
        dict(zip(order, map(int, position), strict=True)) | {"batch": batch, "variant": variant, "dense": is_dense}
        for position, (variant, is_dense) in zip(positions, chosen, strict=True)
    ]


def _replace_by_dense(rows: pd.DataFrame, is_dense: Bool[np.ndarray, " point"]) -> pd.DataFrame:
    """The rows with labels and times of the dense network where it is the best; what is not stored of it is left blank."""
    if not is_dense.any():
        return rows
    labels = {"method": "dense", "pattern": "dense", "sparsity": 0.0, "nominal_sparsity": 0.0, "accuracy_drop": 0.0, "speedup": 1.0}
    labels |= {"accuracy_kind": "", "bound": ""}
    if "fits" in rows:
        rows["fits"] = rows.fits.astype(object).mask(is_dense, "unknown")
    times = {name: f"dense_{name}" for name in ("latency", "latency_low", "latency_high", "latency_bound")}
    ratio = rows.latency / rows.dense_latency if {"latency", "dense_latency"} <= set(rows) else np.nan
    for name in ("tokens_per_s", "samples_per_s"):
        if name in rows:
            rows[name] = np.where(is_dense, rows[name] * ratio, rows[name])
    for name in rows.columns:
        if name in labels:
            rows[name] = (
                np.where(is_dense, labels[name], rows[name]) if rows[name].dtype.kind == "f" else rows[name].mask(is_dense, labels[name])
            )
        elif name in times or name == "accuracy":
            rows[name] = np.where(is_dense, rows[times.get(name, "dense_accuracy")], rows[name])
        elif name in VARIANT_RESULTS or name.startswith(("speedup_", "accuracy_drop_", "accuracy_low", "accuracy_high")):
            rows[name] = np.where(is_dense, np.nan, rows[name])
    return rows


def describe_points(points: xr.Dataset) -> pd.DataFrame:
    """One row for each point of a dataset along `point`: labels, accuracy drop, results, throughput and bounds, in SI units."""
    if "accuracy_drop" not in points and {"accuracy", "dense_accuracy", "metric"} <= set(points.coords) and "metrics" in points.attrs:
        points = points.assign_coords(_accuracy_drops(points))
    names = [
        str(name) for name in (*points.coords, *points.data_vars) if points[name].dims == ("point",) and name not in ("point", "variant")
    ]
    columns: dict[str, Any] = {name: points[name].values for name in _order(names)}
    units = {name: str(points[name].attrs.get("units", "1")) for name in names}
    if {"latency", "batch", "workload"} <= columns.keys():
        columns |= _throughputs(points, columns)
    if "bound_share" in points and "resource" in points.coords:
        columns["bound"] = describe_bounds(points.bound_share)
    frame = pd.DataFrame(columns)
    frame.attrs["units"] = units
    return frame


def _order(names: list[str]) -> list[str]:
    """Network and batch first, then the design, the variant, and the results."""
    axes = [name for name in names if "." in name]
    accuracy = ["accuracy", "accuracy_low", "accuracy_high", *VARIANT_LABELS[VARIANT_LABELS.index("accuracy") + 1 :]]
    variant = [*VARIANT_LABELS[1 : VARIANT_LABELS.index("accuracy")], *accuracy, *(f"accuracy_drop{end}" for end in ("", "_low", "_high"))]
    first = ["workload", "batch", "accelerator", *axes, "dtype", *variant, "latency", "speedup", "performance"]
    return [*dict.fromkeys([name for name in first if name in names] + names)]


def _accuracy_drops(points: xr.Dataset) -> dict[str, object]:
    """The loss of accuracy of each point, and its interval where there is one, as coordinates."""
    names = ("workload", "metric", "accuracy", "accuracy_low", "accuracy_high", "dense_accuracy", "method", ASSUMED_DROP)
    labels = xr.Dataset(coords={name: ("variant", points[name].values) for name in names if name in points.coords}, attrs=points.attrs)
    labels = labels.assign_coords(variant=np.arange(points.sizes["point"]))
    drops = {"accuracy_drop": accuracy_drop(labels)} | accuracy_drop_interval(labels)
    return {name: ("point", drop.values, {"units": "points of the metric"}) for name, drop in drops.items()}


def _throughputs(points: xr.Dataset, columns: Mapping[str, np.ndarray]) -> dict[str, Float[np.ndarray, " point"]]:
    """Tokens per second of networks that generate text, samples per second of the others; NaN of the respective other ones."""
    tokens = tokens_per_sample(points)
    per_run = np.array([tokens.get(name, np.nan) for name in columns["workload"]], float)
    samples = columns["batch"] / columns["latency"]
    rates = {"tokens_per_s": per_run * samples, "samples_per_s": np.where(np.isnan(per_run), samples, np.nan)}
    return {name: values for name, values in rates.items() if not np.isnan(values).all()}


def describe_bounds(shares: xr.DataArray) -> list[str]:
    """The resources that set most of the latency of each point, as in 'dram 61%, tensor_core 39%'."""
    resources, texts = shares.resource.values, list[str]()
    for row in shares.transpose("point", "resource").values:
        largest = [index for index in np.argsort(-row, kind="stable")[:MAX_RESOURCES] if row[index] >= MIN_SHARE]
        texts.append(", ".join(f"{resources[index]} {100 * row[index]:.0f}%" for index in largest))
    return texts
