"""Results of designs against single evaluations; invalid searches."""

import itertools

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import power
from dse.searching import run
from tests.searching.search_specs import AXES, CONTINUOUS, LIMITED, make_evaluator, write


def evaluate_singly(evaluator, design) -> dict[str, float]:
    """Results of one design from `dse.evaluate`, with the fastest feasible variant."""
    chip, problem = evaluator.space.accelerator_at(design), evaluator.problem
    options = problem.options.model_dump()

    def latency(accelerator, variant):
        return float(dse.evaluate(accelerator, variant, problem.batch, "fp16", **options).latency.sum())

    variants = evaluator.variants
    best = min(latency(chip, variant) for variant in variants)
    costs = Design(chip, base=evaluator.space.accelerator)
    return {
        "performance": latency(evaluator.space.accelerator, variants[0]) / best, "speedup": latency(chip, variants[0]) / best,
        "latency": best, "area": float(area(costs)), "power": float(power(costs)),
    }  # fmt: skip


@pytest.mark.parametrize("axes", [AXES, CONTINUOUS], ids=["grid", "continuous"])
def test_designs_have_the_results_of_single_evaluations(folder, axes):
    evaluator = make_evaluator(folder, axes=axes)
    designs = evaluator.space.random_designs(12, np.random.default_rng(0))
    results = evaluator.evaluate(designs)
    for number, design in enumerate(designs):
        expected = evaluate_singly(evaluator, design)
        assert {name: values[number] for name, values in results.items()} == pytest.approx(expected, rel=1e-9)


def test_energy_and_worst_case(folder):
    evaluator = make_evaluator(folder, "maximize: [performance / energy]\nover_workloads: worst")
    results = evaluator.evaluate(evaluator.space.random_designs(3, np.random.default_rng(1)))
    np.testing.assert_allclose(results["edp"], results["energy"] * results["latency"])
    assert (results["energy"] > 0).all()


def test_robust_designs_are_slower_than_certain_ones(folder):
    designs = (evaluator := make_evaluator(folder)).space.random_designs(60, np.random.default_rng(2))
    certain = evaluator.evaluate(designs)
    uncertain = make_evaluator(folder, LIMITED + "robust: {spread: 0.5, quantile: 0.1, samples: 16}").evaluate(designs)
    assert (uncertain["performance"] <= certain["performance"] * (1 + 1e-12)).all()
    assert (uncertain["performance"] < certain["performance"] * (1 - 1e-6)).any()
    np.testing.assert_allclose(uncertain["area"], certain["area"])


def test_designs_that_differ_in_inactive_dimensions_are_equal(folder):
    space = make_evaluator(folder).space
    grid = space.grid_designs(0, space.size)
    assert len(grid) == 12 * 8 * 12 * (3 + 1)
    assert len(np.unique(grid, axis=0)) == len(grid)


def test_more_tolerance_is_never_worse(folder):
    best = []
    for drop in (0.0, 0.5, 1.0, 3.0, 6.0, 20.0):
        evaluator = make_evaluator(folder, LIMITED.replace("accuracy_drop <= 1.0", f"accuracy_drop <= {drop}"))
        designs = evaluator.space.random_designs(200, np.random.default_rng(3))
        best.append(evaluator.evaluate(designs)["performance"])
        for variant in evaluator.variants[1:]:
            assert variant.dense_accuracy - variant.accuracy <= drop + 1e-9
            assert variant.sparsity <= 0.9 + 1e-9 or variant.pattern.density is not None  # of the sparsest measured variant
    assert all((later >= earlier * (1 - 1e-12)).all() for earlier, later in itertools.pairwise(best))
    assert (best[-1] > best[0]).any()


@pytest.mark.parametrize(
    ("search", "axes", "expected"),
    [
        ("maximize: [performanse]", AXES, "'performanse' in 'performanse' is not a result; did you mean 'performance'?"),
        ("maximize: ['__import__(\"os\")']", AXES, "is not allowed in an expression"),
        ("constraints: [area <= 826]", AXES, "'826' is not a valid bound of 'area'; write a quantity in m^2"),
        ("constraints: [area is small]", AXES, "'area is small' is not a constraint"),
        ("constraints: [accuracy_drop >= 1]", AXES, "is not a valid tolerance"),
        ("maximize: [speedup]\nweights: {other: 2}", AXES, "'other' is not a workload of this search"),
        ("maximize: [speedup]", "\n  memory.dram.bandwidth: {from: 4 TB/s, to: 1 TB/s}", "goes from more to less"),
        ("maximize: [speedup]", "\n  memory.dram.bandwith: {from: 1 TB/s, to: 4 TB/s}", "did you mean 'memory.dram.bandwidth'"),
        (
            "maximize: [speedup]",
            "\n  memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, when: {units.tensor.runs.sparse_24.enabled: true}}",
            "which is not an axis before it",
        ),
    ],
)
def test_invalid_searches_are_refused_with_their_line(folder, search, axes, expected):
    path = write(folder, search, axes)
    with pytest.raises(InputError) as error:
        run.load_evaluator(path)
    assert expected in str(error.value)
    assert str(error.value).startswith(f"{path}:")


def test_a_sweep_without_a_search_is_refused(folder):
    with pytest.raises(InputError, match="the specification has no 'search'"):
        run.load_evaluator(folder / "small.yaml")
