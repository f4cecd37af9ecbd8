"""The section of a report about a sweep, a Pareto front of one or its best results."""

import numpy as np
import xarray as xr

from dse.base.display_units import select_unit
from dse.base.errors import InputError
from dse.explaining.compare import compare_sides
from dse.html_report import answers, fronts, points, sources
from dse.html_report.display import Column, PageContents
from dse.html_report.fronts import cell_dims
from dse.html_report.layer_details import NetworkOnDesign, describe_layers, network_on_design
from dse.html_report.results_files import Results
from dse.sweeping import provenance
from dse.sweeping.accuracy_losses import ASSUMED_DROP, accuracy_drop, accuracy_drop_interval, has_accuracy_intervals
from dse.sweeping.iso_speedup import iso_speedup, pattern_shares
from dse.sweeping.objectives import ACCURACY_DROP

MAX_DETAILED = 12  # points whose layers are in the page
MAX_COMPARED = 6  # points of a front that the best one is compared with
MAX_TORNADOS = 6  # of these, the first


def build_section(results: Results, maximize: list[str], minimize: list[str]) -> PageContents:
    """The contents of the section, as the page reads them; raises InputError where an objective is missing."""
    spec = provenance.read_spec(results.dataset)
    dataset = _with_accuracy_drop(results.dataset)
    signs = fronts.checked_objectives(dataset, maximize, minimize)
    groups = fronts.group_results(dataset, signs, spec.accuracy_drop)
    cells = fronts.choose_cells(groups)
    rows = answers.answer_rows(dataset, groups, spec.accuracy_drop)
    described = [row["cell"] for row in rows]
    selected = points.select_points(dataset, cells)
    on_front = np.isin(cells, np.concatenate([group.front for group in groups]))
    total = sum(len(group.cells) for group in groups)
    contents = {
        "name": results.name,
        "kind": results.kind,
        "description": spec.description,
        "certainty": answers.certainty(dataset, spec.model.fidelity, rows[0] if rows else None),
        "answers": [row | {"point": _position(cells, row["cell"])} for row in rows],
        "objectives": signs,
        "total": total,
        "columns": [column.to_json() for column in points.point_columns(selected)],
        "labels": _point_labels(selected),
        "front": np.flatnonzero(on_front).tolist(),
        "assumptions": sources.assumption_sentences(results.dataset),
        "provenance": sources.provenance_rows(results.dataset),
        "spec": results.dataset.attrs["spec"],
        "variants": points.describe_variants(dataset) if results.kind == "sweep" else None,
    }
    contents |= _grid(results, dataset, selected, cells, described)
    contents |= _details(results, dataset, cells, described, on_front)
    sampled = describe_sampled_choice(dataset, rows[0]["cell"], spec.accuracy_drop) if rows else []
    return contents | {"headline": answers.headlines(rows, len(groups)) + sampled + _causes_of_best(contents)}


def _causes_of_best(contents: PageContents) -> list[str]:
    """Why the best result is not as fast as its pattern allows, in one sentence."""
    best = contents["details"].get(contents["answers"][0]["point"], []) if contents["answers"] else []
    return [f"Why not faster: {network['causes']['sentence']}" for network in best if network["causes"]]


