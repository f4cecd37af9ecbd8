"""The study of a search: Optuna's record of its trials, from which an interrupted search continues.

Each design is a trial of a study, in a storage that outlives the process. The storage numbers the trials, so that several workers share
one budget: trials with a number below it are evaluated, others fail. A search by one worker that is killed and resumed ends as if it had
not been killed: a batch that was not proposed completely is proposed again, from the state of the sampler before it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import optuna
from jaxtyping import Float
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from dse.base.errors import InputError
from dse.schema.search import SearchSpec
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.problem import SearchProblem
from dse.searching.space import DesignMatrix, Space

BATCH, SHARED = "batch", "shared"  # user attributes of a study: state before its last batch; whether several workers fill it
SEQUENCES, PARENTS = "qmc:", ":parent:"  # system attributes of Optuna's samplers: positions in sequences; parents of a generation
RECALLED_BATCHES = 200  # at most, in the history of a recalled study


def open_study(name: str, problem: SearchProblem, storage: str | BaseStorage | None, resume: bool, join: bool = False) -> Study:
    """The study of a search in a storage.

    Raises:
        InputError: the study exists and is not to be resumed or joined, or belongs to another search.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = ["minimize" if sign > 0 else "maximize" for _, sign in problem.search.objectives]
    try:
        study = optuna.create_study(study_name=name, storage=storage, directions=directions, load_if_exists=resume or join)  # type: ignore[arg-type]
    except optuna.exceptions.DuplicatedStudyError as error:
        raise InputError(f"the storage has a study '{name}' already", "add --resume or --join, or choose another output") from error
    if study.user_attrs.get("origin", problem.origin) != problem.origin:
        raise InputError("the specification or the accelerator changed since the search began", "start it again, with another output")
    study.set_user_attr("origin", problem.origin)
    if join:
        study.set_user_attr(SHARED, True)
    return study


def finish_stale_trials(archive: Archive, study: Study) -> int:
    """Evaluate or fail the trials that a killed worker left running; returns how many there were.

    Trials whose batch was proposed completely are evaluated, others fail. Batches of several workers overlap, so there every trial that
    was proposed completely is evaluated.
    """
    space, search = archive.evaluator.space, archive.evaluator.problem.search
    stale = trials_in_state(study, TrialState.RUNNING)
    proposed = [trial for trial in stale if _is_proposed(space, trial.params)]
    if BATCH in study.user_attrs and SHARED not in study.user_attrs and not _is_batch_complete(study, proposed):
        proposed = []
        _restore_sampler_state(study)
    numbers = {trial.number for trial in proposed}
    for trial in stale:
        if trial.number not in numbers:
            study.tell(trial.number, state=TrialState.FAIL)
    if proposed:
        batch = [*_scored_trials_of_batch(study), *proposed]  # evaluated together, as without an interruption
        designs, count = to_designs(space, [trial.params for trial in batch]), len(proposed)
        objectives, excess = (scores[-count:] for scores in archive.evaluator.score(designs))
        archive.add(designs[-count:], objectives, excess)
        for trial, values, exceeded in zip(proposed, objectives, excess, strict=True):
            report_scores(study, Trial(study, trial._trial_id), search, values, exceeded, trial.constraints)
    return len(stale)


def recall_trials(archive: Archive, study: Study) -> None:
    """Add the complete trials of a study to the archive."""
    search = archive.evaluator.problem.search
    trials = trials_in_state(study, TrialState.COMPLETE)
    size = max(search.ask_batch, len(trials) // RECALLED_BATCHES + 1)
    signs = np.array([sign for _, sign in search.objectives])
    for start in range(0, len(trials), size):
        batch = trials[start : start + size]
        designs = to_designs(archive.evaluator.space, [trial.params for trial in batch])
        excess = np.array([[trial.constraints[str(bound)] for bound in search.bounds] for trial in batch]).reshape(len(batch), -1)
        archive.add(designs, np.array([trial.values for trial in batch]) * signs, excess)


def recall_archive(evaluator: Evaluator, study: Study) -> Archive:
    """An archive of the complete trials of all workers."""
    archive = Archive(evaluator)
    recall_trials(archive, study)
    return archive


def report_scores(
    study: Study,
    trial: Trial,
    search: SearchSpec,
    objectives: Sequence[float],
    excess: Sequence[float],
    stored_constraints: Sequence[str] | Mapping[str, float] = (),
) -> None:
    """Store the scores of a trial; `stored_constraints`: those that a killed worker stored already."""
    for bound, exceeded in zip(search.bounds, excess, strict=True):
        if str(bound) not in stored_constraints:
            trial.set_constraint(str(bound), float(exceeded))
    study.tell(trial, [float(value * sign) for value, (_, sign) in zip(objectives, search.objectives, strict=True)])


def _is_proposed(space: Space, params: Mapping[str, float]) -> bool:
    """Whether a trial has a parameter for each dimension whose condition holds."""
    design = to_design(space, params)
    return all(d.path in params or any(design[other] != value for other, value in d.conditions) for d in space.dimensions)


def to_design(space: Space, params: Mapping[str, float]) -> Float[np.ndarray, "dimension"]:
    """A design from the parameters of a trial; dimensions without one have the value of the description."""
    return np.array([params.get(dimension.path, dimension.described) for dimension in space.dimensions], float)


def to_designs(space: Space, params: Sequence[Mapping[str, float]]) -> DesignMatrix:
    return space.canonicalize(np.stack([to_design(space, each) for each in params]))


def save_sampler_state(study: Study, start: int, size: int) -> None:
    """Store the state of the sampler before a batch of `size` trials, after `start` complete ones."""
    attributes = study._storage.get_study_system_attrs(study._study_id)
    sequences = {key: value for key, value in attributes.items() if key.startswith(SEQUENCES)}
    parents = sum(PARENTS in key for key in attributes)
    study.set_user_attr(BATCH, {"start": start, "size": size, "sequences": sequences, "parents": parents})


def _restore_sampler_state(study: Study) -> None:
    """Restore the state of the sampler before the last batch."""
    batch, attributes = study.user_attrs[BATCH], study._storage.get_study_system_attrs(study._study_id)
    parents = sorted((key for key in attributes if PARENTS in key), key=lambda key: int(key.rpartition(":")[2]))
    before = {key: batch["sequences"].get(key, -1) for key in attributes if key.startswith(SEQUENCES)}
    for key, value in (before | dict.fromkeys(parents[batch["parents"] :])).items():
        study._storage.set_study_system_attr(study._study_id, key, value)


def _is_batch_complete(study: Study, proposed: Sequence[FrozenTrial]) -> bool:
    """Whether the last batch was proposed completely before its worker was killed."""
    batch = study.user_attrs[BATCH]
    return len(trials_in_state(study, TrialState.COMPLETE)) + len(proposed) >= batch["start"] + batch["size"]


def _scored_trials_of_batch(study: Study) -> list[FrozenTrial]:
    """The trials of the last batch that have scores; none where several workers fill the study."""
    if BATCH not in study.user_attrs or SHARED in study.user_attrs:
        return []
    return trials_in_state(study, TrialState.COMPLETE)[study.user_attrs[BATCH]["start"] :]


def trials_in_state(study: Study, state: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(state,))
