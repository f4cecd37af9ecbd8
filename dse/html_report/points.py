"""The columns of the table of points, and the grid of all results from which the page computes attributions and heat maps."""

import base64
import math
from collections.abc import Iterable

import numpy as np
import xarray as xr

from dse.base.display_units import select_unit
from dse.html_report.display import Column, PageContents, label_of, make_column, round_numbers
from dse.html_report.fronts import Cells, cell_dims
from dse.html_report.results_files import EXTRA_DIMS, read_json

MAX_GRID_VALUES = 1_200_000  # in the page: 6.4 MB as text
ACCURACIES = tuple(f"{name}{end}" for name in ("accuracy", "accuracy_drop") for end in ("", "_low", "_high"))
FIRST_COLUMNS = ("workload", "accelerator", "batch", "dtype", "method", "pattern", "sparsity", *ACCURACIES)
RESULTS = ("performance", "speedup", "latency", "area", "power", "energy")  # of the grid, where they are stored
ACCURACY_ENDS = tuple(name for name in ACCURACIES if name.endswith(("_low", "_high")))  # columns of their own, where there are any
HIDDEN = ("dense_accuracy", "nominal_sparsity", "densities_from", "assumed_drop", "variant", *EXTRA_DIMS)


def select_points(dataset: xr.Dataset, cells: Cells) -> xr.Dataset:
    """The results with the given numbers along the dim `point`, every coordinate included."""
    dims = cell_dims(dataset)
    indices = np.unravel_index(cells, [dataset.sizes[dim] for dim in dims])
    return dataset.isel({dim: ("point", index) for dim, index in zip(dims, indices, strict=True)})


def point_columns(points: xr.Dataset) -> list[Column]:
    """One column for each coordinate and variable of the points; the labels of a variant and its results come in the order of reading."""
    names = [str(name) for name in (*points.coords, *points.data_vars) if points[name].dims == ("point",) and name not in HIDDEN]
    names = [name for name in names if name not in ACCURACY_ENDS or np.isfinite(points[name].values).any()]
    axes = [name for name in names if "." in name]
    ordered = dict.fromkeys(
        [*(name for name in FIRST_COLUMNS if name in names), *axes, *(name for name in RESULTS if name in names), *names]
    )
    columns = [make_column(points[name], unit=_metric_unit(points) if name in ACCURACIES else None) for name in ordered]
    return columns + _bound_columns(points)


def _metric_unit(points: xr.Dataset) -> str:
    """The unit of the accuracies, where all metrics of the dataset have the same."""
    units = {metric["unit"] for metrics in read_json(points.attrs, "metrics", {}).values() for metric in metrics.values()}
    return units.pop() if len(units) == 1 else "1"


def _bound_columns(points: xr.Dataset) -> list[Column]:
    """The resource that sets most of the latency."""
    if "bound_share" not in points:
        return []
    shares = points["bound_share"].transpose("point", "resource").values
    names = points["resource"].values[np.nan_to_num(shares).argmax(axis=1)]
    return [Column("bound", "bound by", "", names.astype(object), "resource that sets most of the latency")]


def describe_grid(dataset: xr.Dataset, wanted: Iterable[Cells]) -> PageContents:
    """All results of a sweep, or as many as fit, with the values of each dim; those of the `wanted` cells are included.

    Numbers are float32 in little-endian order, as base64 text, in SI units with the unit and scale for display.
    """
    variables = [name for name in RESULTS if name in dataset]
    dims = cell_dims(dataset)
    chosen = _thinned_indices(dataset, dims, variables, np.concatenate([np.atleast_1d(cells) for cells in wanted]))
    part = dataset.isel(chosen)
    return {
        "dims": [_describe_dim(part, dim, chosen[dim]) for dim in dims],
        "complete": all(len(chosen[dim]) == dataset.sizes[dim] for dim in dims),
        "variables": [_describe_variable(part, name, dims) for name in variables],
    }


