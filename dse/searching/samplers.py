"""Propose and evaluate designs: all designs of a grid, or those that Optuna's samplers propose.

A grid is evaluated chunk by chunk in constant memory, which gives the exact optimum. One of Optuna's samplers proposes a batch of designs,
the evaluator scores it at once, and the sampler gets the scores.

Each design is a trial of a study, in a storage that outlives the process. The storage numbers the trials, so that several workers share
one budget: trials with a number below it are evaluated, others fail. A search by one worker that is killed and resumed ends as if it had
not been killed: a batch that was not proposed completely is proposed again, from the state of the sampler before it.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import optuna
from jaxtyping import Float
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from dse.base.errors import InputError
from dse.base.progress import no_progress
from dse.schema.search import SearchSpec
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.evolutionary_sampler import FixedSampler, propose_designs
from dse.searching.infeasibility import check_infeasibility
from dse.searching.problem import SearchProblem
from dse.searching.space import DesignMatrix, Dimension, Space

BATCH, SHARED = "batch", "shared"  # user attributes of a study: state before its last batch; whether several workers fill it
SEQUENCES, PARENTS = "qmc:", ":parent:"  # system attributes of Optuna's samplers: positions in sequences; parents of a generation
RECALLED_BATCHES = 200  # at most, in the history of a recalled study
CHUNK_DESIGNS = 65536  # evaluated before the archive is updated


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


def run_trials(archive: Archive, study: Study, advance: Callable[[int, str], object]) -> None:
    """Evaluate designs until the study has as many complete trials as the search specifies.

    `advance` is called with the number of designs of each batch and a text about the best design so far.

    Raises:
        InfeasibleError: no design of the first batch is feasible, and it is certain that no other one is.
    """
    search, space, is_checked = archive.evaluator.problem.search, archive.evaluator.space, False
    while (complete := len(_trials_in_state(study, TrialState.COMPLETE))) < search.sampled_trials:
        max_number = search.sampled_trials + len(_trials_in_state(study, TrialState.FAIL))
        known = _recall_archive(archive.evaluator, study) if SHARED in study.user_attrs else archive
        trials = _propose_batch(study, known, min(search.ask_batch, search.sampled_trials - complete), max_number)
        if not trials:
            return  # other workers have the remaining trials
        designs = _to_designs(space, [trial.params for trial in trials])
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


def finish_stale_trials(archive: Archive, study: Study) -> int:
    """Evaluate or fail the trials that a killed worker left running; returns how many there were.

    Trials whose batch was proposed completely are evaluated, others fail. Batches of several workers overlap, so there every trial that
    was proposed completely is evaluated.
    """
    space, search = archive.evaluator.space, archive.evaluator.problem.search
    stale = _trials_in_state(study, TrialState.RUNNING)
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
        designs, count = _to_designs(space, [trial.params for trial in batch]), len(proposed)
        objectives, excess = (scores[-count:] for scores in archive.evaluator.score(designs))
        archive.add(designs[-count:], objectives, excess)
        for trial, values, exceeded in zip(proposed, objectives, excess, strict=True):
            report_scores(study, Trial(study, trial._trial_id), search, values, exceeded, trial.constraints)
    return len(stale)


def recall_trials(archive: Archive, study: Study) -> None:
    """Add the complete trials of a study to the archive."""
    search = archive.evaluator.problem.search
    trials = _trials_in_state(study, TrialState.COMPLETE)
    size = max(search.ask_batch, len(trials) // RECALLED_BATCHES + 1)
    signs = np.array([sign for _, sign in search.objectives])
    for start in range(0, len(trials), size):
        batch = trials[start : start + size]
        designs = _to_designs(archive.evaluator.space, [trial.params for trial in batch])
        excess = np.array([[trial.constraints[str(bound)] for bound in search.bounds] for trial in batch]).reshape(len(batch), -1)
        archive.add(designs, np.array([trial.values for trial in batch]) * signs, excess)


def _recall_archive(evaluator: Evaluator, study: Study) -> Archive:
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
    started = len(study.get_trials(deepcopy=False) if is_shared else _trials_in_state(study, TrialState.COMPLETE))
    if not is_shared:
        _save_sampler_state(study, started, size)
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
    design = _to_design(space, {})
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


def _is_proposed(space: Space, params: Mapping[str, float]) -> bool:
    """Whether a trial has a parameter for each dimension whose condition holds."""
    design = _to_design(space, params)
    return all(d.path in params or any(design[other] != value for other, value in d.conditions) for d in space.dimensions)


def _to_design(space: Space, params: Mapping[str, float]) -> Float[np.ndarray, "dimension"]:
    """A design from the parameters of a trial; dimensions without one have the value of the description."""
    return np.array([params.get(dimension.path, dimension.described) for dimension in space.dimensions], float)


def _to_params(space: Space, design: Float[np.ndarray, "dimension"]) -> dict[str, float]:
    """The parameters of a trial: a value for each dimension whose condition holds."""
    active = [(value, d) for value, d in zip(design, space.dimensions, strict=True) if d.is_active(design[None])[0]]
    return {dimension.path: float(value) if dimension.continuous else int(value) for value, dimension in active}


def _to_designs(space: Space, params: Sequence[Mapping[str, float]]) -> DesignMatrix:
    return space.canonicalize(np.stack([_to_design(space, each) for each in params]))


def _save_sampler_state(study: Study, start: int, size: int) -> None:
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
    return len(_trials_in_state(study, TrialState.COMPLETE)) + len(proposed) >= batch["start"] + batch["size"]


def _scored_trials_of_batch(study: Study) -> list[FrozenTrial]:
    """The trials of the last batch that have scores; none where several workers fill the study."""
    if BATCH not in study.user_attrs or SHARED in study.user_attrs:
        return []
    return _trials_in_state(study, TrialState.COMPLETE)[study.user_attrs[BATCH]["start"] :]


def _trials_in_state(study: Study, state: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(state,))


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
