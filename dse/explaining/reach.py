"""What would have to change to reach a speedup: for each number of the accelerator alone, and for the batch size, the smallest change.

The time of a layer at a rate x is the largest of terms that are constant or proportional to 1 / x, and that of a network a sum of such
times, so that the speedup is a ratio of two functions that are piecewise linear in 1 / x. Between two of their breakpoints it is monotone:
evaluating it at every breakpoint and at both limits finds every crossing, and proves that there is none. Where times are not piecewise
linear (overheads, a smooth maximum, resources that add up, capacities) the speedup is evaluated on a grid of ratios instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError
from dse.base.units import Count, Efficiency, Gain
from dse.explaining.factors import quantity_text
from dse.explaining.mixtures import MixtureEvaluator
from dse.explaining.parts import ReachRow
from dse.explaining.side import Side
from dse.model.efficiency.fitted import slowdown_paths
from dse.model.memory_levels import capacity_paths
from dse.model.rates import factored_inverse_rates, rate_paths
from dse.model.terms import LayerTerms

LARGEST_FACTOR = 2.0**20  # by which a number is changed; beyond it the limit is reached to 1e-6
GRID = np.exp2(np.linspace(-20, 20, 161))  # ratios to the present value
CAPACITY_GRID = np.exp2(np.arange(-6, 11))
BATCHES = 2 ** np.arange(17)
BISECTIONS = 40

Latencies = Callable[[np.ndarray], tuple[Float[np.ndarray, "value"], Float[np.ndarray, "value"]]]


@dataclass(frozen=True, eq=False)
class Number:
    """A number that may change: its present value as text, the ratios to it to evaluate, and the latencies [s] of the dense and the sparse
    network at any ratios."""

    key: str
    now: str
    ratios: np.ndarray
    latencies: Latencies
    text_at: Callable[[float], str]
    is_whole: bool = False  # the ratios are all there are

    def speedups(self, ratios: np.ndarray) -> Float[np.ndarray, "value"]:
        """Speedups over the dense network."""
        dense, sparse = self.latencies(ratios)
        return dense / sparse

    def latency_at(self, ratio: float) -> float:
        """Latency [s] of the sparse network."""
        return float(self.latencies(np.array([ratio, ratio]))[1][0])


def find_changes(side: Side, target: float, evaluator: MixtureEvaluator | None = None) -> list[ReachRow]:
    """The smallest change of each number alone that gives the speedup `target`: those that reach it first, by the size of the change.

    Empty if the side has this speedup already, or no number changes it.
    """
    if not np.isfinite(target) or target <= 0:
        raise InputError(f"'{target:g}' is not a speedup", "write a number above 0, as in '--reach 1.5'", key="reach")
    evaluator = evaluator or MixtureEvaluator(side, side, (), "speedup")
    dense, sparse = evaluator.network_latencies(side, {})
    if dense[0] >= target * sparse[0]:
        return []
    rows = [_find_change(number, target) for number in _numbers(side, evaluator)]
    rows = [row for row in rows if row is not None]
    return sorted(rows, key=lambda row: (row.factor is None, abs(np.log(row.factor)) if row.factor else -row.best, row.key))


def _find_change(number: Number, target: float) -> ReachRow | None:
    """None for a number that changes nothing."""
    ratios = number.ratios
    speedups = number.speedups(ratios)
    if np.ptp(speedups) <= 1e-9 * speedups.max():
        return None
    best = np.flatnonzero(speedups >= speedups.max() * (1 - 1e-9))
    nearest = float(ratios[best[np.argmin(np.abs(np.log(ratios[best])))]])
    at = nearest if 1 / LARGEST_FACTOR < nearest < LARGEST_FACTOR else (np.inf if nearest > 1 else 0.0)
    factor = _nearest_crossing(number, ratios, speedups, target)
    needed, latency = (None, None) if factor is None else (number.text_at(factor), number.latency_at(factor))
    return ReachRow(number.key, number.now, needed, factor, latency, float(speedups.max()), at)


def _nearest_crossing(number: Number, ratios: np.ndarray, speedups: np.ndarray, target: float) -> float | None:
    """The ratio nearest to 1 at which the speedup is the target; None if there is none."""
    above = speedups >= target
    if number.is_whole:
        reached = ratios[above]
        return float(reached[np.argmin(np.abs(np.log(reached)))]) if len(reached) else None
    crossings = np.flatnonzero(above[1:] != above[:-1])
    if not len(crossings):
        return None
    distance = np.minimum(np.abs(np.log(ratios[crossings])), np.abs(np.log(ratios[crossings + 1])))
    nearest = int(crossings[np.argmin(distance)])
    return _bisect(number, float(ratios[nearest]), float(ratios[nearest + 1]), target)


def _bisect(number: Number, low: float, high: float, target: float) -> float:
    """The ratio between two neighbours, within which the speedup is monotone, at which it crosses the target."""
    rises = number.speedups(np.array([low, high]))[1] >= target
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        is_above = number.speedups(np.array([middle, middle]))[0] >= target
        low, high = (low, middle) if is_above == rises else (middle, high)
    return float(high if rises else low)


def _numbers(side: Side, evaluator: MixtureEvaluator) -> list[Number]:
    """All numbers that may change the speedup of a side."""
    terms = [evaluator.terms(side, variant) for variant in (side.dense, side.variant)]
    used = sorted(rate_paths(e for each in terms for e in each.executions))
    tables = set(capacity_paths(side.accelerator, side.options.fidelity))
    if side.options.fidelity == "calibrated":
        tables |= set(slowdown_paths(side.accelerator, [side.dtype], ()))
    rates = [_rate(side, evaluator, path, terms) for path in used if path not in tables]
    capacities = [_table(side, evaluator, path) for path in sorted(tables) if side.accelerator.value(path) is not None]
    return [*rates, *capacities, _batch(side, evaluator)]


def _rate(side: Side, evaluator: MixtureEvaluator, path: str, terms: list[LayerTerms]) -> Number:
    value, quantity = side.accelerator.value(path), side.accelerator.at(path)
    ratios = np.concatenate([GRID, [1.0], *(_breakpoints(each, side, path) for each in terms)])
    if isinstance(quantity, Gain):
        ratios = np.append(ratios[ratios * value > 1], 1 / value)
    if isinstance(quantity, Efficiency):
        ratios = np.append(ratios[ratios * value < 1], 1 / value)

    def latencies(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return evaluator.network_latencies(side, {path: value * at})

    return Number(path, quantity_text(quantity, value), np.unique(ratios), latencies, lambda ratio: quantity_text(quantity, value * ratio))


def _breakpoints(terms: LayerTerms, side: Side, path: str) -> np.ndarray:
    """Ratios at which two terms of a layer take equally long, of which one depends on the rate; empty where times are not linear."""
    if side.options.resource_overlap != "full" or terms.overhead is not None:
        return np.zeros(0)
    accelerator = side.accelerator.without_links()
    constant, (factor,) = factored_inverse_rates(terms.executions, accelerator, {path: np.array([accelerator.value(path)])})
    times = terms.slowed_work[0] * (constant[:, :, None] * factor.at())[..., 0]
    legal = np.broadcast_to(terms.legal[:, :, None], times.shape)
    flat = times.reshape(len(times), -1)
    scaled = np.where((factor.depends[None] & legal).reshape(flat.shape), flat, 0.0)
    fixed = np.where((~factor.depends[None] & legal).reshape(flat.shape), flat, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.ravel(scaled[:, :, None] / fixed[:, None, :])
    inside = ratios[np.isfinite(ratios) & (ratios > GRID[0]) & (ratios < GRID[-1])]
    return np.unique(np.round(inside, 12))


def _table(side: Side, evaluator: MixtureEvaluator, path: str) -> Number:
    """A number on which the terms of the layers depend."""
    value, quantity = side.accelerator.value(path), side.accelerator.at(path)
    grid = CAPACITY_GRID[np.round(value * CAPACITY_GRID) >= 1] if isinstance(quantity, Count) else CAPACITY_GRID

    def text_at(ratio: float) -> str:
        return f"{value * ratio:.0f}" if isinstance(quantity, Count) else quantity_text(quantity, value * ratio)

    def latencies(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _of_sides([replace(side, accelerator=_with_number(side, path, value * ratio)) for ratio in at], evaluator)

    return Number(path, quantity_text(quantity, value), grid, latencies, text_at, is_whole=True)


def _with_number(side: Side, path: str, value: float):
    """The accelerator with another number at `path`."""
    quantity = side.accelerator.at(path)
    number = round(value) if isinstance(quantity, Count) else value
    return side.accelerator.replace({path: f"{number} {quantity.unit}".strip()})


def _batch(side: Side, evaluator: MixtureEvaluator) -> Number:
    def latencies(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _of_sides([replace(side, batch=round(side.batch * ratio)) for ratio in at], evaluator)

    ratios = np.unique(np.append(BATCHES / side.batch, 1.0))
    return Number("batch", str(side.batch), ratios, latencies, lambda ratio: f"{side.batch * ratio:.0f}", is_whole=True)


def _of_sides(sides: list[Side], evaluator: MixtureEvaluator) -> tuple[np.ndarray, np.ndarray]:
    """Latencies [s] of the dense and the sparse network on each of some sides."""
    pairs = [evaluator.network_latencies(side, {}) for side in sides]
    dense, sparse = (np.concatenate(latencies) for latencies in zip(*pairs, strict=True))
    return dense, sparse
