"""Propose and evaluate designs: all designs of a grid, or those that Optuna's samplers propose.

A grid is evaluated chunk by chunk in constant memory, which gives the exact optimum. One of Optuna's samplers proposes a batch of designs,
the evaluator scores it at once, and the sampler gets the scores. Each design is a trial of a study (see `optuna_study`).
"""

import warnings
from collections.abc import Callable

import numpy as np
import optuna
from jaxtyping import Float
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import Trial, TrialState

from dse.base.progress import no_progress
from dse.searching.archive import Archive
from dse.searching.evolutionary_sampler import FixedSampler, propose_designs
from dse.searching.infeasibility import check_infeasibility
from dse.searching.optuna_study import SHARED, recall_archive, report_scores, save_sampler_state, to_design, to_designs, trials_in_state
from dse.searching.space import DesignMatrix, Dimension, Space

CHUNK_DESIGNS = 65536  # evaluated before the archive is updated


def run_trials(archive: Archive, study: Study, advance: Callable[[int, str], object]) -> None:
    """Evaluate designs until the study has as many complete trials as the search specifies.

    `advance` is called with the number of designs of each batch and a text about the best design so far.

    Raises:
        InfeasibleError: no design of the first batch is feasible, and it is certain that no other one is.
    """
    search, space, is_checked = archive.evaluator.problem.search, archive.evaluator.space, False
    while (complete := len(trials_in_state(study, TrialState.COMPLETE))) < search.sampled_trials:
        max_number = search.sampled_trials + len(trials_in_state(study, TrialState.FAIL))
        known = recall_archive(archive.evaluator, study) if SHARED in study.user_attrs else archive
        trials = _propose_batch(study, known, min(search.ask_batch, search.sampled_trials - complete), max_number)
        if not trials:
            return  # other workers have the remaining trials
        designs = to_designs(space, [trial.params for trial in trials])
        for trial, objectives, excess in zip(trials, *_evaluate_by_config(archive, designs, advance), strict=True):
            report_scores(study, trial, search, objectives, excess)
        if not (archive.feasible_count or is_checked):
            check_infeasibility(archive.evaluator)
        is_checked = True


def _evaluate_by_config(
    archive: Archive, designs: DesignMatrix, advance: Callable[[int, str], object]
) -> tuple[Float[np.ndarray, "design objective"], Float[np.ndarray, "design constraint"]]:
    """The scores of a batch, with a report after each categorical configuration: compiling the first designs of each takes seconds."""
    search, numbers = archive.evaluator.problem.search, archive.evaluator.number_configs(designs)
    objectives, excess = np.empty((len(designs), len(search.objectives))), np.empty((len(designs), len(search.bounds)))
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        objectives[rows], excess[rows] = archive.evaluate(designs[rows])
        advance(len(rows), _best_so_far(archive))
    return objectives, excess


def make_sampler(archive: Archive, size: int, started: int) -> BaseSampler:
    """The sampler for the next batch of `size` trials of a study that has `started` trials, with a seed that depends on their number."""
    search, space = archive.evaluator.problem.search, archive.evaluator.space
    seed = (search.seed * 1_000_003 + started) % 2**31
    samplers, population = optuna.samplers, max(10, min(50, search.ask_batch))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match search.sampler:
            case "evolutionary":
                params = [_to_params(space, design) for design in propose_designs(archive, size, started)]
                return FixedSampler(params, {dimension.path: distribution(dimension) for dimension in space.dimensions})
            case "nsga2":
                return samplers.NSGAIISampler(seed=seed, population_size=population)
            case "nsga3":
                return samplers.NSGAIIISampler(seed=seed, population_size=population)
            case "tpe":
                return samplers.TPESampler(
                    seed=seed, multivariate=True, group=any(d.conditions for d in space.dimensions), constant_liar=True
                )
            case "gp":
                return samplers.GPSampler(seed=seed)
            case "qmc":
                return samplers.QMCSampler(
                    seed=search.seed, scramble=True, warn_asynchronous_seeding=False, warn_independent_sampling=False
                )
            case _:
                return samplers.RandomSampler(seed=seed)


def distribution(dimension: Dimension) -> BaseDistribution:
    """Optuna's distribution over the values that a dimension may have."""
    if dimension.continuous:
        low, high = map(float, dimension.axis.values)
        return FloatDistribution(low, high, log=dimension.log)
    if dimension.categorical:
        return CategoricalDistribution(list(range(dimension.choices)))
    return IntDistribution(0, dimension.choices - 1)


def _propose_batch(study: Study, archive: Archive, size: int, max_number: int) -> list[Trial]:
    """New trials with numbers below `max_number`. The sampler is seeded for each batch, so that a resumed search continues as it would."""
    space = archive.evaluator.space
    is_shared = SHARED in study.user_attrs
    started = len(study.get_trials(deepcopy=False) if is_shared else trials_in_state(study, TrialState.COMPLETE))
    if not is_shared:
        save_sampler_state(study, started, size)
    study.sampler = make_sampler(archive, size, started)
    trials = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Clip non-finite values")  # of designs without finite scores: the search warns of them
        for _ in range(size):
            trial = study.ask()
            if trial.number >= max_number:
                study.tell(trial, state=TrialState.FAIL)
                break
            _suggest(space, trial)
            trials.append(trial)
    return trials


def _suggest(space: Space, trial: Trial) -> None:
    """Have the sampler choose a value for each dimension whose condition holds."""
    design = to_design(space, {})
    for number, dimension in enumerate(space.dimensions):
        if all(design[other] == value for other, value in dimension.conditions):
            design[number] = _suggest_value(trial, dimension)


def _suggest_value(trial: Trial, dimension: Dimension) -> float:
    if dimension.continuous:
        low, high = map(float, dimension.axis.values)
        return trial.suggest_float(dimension.path, low, high, log=dimension.log)
    if dimension.categorical:
        return trial.suggest_categorical(dimension.path, list(range(dimension.choices)))
    return trial.suggest_int(dimension.path, 0, dimension.choices - 1)


def _to_params(space: Space, design: Float[np.ndarray, "dimension"]) -> dict[str, float]:
    """The parameters of a trial: a value for each dimension whose condition holds."""
    active = [(value, d) for value, d in zip(design, space.dimensions, strict=True) if d.is_active(design[None])[0]]
    return {dimension.path: float(value) if dimension.continuous else int(value) for value, dimension in active}


def _best_so_far(archive: Archive) -> str:
    if not archive.feasible_count:
        return "none feasible"
    value = archive.value_signs[0] * archive.values[archive.best_index(), 0]
    return f"best {archive.value_names[0]} {value:.4g}"


def evaluate_all(archive: Archive, advance: Callable[[int], object] = no_progress) -> None:
    """Evaluate all designs of a grid."""
    space = archive.evaluator.space
    assert space.size is not None, "no dimension of a grid is continuous"
    for start in range(0, space.size, CHUNK_DESIGNS):
        if start == CHUNK_DESIGNS and not archive.feasible_count:
            check_infeasibility(archive.evaluator)
        stop = min(start + CHUNK_DESIGNS, space.size)
        designs = space.grid_designs(start, stop)
        if len(designs):
            archive.evaluate(designs)
        advance(stop - start)
