"""Ways to look, held against every design of a grid."""

import numpy as np
import pytest

import dse
from dse.base.errors import InfeasibleError, InputError
from dse.searching import evaluator as judged
from dse.searching import exhaustive, local_search, run
from dse.searching.archive import Archive
from dse.searching.exhaustive import evaluate_all
from tests.searching.search_specs import CONTINUOUS, LIMITED, designs, write


def everything(found) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    points = found.space.grid_designs(0, found.space.size)
    return (points, *found.score(points))


@pytest.mark.parametrize("chunk", [4096, 777])
def test_an_exhaustive_search_finds_the_optimum_and_the_front(folder, monkeypatch, chunk):
    monkeypatch.setattr(judged, "CHUNK", chunk)
    monkeypatch.setattr(exhaustive, "CHUNK_DESIGNS", chunk)
    archive = Archive(found := designs(folder))
    evaluate_all(archive)
    points, values, excess = everything(found)
    meets = (excess <= 0).all(axis=1)
    assert archive.evaluated_count == len(points)
    assert archive.feasible_count == meets.sum()
    assert archive.values[archive.best_index(), 0] == values[meets].min()
    costs = np.stack([found.evaluate(points)[name] for name in ("area", "power")], axis=1)
    every = np.concatenate([values, costs], axis=1)[meets]
    beaten = [
        (np.all(every <= row, axis=1) & np.any(every < row - 1e-9 * abs(row), axis=1)).any()
        for row in archive.values[archive.front_indices()]
    ]
    assert not any(beaten)


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3", "tpe", "random", "qmc"])
def test_a_search_comes_close_to_the_optimum(folder, sampler):
    search = LIMITED.replace("trials: 120", "trials: 60") + f"sampler: {sampler}\n"
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
    found = designs(folder, LIMITED, *([axes] if axes else []))
    archive = Archive(found)
    archive.evaluate(found.space.random_designs(20, np.random.default_rng(seed)))
    before = archive.values[archive.best_index(), 0] if archive.feasible_count else np.inf
    local_search.refine(archive)
    if archive.feasible_count:
        best = archive.designs[[archive.best_index()]]
        values, excess = found.score(best)
        assert values[0, 0] <= before
        assert (excess <= 0).all()
        for number in found.space.continuous:
            low, high = found.space.dimensions[number].axis.values
            assert low <= best[0, number] <= high


def test_gradients_reach_constraints_that_steps_do_not(folder):
    found = designs(folder, LIMITED, CONTINUOUS)
    archive = Archive(found)
    archive.evaluate(found.space.random_designs(50, np.random.default_rng(0)))
    local_search.refine(archive)
    _, excess = found.score(archive.designs[[archive.best_index()]])
    assert excess.max() > -1e-3


def test_the_same_seed_gives_the_same_archive_for_any_chunk_size(folder, monkeypatch):
    path, found = write(folder, LIMITED), []
    for chunk in (65536, 7):
        monkeypatch.setattr(judged, "CHUNK", chunk)
        found.append(run.run_search(run.load_evaluator(path), "x", None, False, False, False))
    np.testing.assert_array_equal(found[0].designs, found[1].designs)
    np.testing.assert_array_equal(found[0].values, found[1].values)


def test_continuous_axes_cannot_be_searched_exhaustively(folder):
    with pytest.raises(InputError, match="is continuous, so its designs cannot be enumerated"):
        dse.search(write(folder, LIMITED + "sampler: exhaustive\n", CONTINUOUS))


def test_the_hardest_constraint_is_reported_where_nothing_is_feasible(folder):
    with pytest.raises(InfeasibleError, match="'area <= 100 mm\\^2' is hardest to meet"):
        dse.search(write(folder, "constraints: [area <= 100 mm^2, power <= 300 W]\ntrials: 40"))