def _with_accuracy_drop(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the loss of accuracy of each variant against the dense network of its source, where its metrics are known."""
    labels = ("accuracy", "dense_accuracy", "metric", "workload", "method")
    if ACCURACY_DROP in dataset.coords or not all(name in dataset.coords for name in labels):
        return dataset
    if "point" not in dataset.dims:
        return dataset.assign_coords({ACCURACY_DROP: accuracy_drop(dataset)} | accuracy_drop_interval(dataset))
    labels = (*labels, *(name for name in ("accuracy_low", "accuracy_high", ASSUMED_DROP) if name in dataset.coords))
    as_variants = dataset[[]].reset_coords(drop=True).assign_coords({name: ("variant", dataset[name].values) for name in labels})
    as_variants = as_variants.assign_coords(variant=np.arange(dataset.sizes["point"])).assign_attrs(dataset.attrs)
    drops = {ACCURACY_DROP: accuracy_drop(as_variants)} | accuracy_drop_interval(as_variants)
    return dataset.assign_coords({name: ("point", drop.values, drop.attrs) for name, drop in drops.items()})


def _position(cells: fronts.Cells, cell: int) -> int:
    return int(np.searchsorted(cells, cell))


def _point_labels(selected: xr.Dataset) -> list[str]:
    """A short name of each point: its pruning, its design, batch and dtype."""
    variants = points.variant_labels(selected)
    varied = [str(name) for name in selected.coords if name in ("accelerator", "batch", "dtype") or "." in str(name)]
    shown = [name for name in varied if len(np.unique(selected[name].values.astype(str))) > 1]
    columns = [points.make_column(selected[name]) for name in shown]
    texts = [_texts(column) for column in columns]
    return [", ".join([variant, *(text[number] for text in texts)]) for number, variant in enumerate(variants)]


def _texts(column: Column) -> list[str]:
    """Values with their unit; those of an axis or of the batch after its name: 'dram 2 TB/s', 'batch 32'."""
    owner = column.name.split(".")[-2] if "." in column.name else column.name * (column.name == "batch")
    values = [f"{value:.4g} {column.unit}" if column.is_number else str(value) for value in column.values]
    return [f"{owner} {value}".strip() for value in values]


def _grid(results: Results, dataset: xr.Dataset, selected: xr.Dataset, cells: fronts.Cells, described: list[int]) -> PageContents:
    """The grid of a complete sweep, by which the page attributes differences exactly; none for single points."""
    if results.kind != "sweep":
        return {
            "grid": None,
            "grid_reason": "The dataset holds single points. Differences are stored between the best one and some others of its network.",
        }
    grid = points.describe_grid(dataset, [np.array(described, int)])
    return {"grid": grid, "positions": points.grid_positions(selected, cells, dataset, grid)}


def _details(results: Results, dataset: xr.Dataset, cells: fronts.Cells, described: list[int], on_front: np.ndarray) -> PageContents:
    """Layers of the best points and of some of the front, and sources, from the descriptions as they are now if they are unchanged."""
    try:
        plan = provenance.rebuild_plan(results.dataset)
    except InputError as error:
        return {"details": {}, "details_reason": str(error), "sources": []}
    chosen = list(dict.fromkeys([*described, *_spread(cells[on_front], MAX_DETAILED)]))[:MAX_DETAILED]
    detailed = points.select_points(dataset, np.array(chosen, int))
    networks = {_position(cells, cell): network_on_design(plan, detailed.isel(point=number)) for number, cell in enumerate(chosen)}
    layers = {place: [describe_layers(network, number < MAX_TORNADOS)] for number, (place, network) in enumerate(networks.items())}
    attributions = _compare_points(networks) if results.kind == "points" else {}
    return {"details": layers, "sources": sources.source_tables(plan)} | attributions


def _compare_points(networks: dict[int, NetworkOnDesign]) -> PageContents:
    """Parts of the differences in latency between the first point and some others of its network (`dse explain`), in both directions."""
    (first, best), *others = networks.items()
    compared = [(place, network) for place, network in others if network.variant.workload == best.variant.workload][:MAX_COMPARED]
    unit = select_unit("s", [float(best.layers(best.variant).latency.sum())])
    attributions: PageContents = {}
    for place, network in compared:
        why = compare_sides(network.side, best.side, "latency")
        ends, parts = (why.value_a / unit.size, why.value_b / unit.size), [(part, part.value / unit.size) for part in why.parts]
        forward = [[f"{part.label}: {part.a} to {part.b}", value] for part, value in parts]
        backward = [[f"{part.label}: {part.b} to {part.a}", -value] for part, value in parts]
        attributions[f"{place},{first}"] = {"from": ends[0], "to": ends[1], "parts": forward}
        attributions[f"{first},{place}"] = {"from": ends[1], "to": ends[0], "parts": backward}
    return {"attributions": attributions, "attribution_unit": unit.text, "attribution_label": "latency"}


def _spread(cells: fronts.Cells, count: int) -> list[int]:
    """Some of the cells, evenly over all of them."""
    return cells[np.unique(np.linspace(0, len(cells) - 1, min(count, len(cells))).round().astype(int))].tolist()


def describe_sampled_choice(dataset: xr.Dataset, cell: int, tolerance: float) -> list[str]:
    """The sentence about the design of a cell and its network; none where no accuracy of the network has an interval.

    `cell`: index into all results; `tolerance`: the allowed loss of accuracy, in points.
    """
    if "point" in dataset.dims or "speedup" not in dataset or not has_accuracy_intervals(dataset):
        return []
    dims = cell_dims(dataset)
    position = dict(zip(dims, map(int, np.unravel_index(cell, [dataset.sizes[dim] for dim in dims])), strict=True))
    of_network = dataset.workload.values == dataset.workload.values[position.pop("variant")]
    design = dataset.isel({dim: [index] for dim, index in position.items()}).isel(variant=of_network)
    if not has_accuracy_intervals(design):
        return []
    fitting = design.assign(speedup=design.speedup.where(design.fits)) if "fits" in design else design
    return [f"Over samples of the accuracies: {pattern_shares(iso_speedup(fitting, tolerance).squeeze()).sentence}."]
