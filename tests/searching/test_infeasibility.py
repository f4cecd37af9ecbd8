"""Searches without feasible designs end when that is proved, and a proof is right."""

import numpy as np
import pytest

import dse
from dse.base.errors import InfeasibleError
from dse.cli import entry
from dse.searching import infeasibility
from dse.searching.infeasibility import check_infeasibility
from tests.searching.search_specs import AXES, CONTINUOUS, make_evaluator, write


def is_proved(evaluator) -> bool:
    try:
        check_infeasibility(evaluator)
    except InfeasibleError:
        return True
    return False


@pytest.mark.parametrize("axes", [AXES, CONTINUOUS], ids=["grid", "continuous"])
def test_no_design_is_feasible_where_that_is_proved(folder, axes):
    """Limits around the attainable ones: no random design meets what is proved to be infeasible, and most infeasible limits are proved."""
    random = np.random.default_rng(0)
    sampled = make_evaluator(folder, "maximize: [performance]\nconstraints: [area <= 1 mm^2, power <= 1 W]", axes)
    designs = sampled.space.random_designs(3000, random)
    results = sampled.evaluate(designs)
    proved = infeasible = 0
    for _ in range(8):
        area, performance = (float(np.quantile(results[name], random.uniform(0, 1))) for name in ("area", "performance"))
        is_feasible = (results["area"] <= area) & (results["performance"] >= performance)
        limits = f"constraints: ['area <= {area * 1e6!r} mm^2', 'performance >= {performance!r}']"
        evaluator = make_evaluator(folder, f"maximize: [performance]\n{limits}", axes)
        infeasible += not is_feasible.any()
        if is_proved(evaluator):
            proved += 1
            assert not is_feasible.any()
    assert infeasible > 0
    assert proved >= infeasible / 2


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ("[area <= 100 mm^2, power <= 300 W]", r"'area <= 100 mm\^2' cannot be met, it is exceeded by at least \d+"),
        ("[performance >= 1000]", "'performance >= 1000' cannot be met, it is exceeded by at least 9"),
        ("[power <= 195 W, performance >= 3.5]", "'power <= 195 W' and 'performance >= 3.5' cannot be met together"),
    ],
)
def test_the_constraints_that_cannot_be_met_are_named(folder, constraints, message, capsys):
    path = write(folder, f"constraints: {constraints}\ntrials: 100000")
    with pytest.raises(InfeasibleError, match=message):
        dse.search(path)
    assert entry.main(["search", str(path), "-o", str(folder / "out")]) == 3
    assert "no design is feasible" in capsys.readouterr().err


def test_the_least_excess_is_attained(folder):
    """By the design with the least number on each axis."""
    evaluator = make_evaluator(folder, "constraints: [area <= 100 mm^2]")
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    least = evaluator.score(designs)[1].min()
    with pytest.raises(InfeasibleError, match=f"by at least {100 * least:.3g}% of its bound"):
        check_infeasibility(evaluator)


@pytest.mark.parametrize("constraint", ["area <= 500 mm^2", "speedup >= 20", "performance / area >= 1e9", "area >= 390 mm^2"])
def test_nothing_is_proved_where_designs_are_feasible_or_directions_unknown(folder, constraint):
    assert not is_proved(make_evaluator(folder, f"constraints: ['{constraint}']"))


@pytest.mark.parametrize("axis", ["cost.fixed: {from: 10 mm^2, to: 100 mm^2}", "units.tensor.clock: {from: 1 GHz, to: 2 GHz}"])
def test_nothing_is_proved_with_numbers_of_unknown_effect(folder, axis):
    assert not is_proved(make_evaluator(folder, "constraints: [area <= 1 mm^2]", f"\n  {axis}\n"))
    assert infeasibility.OTHER_NUMBER.fullmatch("overhead.launch")
