"""The section of a report about a search: its Pareto front, the best design, exact differences between designs, and elasticities."""

import hashlib
import itertools
from pathlib import Path

import numpy as np
import xarray as xr

from dse.base.display_units import format_quantity, select_unit
from dse.base.errors import InputError
from dse.explaining.shapley import EXACT, make_game
from dse.html_report import answers, points, sources
from dse.html_report.display import PageContents, describe_value
from dse.html_report.layer_details import NetworkOnDesign, describe_layers
from dse.html_report.results_files import Results, read_json
from dse.report.show_results import front_objectives_of_search
from dse.schema.sweep import SweepSpec
from dse.searching import run
from dse.searching.evaluator import Evaluator
from dse.searching.space import DesignMatrix, Dimension

MAX_COMPARED = 12  # designs whose differences are in the page
MIN_SLOPE = 0.005  # elasticity from which a number is named
MAX_DETAILED = 4  # designs whose layers are in the page


def build_section(results: Results) -> PageContents:
    """The contents of the section, as the page reads them; raises InputError for a search of another version."""
    front, spec = results.dataset, _read_spec(results)
    objectives = _objective_signs(front)
    columns = points.point_columns(front.drop_vars("best"))
    best = int(np.flatnonzero(front["best"].values)[0]) if front["best"].values.any() else 0
    answer = _answer(front, best)
    return {
        "name": results.name,
        "kind": "search",
        "description": spec.description,
        "headline": _headline(front, answer),
        "certainty": answers.certainty(front, spec.model.fidelity, answer),
        "answers": [answer | {"point": best}],
        "objectives": objectives,
        "total": front.sizes["point"],
        "columns": [column.to_json() for column in columns],
        "labels": _labels(front),
        "front": list(range(front.sizes["point"])),
        "grid": None,
        "grid_reason": "The designs of a search are no grid; exact differences are stored between some designs of the front: "
        "the best one and those spread evenly along it.",
        "assumptions": sources.assumption_sentences(front),
        "provenance": sources.provenance_rows(front) + _search_rows(front),
        "spec": str(front.attrs["spec"]),
    } | _evaluated_parts(front, best, objectives)


def _read_spec(results: Results) -> SweepSpec:
    from dse.sweeping import provenance

    dataset = results.dataset
    if "best" not in dataset or "spec" not in dataset.attrs:
        raise InputError("the search was written by another version", "run 'dse search' again", results.path)
    path = dataset.attrs.get("spec_path", str(results.path))
    return provenance.read_spec(dataset.assign_attrs(spec_path=path))


def _objective_signs(front: xr.Dataset) -> dict[str, float]:
    """The results between which the front is the trade-off, where they are variables of it: -1 where they are maximised."""
    texts = [text.partition(" ") for text in front_objectives_of_search(front)]
    signs = {name: -1.0 if word == "maximize" else 1.0 for word, _, name in texts}
    return {name: sign for name, sign in signs.items() if name in front.data_vars}


def _answer(front: xr.Dataset, best: int) -> PageContents:
    point = front.isel(point=best)
    axes = [str(name) for name in point.coords]
    costs = [f"{name} {format_quantity(float(point[name]), point[name].attrs['units'])}" for name in ("area", "power") if name in point]
    objective = next(iter(_objective_signs(front)), "performance")
    reported = read_json(front.attrs, "best_designs", [{}])[0]
    return {
        "workload": ", ".join(read_json(front.attrs, "run_on", {})) or "all networks",
        "batch": "",
        "variant": "the best variant of each network",
        "design": ", ".join([str(front.attrs["accelerator"]), *(f"{axis} {describe_value(point[axis])}" for axis in axes)]),
        "speedup": float(point["speedup"]) if "speedup" in point else float(point["performance"]),
        "objective": f"{objective} {float(point[objective]):.4g}",
        "latency": format_quantity(float(point["latency"]), "s") if "latency" in point else "",
        "accuracy": f"within {front.attrs.get('accuracy', '')}{_assumed(point)}",
        "limit": reported.get("bound", ""),
        "states": reported.get("states", ""),
        "accuracies": reported.get("accuracies", ""),
        "interval": ", ".join(
            f"{name} {float(point[f'{name}_low']):.4g} to {float(point[f'{name}_high']):.4g}"
            for name in ("performance",)
            if f"{name}_low" in point
        ),
        "costs": ", ".join(costs),
    }


