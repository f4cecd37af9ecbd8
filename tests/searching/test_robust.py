"""Searches by quantiles over uncertain efficiencies, where the efficiency is an axis."""

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from dse.searching import run

CHIP = """
name: chip
source: a test
units:
  unit:
    peak: {fp16: 1 TFLOP/s}
    runs:
      bitmask: {pattern: unstructured, format: {kind: bitmask}, efficiency: 0.25}
memory:
  dram: {capacity: 80 GB, bandwidth: 100000 TB/s}
"""
NETWORK = {
    "workload.yaml": "name: net\ntask: t\nmetric: {name: top1}\nsources: [a test]\n",
    "layers.csv": "name,kind,m,k,n\na,gemm,1000,1000,1000\n",
    "accuracy.csv": "method,pattern,sparsity,value,dense_value,source,kind\nmp,unstructured,0.9,76,76,a test,measured\n",
    "variants/pruned.csv": "method,pattern,sparsity,layer,nnz\nmp,unstructured,0.9,a,100000\n",
}
SEARCH = """
name: robust
accelerators: [./chip.yaml]
workloads: {./net: {methods: all}}
batch: 1
dtype: fp16
model: {fidelity: r3}
axes:
  units.unit.runs.bitmask.efficiency: [0.25, 0.5, 1.0]
search:
  maximize: [performance]
  sampler: exhaustive
"""
SPREAD, SAMPLES = 0.5, 1000
MAX_SPEEDUP = 10  # one weight in ten is left, and the bandwidth is practically infinite


@pytest.fixture
def spec(tmp_path) -> Path:
    for name, text in {"chip.yaml": CHIP, "search.yaml": SEARCH, **{f"net/{name}": text for name, text in NETWORK.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "search.yaml"


@pytest.mark.parametrize("quantile", [0.1, 0.6, 0.9])
def test_sampled_efficiencies_of_an_axis_never_exceed_1(spec, quantile):
    """Performance is 10 E, with E the quantile of a log-normal efficiency about the value of the axis, at most 1; dense runs reach 1."""
    spec.write_text(spec.read_text() + f"  robust: {{spread: {SPREAD}, quantile: {quantile}, samples: {SAMPLES}}}\n")
    evaluator = run.load_evaluator(spec)
    performance = evaluator.evaluate(evaluator.space.grid_designs(0, 3))["performance"]
    factor = math.exp(SPREAD * NormalDist().inv_cdf(quantile))
    expected = [max(1.0, MAX_SPEEDUP * min(1.0, efficiency * factor)) for efficiency in (0.25, 0.5, 1.0)]
    assert performance.max() <= MAX_SPEEDUP * (1 + 1e-12)
    np.testing.assert_allclose(performance, expected, rtol=0.1)  # of the quantile of 1000 samples


def test_without_uncertainty_performance_is_proportional_to_the_efficiency(spec):
    evaluator = run.load_evaluator(spec)
    performance = evaluator.evaluate(evaluator.space.grid_designs(0, 3))["performance"]
    np.testing.assert_allclose(performance, [2.5, 5.0, 10.0], rtol=1e-9)
