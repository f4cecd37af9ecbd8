"""Variants that differ in labels or accuracy only are evaluated once, and no result shows it."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from dse.sparsity.grammar import parse
from dse.sweeping import job, run
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.job import group_equal_variants
from dse.sweeping.plan_builder import load_plan


@pytest.fixture
def variants(net):
    pruned = net.variants[0]
    relabelled = replace(pruned, method="other", nominal_sparsity=0.51, accuracy=1.0, metric="F1", densities_from="elsewhere")
    return [pruned, relabelled, net.dense, net.variants[1], relabelled]


def test_variants_of_the_same_work_are_one(variants):
    assert group_equal_variants(variants) == [(0, 1, 4), (2,), (3,)]


@pytest.mark.parametrize(
    "change",
    [
        {"pattern": parse("2:4")},
        {"density": np.array([0.5])},
        {"stored_elements": {parse("2:4"): np.array([1.0])}},
        {"activation_density": np.array([0.5])},
        {"row_spread": np.array([0.5])},
        {"touched_columns": np.array([0.5])},
        {"union_densities": {4: np.array([0.5])}},
        {"run_on": "phase=decode"},
        {"runtime": "eager"},
        {"workload": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_variants_of_other_work_are_not(variants, change):
    assert len(group_equal_variants([variants[0], replace(variants[0], **change)])) == 2


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
@pytest.mark.parametrize("fidelity", ["sol", "capacity", "calibrated"])
def test_evaluating_equal_variants_once_changes_no_result(folder, monkeypatch, fidelity):
    path = folder / "twice.yaml"
    path.write_text(
        "name: twice\naccelerators: [a100-sxm4-80gb]\nbatch: [1, 8]\ndtype: fp16\n"
        "workloads: {bert-base: {methods: [obert_qqp, obert, dense, obert_mnli, magnitude]}}\n"
        f"model: {{fidelity: {fidelity}}}\naxes: {{memory.dram.bandwidth: [1 TB/s, 2 TB/s]}}\n"
    )
    plan = load_plan(path)
    compiled = CompiledSweep.of_plan(plan)
    assert len(compiled.jobs) == 2 * (1 + 3 + 1 + 1)  # batches x (baseline, obert, dense, magnitude)
    once = run.evaluate(compiled)
    monkeypatch.setattr(job, "_work_key", id)
    every = CompiledSweep.of_plan(plan)
    assert len(every.jobs) == 2 * (1 + 9 + 1 + 1)
    xr.testing.assert_identical(once.drop_attrs(deep=False), run.evaluate(every).drop_attrs(deep=False))
    assert list(once.coords) == list(run.evaluate(every).coords)