def _headline(front: xr.Dataset, answer: PageContents) -> list[str]:
    constraints = " and ".join(read_json(front.attrs, "constraints", [])) or "no constraints"
    evaluated, feasible = int(front.attrs["evaluated"]), int(front.attrs["feasible"])
    sentences = [
        f"The best of {evaluated:,} designs ({feasible:,} feasible) within {constraints}: {answer['design']}{_inferred(front)}.",
        f"It reaches {answer['objective']}"
        + (f", a latency of {answer['latency']}" if answer["latency"] else "")
        + f" and a speedup of {answer['speedup']:.3g}x over the dense network on the same design ({answer['accuracy']}).",
    ]
    slopes = sorted(read_json(front.attrs, "elasticities", {}).items(), key=lambda item: -abs(item[1]))
    if slopes and abs(slopes[0][1]) >= MIN_SLOPE:
        sentences.append(
            "What limits it: 1% more of "
            + ", ".join(f"{path} changes it by {slope:+.2f}%" for path, slope in slopes[:3] if abs(slope) >= MIN_SLOPE)
            + "."
        )
    if answer["limit"]:
        sentences.append(f"Time by resource: {answer['limit']}.")
    if answer["states"]:
        sentences.append(f"Networks run as {answer['states']}.")
    if answer["accuracies"]:
        sentences.append(f"Accuracies: {answer['accuracies']}.")
    if "accuracy_samples" in front.attrs:
        sentences.append(f"Over samples of the accuracies: {front.attrs['accuracy_samples']}.")
    return sentences + ([f"It takes {answer['costs']}."] if answer["costs"] else [])


def _inferred(front: xr.Dataset) -> str:
    """That the accuracy of the best pattern is estimated, interpolated or assumed, in brackets; empty otherwise."""
    text = str(front.attrs.get("inferred_accuracies", "")).partition(":")[0]
    return f" ({text})" if text else ""


def _assumed(point: xr.Dataset) -> str:
    """That a network runs a pattern on this point whose accuracy is assumed; empty otherwise."""
    return ", as assumed" if "assumed_accuracies" in point and str(point["assumed_accuracies"].item()) else ""


def _labels(front: xr.Dataset) -> list[str]:
    names = [str(name) for name in front.coords]
    columns = [points.make_column(front[name]) for name in names]
    return [
        ", ".join(
            f"{column.label.removeprefix('units.').removeprefix('memory.')} "
            + (f"{column.values[number]:.4g} {column.unit}" if column.is_number else str(column.values[number]))
            for column in columns
        ).strip()
        for number in range(front.sizes["point"])
    ]


def _search_rows(front: xr.Dataset) -> list[list[str]]:
    names = ("sampler", "evaluated", "feasible", "tied", "regret", "hypervolume_share", "hypervolume_share_of_random", "accuracy")
    return [[name, str(front.attrs[name])] for name in names if name in front.attrs]


def _evaluated_parts(front: xr.Dataset, best: int, objectives: dict[str, float]) -> PageContents:
    """Differences between designs, layers and sources, by the search's own evaluator; the reason where its files have changed."""
    try:
        evaluator = load_evaluator(front)
    except InputError as error:
        return {"details": {}, "details_reason": str(error), "sources": [], "attributions": {}}
    compared = _spread(front.sizes["point"], MAX_COMPARED, best)
    objective = next(iter(objectives), "performance")
    designs = encode_designs(evaluator, front.isel(point=compared))
    unit = select_unit(str(front[objective].attrs.get("units", "1")), front[objective].values)
    detailed = compared[:MAX_DETAILED]
    return {
        "attributions": _attributions(evaluator, front, compared, designs, objective, unit.size),
        "attribution_unit": unit.text,
        "attribution_label": objective,
        "details": {int(point): _details(evaluator, designs[place]) for place, point in enumerate(detailed)},
        "sources": _source_tables(evaluator),
    }


