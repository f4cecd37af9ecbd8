"""Propose designs by evolution: a quasi-random start, then variations of the best designs so far.

The start is a scrambled Sobol sequence. After it, most designs vary one of the parents, which are the front of the archive or, with one
objective, its best designs: half of them by differential evolution (Storn and Price 1997, J. Global Optimization 11), whose steps shrink
as the parents approach each other, half by normal steps of a random size. The rest continues the Sobol sequence.

Proposals depend only on the seed, the number of trials and the designs evaluated before, so a resumed search proposes the same designs.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial
from scipy.stats import qmc

from dse.searching.archive import Archive
from dse.searching.space import DesignMatrix, Space
from dse.sweeping.pareto_front import nondominated

START_SHARE = 0.15  # of the trials, that begin a search
EXPLORING_SHARE = 0.1  # of the designs of each later batch, that continue the Sobol sequence
MAX_PARENTS = 40
STEP_SIZES = (1e-4, 0.3)  # of normal steps, as shares of an axis
FACTORS = (0.2, 1.0)  # of differences between parents

Positions = Float[np.ndarray, "design dimension"]  # in [0, 1]


def propose_designs(archive: Archive, count: int, started: int) -> DesignMatrix:
    """`count` designs to evaluate next, after `started` trials."""
    evaluator = archive.evaluator
    search, space = evaluator.problem.search, evaluator.space
    parents = select_parents(archive)
    if started < START_SHARE * search.trials or not len(parents):
        return space.from_unit(sobol_positions(len(space.dimensions), search.seed, started, count))
    generator = np.random.default_rng([search.seed, started])
    exploring = int(EXPLORING_SHARE * count)
    explored = space.from_unit(sobol_positions(len(space.dimensions), search.seed, started, exploring))
    return np.concatenate([vary_designs(space, parents, count - exploring, generator), explored])


def sobol_positions(dimensions: int, seed: int, first: int, count: int) -> Positions:
    """Points number `first` to `first + count` of a scrambled Sobol sequence that begins with its second point.

    SciPy warns of numbers of points that are not powers of 2 if they begin with the first point.
    """
    return qmc.Sobol(dimensions, rng=np.random.default_rng(seed)).fast_forward(first + 1).random(count)


def select_parents(archive: Archive) -> DesignMatrix:
    """The designs that are varied: the front in the objectives or, with one objective, the best designs; before any is feasible, those
    that are closest to meeting all constraints."""
    if not archive.feasible_count:
        return archive.nearest_designs
    objectives = len(archive.evaluator.problem.search.objectives)
    ranking = archive.ranking()
    if objectives == 1:
        return archive.designs[ranking[:MAX_PARENTS]]
    return archive.designs[ranking[nondominated(archive.values[ranking, :objectives])]]


def vary_designs(space: Space, parents: DesignMatrix, count: int, generator: np.random.Generator) -> DesignMatrix:
    """Variations of parents: each differs from its parent in at least one dimension, unless that is the only value."""
    positions = space.to_unit(parents)
    first, second, third = positions[generator.integers(len(positions), size=(3, count))]
    normal = _log_uniform(STEP_SIZES, count, generator) * generator.standard_normal(first.shape)
    difference = _log_uniform(FACTORS, count, generator) * (second - third)
    by_difference = generator.random((count, 1)) < 0.5
    varied = _reflect(first + np.where(by_difference, difference, normal))
    labels = _vary_labels(space, first, second, generator)
    varied = np.where([dimension.categorical for dimension in space.dimensions], labels, varied)
    return space.from_unit(np.where(_select_changed(first.shape, generator), varied, first))


def _vary_labels(space: Space, first: Positions, second: Positions, generator: np.random.Generator) -> Positions:
    """Labels of another parent or, one in four, random ones."""
    return np.where(generator.random(first.shape) < 0.25, generator.random(first.shape), second)


def _select_changed(shape: tuple[int, int], generator: np.random.Generator) -> Bool[np.ndarray, "design dimension"]:
    """Which dimensions of each design change: a random share of them, at least one."""
    count, dimensions = shape
    is_changed = generator.random(shape) < generator.random((count, 1))
    is_changed[np.arange(count), generator.integers(dimensions, size=count)] = True
    return is_changed


def _log_uniform(ends: tuple[float, float], count: int, generator: np.random.Generator) -> Float[np.ndarray, "design 1"]:
    return np.exp(generator.uniform(*np.log(ends), size=(count, 1)))


def _reflect(positions: Positions) -> Positions:
    """Positions outside [0, 1] reflected at its ends."""
    return 1 - np.abs(1 - np.abs(positions) % 2)


class FixedSampler(BaseSampler):
    """A sampler of Optuna that gives each trial the parameters of the next design of a list."""

    def __init__(self, params: list[dict[str, float]], distributions: Mapping[str, BaseDistribution]):
        self._params = iter(params)
        self._distributions = dict(distributions)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, float]:
        return next(self._params)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> float:
        raise AssertionError(f"'{param_name}' has a value in each design")