def _thinned_indices(dataset: xr.Dataset, dims: tuple[str, ...], variables: list[str], wanted: Cells) -> dict[str, np.ndarray]:
    """Indices along each dim of a grid that fits: the longest dims are thinned evenly, but keep the indices of the wanted cells."""
    needed = dict(zip(dims, np.unravel_index(wanted, [dataset.sizes[dim] for dim in dims]), strict=True))
    lengths = {dim: dataset.sizes[dim] for dim in dims}

    def indices(dim: str) -> np.ndarray:
        even = np.linspace(0, dataset.sizes[dim] - 1, lengths[dim]).round().astype(int)
        return np.union1d(even, needed[dim])

    def size() -> int:
        counts = {dim: len(indices(dim)) for dim in dims}
        return sum(math.prod(counts[dim] for dim in dims if dim in dataset[name].dims) for name in variables)

    while size() > MAX_GRID_VALUES and max(lengths.values()) > 1:
        longest = max(lengths, key=lambda dim: lengths[dim])
        lengths[longest] = max(1, int(lengths[longest] * 0.9))
    return {dim: indices(dim) for dim in dims}


def _describe_dim(part: xr.Dataset, dim: str, indices: np.ndarray) -> PageContents:
    """A dim with a label for each of its values, and numbers where it has an order."""
    if dim == "variant":
        return {"name": dim, "title": "network and pruning", "labels": variant_labels(part), "indices": indices.tolist()}
    coordinate = part[dim]
    if coordinate.dtype.kind not in "if":
        return {"name": dim, "title": label_of(dim), "labels": [str(value) for value in coordinate.values], "indices": indices.tolist()}
    column = make_column(coordinate)
    labels = [f"{value:.4g} {column.unit}".rstrip() for value in column.values]
    return {"name": dim, "title": column.title, "labels": labels, "numbers": round_numbers(column.values), "indices": indices.tolist()}


def variant_labels(dataset: xr.Dataset) -> list[str]:
    """A label for each variant, as in 'resnet50, magnitude pruning unstructured 90%'; the network only where there are several."""
    workloads, methods, patterns = (np.atleast_1d(dataset[name].values).tolist() for name in ("workload", "method", "pattern"))
    sparsity = np.atleast_1d(dataset["nominal_sparsity" if "nominal_sparsity" in dataset.coords else "sparsity"].values)
    several = len(set(workloads)) > 1
    rows = zip(workloads, methods, patterns, sparsity.tolist(), strict=True)
    return [variant_label(workload, method, pattern, share, several) for workload, method, pattern, share in rows]


def describe_variants(dataset: xr.Dataset) -> PageContents:
    """Labels, sparsity and accuracy of every variant, in lists."""
    labels = ("workload", "method", "pattern", "accuracy_kind", "metric")
    texts = {name: [str(value) for value in dataset[name].values] for name in labels if name in dataset.coords}
    numbers = ("sparsity", "accuracy", "accuracy_low", "accuracy_high")
    return texts | {name: round_numbers(dataset[name].values) for name in numbers if name in dataset.coords}


def variant_label(workload: str, method: str, pattern: str, sparsity: float, with_network: bool = False) -> str:
    state = "dense" if method == "dense" else f"{method.replace('_', ' ')} {pattern} {100 * float(sparsity):.3g}%"
    return f"{workload}, {state}" if with_network else state


def _describe_variable(part: xr.Dataset, name: str, dims: tuple[str, ...]) -> PageContents:
    own = [dim for dim in dims if dim in part[name].dims]
    values = part[name].transpose(*own).values
    unit = select_unit(str(part[name].attrs.get("units", "1")), values)
    content = base64.b64encode(np.ascontiguousarray(unit.convert(values), "<f4").tobytes()).decode()
    return {"name": name, "label": label_of(name), "unit": unit.text, "dims": own, "data": content}


def grid_positions(points: xr.Dataset, cells: Cells, dataset: xr.Dataset, grid: PageContents) -> list[list[int]]:
    """For each dim of the grid the position of every point along it, -1 where the thinned grid lacks it."""
    dims = cell_dims(dataset)
    indices = np.unravel_index(cells, [dataset.sizes[dim] for dim in dims])
    positions = []
    for described, index in zip(grid["dims"], indices, strict=True):
        lookup = np.full(dataset.sizes[described["name"]], -1)
        lookup[described["indices"]] = np.arange(len(described["indices"]))
        positions.append(lookup[index].tolist())
    return positions
