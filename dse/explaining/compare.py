"""Why two sides differ: Shapley values of the factors in which they differ, over mixtures of both sides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dse.base.errors import InputError
from dse.explaining import breakdown
from dse.explaining.chosen_layers import PerLayer, choose_layers, network_layers
from dse.explaining.explanation import Explanation
from dse.explaining.factors import ACCELERATOR, DEVICE, Factor, has_same_layers, list_factors, rename_parts
from dse.explaining.fidelity_parts import LABELS
from dse.explaining.mixtures import MixtureEvaluator, MixtureResults
from dse.explaining.parts import GroupRow, Part, ResourceRow, ranked
from dse.explaining.relevance import COSTS, TIMES
from dse.explaining.shapley import Game, make_game
from dse.explaining.side import Side
from dse.explaining.text import comparison_sentence
from dse.model.efficiency.device_rates import UNIT_NUMBERS
from dse.model.efficiency.fitted import LAUNCH_LATENCY, POWER_LIMIT

MEASURED = "not_predicted"  # the factor of what the model does not predict
PRECISION = 1e-9  # relative, of the values of both sides
ROUNDING = 1e-12  # of the larger value: smaller parts are none
QUANTITIES = ("latency", "speedup", "energy", "area", "power")


@dataclass(frozen=True, eq=False)
class Comparison:
    """The factors that may matter, the game over them, and the results of its mixtures."""

    b: Side
    factors: Sequence[Factor]
    evaluator: MixtureEvaluator
    game: Game
    results: MixtureResults
    unread: list[Factor]

    @property
    def ends(self) -> tuple[float, float]:
        """The quantity of both sides."""
        values = self.results.value if self.results.dense is None else self.results.dense / self.results.value
        return float(values[self.game.first]), float(values[self.game.last])


class FactorPart(NamedTuple):
    """A factor, its part, and how much of that acts through the dense baseline (None where there is no baseline)."""

    factor: Factor
    value: float
    through_dense: float | None


def compare_sides(a: Side, b: Side, quantity: str) -> Explanation:
    """Explain the difference of a quantity between two sides; raises InputError where one of them cannot be evaluated."""
    comparison = _evaluate(a, b, quantity)
    (first, last), predicted_parts = comparison.ends, _attribute(comparison)
    missing = _not_predicted(a, b, quantity, (first, last))
    ends = first + missing[0], last + missing[1]
    factor_parts = [*predicted_parts, *_measured_part(a, b, quantity, missing[1] - missing[0])]
    smallest = ROUNDING * max(abs(end) for end in ends)
    parts = ranked([_part(each, quantity, ends[1] - ends[0]) for each in factor_parts if _is_above(each, smallest)])
    without_effect = [each.factor for each in factor_parts if not _is_above(each, smallest)]
    through_links = _sources({each.factor.key for each in factor_parts if _is_above(each, smallest)}, a, comparison.b)
    groups, resources = _breakdown(a, comparison.b, comparison, quantity)
    names = [side.accelerator.name if quantity in COSTS else str(side) for side in (a, b)]
    orders = comparison.game.orders
    return Explanation(
        quantity=quantity, a=names[0], b=names[1], value_a=ends[0], value_b=ends[1], parts=parts, groups=tuple(groups),
        resources=tuple(resources), sentence=comparison_sentence(quantity, *ends, parts),
        method="exact" if orders is None else f"{orders} sampled orders of {len(comparison.factors)} factors",
        without_effect=tuple(
            dict.fromkeys(each.key for each in (*without_effect, *comparison.unread) if each.key not in through_links)
        ),
    )  # fmt: skip


def _sources(paths: set[str], a: Side, b: Side) -> set[str]:
    """The numbers that some numbers follow from by links: they act through these."""
    return {
        root for side in (a, b) for path in paths for root in side.accelerator.links.roots(path) if path in side.accelerator.links.formulas
    }


def _attribute(comparison: Comparison) -> list[FactorPart]:
    """The part of every factor."""
    game, results = comparison.game, comparison.results
    through_dense: list[float] | list[None] = [None] * len(comparison.factors)
    if results.dense is None:
        parts = game.parts(results.value)
    else:
        through_sparse, of_dense = game.ratio_parts(results.dense, results.value)
        parts, through_dense = through_sparse + of_dense, of_dense.tolist()
    return [FactorPart(*each) for each in zip(comparison.factors, parts.tolist(), through_dense, strict=True)]


def _is_above(part: FactorPart, smallest: float) -> bool:
    """Whether a factor has any effect beyond rounding."""
    return abs(part.value) > smallest or abs(part.through_dense or 0.0) > smallest


def _part(part: FactorPart, quantity: str, difference: float) -> Part:
    factor, value, through_dense = part
    share = value / difference if difference else 0.0
    return Part(factor.key, factor_label(factor, quantity), factor.a, factor.b, value, share, through_dense)


def _evaluate(a: Side, b: Side, quantity: str) -> Comparison:
    """Compare part by part if the mixtures can be evaluated, else accelerator by accelerator; raises InputError.

    Parts that the model does not read are left out, unless a side would have another value without them.
    """
    named = replace(b, accelerator=rename_parts(b.accelerator, a.accelerator))
    expected = float(_direct_values(b, quantity)[0])
    listed = list_factors(a, named)
    factors = listed if quantity in TIMES else _group_peaks(listed)
    for leave_out in (True, False) if _may_exchange_kernels(a, named) else ():
        try:
            comparison = _compare_factors(a, named, quantity, _group_calibrated(a, named, factors), factors, leave_out)
        except InputError:
            continue
        if abs(comparison.ends[1] - expected) <= PRECISION * abs(expected):
            return comparison
    return _compare_factors(a, b, quantity, _merge_accelerators(factors), factors, leave_out=True)


def _direct_values(side: Side, quantity: str) -> np.ndarray:
    """The quantity of one side."""
    results = MixtureEvaluator(side, side, (), quantity).evaluate(np.zeros((1, 0), bool))
    return results.value if results.dense is None else results.dense / results.value


def _compare_factors(a: Side, b: Side, quantity: str, exchanged: list[Factor], listed: list[Factor], leave_out: bool) -> Comparison:
    evaluator = MixtureEvaluator(a, b, exchanged, quantity)
    relevant = [f for f in exchanged if not leave_out or f.key == ACCELERATOR or evaluator.relevance.may_matter(f)]
    evaluator.factors = sorted(relevant, key=lambda factor: factor.key)  # so that sampled orders do not depend on which side is first
    known = {factor.key for factor in relevant}
    unread = [] if ACCELERATOR in known else [factor for factor in listed if factor.key not in known]
    game = make_game(len(relevant))
    return Comparison(b, evaluator.factors, evaluator, game, evaluator.evaluate(game.masks), unread)


def _may_exchange_kernels(a: Side, b: Side) -> bool:
    """Whether the kernels of one device can predict the other: both have units of the same names, which compute in the same dtypes."""
    if "calibrated" not in (a.options.fidelity, b.options.fidelity) or _base_name(a) == _base_name(b):
        return True
    units = [{(n, d) for n, unit in s.accelerator.base.units.items() for d in unit.peak if d in _computes(a, b)} for s in (a, b)]
    return units[0] == units[1] and set(b.accelerator.base.document.data["units"]) == set(b.accelerator.base.units)


def _base_name(side: Side) -> str:
    return side.accelerator.base.document.sha256


def _computes(a: Side, b: Side) -> set[str]:
    return {a.dtype.compute, b.dtype.compute}


def _group_calibrated(a: Side, b: Side, factors: list[Factor]) -> list[Factor]:
    """Fitted kernels belong to the processors, scratchpads and power limits that they were measured on, so these change with the device."""
    device = next((factor for factor in factors if factor.key == DEVICE), None)
    if device is None or "calibrated" not in (a.options.fidelity, b.options.fidelity):
        return factors
    tied = [f for f in factors if f.key.rpartition(".")[2] in UNIT_NUMBERS or f.key in (LAUNCH_LATENCY, POWER_LIMIT)]
    paths = (*device.paths, *(path for factor in tied for path in factor.paths))
    return [replace(f, paths=paths) if f is device else f for f in factors if f not in tied]


def _group_peaks(factors: list[Factor]) -> list[Factor]:
    """One factor for all peaks of a unit in which two designs differ: precisions share wires and multipliers."""
    units: dict[str, list[Factor]] = {}
    for factor in factors:
        unit, peak, _ = factor.key.partition(".peak.")
        if peak:
            units.setdefault(unit, []).append(factor)
    grouped = {unit: members for unit, members in units.items() if len(members) > 1}
    others = [factor for factor in factors if not any(factor in members for members in grouped.values())]
    texts = ({side: _peak_texts(members, side) for side in ("a", "b")} for members in grouped.values())
    peaks = [
        Factor(f"{unit}.peak", text["a"], text["b"], tuple(f.key for f in members), any(f.is_partial for f in members))
        for (unit, members), text in zip(grouped.items(), texts, strict=True)
    ]
    return [*peaks, *others]


def _peak_texts(members: list[Factor], side: str) -> str:
    """The first peak of several."""
    texts = [f"{f.key.rpartition('.')[2]} {text}" for f in members if (text := getattr(f, side)) != "-"]
    return f"{texts[0]}, ..." if len(texts) > 1 else "".join(texts)


def _merge_accelerators(factors: list[Factor]) -> list[Factor]:
    """One factor for the accelerator and the dtype, for sides whose parts cannot be exchanged: no mixture computes in its dtype."""
    merged = [factor for factor in factors if factor.paths or factor.key in (DEVICE, "dtype")]
    others = [factor for factor in factors if factor not in merged]
    device = next((factor for factor in merged if factor.key == DEVICE), None)
    texts = (device.a, device.b) if device else ("", "")
    dtype = next((factor for factor in merged if factor.key == "dtype"), None)
    if dtype is not None:
        texts = (f"{texts[0]} {dtype.a}".strip(), f"{texts[1]} {dtype.b}".strip())
    paths = tuple(path for factor in merged for path in factor.paths)
    return [Factor(ACCELERATOR, *texts, paths), *others] if merged else others


def factor_label(factor: Factor, quantity: str) -> str:
    """A factor in words: 'bandwidth of dram', 'fp16 peak of tensor_core', 'gain of sparse_24'."""
    if factor.key in LABELS:
        return LABELS[factor.key]
    match factor.key.split("."):
        case ["memory", level, number]:
            return f"{number} of {level}"
        case ["memory", level]:
            return f"memory level {level}"
        case ["units", unit]:
            return f"unit {unit}"
        case ["units", unit, "peak"]:
            return f"peaks of {unit}"
        case ["units", unit, "peak", dtype]:
            return f"{dtype} peak of {unit}"
        case ["units", unit, "runs", run]:
            return f"run {run} of {unit}"
        case ["units", _, "runs", run, *rest]:
            return f"{' '.join(rest)} of {run}"
        case ["units", unit, *rest]:
            return f"{' '.join(rest)} of {unit}"
        case ["overhead", number]:
            return f"{number} overhead"
        case ["cost", number]:
            return number
        case ["device"] if quantity in COSTS:
            return "what the cost model does not know of the device"
        case ["device"] if quantity == "energy":
            return "published figures and fitted kernels of the device"
        case ["device"]:
            return "fitted kernels of the device"
        case ["not_predicted"]:
            return "error of the prediction"
        case _:
            return factor.key


def _not_predicted(a: Side, b: Side, quantity: str, predicted: tuple[float, float]) -> tuple[float, float]:
    """Measured minus predicted value of both sides; 0 without a measurement."""
    differences = []
    for side, value in zip((a, b), predicted, strict=True):
        what = "speedup" if side.measures_speedup else "latency"
        if side.measured is not None and quantity != what:
            raise InputError(f"a measured {what} does not explain the {quantity}", f"explain the {what}", key="measured")
        differences.append(0.0 if side.measured is None else side.measured - value)
    return differences[0], differences[1]


def _measured_part(a: Side, b: Side, quantity: str, value: float) -> list[FactorPart]:
    """The part of what the model does not predict, where a side is measured."""
    if a.measured is None and b.measured is None:
        return []
    texts = ["predicted" if side.measured is None else "measured" for side in (a, b)]
    if texts[0] == texts[1]:
        texts = ["", ""]
    return [FactorPart(Factor(MEASURED, texts[0], texts[1]), value, 0.0 if quantity == "speedup" else None)]


def _breakdown(a: Side, b: Side, comparison: Comparison, quantity: str) -> tuple[list[GroupRow], list[ResourceRow]]:
    """Layer groups and resources of both sides."""
    if quantity in COSTS:
        return [], []
    evaluator, game, results = comparison.evaluator, comparison.game, comparison.results
    times, bounds = zip(*(_side_layers(side, evaluator) for side in (a, b)), strict=True)
    resources = breakdown.resource_rows(bounds, times)
    names = a.variant.layers.name, b.variant.layers.name
    if not has_same_layers(a.variant, b.variant) or results.layers is None:
        return breakdown.separate_group_rows(names, times, bounds), resources
    first, last = results.layers[game.first], results.layers[game.last]
    labels = [factor_label(factor, quantity) for factor in comparison.factors]
    return breakdown.group_rows(names[0], first, last, bounds, game.parts(results.layers), labels), resources


def _side_layers(side: Side, evaluator: MixtureEvaluator) -> tuple[PerLayer, np.ndarray]:
    """Latency of each layer with its repeats [s], and what bounds it."""
    terms, kind = evaluator.terms(side, side.variant), evaluator.layer_kinds(side).kind
    return network_layers(choose_layers(side, side.variant, terms), terms, kind)
