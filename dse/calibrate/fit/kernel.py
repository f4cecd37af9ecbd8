"""Fit a kernel to its measurements: which tiles it uses, whether it splits k and pads slots, then its parameters."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from dse.calibrate.fit.parameters import fit_parameters
from dse.model.efficiency.kernels.launches import KernelLaunches, shared_rows
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import MIN_EDGES, PRIOR, WIDE_TILES, kernel_theta, kernel_values
from dse.model.efficiency.parameter import Distribution

SIMPLER_COST = 0.5  # a restricted kernel is preferred only if it leaves less than this share of the cost
MIN_SHAPES = 5  # of a kernel
MAX_SCREENED, FINALISTS = 128, 5  # launches by which variants are screened, and variants that are then fitted in full
MAX_COMPARED = 256  # launches by which variants are compared; up to MAX_FITTED start the joint fit
MAX_FITTED = 512
PROCESSOR_COUNTS = np.unique(np.round(8 * 1.04 ** np.arange(107)))  # up to 512
SCREENING_STEPS, COUNTING_STEPS, STEPS = 25, 15, 100


def fit_kernel(launches: KernelLaunches, prior: Distribution = PRIOR) -> KernelModel:
    """Fit a model to measured launches; where the description states no processors, estimate them from waves if that is clearly better."""
    model = _fit_best_variant(launches, prior)
    if not np.isnan(launches.rates.processors):
        return model
    with_processors = _fit_best_variant(launches, prior, _estimate_processors(launches))
    return with_processors if with_processors.cost < SIMPLER_COST * model.cost else model


def _fit_best_variant(launches: KernelLaunches, prior: Distribution, processors: float = np.nan) -> KernelModel:
    """Fit the general kernel and the most promising restricted ones; take a restricted one if it is clearly better."""
    screened, compared, fitted = (stratify(launches, size) for size in (MAX_SCREENED, MAX_COMPARED, MAX_FITTED))
    general = _fit_from_several_starts(KernelModel(launches.key, prior.mean, processors=processors), compared, STEPS, prior)
    screening = sorted(
        _restricted_variants(general, launches), key=lambda v: _fit_from_several_starts(v, screened, SCREENING_STEPS, prior).cost
    )
    finalists = [_fit_from_several_starts(variant, compared, STEPS, prior) for variant in screening[:FINALISTS]]
    better = [model for model in finalists if model.cost < SIMPLER_COST * general.cost]
    best = min([*better, general], key=lambda model: model.cost)
    return replace(fit_parameters(best, fitted, STEPS, prior=prior), staged_bytes=_mean_staged_bytes(launches))


def stratify(launches: KernelLaunches, size: int) -> KernelLaunches:
    """At most `size` launches, spread evenly over all of them in the order of their density, depth and output size."""
    if len(launches) <= size:
        return launches
    order = np.lexsort((launches.m * launches.n, launches.k, launches.density))
    return launches.take(np.sort(order[np.unique(np.linspace(0, len(launches) - 1, size).astype(int))]))


def _estimate_processors(launches: KernelLaunches) -> float:
    """The number of processors whose waves fit best, for a library of wide tiles or a kernel with one tile."""
    screened = stratify(launches, MAX_SCREENED)
    kinds = KernelModel(launches.key, PRIOR.mean, splits_k=False, min_edge=64), KernelModel(launches.key, PRIOR.mean, tile=(128, 128))
    candidates = [replace(kind, processors=float(count)) for count in PROCESSOR_COUNTS for kind in kinds]
    return min((fit_parameters(candidate, screened, COUNTING_STEPS) for candidate in candidates), key=lambda model: model.cost).processors


def _fit_from_several_starts(variant: KernelModel, launches: KernelLaunches, steps: int, prior: Distribution) -> KernelModel:
    """The best of the fits that start at the prior, where issue slots limit and, for a kernel that gathers, where its additions wait."""
    limits = [{}, {"extra_dense": 1.0}, *([] if shared_rows(launches.key.family) is None else [{"contention": 0.1}])]
    starts = [kernel_theta(kernel_values(prior.mean) | limit) for limit in limits]
    fits = (fit_parameters(replace(variant, theta=start), launches, steps, prior=prior) for start in starts)
    return min(fits, key=lambda model: model.cost)


def _restricted_variants(general: KernelModel, launches: KernelLaunches) -> Iterator[KernelModel]:
    """Kernels with one tile, without splits of k, without small tiles, or with the slots of an N:M pattern padded to a power of two."""
    paddings = (False, True) if len(set(launches.density[launches.slots > 0])) > 2 else (False,)
    libraries = [replace(general, splits_k=splits_k, min_edge=min_edge) for splits_k in (True, False) for min_edge in MIN_EDGES]
    one_tile = [replace(general, tile=tile) for tile in WIDE_TILES]
    for variant, pads in product([*libraries, *one_tile], paddings):
        if pads or variant is not libraries[0]:  # which is the general one
            yield replace(variant, pads_to_power_of_two=pads)


def _mean_staged_bytes(launches: KernelLaunches) -> tuple[tuple[float, float], ...]:
    """Each density at which the scratchpad of a tile was measured, with the mean [B]."""
    staged = np.broadcast_to(launches.staged_bytes, len(launches))
    densities = np.unique(launches.density[~np.isnan(staged)])
    return tuple((float(density), float(np.nanmean(staged[launches.density == density]))) for density in densities)
