"""Tables of the results in a dataset: the best designs of a sweep or a search, what bounds them, and the Pareto front.

This is what `dse show` prints, and what `dse sweep`, `dse search` and `dse pareto` print at their end.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from dse.base.display_units import DECIMAL_BYTES
from dse.base.errors import InputError
from dse.report.best_designs import (
    Ranking,
    best_designs,
    check_rows,
    describe_points,
    eligible_variants,
    make_ranking,
    unmeasured_variants,
    with_all_dims,
)
from dse.report.result_kind import result_kind
from dse.report.result_table import ResultTable
from dse.sweeping import provenance
from dse.sweeping.accuracy_losses import has_accuracy_intervals
from dse.sweeping.pareto import front_records, objective_directions, pareto
from dse.workload.accuracy import check_drop
from dse.workload.pattern_shares import DECIDED_SHARE

MAX_NAMED = 3  # networks at a batch size that a note names


def describe_misfits(dataset: xr.Dataset) -> str:
    """The networks that fit no design at a batch size, as in 'bert-base at batch 64 takes 30 GB, 6 GB more than the 24 GB of l4'.

    Empty where each fits some design. `dataset` has all dims; results of older versions have no footprints.
    """
    texts = list(_misfits(dataset)) if "capacity" in dataset.get("footprint", xr.DataArray()).attrs else []
    more = [f"and {len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    return "; ".join(texts[:MAX_NAMED] + more)


def _misfits(dataset: xr.Dataset) -> Iterator[str]:
    """A text for each network and batch size, with the design and the variant that miss least."""
    capacities = {name: _largest_capacity(dataset, *each) for name, each in json.loads(dataset.footprint.attrs["capacity"]).items()}
    for workload in dict.fromkeys(dataset.workload.values):
        variants = np.flatnonzero(dataset.workload.values == workload)
        for number, batch in enumerate(dataset.batch.values):
            results = dataset[["fits", "footprint"]].isel(batch=number, variant=variants)
            if not bool(results.fits.any()):
                least = results.footprint.min([dim for dim in results.footprint.dims if dim != "accelerator"])
                excess = {str(name): float(least.sel(accelerator=name)) - capacities[str(name)] for name in dataset.accelerator.values}
                device = min(excess, key=lambda name: excess[name])
                sizes = excess[device] + capacities[device], excess[device], capacities[device]
                needed, missing, capacity = map(_format_decimal, sizes)
                yield f"{workload} at batch {batch} takes {needed}, {missing} more than the {capacity} of {device}"


def _format_decimal(size: float) -> str:
    """A size with a decimal prefix, so that sizes of one sentence can be added up: '565.8 GB'."""
    unit, factor = next(each for each in reversed(DECIMAL_BYTES) if each[1] <= max(size, 1.0))
    return f"{size / factor:,.4g} {unit}"


def _largest_capacity(dataset: xr.Dataset, path: str, described: float | None) -> float:
    """The largest outermost capacity [B] of the designs of an accelerator; `described` is None where it is not limited."""
    if path in dataset.coords:
        return float(dataset[path].max())
    return np.inf if described is None else described


MAX_FRONT_CELLS = 5_000_000  # of a sweep: above, its front takes seconds; `dse pareto` finds it
MAX_ROWS, FEW_GROUPS = 10, 4  # rows of a single table; groups of networks and batch sizes up to which each has three rows
COSTS = ("area", "power", "energy")


@dataclass(frozen=True)
class ShowOptions:
    """What to show of a dataset; None: a default that suits the dataset."""

    top: int | None = None  # rows of each network and batch size
    maximize: str | None = None
    minimize: str | None = None
    drop: float | None = None  # largest loss of accuracy, in the unit of the metric
    any_accuracy: bool = False


def result_tables(dataset: xr.Dataset, options: ShowOptions | None = None) -> list[ResultTable]:
    """The tables of a dataset of results; raises InputError if it holds none."""
    options = options or ShowOptions()
    if options.top is not None:
        check_rows(options.top)
    kind = result_kind(dataset)
    if kind == "sweep":
        return _sweep_tables(dataset, options)
    if kind == "summary":
        return [_summary_table(dataset, options)]
    if kind == "search":
        return _search_tables(dataset, options)
    return _front_tables(dataset, options) if kind == "front" else [_top_table(dataset, options)]


def _sweep_tables(dataset: xr.Dataset, options: ShowOptions) -> list[ResultTable]:
    dataset = with_all_dims(dataset)
    ranking = make_ranking(dataset, options.maximize, options.minimize, allowed_drop(dataset, options))
    groups = len(set(dataset.workload.values)) * dataset.sizes["batch"]
    top, title = options.top or _rows_of(groups), f"{_title(dataset)}: {_count_text(dataset)}"
    measured, unmeasured = best_designs(dataset, ranking, top), best_designs(dataset, ranking, top, with_unmeasured=True)
    has_measured = options.any_accuracy or not unmeasured_variants(dataset).all()
    tables = [ResultTable(f"{title}; best designs by {ranking}", measured, _ranking_notes(dataset, ranking))] if has_measured else []
    if len(unmeasured) and not options.any_accuracy:
        name = "with patterns whose accuracy nobody measured" if tables else f"{title}; best designs by {ranking}, accuracy not measured"
        tables.append(ResultTable(f"best designs {name}" if has_measured else name, unmeasured))
    return [*tables, *_sweep_front(dataset, ranking, options)]


def allowed_drop(dataset: xr.Dataset, options: ShowOptions) -> float | None:
    """The largest loss of accuracy: as given, else of the specification, else 1."""
    if options.any_accuracy:
        return None
    if options.drop is not None:
        check_drop(options.drop)
        return options.drop
    return provenance.read_spec(dataset).accuracy_drop if "spec" in dataset.attrs else 1.0


def _rows_of(groups: int) -> int:
    return MAX_ROWS if groups == 1 else 3 if groups <= FEW_GROUPS else 1


def _title(dataset: xr.Dataset) -> str:
    return str(dataset.attrs.get("title", "results"))


def _count_text(dataset: xr.Dataset) -> str:
    sizes = {str(dim): size for dim, size in dataset.sizes.items() if dim not in ("resource", "execution", "batch", "variant")}
    designs = int(np.prod(list(sizes.values())))
    networks = len(set(dataset.workload.values))
    parts = [_plural(designs, "design"), _plural(networks, "network"), _plural(dataset.sizes["batch"], "batch size")]
    return " x ".join([*parts, _plural(dataset.sizes["variant"], "variant")])


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _ranking_notes(dataset: xr.Dataset, ranking: Ranking) -> tuple[str, ...]:
    """Which results are not ranked, and what the numbers mean."""
    notes, losses = list[str](), ~eligible_variants(dataset, ranking.drop) & ~unmeasured_variants(dataset)
    if losses.any():
        who = f"{_plural(count := int(losses.sum()), 'variant')} that {'loses' if count == 1 else 'lose'}"
        notes.append(f"not ranked: {who} more than {ranking.drop:g} of {'its' if count == 1 else 'their'} metric (--drop)")
    if not bool(dataset.fits.all()):
        notes.append(f"not ranked: {int((~dataset.fits).sum()):,} of {dataset.fits.size:,} results, which do not fit the outermost memory")
        notes += filter(None, [describe_misfits(dataset)])
    if has_accuracy_intervals(dataset) and ranking.drop is not None:
        notes.append(
            "pattern shares: in how many samples of the accuracies a variant of each pattern is the best on the design; "
            f"decided: that of the row is in at least {100 * DECIDED_SHARE:g}%, otherwise the accuracies cannot decide"
        )
    return (*notes, *_model_notes(dataset))


def _model_notes(dataset: xr.Dataset) -> list[str]:
    """What the numbers are: the fidelity, and the intervals and errors that come with it."""
    fidelity = provenance.read_spec(dataset).model.fidelity if "spec" in dataset.attrs else ""
    meaning = {"sol": "lower bounds of the latency (speed of light)", "capacity": "in brackets: from lower bound to attainable traffic",
               "calibrated": "in brackets: 90% prediction interval", "r3": "constant efficiencies"}  # fmt: skip
    notes = [f"fidelity {fidelity}: {meaning[fidelity]}"] if fidelity in meaning else []
    errors = {str(dataset[name].attrs["model_error"]) for name in COSTS if name in dataset and "model_error" in dataset[name].attrs}
    return [*notes, *sorted(errors)]


def _sweep_front(dataset: xr.Dataset, ranking: Ranking, options: ShowOptions) -> list[ResultTable]:
    """The front of latency and cost among the ranked variants, or of speedup and loss of accuracy; none where neither is stored."""
    maximize, minimize = front_objectives(dataset)
    if "latency" in minimize:
        fitting = dataset.isel(variant=np.flatnonzero(eligible_variants(dataset, ranking.drop)))
        dataset = fitting.assign(latency=fitting.latency.where(fitting.fits))
    if not minimize:
        return []
    size = int(np.prod([size for dim, size in dataset.sizes.items() if dim not in ("resource", "execution")]))
    command = " ".join(
        ["dse pareto RESULTS", *(f"--{way} {' '.join(names)}" for way, names in (("maximize", maximize), ("minimize", minimize)) if names)]
    )
    if not 0 < size <= MAX_FRONT_CELLS:
        return [] if not size else [ResultTable(f"Pareto front: not searched among {size:,} results; use '{command}'", pd.DataFrame())]
    try:
        front = pareto(dataset, maximize, minimize, ties=False)
    except InputError as error:
        return [ResultTable(f"Pareto front: none ({error.problems[0].message})", pd.DataFrame())]
    return _front_tables(front, options)


def front_objectives(dataset: xr.Dataset) -> tuple[list[str], list[str]]:
    """Objectives to maximise and to minimise of the front that suits a sweep; none where it stores too little."""
    cost = next((name for name in ("area", "power") if name in dataset and dataset[name].size > 1), None)
    if "latency" in dataset and cost is not None:
        return [], ["latency", cost]
    if "speedup" in dataset and not unmeasured_variants(dataset).all():
        return ["speedup"], ["accuracy_drop"]
    return [], []


def _front_tables(front: xr.Dataset, options: ShowOptions) -> list[ResultTable]:
    """A table of all fronts: of each, its ends, its knee and evenly spaced points between."""
    directions, records = objective_directions(front), front_records(front)
    top, shown, start = options.top or _rows_of(len(records)), list[int](), 0
    for record in records:
        shown += thin_front(start, record["size"], record["knee"], top)
        start += record["size"]
    knees = {record["knee"] for record in records}
    frame = describe_points(front.isel(point=shown))
    frame.insert(len(directions), "knee", ["knee" if index in knees else "" for index in shown])
    order = [*(name for name in ("workload", "batch") if name in frame), *directions, "knee"]
    units = frame.attrs["units"]
    frame = frame.reindex(columns=list(dict.fromkeys([name for name in order if name in frame] + list(frame))))
    frame.attrs["units"] = units
    objectives = " and ".join(f"{way} {name.replace('_', ' ')}" for name, way in directions.items())
    total, points = front.sizes["point"], sum(record["points"] for record in records)
    fronts = "" if len(records) == 1 else f"{len(records)} fronts, "
    title = f"Pareto front ({objectives}): {fronts}{total:,} of {points:,} results"
    notes = [f"{len(shown):,} of {total:,} points are shown (--top)"] if len(shown) < total else []
    return [ResultTable(title, frame, tuple(notes))]


def thin_front(start: int, size: int, knee: int, top: int) -> list[int]:
    """Indices of at most `top` points of a front: its knee, then its ends, then evenly spaced ones."""
    if size <= top:
        return list(range(start, start + size))
    spaced = np.linspace(start, start + size - 1, top).round().astype(int) if top > 1 else np.array([knee])
    if knee not in spaced:
        middle = spaced[1:-1] if top > 2 else spaced[-1:]
        spaced[spaced == middle[np.abs(middle - knee).argmin()]] = knee
    return sorted({int(index) for index in spaced})


def _search_tables(front: xr.Dataset, options: ShowOptions) -> list[ResultTable]:
    """The best designs of a search, and its front."""
    attrs, tables = front.attrs, list[ResultTable]()
    objectives = " and ".join(json.loads(attrs["objectives"]))
    counts = f"{attrs['evaluated']:,} designs evaluated, {attrs['feasible']:,} feasible" if "evaluated" in attrs else ""
    title = f"search on {attrs.get('accelerator', 'an accelerator')}: {', '.join(filter(None, [objectives, counts]))}"
    inferred = str(attrs.get("inferred_accuracies", "")).partition(":")[0]
    title = "; ".join(filter(None, [title, inferred]))
    samples = [f"samples of the accuracies: {attrs['accuracy_samples']}"] if "accuracy_samples" in attrs else []
    notes = (*samples, *(f"constraint: {text}" for text in json.loads(attrs.get("constraints", "[]"))))
    if "best_designs" in attrs:
        best = pd.DataFrame(json.loads(attrs["best_designs"]))
        best.attrs["units"] = json.loads(attrs["best_designs_units"])
        tables.append(ResultTable(f"{title}; best designs", best.head(options.top or MAX_ROWS), notes))
    rows = describe_points(front)
    sign = -1 if str(json.loads(attrs["objectives"])[0]).startswith("maximize") else 1
    name = str(json.loads(attrs["objectives"])[0]).partition(" ")[2]
    order = np.argsort(sign * rows[name].to_numpy(float), kind="stable") if name in rows else np.arange(len(rows))
    spaced = np.linspace(0, len(order) - 1, min(options.top or MAX_ROWS, len(order))).round().astype(int)
    points = rows.take(order[np.unique(spaced)])
    points.attrs["units"] = rows.attrs["units"]
    note = f"{len(points):,} of {len(rows):,} points are shown (--top)"
    front_title = f"Pareto front ({' and '.join(front_objectives_of_search(front))}): {_plural(len(rows), 'point')}"
    return [*tables, ResultTable(front_title, points, (note,) if len(points) < len(rows) else ())]


def front_objectives_of_search(front: xr.Dataset) -> list[str]:
    """The results between which the front of a search is the trade-off, as in 'maximize performance'."""
    return json.loads(front.attrs.get("front_objectives", front.attrs["objectives"]))


def _top_table(points: xr.Dataset, options: ShowOptions) -> ResultTable:
    """The first rows of the best results of a sweep, best first."""
    count = min(options.top or MAX_ROWS, points.sizes["point"])
    rows = describe_points(points.isel(point=slice(count)))
    note = f"{count} of {points.sizes['point']:,} results are shown (--top)"
    return ResultTable(f"{_title(points)}: best results", rows, (note,) if count < points.sizes["point"] else ())


def _summary_table(dataset: xr.Dataset, options: ShowOptions) -> ResultTable:
    """Least, mean and greatest value of each result over all designs, for each accelerator, batch, dtype and variant."""
    names = [str(name) for name in dataset.data_vars if str(name).endswith(("_min", "_mean", "_max")) and "_by_" not in str(name)]
    names = [name for name in names if dataset[name].size]
    names = [name for name in names if "variant" in dataset[name].dims] or names  # area and power do not depend on the variant
    key = "latency_min" if "latency_min" in names else names[0]
    dims = [dim for dim in ("accelerator", "batch", "dtype", "variant") if dim in dataset[key].dims]
    shape = [dataset.sizes[dim] for dim in dims]
    order = np.argsort(dataset[key].transpose(*dims).values.ravel(), kind="stable")[: options.top or MAX_ROWS]
    indices = {dim: ("point", index) for dim, index in zip(dims, np.unravel_index(order, shape), strict=True)}
    rows = describe_points(dataset[names].isel(indices))
    title = f"{_title(dataset)}: summary over all designs; by lowest {key.replace('_', ' ')}"
    return ResultTable(title, rows, tuple(_model_notes(dataset)))
