"""Manufacturing cost: cases by hand and laws."""

from math import exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.model.cost.design import Design
from dse.model.cost.manufacturing import die_cost, die_yield, dies_per_wafer, interposer_cost, manufacturing_cost, manufacturing_figures

areas = st.floats(1e-6, 2e-3)


def test_a_die_of_100_mm2_by_hand():
    """300 mm wafers: 706.9 - 66.6 dies; 0.1 defects per cm^2 in clusters of 3: (1 + 0.1/3)^-3 = 90.6%; 7 nm: 9346 USD a wafer."""
    dies, good = pi * 150**2 / 100 - pi * 300 / sqrt(200), (1 + 0.1 / 3) ** -3
    assert dies_per_wafer(100e-6) == pytest.approx(dies, rel=1e-9)
    assert die_yield(100e-6) == pytest.approx(good, rel=1e-9)
    assert die_cost(100e-6, 7e-9) == pytest.approx(9346 / (dies * good), rel=1e-9)


def test_the_interposer_by_hand():
    """An A100: 826 mm^2 and 2039 / 460.8 stacks of 110 mm^2 on a wafer of 1937 USD; a T4 has GDDR6 and none."""
    a100 = Design(dse.load_accelerator("a100-sxm4-80gb"))
    size = 826 + 2039 / 460.8 * 110
    dies = pi * 150**2 / size - pi * 300 / sqrt(2 * size)
    assert interposer_cost(a100, 826e-6) == pytest.approx(1937 / dies, rel=1e-6)
    assert interposer_cost(Design(dse.load_accelerator("t4")), 545e-6) == 0


@given(areas, st.floats(1, 10))
def test_larger_dies_cost_more_than_in_proportion_and_yield_less(area, factor):
    assert die_cost(area * factor, 7e-9) >= factor * die_cost(area, 7e-9) * (1 - 1e-12)
    assert die_yield(area * factor) <= die_yield(area) <= 1


@given(areas)
def test_clustered_defects_spare_more_dies_than_random_ones(area):
    """Poisson is the limit without clusters: exp(-A D)."""
    assert die_yield(area) >= exp(-area * manufacturing_figures().defects_per_m2.value) * (1 - 1e-12)


def test_a_die_larger_than_a_wafer_costs_infinitely_much():
    assert die_cost(0.1, 7e-9) == np.inf


def test_a_sweep_stores_the_cost_of_each_design():
    spec = {
        "name": "cost", "accelerators": ["a100-sxm4-80gb"], "workloads": {"resnet50": {"methods": ["dense"]}}, "dtype": "fp16",
        "axes": {"memory.l2.capacity": ["40 MB", "80 MB"]}, "store": {"variables": ["latency", "cost_usd"]},
    }  # fmt: skip
    cost = dse.sweep(spec).cost_usd
    a100 = dse.load_accelerator("a100-sxm4-80gb")
    assert cost.dims == ("accelerator", "memory.l2.capacity")
    for index, capacity in enumerate((40e6, 80e6)):
        expected = manufacturing_cost(Design(a100, {"memory.l2.capacity": np.array([capacity])}))
        assert float(cost[0, index]) == pytest.approx(float(expected[0]), rel=1e-9)
    assert cost[0, 1] > cost[0, 0]
    assert cost.attrs["units"] == "USD"
    assert "assumed" in cost.attrs["assumptions"]
