"""Fit a kernel to its measurements: which tiles it uses, whether it splits k and pads slots, then its parameters."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import numpy as np
from jaxtyping import Float, Int

from dse.calibrate.fit_parameters import fit_parameters
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelLaunches, PerLaunch
from dse.model.efficiency.parameters import PRIOR, theta_to_values, values_to_theta
from dse.model.efficiency.tiles import MIN_EDGES, WIDE_TILES, Tile, TilesByDepth

SIMPLER_COST = 0.8  # a restricted kernel, or one more range of k, is preferred only if it leaves less than this share of the cost
MIN_SHAPES = 5  # of a kernel, and of each of its ranges of k
MAX_SCREENED, FINALISTS = 128, 5  # launches by which variants are screened, and variants that are then fitted in full
MAX_COMPARED = 256  # launches by which variants are compared; all launches set the parameters
ISSUE_BOUND = values_to_theta(theta_to_values(PRIOR) | {"extra_dense": 1.0})  # start at which issue slots limit, not the memory
PROCESSOR_COUNTS = np.unique(np.round(8 * 1.04 ** np.arange(107)))  # up to 512
MAX_ROUNDS = 5  # of choosing tiles and fitting parameters alternately
SCREENING_STEPS, COUNTING_STEPS, STEPS = 25, 15, 100
CONVERGED = 0.99  # a round that leaves more than this share of the cost is the last


def fit_kernel(launches: KernelLaunches) -> KernelModel:
    """Fit a model to measured launches; where the description states no processors, estimate them from waves if that is clearly better."""
    model = _fit_best_variant(launches)
    if not np.isnan(launches.rates.processors):
        return model
    with_processors = _fit_best_variant(launches, _estimate_processors(launches))
    return with_processors if with_processors.cost < SIMPLER_COST * model.cost else model


def _fit_best_variant(launches: KernelLaunches, processors: float = np.nan) -> KernelModel:
    """Fit the general kernel and the most promising restricted ones; take a restricted one if it is clearly better."""
    screened, compared = _stratify(launches, MAX_SCREENED), _stratify(launches, MAX_COMPARED)
    general = _fit_from_two_starts(KernelModel(launches.key, PRIOR, processors=processors), compared, STEPS)
    screening = sorted(_restricted_variants(general, launches), key=lambda v: _fit_from_two_starts(v, screened, SCREENING_STEPS).cost)
    finalists = [_fit_from_two_starts(variant, compared, STEPS) for variant in screening[:FINALISTS]]
    better = [model for model in finalists if model.cost < SIMPLER_COST * general.cost]
    best = fit_tiles_by_depth(min([*better, general], key=lambda model: model.cost), compared)
    fitted = best if compared is launches else fit_parameters(best, launches, STEPS)
    return replace(fitted, staged_bytes=_mean_staged_bytes(launches))


def _stratify(launches: KernelLaunches, size: int) -> KernelLaunches:
    """At most `size` launches, spread evenly over all of them in the order of their density, depth and output size."""
    if len(launches) <= size:
        return launches
    is_large = len(launches) > MAX_COMPARED
    order = np.lexsort((launches.m * launches.n, launches.k, launches.density)) if is_large else np.arange(len(launches))
    return launches.take(np.sort(order[np.unique(np.linspace(0, len(launches) - 1, size).astype(int))]))


def _estimate_processors(launches: KernelLaunches) -> float:
    """The number of processors whose waves fit best, for a library of wide tiles or a kernel with one tile."""
    screened = _stratify(launches, MAX_SCREENED)
    kinds = KernelModel(launches.key, PRIOR, splits_k=False, min_edge=64), KernelModel(launches.key, PRIOR, tile=(128, 128))
    candidates = [replace(kind, processors=float(count)) for count in PROCESSOR_COUNTS for kind in kinds]
    return min((fit_parameters(candidate, screened, COUNTING_STEPS) for candidate in candidates), key=lambda model: model.cost).processors


def _fit_from_two_starts(variant: KernelModel, launches: KernelLaunches, steps: int) -> KernelModel:
    """The better of the fits that start at the prior and where issue slots limit."""
    fits = (fit_parameters(replace(variant, theta=start), launches, steps) for start in (PRIOR, ISSUE_BOUND))
    return min(fits, key=lambda model: model.cost)


def _restricted_variants(general: KernelModel, launches: KernelLaunches) -> Iterator[KernelModel]:
    """Kernels with one tile, without splits of k, without small tiles, or with the slots of an N:M pattern padded to a power of two."""
    paddings = (False, True) if len(set(launches.density[launches.slots > 0])) > 2 else (False,)
    libraries = [replace(general, splits_k=splits_k, min_edge=min_edge) for splits_k in (True, False) for min_edge in MIN_EDGES]
    one_tile = [replace(general, tile=tile) for tile in WIDE_TILES]
    for variant, pads in product([*libraries, *one_tile], paddings):
        if pads or variant is not libraries[0]:  # which is the general one
            yield replace(variant, pads_to_power_of_two=pads)


def fit_tiles_by_depth(start: KernelModel, launches: KernelLaunches, weight: PerLaunch | None = None) -> KernelModel:
    """Give one or two ranges of greater k a tile of their own, if that is clearly better; a `weight` of 0 leaves a launch out."""
    models = [_alternate_tiles_and_parameters(start, launches, cuts, weight) for cuts in (1, 2)]
    return min([start, *models], key=lambda model: model.cost / SIMPLER_COST ** len(model.tiles_by_depth))


def _alternate_tiles_and_parameters(start: KernelModel, launches: KernelLaunches, cuts: int, weight: PerLaunch | None) -> KernelModel:
    """Choose tiles for the parameters and fit parameters for the tiles, until the cost no longer falls."""
    model, previous_cost = start, np.inf
    for _ in range(MAX_ROUNDS):
        if not (ranges := _choose_ranges(model, launches, cuts, weight)):
            return start
        model = fit_parameters(replace(model, tile=ranges[0][1], tiles_by_depth=ranges[1:]), launches, weight=weight)
        if model.cost > CONVERGED * previous_cost:
            break
        previous_cost = model.cost
    return model


def _choose_ranges(model: KernelModel, launches: KernelLaunches, cuts: int, weight: PerLaunch | None) -> TilesByDepth:
    """Cut k into ranges and choose a tile for each, so that the squared log errors are least; empty if a range has too few shapes.

    Launches without weight do not count, neither their k nor their number.
    """
    if weight is not None:
        launches, weight = launches.take(weight > 0), weight[weight > 0]
    tiles = (None, *WIDE_TILES)
    depths, depth_index = np.unique(launches.k, return_inverse=True)
    costs_below = _cumulate(_costs_by_depth(model, launches, weight, tiles, depth_index))
    shapes_below = _cumulate(_count_shapes_by_depth(launches, depth_index))
    best: tuple[float, TilesByDepth] = (np.inf, ())
    for first_depths in combinations(range(1, len(depths)), cuts):
        ends = [0, *first_depths, len(depths)]
        if np.diff(shapes_below[ends]).min() < MIN_SHAPES:
            continue
        costs = np.diff(costs_below[ends], axis=0)
        if (cost := costs.min(axis=1).sum()) < best[0]:
            starts = [0.0, *(float(np.sqrt(depths[n - 1] * depths[n])) for n in first_depths)]
            best = cost, tuple(zip(starts, (tiles[n] for n in costs.argmin(axis=1)), strict=True))
    return best[1]


def _costs_by_depth(
    model: KernelModel,
    launches: KernelLaunches,
    weight: PerLaunch | None,
    tiles: tuple[Tile | None, ...],
    depth_index: Int[np.ndarray, "launch"],
) -> Float[np.ndarray, "depth tile"]:
    """Sum of squared log errors of the launches of each k, if they used each tile."""
    times = np.array([replace(model, tile=tile, tiles_by_depth=()).predict_times(launches) for tile in tiles])
    costs = np.log(times / launches.time) ** 2 * (1.0 if weight is None else weight)
    return np.array([costs[:, depth_index == depth].sum(axis=1) for depth in range(depth_index.max() + 1)])


def _count_shapes_by_depth(launches: KernelLaunches, depth_index: Int[np.ndarray, "launch"]) -> Int[np.ndarray, "depth"]:
    """Number of shapes of each k."""
    pairs = set(zip(launches.shapes, depth_index.tolist(), strict=True))
    return np.bincount([depth for _, depth in pairs])


def _cumulate(values: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, ... rows."""
    return np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])


def _mean_staged_bytes(launches: KernelLaunches) -> tuple[tuple[float, float], ...]:
    """Each density at which the scratchpad of a tile was measured, with the mean [B]."""
    staged = np.broadcast_to(launches.staged_bytes, len(launches))
    densities = np.unique(launches.density[~np.isnan(staged)])
    return tuple((float(density), float(np.nanmean(staged[launches.density == density]))) for density in densities)