def load_evaluator(front: xr.Dataset) -> Evaluator:
    path = Path(str(front.attrs.get("spec_path", "")))
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != front.attrs["spec_sha256"]:
        raise InputError(f"the specification '{path}' is not as it was for the search", "run 'dse search' again")
    evaluator = run.load_evaluator(path)
    if evaluator.problem.provenance["description_sha256"] != front.attrs["description_sha256"]:
        raise InputError("descriptions have changed since the search", "run 'dse search' again")
    return evaluator


def _spread(size: int, count: int, best: int) -> list[int]:
    """The best design first, then others evenly along the front."""
    even = np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(int)).tolist()
    return list(dict.fromkeys([best, *even]))[:count]


def encode_designs(evaluator: Evaluator, selected: xr.Dataset) -> DesignMatrix:
    """The designs of points as the evaluator numbers them."""
    return np.stack([_encode_column(dimension, selected[dimension.path].values) for dimension in evaluator.space.dimensions], axis=1)


def _encode_column(dimension: Dimension, values: np.ndarray) -> np.ndarray:
    if dimension.continuous:
        return values.astype(float)
    known = dimension.axis.values
    if known.dtype.kind in "if":
        return np.abs(known[None, :] - values[:, None]).argmin(axis=1).astype(float)
    labels = [str(label) for label in known]
    return np.array([labels.index(str(value)) for value in values], float)


def _attributions(
    evaluator: Evaluator, front: xr.Dataset, compared: list[int], designs: DesignMatrix, objective: str, scale: float
) -> PageContents:
    """Exact parts of the difference in the objective between each pair of compared designs, by axis."""
    names = [dimension.path for dimension in evaluator.space.dimensions]
    texts = {name: _value_texts(front[name].isel(point=compared)) for name in names}
    attributions: PageContents = {}
    for one, other in itertools.permutations(range(len(compared)), 2):
        factors = np.flatnonzero(designs[one] != designs[other])
        if 0 < len(factors) <= EXACT:
            game = make_game(len(factors))
            values = evaluator.evaluate(_mixtures(designs[one], designs[other], factors, game.masks))[objective] / scale
            described = [f"{names[factor]}: {texts[names[factor]][one]} to {texts[names[factor]][other]}" for factor in factors]
            parts = [[text, float(part)] for text, part in zip(described, game.parts(values), strict=True)]
            ends = {"from": float(values[game.first]), "to": float(values[game.last])}
            attributions[f"{compared[one]},{compared[other]}"] = {**ends, "parts": parts}
    return attributions


def _mixtures(start: np.ndarray, end: np.ndarray, factors: np.ndarray, masks: np.ndarray) -> DesignMatrix:
    """The design `start` with the factors of each mask as in `end`."""
    mixtures = np.tile(start, (len(masks), 1))
    mixtures[:, factors] = np.where(masks, end[factors], start[factors])
    return mixtures


def _value_texts(values: xr.DataArray) -> list[str]:
    return [describe_value(values[number]) for number in range(len(values))]


def _details(evaluator: Evaluator, design: np.ndarray) -> list[PageContents]:
    """The layers of each network on a design, and the elasticities of the objective where they are known."""
    accelerator, problem = evaluator.space.accelerator_at(design), evaluator.problem_at(design)
    networks = []
    for name, variant in evaluator.chosen_variants(design).items():
        dense = evaluator.problem.feasible_variants[name][0]
        network = NetworkOnDesign(accelerator, variant, dense, *problem.run_settings(name), problem.options)
        networks.append(describe_layers(network, with_tornado=True) | {"network": name})
    return networks


def _source_tables(evaluator: Evaluator) -> list[PageContents]:
    problem = evaluator.problem
    workloads = [problem.networks[name][0] for name in problem.own_networks]
    variants = [variant for name in problem.own_networks for variant in problem.feasible_variants[name]]
    return sources.tables_of([evaluator.space.accelerator], workloads, variants, problem.options)
