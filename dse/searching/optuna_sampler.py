"""Optuna proposes designs, the evaluator scores a whole batch at once, Optuna is given the scores.

Every design is a trial of a study in a storage, which outlives the process. Trials are numbered by the storage, so several workers
share one budget: numbers below it are evaluated, others are not. A search of one worker that was killed and is resumed ends as if it had
not been: a batch of which some trials were not proposed yet is proposed anew, from the state of the sampler before it.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from dse.base.errors import InputError
from dse.schema.search import SearchSpec
from dse.searching.archive import Archive
from dse.searching.problem import SearchProblem
from dse.searching.space import Dimension, Space

BATCH, SHARED = "batch", "shared"  # user attributes of a study: how its last batch began, whether several workers fill it
SEQUENCES, PARENTS = "qmc:", ":parent:"  # system attributes of Optuna's samplers: places in sequences, parents of a generation


def run(archive: Archive, study: Study, bar: Any) -> None:
    """Evaluate designs until the study has as many complete trials as the search asks for."""
    search, space = archive.evaluator.problem.search, archive.evaluator.space
    bar.reset(total=search.trials)
    while (done := len(_in_state(study, TrialState.COMPLETE))) < search.trials:
        limit = search.trials + len(_in_state(study, TrialState.FAIL))
        trials = _asked(study, space, search, min(search.ask_batch, search.trials - done), limit)
        if not trials:
            return  # the rest is with other workers
        points = space.canonical(np.stack([row_of(space, trial.params) for trial in trials]))
        for trial, objectives, excess in zip(trials, *archive.judge(points), strict=True):
            tell(study, trial, search, objectives, excess)
        bar.update(len(trials))
        bar.set_postfix_str(_so_far(archive))


def finish(archive: Archive, study: Study) -> int:
    """Evaluate the trials that a killed worker left running, fail those whose batch was not proposed to its end; returns how many there
    were. Of several workers, whose batches overlap, every trial that was proposed to its end is evaluated."""
    space, search = archive.evaluator.space, archive.evaluator.problem.search
    stale = _in_state(study, TrialState.RUNNING)
    proposed = [trial for trial in stale if _complete(space, trial.params)]
    if BATCH in study.user_attrs and SHARED not in study.user_attrs and not _whole(study, proposed):
        proposed = []
        _undo(study)
    numbers = {trial.number for trial in proposed}
    for frozen in stale:
        if frozen.number not in numbers:
            study.tell(frozen.number, state=TrialState.FAIL)
    if proposed:
        batch = [*_told(study), *proposed]  # scored together, as they would have been
        points = space.canonical(np.stack([row_of(space, trial.params) for trial in batch]))
        objectives, excess = (found[-len(proposed) :] for found in archive.evaluator.objectives(points))
        archive.take(points[-len(proposed) :], objectives, excess)
        for trial, values, missed in zip(proposed, objectives, excess, strict=True):
            tell(study, Trial(study, trial._trial_id), search, values, missed, trial.constraints)
    return len(stale)


def _told(study: Study) -> list[FrozenTrial]:
    """The trials of the last batch that have their scores; none where several workers fill the study."""
    if BATCH not in study.user_attrs or SHARED in study.user_attrs:
        return []
    return _in_state(study, TrialState.COMPLETE)[study.user_attrs[BATCH]["start"] :]


def _whole(study: Study, proposed: Sequence[FrozenTrial]) -> bool:
    """Whether the last batch was proposed to its end before its worker was killed."""
    batch = study.user_attrs[BATCH]
    return len(_in_state(study, TrialState.COMPLETE)) + len(proposed) >= batch["start"] + batch["size"]


def _begin(study: Study, start: int, size: int) -> None:
    """Remember the state of the sampler before a batch."""
    attributes = study._storage.get_study_system_attrs(study._study_id)
    sequences = {key: value for key, value in attributes.items() if key.startswith(SEQUENCES)}
    parents = sum(PARENTS in key for key in attributes)
    study.set_user_attr(BATCH, {"start": start, "size": size, "sequences": sequences, "parents": parents})


def _undo(study: Study) -> None:
    """Put the sampler back to where it was before the last batch."""
    batch, attributes = study.user_attrs[BATCH], study._storage.get_study_system_attrs(study._study_id)
    parents = sorted((key for key in attributes if PARENTS in key), key=lambda key: int(key.rpartition(":")[2]))
    before = {key: batch["sequences"].get(key, -1) for key in attributes if key.startswith(SEQUENCES)}
    for key, value in (before | dict.fromkeys(parents[batch["parents"] :])).items():
        study._storage.set_study_system_attr(study._study_id, key, value)


def recall(archive: Archive, study: Study) -> None:
    """Take in what a study holds already."""
    search = archive.evaluator.problem.search
    done = _in_state(study, TrialState.COMPLETE)
    size = max(search.ask_batch, len(done) // 200 + 1)
    for start in range(0, len(done), size):
        part = done[start : start + size]
        points = archive.evaluator.space.canonical(np.stack([row_of(archive.evaluator.space, trial.params) for trial in part]))
        signs = np.array([sign for _, sign in search.objectives])
        excess = np.array([[trial.constraints[str(limit)] for limit in search.bounds] for trial in part]).reshape(len(part), -1)
        archive.take(points, np.array([trial.values for trial in part]) * signs, excess)


def open_study(name: str, problem: SearchProblem, storage: Any, resume: bool, join: bool = False) -> Study:
    """The study of a search in a storage; raises InputError if it is there and was not to be resumed or joined, or is of another search."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = ["minimize" if sign > 0 else "maximize" for _, sign in problem.search.objectives]
    try:
        study = optuna.create_study(study_name=name, storage=storage, directions=directions, load_if_exists=resume or join)  # type: ignore[arg-type]
        if study.user_attrs.get("origin", problem.origin) != problem.origin:
            raise InputError("the specification or the accelerator changed since the search began", "start it anew, in another place")
        study.set_user_attr("origin", problem.origin)
        if join:
            study.set_user_attr(SHARED, True)
        return study
    except optuna.exceptions.DuplicatedStudyError as error:
        raise InputError(f"the storage has a study '{name}' already", "add --resume or --join, or take another output") from error


