"""Parameters of a kernel from its measurements: regularised least squares of log times, with gradients by JAX."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from dse.model.efficiency import kernel_time
from dse.model.efficiency.kernel_model import KernelModel, features_of, in_float64
from dse.model.efficiency.launches import KernelLaunches
from dse.model.efficiency.parameters import HIGH, LOW, PRIOR, SPREAD, Theta, from_values, values
from dse.model.efficiency.tiles import LEAST, WIDE, Deeper

NOISE = 0.05  # relative deviation that the prior is weighed against
WORTH = 0.8  # a kernel counts as special (one tile, padded slots) only if that leaves less than this share of the cost
FEWEST_SHAPES = 5
SIEVE, FINALISTS = 128, 5
MOST = 256  # launches by which tiles, splits and depths are chosen; all of them set the parameters
BUSY = from_values(values(PRIOR) | {"extra_dense": 1.0})
COUNTS = np.unique(np.round(8 * 1.04 ** np.arange(107)))  # of processors, up to 512
ROUNDS = 5  # of choosing tiles and fitting parameters in turn


def fit(launches: KernelLaunches) -> KernelModel:
    """The best of the special cases and, if none of them is worth it, the general one; where nobody counted the processors, as many as
    the waves tell, if they do."""
    found = _best(launches)
    if not np.isnan(launches.rates.processors):
        return found
    counted = _best(launches, _processors(launches))
    return counted if counted.cost < WORTH * found.cost else found


def _best(launches: KernelLaunches, processors: float = np.nan) -> KernelModel:
    """With so many processors. The least promising cases are dropped early; of many launches a stratified part decides between them."""
    few, most = _stratified(launches, SIEVE), _stratified(launches, MOST)
    general = _started(KernelModel(launches.key, PRIOR, processors=processors), most, 100)
    promising = sorted(_special(general, launches), key=lambda case: _started(case, few, 25).cost)[:FINALISTS]
    found = [_started(case, most, 100) for case in promising]
    best = by_depth(min([*(case for case in found if case.cost < WORTH * general.cost), general], key=lambda case: case.cost), most)
    return replace(best if most is launches else refit(best, launches, 100), staged=_staging(launches))


def _stratified(launches: KernelLaunches, size: int) -> KernelLaunches:
    """At most so many launches, evenly spread over all in the order of their depth and work."""
    if len(launches) <= size:
        return launches
    order = np.lexsort((launches.m * launches.n, launches.k, launches.density)) if len(launches) > MOST else np.arange(len(launches))
    return launches.take(np.sort(order[np.unique(np.linspace(0, len(launches) - 1, size).astype(int))]))


def _processors(launches: KernelLaunches) -> float:
    """The count that suits some kind of kernel best."""
    few, kinds = (
        _stratified(launches, SIEVE),
        (KernelModel(launches.key, PRIOR, splits=False, least=64), KernelModel(launches.key, PRIOR, tile=(128, 128))),
    )
    cases = [replace(kind, processors=float(count)) for count in COUNTS for kind in kinds]
    return min((refit(case, few, 15) for case in cases), key=lambda fitted: fitted.cost).processors


def _started(case: KernelModel, launches: KernelLaunches, steps: int) -> KernelModel:
    """The better of the fits that begin at the prior, and where instructions for the dense product bind rather than the memory."""
    return min((refit(replace(case, theta=start), launches, steps) for start in (PRIOR, BUSY)), key=lambda fitted: fitted.cost)


def by_depth(start: KernelModel, launches: KernelLaunches, weight: np.ndarray | None = None) -> KernelModel:
    """With other tiles for deeper products, from up to two depths on, if that is worth it."""
    found = [_divided(start, launches, cuts, weight) for cuts in (1, 2)]
    return min([start, *found], key=lambda case: case.cost / WORTH ** len(case.deeper))


def _divided(start: KernelModel, launches: KernelLaunches, cuts: int, weight: np.ndarray | None) -> KernelModel:
    """The tiles and depths that suit the parameters, then the parameters that suit these, in turn."""
    found, before = start, np.inf
    for _ in range(ROUNDS):
        if not (ranges := _ranges(found, launches, cuts, weight)):
            return start
        found = refit(replace(found, tile=ranges[0][1], deeper=ranges[1:]), launches, 30, weight)
        if found.cost > 0.99 * before:
            break
        before = found.cost
    return found


def _ranges(fitted: KernelModel, launches: KernelLaunches, cuts: int, weight: np.ndarray | None) -> Deeper:
    """Least k and best tile of each range of k, each with enough shapes that have a weight; none if there are too few."""
    if weight is not None:
        launches, weight = launches.take(weight > 0), weight[weight > 0]
    tiles = (None, *WIDE)
    alone = [replace(fitted, tile=tile, deeper=()).seconds(launches) for tile in tiles]
    off = np.log(np.array(alone) / launches.time) ** 2 * (1.0 if weight is None else weight)
    depths, which = np.unique(launches.k, return_inverse=True)
    shapes = np.array([len({shape for shape, n in zip(launches.shapes, which, strict=True) if n == each}) for each in range(len(depths))])
    costs = np.array([off[:, which == each].sum(axis=1) for each in range(len(depths))])
    best: tuple[float, Deeper] = (np.inf, ())
    shapes_up_to, costs_up_to = np.append(0, np.cumsum(shapes)), np.vstack([np.zeros(len(tiles)), np.cumsum(costs, axis=0)])
    for between in combinations(range(1, len(depths)), cuts):
        ends = [0, *between, len(depths)]
        if np.diff(shapes_up_to[ends]).min() < FEWEST_SHAPES:
            continue
        summed = np.diff(costs_up_to[ends], axis=0)
        if summed.min(axis=1).sum() < best[0]:
            least = [0.0, *(float(np.sqrt(depths[n - 1] * depths[n])) for n in between)]
            best = summed.min(axis=1).sum(), tuple(zip(least, (tiles[n] for n in summed.argmin(axis=1)), strict=True))
    return best[1]


def _staging(launches: KernelLaunches) -> tuple[tuple[float, float], ...]:
    staged = np.broadcast_to(launches.staged, len(launches))
    densities = np.unique(launches.density[~np.isnan(staged)])
    return tuple((float(d), float(np.nanmean(staged[launches.density == d]))) for d in densities)


def _special(general: KernelModel, launches: KernelLaunches) -> Iterator[KernelModel]:
    """One tile, no splits of k, no small tiles, slots of an N:M padded to a power of two: kernels that do less than the general one may."""
    padded = (False, True) if len(set(launches.density[launches.slots > 0])) > 2 else (False,)
    choosing = [replace(general, splits=splits, least=least) for splits in (True, False) for least in LEAST]
    one = [replace(general, tile=tile) for tile in WIDE]
    for case, power in product([*choosing, *one], padded):
        if power or case is not choosing[0]:
            yield replace(case, power_slots=power)


def refit(
    start: KernelModel, launches: KernelLaunches, steps: int = 30, weight: np.ndarray | None = None, prior: Theta = PRIOR
) -> KernelModel:
    """From where another fit ended; `weight` of each launch, 0 to leave it out."""
    start = replace(start, max_k=float((launches.k if weight is None else launches.k[weight > 0]).max()))
    given, size = features_of(start, launches)
    padded = np.zeros(len(given["k"]))
    padded[:size] = 1.0 if weight is None else np.sqrt(weight)
    time = np.resize(launches.time, len(padded))
    choice = start.allowed_tiles(given)
    residuals, jacobian = _compiled()
    done = least_squares(
        lambda theta: np.asarray(residuals(theta, given, choice, time, padded, prior)),
        np.clip(start.theta, LOW + 1e-9, HIGH - 1e-9),
        jac=lambda theta: np.asarray(jacobian(theta, given, choice, time, padded, prior)),  # pyright: ignore[reportArgumentType]
        bounds=(LOW, HIGH),
        max_nfev=steps,
    )
    return replace(start, theta=done.x, cost=float(done.cost))


def bootstrap(fitted: KernelModel, launches: KernelLaunches, draws: int, seed: int = 0) -> KernelModel:
    """With the parameters of `draws` resamplings, whole shapes at a time: rows of one shape are no independent evidence.

    The prior is drawn anew each time, so that what the measurements say nothing of varies as much as the prior does.
    """
    rng, shapes = np.random.default_rng(seed), sorted(set(launches.shapes))
    index = np.array([shapes.index(shape) for shape in launches.shapes])
    weights = [np.bincount(rng.integers(len(shapes), size=len(shapes)), minlength=len(shapes))[index] for _ in range(draws)]
    priors = np.clip(PRIOR + SPREAD * rng.standard_normal((draws, len(PRIOR))), LOW, HIGH)
    found = [refit(fitted, launches, 12, weight.astype(float), prior).theta for weight, prior in zip(weights, priors, strict=True)]
    return replace(fitted, samples=tuple(found))


def informed(fitted: KernelModel, launches: KernelLaunches) -> np.ndarray:
    """Which parameters the measurements say more of than the prior does [parameter]."""
    given, size = features_of(fitted, launches)
    weight = (np.arange(len(given["k"])) < size).astype(float)
    slopes = _compiled()[1](fitted.theta, given, fitted.allowed_tiles(given), np.resize(launches.time, len(weight)), weight, PRIOR)
    return (np.asarray(slopes)[: len(weight)] ** 2).sum(axis=0) > SPREAD**-2.0


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Residuals of the model with those of the prior below, and their Jacobian."""

    def residuals(theta: Any, given: Any, choice: Any, time: Any, weight: Any, prior: Any) -> Any:
        off = (jnp.log(kernel_time.seconds(theta, given, choice)) - jnp.log(time)) * weight / NOISE
        return jnp.concatenate([off, (theta - prior) / SPREAD])

    return in_float64(residuals), in_float64(jax.jacfwd(residuals))
