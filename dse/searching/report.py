"""Report a search: a table of its best designs with notes, the Pareto front as a dataset, existing devices for comparison."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float, Int

from dse.base import catalog
from dse.base.display_units import format_quantity
from dse.base.errors import InputError
from dse.base.expression import split_brackets
from dse.model.efficiency.efficiency_file import available_kernels
from dse.model.executions import enabled_runs
from dse.model.layer_results import layer_results
from dse.model.network_terms import network_terms
from dse.schema.accelerator import read_accelerator
from dse.schema.unit_run import EXPANDED_SUFFIX
from dse.searching import uncertainty
from dse.searching.accuracy_uncertainty import SampledDesigns
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.problem import SearchProblem
from dse.searching.simplicity import simplify_designs
from dse.searching.space import DesignMatrix, Dimension, Space
from dse.sweeping.model_warnings import capacity_note, on_chip_capacities
from dse.workload import Variant

TABLE_ROWS = 10  # best designs in the table
MAX_ATTRIBUTE = 50_000  # characters: HDF5 stores attributes up to 64 KiB
ACTIVE_MARGIN = 0.02  # a constraint within this share of its bound is active
UNITS = {
    "performance": "1", "speedup": "1", "latency": "s", "energy": "J", "edp": "J s", "area": "m^2", "power": "W", "throughput": "1/s",
    "occupancy": "1", "batch": "1",
}  # fmt: skip
INTERVAL_ENDS = {"low": "lower end of the 90% interval", "high": "upper end of the 90% interval"}


def simplify_reported(archive: Archive) -> None:
    """Replace the designs that are reported, the front and the best ones, by their simplest equivalents."""
    simple: set[bytes] = set()
    while len(rows := [row for row in _reported_indices(archive) if archive.designs[row].tobytes() not in simple]):
        designs = archive.designs[rows]
        simplified = simplify_designs(archive.evaluator, designs)
        simple |= {design.tobytes() for design in simplified}
        if len(changed := np.flatnonzero((designs != simplified).any(axis=1))):
            archive.replace_designs(designs[changed], simplified[changed])


def _reported_indices(archive: Archive) -> Int[np.ndarray, "design"]:
    return np.union1d(archive.front_indices(), archive.ranking()[:TABLE_ROWS])


def best_designs_table(archive: Archive, sampled: SampledDesigns | None = None) -> pd.DataFrame:
    """The best designs, one per row: rank, axis values, results, active constraints, bounding resources and variants of each network.

    With several networks there are the results of each; with conditional axes, the axes whose condition does not hold (`inactive`); where
    the networks were `sampled`, how often each pattern is the best (`pattern_shares`).
    """
    designs, evaluator = archive.designs[archive.ranking()[:TABLE_ROWS]], archive.evaluator
    scores = evaluator.evaluate_networks(designs)
    table = pd.DataFrame(evaluator.space.decode(designs) | scores.combined | uncertainty.interval_columns(evaluator, designs))
    table.insert(0, "rank", np.arange(1, len(designs) + 1))
    excess, bounds = evaluator.score_results(scores, len(designs))[1], evaluator.problem.search.bounds
    table["active"] = [", ".join(str(bound) for bound, value in zip(bounds, row, strict=True) if value > -ACTIVE_MARGIN) for row in excess]
    if any(dimension.conditions for dimension in evaluator.space.dimensions):
        inactive = [np.where(dimension.is_active(designs), "", dimension.path) for dimension in evaluator.space.dimensions]
        table["inactive"] = [", ".join(filter(None, row)) for row in np.stack(inactive, axis=1)]
    if len(evaluator.problem.feasible_variants) > 1:
        table["networks"] = [_describe_networks(evaluator, scores.each, number) for number in range(len(designs))]
    variants = [evaluator.named_variants(choice) for choice in scores.choice.T]
    layers = [_layer_results(evaluator, design, chosen) for design, chosen in zip(designs, variants, strict=True)]
    table["bound"] = [_describe_bounds(of_networks) for of_networks in layers]
    unused = [_list_unused_runs(evaluator, design, of_networks) for design, of_networks in zip(designs, layers, strict=True)]
    if any(unused):
        table["unused"] = [", ".join(runs) for runs in unused]
    table["states"] = ["; ".join(f"{name}: {_describe_variant(variant)}" for name, variant in chosen.items()) for chosen in variants]
    table["accuracies"] = ["; ".join(f"{name}: {variant.accuracy_text}" for name, variant in chosen.items()) for chosen in variants]
    if sampled is not None:
        table["pattern_shares"] = [sampled.describe(number) for number in range(len(designs))]
    return table


def inferred_accuracies(archive: Archive) -> str:
    """That the best design runs variants whose accuracy is estimated, interpolated or assumed, and which; empty if there are none."""
    variants = archive.evaluator.chosen_variants(archive.designs[archive.best_index()])
    inferred = [variant for variant in variants.values() if variant.has_inferred_accuracy]
    networks: dict[str, list[str]] = {}
    for name, variant in variants.items():
        if variant.has_inferred_accuracy:
            networks.setdefault(f"{_describe_variant(variant)}, {variant.accuracy_text}", []).append(name)
    listed = "; ".join(f"{' and '.join(names)} {'runs' if len(names) == 1 else 'run'} {text}" for text, names in networks.items())
    kinds = [word for word in ("estimated", "interpolated", "assumed") if any(word in variant.accuracy_kind for variant in inferred)]
    return f"the accuracy of the best pattern is {' and '.join(kinds)}, not measured: {listed}" if inferred else ""


def list_notes(archive: Archive) -> list[str]:
    """Notes about the best design: a low performance behind a high speedup, and capacities that do not matter under the options."""
    return [*_slower_than_described(archive), *_idle_capacities(archive)]


def _slower_than_described(archive: Archive) -> Iterator[str]:
    """A search for speedup finds designs on which the dense network is slow, too."""
    evaluator = archive.evaluator
    performance = float(evaluator.evaluate(_best_design(archive))["performance"][0])
    if performance < 1 and any("speedup" in objective.names for objective, _ in evaluator.problem.search.objectives):
        yield (
            f"the best design is slower than the accelerator as described (performance {performance:.3g}): 'speedup' is over the dense "
            "network on the same design, 'performance' is over that on the described one"
        )


def _idle_capacities(archive: Archive) -> Iterator[str]:
    evaluator, best = archive.evaluator, _best_design(archive)
    paths = on_chip_capacities(evaluator.space.accelerator)
    for number, dimension in enumerate(evaluator.space.dimensions):
        if dimension.path in paths:
            designs = np.repeat(best, 2, axis=0)
            designs[:, number] = _ends(dimension)
            smallest, largest = evaluator.evaluate(evaluator.space.canonicalize(designs))["latency"]
            yield from filter(None, [capacity_note(dimension.path, float(smallest / largest), evaluator.problem.options)])


def _best_design(archive: Archive) -> DesignMatrix:
    return archive.designs[[archive.best_index()]]


def _ends(dimension: Dimension) -> tuple[float, float]:
    """The smallest and the largest value of a number, as columns of designs have them."""
    if dimension.continuous:
        return float(dimension.axis.values.min()), float(dimension.axis.values.max())
    choices = dimension.axis.values[: dimension.choices]
    return float(choices.argmin()), float(choices.argmax())


def _describe_assumed(evaluator: Evaluator, choice: Int[np.ndarray, "network point"]) -> dict[str, tuple[str, np.ndarray]]:
    """Which networks run a pattern on each point whose accuracy is assumed, as a variable of a dataset; empty where no variant has one."""
    if not any(variant.is_assumed for variant in evaluator.variants):
        return {}
    chosen = [{name: each for name, each in evaluator.named_variants(column).items() if each.is_assumed} for column in choice.T]
    texts = ["; ".join(f"{name}: {variant.pattern}" for name, variant in variants.items()) for variants in chosen]
    return {"assumed_accuracies": ("point", np.array(texts, object))}


def best_designs_attributes(table: pd.DataFrame, space: Space) -> dict[str, str]:
    """The table of the best designs as attributes of a dataset: its rows, as many as an attribute of netCDF holds, and units, as JSON."""
    axes = {dimension.path: dimension.axis.unit or "1" for dimension in space.dimensions if not dimension.categorical}
    results = {name: _unit(name) for name in map(str, table.columns) if name not in axes}
    rows = [
        {str(name): value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]
    texts = [json.dumps(row) for row in rows]
    while sum(map(len, texts)) > MAX_ATTRIBUTE and len(texts) > 1:
        texts.pop()
    return {"best_designs": f"[{', '.join(texts)}]", "best_designs_units": json.dumps(results | axes)}


def _unit(column: str) -> str:
    """The unit of a result, also of one with brackets or of an end of an interval; '1' of what has none."""
    return UNITS.get(split_brackets(column.removesuffix("_low").removesuffix("_high"))[0], "1")


def _describe_networks(evaluator: Evaluator, results: dict[str, np.ndarray], design: int) -> str:
    """Results of each network, as in 'resnet50: performance 1.32, speedup 1.2, latency 2.1 ms'."""
    texts = []
    for network, name in enumerate(evaluator.problem.feasible_variants):
        figures = [f"{result} {format_quantity(float(values[network, design]), UNITS[result])}" for result, values in results.items()]
        texts.append(f"{name}: {', '.join(figures)}")
    return "; ".join(texts)


def _describe_bounds(results: dict[str, xr.Dataset]) -> str:
    """Shares of the latency by the resource that sets it, as in 'resnet50: tensor_core 61%, dram 39%'."""
    texts = []
    for name, layers in results.items():
        shares = layers.latency.groupby(layers.bound).sum() / layers.latency.sum()
        ordered = sorted(zip(shares.bound.values, shares.values, strict=True), key=lambda pair: -pair[1])
        texts.append(f"{name}: " + ", ".join(f"{resource} {100 * share:.0f}%" for resource, share in ordered))
    return "; ".join(texts)


def _list_unused_runs(evaluator: Evaluator, design: Float[np.ndarray, "dimension"], results: dict[str, xr.Dataset]) -> list[str]:
    """The enabled runs that no layer of any network uses, as in 'tensor_core.sparse_24': the design does not need them."""
    accelerator, problem = evaluator.space.accelerator_at(design), evaluator.problem_at(design)
    used = {str(name).removesuffix(EXPANDED_SUFFIX) for layers in results.values() for name in layers.execution.values}
    dtypes = dict.fromkeys(problem.run_settings(name)[1].compute for name in results)
    units = accelerator.units.items()
    runs = [f"{unit}.{name}" for dtype in dtypes for unit, each in units for name in enabled_runs(each, dtype) if name != "dense"]
    return [run for run in dict.fromkeys(runs) if run not in used]


def _layer_results(evaluator: Evaluator, design: Float[np.ndarray, "dimension"], variants: dict[str, Variant]) -> dict[str, xr.Dataset]:
    """The results of each layer of each network on a design."""
    problem, accelerator = evaluator.problem_at(design), evaluator.space.accelerator_at(design)
    results = {}
    for name, variant in variants.items():
        batch, dtype = problem.run_settings(name)
        terms = network_terms(accelerator, variant, batch, dtype, problem.options, evaluator.efficiency)
        results[name] = layer_results(terms, accelerator, variant, dtype, problem.options, batch)
    return results


def _describe_variant(variant: Variant) -> str:
    """A variant, as in 'magnitude_pruning unstructured 0.8'."""
    return f"{variant} with {variant.combined_with}" if variant.combined_with else str(variant)


def evaluate_devices(evaluator: Evaluator, problem: SearchProblem) -> pd.DataFrame:
    """Results of the shipped devices that exist, compute in the dtype of `problem` and have a published area and power, one per row.

    `problem`: that of the search with the batch size and the dtype of its best design, in which the devices are evaluated.
    """
    rows, samples = [], problem.batch / evaluator.problem.batch  # in the time of one of the base
    base = replace(evaluator.base, latency=samples * evaluator.base.latency)
    for name in catalog.list_names("accel_models"):
        device = read_accelerator(catalog.find_path("accel_models", name))
        with suppress(InputError):  # another dtype, or no process to compute costs from
            if not device.hypothetical and device.cost.area is not None and device.cost.power is not None:
                kernels = problem.kernels if problem.options.efficiencies else available_kernels(device, problem.options)
                own_problem = replace(problem, kernels=kernels, given_variants=evaluator.problem.feasible_variants)
                own = Evaluator(Space(device, ()), own_problem, base, evaluator.work_cache)
                rows.append({"device": name} | {key: float(values[0]) for key, values in own.evaluate(np.empty((1, 0))).items()})
    return pd.DataFrame(rows)


def front_dataset(archive: Archive) -> xr.Dataset:
    """The Pareto front along `point`: every axis and result; `best` marks the best design, `assumed_accuracies` says what is assumed."""
    indices, evaluator = np.union1d(archive.front_indices(), [archive.best_index()]), archive.evaluator
    order = indices[np.argsort(archive.values[indices, 0], kind="stable")]
    designs = archive.designs[order]
    units = {dimension.path: dimension.axis.unit or "1" for dimension in evaluator.space.dimensions if not dimension.categorical}
    coords = {
        path: ("point", values.astype(object) if values.dtype.kind == "U" else values, {"units": units[path]} if path in units else {})
        for path, values in evaluator.space.decode(designs).items()
    }
    scores = evaluator.evaluate_networks(designs)
    results = scores.combined | uncertainty.interval_columns(evaluator, designs)
    named = {name.replace("/", ", "): (name, values) for name, values in results.items() if name not in coords}  # netCDF refuses '/'
    variables = {text: ("point", values, _attributes(name)) for text, (name, values) in named.items()}
    variables |= _describe_assumed(evaluator, scores.choice)
    return xr.Dataset({**variables, "best": ("point", order == archive.best_index())}, coords)


def _attributes(name: str) -> dict[str, str]:
    if (selected := split_brackets(name))[1] is not None:
        return {"units": UNITS[selected[0]], "long_name": f"{selected[0]} of {selected[1]}"}
    result, _, end = name.rpartition("_")
    return {"units": UNITS[result], "long_name": f"{INTERVAL_ENDS[end]} of the {result}"} if result else {"units": UNITS[name]}
