"""Samplers and local search, compared with the evaluation of every design of a grid."""

import re

import numpy as np
import pytest

import dse
from dse.base.errors import InfeasibleError, InputError
from dse.searching import local_search, run, samplers
from dse.searching.archive import Archive
from dse.searching.problem import load_problem
from dse.searching.samplers import evaluate_all
from tests.searching.search_specs import AXES, CONTINUOUS, LIMITED, make_evaluator, write


def score_all(evaluator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    return (designs, *evaluator.score(designs))


@pytest.mark.parametrize("chunk", [4096, 777])
def test_an_exhaustive_search_finds_the_optimum_and_the_front(folder, monkeypatch, chunk):
    monkeypatch.setattr("dse.searching.evaluator.MAX_BATCH", chunk)
    monkeypatch.setattr(samplers, "CHUNK_DESIGNS", chunk)
    archive = Archive(evaluator := make_evaluator(folder))
    evaluate_all(archive)
    designs, values, excess = score_all(evaluator)
    is_feasible = (excess <= 0).all(axis=1)
    assert archive.evaluated_count == len(designs)
    assert archive.feasible_count == is_feasible.sum()
    assert archive.values[archive.best_index(), 0] == values[is_feasible].min()
    costs = np.stack([evaluator.evaluate(designs)[name] for name in ("area", "power")], axis=1)
    feasible = np.concatenate([values, costs], axis=1)[is_feasible]
    is_dominated = [
        (np.all(feasible <= row, axis=1) & np.any(feasible < row - 1e-9 * abs(row), axis=1)).any()
        for row in archive.values[archive.front_indices()]
    ]
    assert not any(is_dominated)


@pytest.mark.parametrize("sampler", ["evolutionary", "nsga2", "nsga3", "tpe", "random", "qmc"])
def test_a_search_comes_close_to_the_optimum(folder, sampler):
    search = LIMITED.replace("trials: 120", f"trials: {400 if sampler == 'tpe' else 1500}") + f"sampler: {sampler}\n"
    front = dse.search(write(folder, search))
    assert front.attrs["regret"] < 0.02
    assert front.best.sum() == 1
    assert (front.area <= 420e-6 * (1 + 1e-9)).all()


def test_the_front_of_two_objectives_is_better_than_that_of_random_search(folder):
    front = dse.search(
        write(folder, "maximize: [performance]\nminimize: [area]\nconstraints: [power <= 210 W]\ntrials: 300\nask_batch: 30")
    )
    assert front.attrs["hypervolume_share"] > front.attrs["hypervolume_share_of_random"]
    assert (np.diff(front.area.values[np.argsort(front.performance.values)]) >= -1e-12).sum() > 0


@pytest.mark.parametrize("axes", [CONTINUOUS, None], ids=["continuous", "grid"])
@pytest.mark.parametrize("seed", range(4))
def test_local_search_never_makes_a_design_worse_or_infeasible(folder, axes, seed):
    evaluator = make_evaluator(folder, LIMITED, *([axes] if axes else []))
    archive = Archive(evaluator)
    archive.evaluate(evaluator.space.random_designs(20, np.random.default_rng(seed)))
    before = archive.values[archive.best_index(), 0] if archive.feasible_count else np.inf
    local_search.refine(archive, 2000)
    if archive.feasible_count:
        best = archive.designs[[archive.best_index()]]
        values, excess = evaluator.score(best)
        assert values[0, 0] <= before
        assert (excess <= 0).all()
        for number in evaluator.space.continuous:
            low, high = evaluator.space.dimensions[number].axis.values
            assert low <= best[0, number] <= high


def test_gradients_reach_constraints_that_steps_do_not(folder):
    evaluator = make_evaluator(folder, LIMITED, CONTINUOUS)
    archive = Archive(evaluator)
    archive.evaluate(evaluator.space.random_designs(50, np.random.default_rng(0)))
    local_search.refine(archive, 2000)
    _, excess = evaluator.score(archive.designs[[archive.best_index()]])
    assert excess.max() > -1e-3


def test_the_same_seed_gives_the_same_archive_for_any_chunk_size(folder, monkeypatch):
    path, archives = write(folder, LIMITED), []
    for chunk in (65536, 7):
        monkeypatch.setattr("dse.searching.evaluator.MAX_BATCH", chunk)
        archives.append(run.run_search(run.load_evaluator(path), "x", None, False, False, False))
    np.testing.assert_array_equal(archives[0].designs, archives[1].designs)
    np.testing.assert_array_equal(archives[0].values, archives[1].values)


def test_what_cannot_be_enumerated_is_refused_where_it_is_written(folder):
    path = write(folder, LIMITED + "sampler: exhaustive\n", CONTINUOUS)
    with pytest.raises(InputError) as caught:
        load_problem(path)
    lines = [number for number, line in enumerate(path.read_text().splitlines(), start=1) if "scale: log" in line]
    assert [problem.line for problem in caught.value.problems] == lines
    for problem in caught.value.problems:
        assert str(problem).endswith("is continuous, so its designs cannot be enumerated; give it 'steps', or choose another sampler")
    path = write(folder, LIMITED + "sampler: exhaustive\n", AXES.replace("steps: 12", "steps: 30000"))
    message = "search.sampler: 4.32e+10 designs are too many for 'exhaustive'; stay below 1e+09, or choose another sampler"
    with pytest.raises(InputError, match=re.escape(message)):
        load_problem(path)


def test_the_hardest_constraint_is_reported_where_nothing_is_feasible(folder):
    """Nothing is known of the least speedup, so designs are evaluated up to the last trial."""
    with pytest.raises(InfeasibleError, match="no feasible design among 24: 'speedup >= 20' is hardest to meet"):
        dse.search(write(folder, "constraints: [speedup >= 20, power <= 300 W]\ntrials: 40"))