def row_of(space: Space, params: dict[str, Any]) -> np.ndarray:
    """A design from the parameters of a trial; dimensions that were not asked for have the description's value."""
    return np.array([params.get(d.path, d.usual) for d in space.dimensions], float)


def _asked(study: Study, space: Space, search: SearchSpec, number: int, limit: int) -> list[Trial]:
    """A batch of new trials, as far as the budget goes. The sampler starts each batch from a seed of its own, so that a resumed
    search goes on as it would have."""
    shared = SHARED in study.user_attrs
    started = len(study.get_trials(deepcopy=False) if shared else _in_state(study, TrialState.COMPLETE))
    if not shared:
        _begin(study, started, number)
    study.sampler = sampler(search, space, started)
    trials = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Clip non-finite values")  # scores of designs that have none: the search warns of them
        for _ in range(number):
            trial = study.ask()
            if trial.number >= limit:
                study.tell(trial, state=TrialState.FAIL)
                break
            _suggest(space, trial)
            trials.append(trial)
    return trials


def _suggest(space: Space, trial: Trial) -> None:
    row = row_of(space, {})
    for number, dimension in enumerate(space.dimensions):
        if all(row[other] == value for other, value in dimension.when):
            row[number] = _suggest_value(trial, dimension)


def _suggest_value(trial: Trial, dimension: Dimension) -> float:
    if dimension.continuous:
        low, high = map(float, dimension.axis.values)
        return trial.suggest_float(dimension.path, low, high, log=dimension.log)
    if dimension.categorical:
        return trial.suggest_categorical(dimension.path, list(range(dimension.choices)))
    return trial.suggest_int(dimension.path, 0, dimension.choices - 1)


def _complete(space: Space, params: dict[str, Any]) -> bool:
    row = row_of(space, params)
    return all(d.path in params or any(row[other] != value for other, value in d.when) for d in space.dimensions)


def distribution(dimension: Dimension) -> BaseDistribution:
    if dimension.continuous:
        low, high = map(float, dimension.axis.values)
        return FloatDistribution(low, high, log=dimension.log)
    if dimension.categorical:
        return CategoricalDistribution(list(range(dimension.choices)))
    return IntDistribution(0, dimension.choices - 1)


def tell(
    study: Study,
    trial: Trial,
    search: SearchSpec,
    objectives: Sequence[float],
    excess: Sequence[float],
    known: Sequence[str] | Mapping = (),
) -> None:
    """`known`: constraints that the trial has already, from a worker that was killed just then."""
    for limit, missed in zip(search.bounds, excess, strict=True):
        if str(limit) not in known:
            trial.set_constraint(str(limit), float(missed))
    study.tell(trial, [float(value * sign) for value, (_, sign) in zip(objectives, search.objectives, strict=True)])


def sampler(search: SearchSpec, space: Space, started: int) -> Any:
    """The sampler for the next batch of a study that has `started` trials."""
    seed = (search.seed * 1_000_003 + started) % 2**31
    samplers = optuna.samplers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match search.sampler:
            case "nsga2":
                return samplers.NSGAIISampler(seed=seed, population_size=max(10, min(50, search.ask_batch)))
            case "nsga3":
                return samplers.NSGAIIISampler(seed=seed, population_size=max(10, min(50, search.ask_batch)))
            case "tpe":
                return samplers.TPESampler(seed=seed, multivariate=True, group=any(d.when for d in space.dimensions), constant_liar=True)
            case "gp":
                return samplers.GPSampler(seed=seed)
            case "qmc":
                return samplers.QMCSampler(
                    seed=search.seed, scramble=True, warn_asynchronous_seeding=False, warn_independent_sampling=False
                )
            case _:
                return samplers.RandomSampler(seed=seed)


def _in_state(study: Study, state: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(state,))


def _so_far(archive: Archive) -> str:
    if not archive.feasible:
        return "none feasible"
    value = archive.signs[0] * archive.values[archive.best(), 0]
    return f"best {archive.columns[0]} {value:.4g}"
