"""What a design is worth, against the evaluator of single layers; and what may vary."""

import itertools

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import power
from dse.searching import run
from tests.searching.search_specs import AXES, CONTINUOUS, LIMITED, designs, write


def by_hand(found, point) -> dict[str, float]:
    """One design through the public evaluator: the best tolerated state, over the dense network on the chip as described."""
    chip, asked = found.space.accelerator_at(point), found.problem
    options = asked.options.model_dump()

    def latency(accelerator, state):
        return float(dse.evaluate(accelerator, state, asked.batch, "fp16", **options).latency.sum())

    states = found.variants
    best = min(latency(chip, state) for state in states)
    design = Design(chip, base=found.space.accelerator)
    return {
        "performance": latency(found.space.accelerator, states[0]) / best, "speedup": latency(chip, states[0]) / best,
        "latency": best, "area": float(area(design)), "power": float(power(design)),
    }  # fmt: skip


@pytest.mark.parametrize("axes", [AXES, CONTINUOUS], ids=["grid", "continuous"])
def test_designs_have_the_results_of_single_evaluations(folder, axes):
    found = designs(folder, axes=axes)
    points = found.space.random_designs(12, np.random.default_rng(0))
    results = found.evaluate(points)
    for number, point in enumerate(points):
        expected = by_hand(found, point)
        assert {name: values[number] for name, values in results.items()} == pytest.approx(expected, rel=1e-9)


def test_energy_and_worst_case(folder):
    found = designs(folder, "maximize: [performance / energy]\nover_workloads: worst")
    results = found.evaluate(found.space.random_designs(3, np.random.default_rng(1)))
    np.testing.assert_allclose(results["edp"], results["energy"] * results["latency"])
    assert (results["energy"] > 0).all()


def test_robust_designs_are_slower_than_certain_ones(folder):
    points = (found := designs(folder)).space.random_designs(60, np.random.default_rng(2))
    certain = found.evaluate(points)
    doubtful = designs(folder, LIMITED + "robust: {spread: 0.5, quantile: 0.1, samples: 16}").evaluate(points)
    assert (doubtful["performance"] <= certain["performance"] * (1 + 1e-12)).all()
    assert (doubtful["performance"] < certain["performance"] * (1 - 1e-6)).any()
    np.testing.assert_allclose(doubtful["area"], certain["area"])


def test_designs_that_differ_in_inactive_dimensions_are_equal(folder):
    space = designs(folder).space
    grid = space.grid_designs(0, space.size)
    assert len(grid) == 12 * 8 * 12 * (3 + 1)
    assert len(np.unique(grid, axis=0)) == len(grid)


def test_more_tolerance_is_never_worse(folder):
    best = []
    for drop in (0.0, 0.5, 1.0, 3.0, 6.0, 20.0):
        found = designs(folder, LIMITED.replace("accuracy_drop <= 1.0", f"accuracy_drop <= {drop}"))
        points = found.space.random_designs(200, np.random.default_rng(3))
        best.append(found.evaluate(points)["performance"])
        for state in found.variants[1:]:
            assert state.dense_accuracy - state.accuracy <= drop + 1e-9
            assert state.sparsity <= 0.9 + 1e-9 or state.pattern.density is not None  # the sparsest that was measured
    assert all((later >= earlier * (1 - 1e-12)).all() for earlier, later in itertools.pairwise(best))
    assert (best[-1] > best[0]).any()


@pytest.mark.parametrize(
    ("search", "axes", "told"),
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
def test_invalid_searches_are_refused_with_their_line(folder, search, axes, told):
    path = write(folder, search, axes)
    with pytest.raises(InputError) as error:
        run.load_evaluator(path)
    assert told in str(error.value)
    assert str(error.value).startswith(f"{path}:")


def test_a_sweep_without_a_search_is_refused(folder):
    with pytest.raises(InputError, match="the specification has no 'search'"):
        run.load_evaluator(folder / "small.yaml")
