"""Analyse a search: which parameters matter, and how far it was from random search and from the exact optimum."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np
import optuna
from jaxtyping import Float
from optuna.distributions import BaseDistribution, FloatDistribution

from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.local_search import compile_derivatives, variants_of
from dse.searching.samplers import CHUNK_DESIGNS, distribution, evaluate_all
from dse.searching.space import DesignMatrix, Dimension
from dse.sweeping.pareto_front import hypervolume

IMPORTANCE_SAMPLES = 2000  # random designs from which importances are estimated
MAX_RANDOM_DESIGNS = 1_000_000  # of the random search that a search is compared with
MAX_REGRET_DESIGNS = 2_000_000  # of a grid that is evaluated completely to compute the regret
HISTORY_BATCHES = 200  # at most, of a random search


def compute_elasticities(archive: Archive) -> dict[str, float]:
    """Relative change of the first objective per relative change of each numeric dimension, at the best design.

    Empty where the objective is 0.
    """
    evaluator, design = archive.evaluator, archive.designs[archive.best_index()]
    if not evaluator.numeric_paths:
        return {}
    (_, sign), *_ = evaluator.problem.search.objectives
    values = evaluator.space.numeric_values(design[None])
    with jax.enable_x64(True):
        derivatives = compile_derivatives(evaluator, evaluator.config(design))
        outputs = derivatives(np.log([values[path][0] for path in evaluator.numeric_paths]), variants_of(evaluator, design))
    value, gradient = (np.asarray(each)[0] for each in outputs)
    if not value:
        return {}
    return {path: float(slope / abs(value)) for path, slope in zip(evaluator.numeric_paths, sign * gradient, strict=True)}


def estimate_importances(evaluator: Evaluator) -> dict[str, float]:
    """How much each dimension decides whether a random design is among the better ones (PED-ANOVA, Watanabe et al. 2023)."""
    designs = evaluator.space.random_designs(IMPORTANCE_SAMPLES, np.random.default_rng(evaluator.problem.search.seed))
    values = evaluator.score(designs)[0][:, 0]
    is_finite = np.isfinite(values)
    designs, values = designs[is_finite], values[is_finite]
    if len(np.unique(values)) < 2:
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, dimensions = optuna.create_study(), evaluator.space.dimensions
    distributions = {dimension.path: _distribution_of_all_values(dimension) for dimension in dimensions}
    for design, value in zip(designs, values, strict=True):
        params = {d.path: float(x) if d.continuous else int(x) for d, x in zip(dimensions, design, strict=True)}
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=float(value)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.importance.get_param_importances(study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())


def _distribution_of_all_values(dimension: Dimension) -> BaseDistribution:
    """Over the values that a dimension may have, and the value of the description where its condition does not hold."""
    if dimension.continuous:
        described = [dimension.described] if dimension.conditions and dimension.described is not None else []
        ends = [*map(float, dimension.axis.values), *described]
        return FloatDistribution(min(ends), max(ends), log=dimension.log)
    return distribution(replace(dimension, choices=len(dimension.axis)))


def search_randomly(archive: Archive) -> Archive:
    """The archive of a random search with as many evaluations, in batches of its history."""
    evaluator, evaluations = archive.evaluator, archive.evaluated_count
    random = Archive(evaluator)
    generator = np.random.default_rng(evaluator.problem.search.seed + 1)
    size = max(evaluations // HISTORY_BATCHES + 1, evaluator.problem.search.ask_batch)
    batches = []
    for start in range(0, min(evaluations, MAX_RANDOM_DESIGNS), size):
        batches.append(evaluator.space.random_designs(min(size, evaluations - start), generator))
        if sum(map(len, batches)) >= CHUNK_DESIGNS:
            _add_batches(random, batches)
            batches = []
    _add_batches(random, batches)
    return random


def _add_batches(archive: Archive, batches: Sequence[DesignMatrix]) -> None:
    """Evaluate all designs of some batches at once, which takes fewer calls, and add them batch by batch."""
    if not batches:
        return
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    objectives, excess = (np.split(scores, ends) for scores in archive.evaluator.score(np.concatenate(batches)))
    for batch in zip(batches, objectives, excess, strict=True):
        archive.add(*batch)


def hypervolume_histories(*archives: Archive) -> list[Float[np.ndarray, "batch"]]:
    """Hypervolume of each archive in the objectives, after each batch.

    It is a share of the box between the worst and the best value of each objective on any of the fronts.
    """
    objectives = len(archives[0].evaluator.problem.search.objectives)
    values = np.concatenate([front[:, :objectives] for archive in archives for _, front in archive.history])
    if not len(values):
        return [np.zeros(len(archive.history)) for archive in archives]
    low, high = values.min(axis=0), values.max(axis=0)
    span, corner = np.where(high > low, high - low, 1.0), np.full(objectives, 1.0 + 1e-9)
    return [np.array([hypervolume((front[:, :objectives] - low) / span, corner) for _, front in archive.history]) for archive in archives]


def compute_regret(archive: Archive) -> float | None:
    """Relative difference of the best design from the optimum of the whole grid.

    None where there are several objectives, the grid is too large to be evaluated completely, or the optimum is 0.
    """
    size = archive.evaluator.space.size
    if size is None or size > MAX_REGRET_DESIGNS or len(archive.evaluator.problem.search.objectives) > 1:
        return None
    complete = Archive(archive.evaluator)
    evaluate_all(complete)
    best, optimum = (each.values[each.best_index(), 0] for each in (archive, complete))
    if best == optimum:
        return 0.0
    return float(abs(best - optimum) / abs(optimum)) if optimum else None
