"""Points of results as sides: what is explained is what the results hold."""

import pytest

import dse
from dse.explaining.explain import explain_sides
from dse.explaining.points import side_of_point
from dse.sweeping.provenance import rebuild_plan


def test_the_values_of_two_points_are_explained(folder, monkeypatch):
    monkeypatch.chdir(folder)
    results = dse.sweep({
        "name": "points", "accelerators": ["./chip.yaml"], "workloads": {"./net": {"methods": ["semi", "pruned"]}}, "dtype": "fp16",
        "batch": [1, 16], "axes": {"memory.dram.bandwidth": ["1 TB/s", "3 TB/s"]},
    })  # fmt: skip
    plan = rebuild_plan(results)
    a = results.isel(accelerator=0, batch=0, dtype=0, variant=0, **{"memory.dram.bandwidth": 0})
    b = results.isel(accelerator=0, batch=1, dtype=0, variant=1, **{"memory.dram.bandwidth": 1})
    sides = side_of_point(a, plan), side_of_point(b, plan)
    for quantity in ("latency", "speedup"):
        result = explain_sides(*sides, quantity=quantity)
        assert (result.value_a, result.value_b) == pytest.approx((float(a[quantity]), float(b[quantity])))
        assert sum(part.value for part in result.parts) == pytest.approx(result.difference)
        assert {part.key for part in result.parts} == {"memory.dram.bandwidth", "batch", "variant"}
    with pytest.raises(dse.InputError, match="the dataset has 2 values of 'batch'; select one"):
        side_of_point(results.isel(accelerator=0, dtype=0, variant=0), plan)
