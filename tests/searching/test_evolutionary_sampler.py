"""The default sampler: what it proposes, and that every evaluation counts."""

import numpy as np
import pytest

from dse.searching import local_search, run
from dse.searching.archive import Archive
from dse.searching.evolutionary_sampler import propose_designs, select_parents, sobol_positions, vary_designs
from dse.sweeping.pareto_front import nondominated
from tests.searching.search_specs import AXES, CONTINUOUS, LIMITED, make_evaluator

TWO_OBJECTIVES = "maximize: [performance]\nminimize: [area]\nconstraints: [power <= 210 W]\ntrials: 100\nask_batch: 20"


@pytest.mark.parametrize("axes", [AXES, CONTINUOUS], ids=["grid", "continuous"])
def test_positions_of_designs_give_the_designs_again(folder, axes):
    space = make_evaluator(folder, LIMITED, axes).space
    designs = space.random_designs(200, np.random.default_rng(0))
    np.testing.assert_allclose(space.from_unit(space.to_unit(designs)), designs, rtol=1e-12)


@pytest.mark.parametrize("axes", [AXES, CONTINUOUS], ids=["grid", "continuous"])
def test_variations_are_designs_of_the_space(folder, axes):
    """Each one has values between the ends, and that of the description where a condition does not hold."""
    space = make_evaluator(folder, LIMITED, axes).space
    parents = space.random_designs(5, np.random.default_rng(1))
    varied = vary_designs(space, parents, 500, np.random.default_rng(2))
    np.testing.assert_array_equal(space.canonicalize(varied), varied)
    for number, dimension in enumerate(space.dimensions):
        values = dimension.decode(varied[:, number])
        allowed = dimension.axis.values
        assert values.min() >= min(allowed)
        assert values.max() <= max(allowed)


def test_the_sequence_does_not_depend_on_the_batches():
    whole = sobol_positions(3, 7, 0, 40)
    np.testing.assert_array_equal(np.concatenate([sobol_positions(3, 7, 0, 15), sobol_positions(3, 7, 15, 25)]), whole)


@pytest.mark.parametrize("search", [LIMITED, TWO_OBJECTIVES], ids=["one objective", "two"])
def test_proposals_do_not_depend_on_how_designs_were_split_into_batches(folder, search):
    evaluator = make_evaluator(folder, search)
    designs = evaluator.space.random_designs(80, np.random.default_rng(3))
    archives = []
    for parts in (1, 7):
        archives.append(Archive(evaluator))
        for part in np.array_split(designs, parts):
            archives[-1].evaluate(part)
    np.testing.assert_array_equal(*(propose_designs(archive, 20, 80) for archive in archives))


def test_parents_are_the_front_or_the_nearest_designs(folder):
    evaluator = make_evaluator(folder, TWO_OBJECTIVES)
    archive = Archive(evaluator)
    archive.evaluate(designs := evaluator.space.random_designs(200, np.random.default_rng(4)))
    objectives, excess = evaluator.score(designs)
    feasible = (excess <= 0).all(axis=1)
    front = designs[feasible][nondominated(objectives[feasible])]
    assert {design.tobytes() for design in select_parents(archive)} == {design.tobytes() for design in front}
    impossible = Archive(make_evaluator(folder, "constraints: [area <= 100 mm^2]"))
    _, excess = impossible.evaluate(designs)
    nearest = impossible.evaluator.score(select_parents(impossible))[1].max(axis=1)
    np.testing.assert_array_equal(nearest, np.sort(excess.max(axis=1))[: len(nearest)])


@pytest.mark.parametrize("search", [LIMITED, TWO_OBJECTIVES], ids=["one objective", "two"])
@pytest.mark.parametrize("budget", [60, 150])
def test_no_more_designs_are_evaluated_than_specified(folder, search, budget, monkeypatch):
    """Every call of the evaluator counts, and every value and gradient in the optimisation along gradients."""
    counted = 0
    score = run.Evaluator.score

    def count(evaluator, designs):
        nonlocal counted
        counted += len(designs)
        return score(evaluator, designs)

    monkeypatch.setattr(run.Evaluator, "score", count)
    evaluator = make_evaluator(folder, search, CONTINUOUS).with_search(trials=budget)
    archive = Archive(evaluator)
    archive.evaluate(evaluator.space.random_designs(40, np.random.default_rng(5)))
    local_search.refine(archive, budget)
    assert 40 <= counted <= archive.evaluated_count <= budget
