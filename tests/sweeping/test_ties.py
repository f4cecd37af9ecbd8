"""Executions that take equally long: one of them is counted, the one of least energy, then the first by name.

Random chips full of ties are compared with plain loops in `tests/fuzz/ties.py`.
"""

import warnings

import numpy as np
import pytest

import dse
from dse.model.cost import power
from dse.model.cost.design import Design
from tests.conftest import write

ONLY_LATENCY = "store: {variables: [latency, dense_latency, speedup]}\n"
BERT = """
name: bert
accelerators: [a100-sxm4-80gb]
workloads: {bert-base: {methods: [magnitude]}}
batch: [32]
dtype: fp16
model: {fidelity: calibrated}
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, steps: 16, scale: log}
"""
NESTED = """
name: nested
accelerators: [./nested_chip.yaml]
workloads:
  ./net: {methods: [dense], patterns: [{list: ["block:16x16"], densities: [0.5, 0.3, 0.2, 0.1, 0.05]}]}
batch: [1, 8, 32]
dtype: fp16
model: {overlap: none}
"""
NESTED_CHIP = """
name: chip
source: a test
units:
  t:
    peak: {fp16: 100 TFLOP/s}
    runs:
      a: {pattern: "block:8x8*"}
      b: {pattern: "block:16x16*"}
memory:
  dram: {capacity: 80 GB, bandwidth: 1 TB/s}
"""
UNIT = {"tensor": "  tensor: {peak: {fp16: %s TFLOP/s}}\n", "vector": "  vector: {peak: {fp16: %s TFLOP/s}}\n"}


def quiet_sweep(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dse.ModelWarning)
        return dse.sweep(path)


@pytest.mark.parametrize("text", [BERT, NESTED], ids=["calibrated kernels", "nested blocks without overlap"])
def test_a_breakdown_has_the_latencies_of_a_sweep_without_one(folder, text):
    """Each sum of a breakdown used to decide ties by roundings of its own, which counted some layers twice and left out others."""
    write(folder / "nested_chip.yaml", NESTED_CHIP)
    whole = quiet_sweep(write(folder / "whole.yaml", text))
    alone = quiet_sweep(write(folder / "alone.yaml", text + ONLY_LATENCY))
    for name in ("latency", "dense_latency", "speedup"):
        np.testing.assert_allclose(whole[name], alone[name], rtol=1e-12)
    for name, dim in (("bound_share", "resource"), ("execution_share", "execution")):
        np.testing.assert_allclose(whole[name].sum(dim), 1.0, rtol=1e-12)
    assert (whole.latency.diff(whole.latency.dims[1]) <= 0).all() or "axes" not in text


@pytest.mark.parametrize("peaks", [(300, 75), (100, 100)])
@pytest.mark.parametrize("overlap", ["full", "none"])
def test_the_order_of_units_in_a_description_changes_nothing(folder, peaks, overlap):
    for name, order in (("a", ("tensor", "vector")), ("b", ("vector", "tensor"))):
        units = "".join(UNIT[unit] % peaks[unit == "vector"] for unit in order)
        rest = "memory: {dram: {capacity: 80 GB, bandwidth: 2 TB/s}}\ncost: {process: 7 nm}\n"
        (folder / f"{name}.yaml").write_text(f"name: {name}\nsource: a test\nunits:\n{units}{rest}")
    text = """
        name: s
        accelerators: [./a.yaml, ./b.yaml]
        workloads: {./net: {methods: all}, llama-2-7b: {methods: [dense], inputs: {phase: decode, sequence: 512}}}
        batch: [1, 16]
        dtype: fp16
        axes: {memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, steps: 7, scale: log}}
        store: {variables: [latency, energy, execution_share, bound_share]}
    """
    found = quiet_sweep(write(folder / "s.yaml", text + f"    model: {{overlap: {overlap}}}\n"))
    one, other = (found.isel(accelerator=n, drop=True) for n in range(2))
    for name in found.data_vars:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-12, atol=1e-15, err_msg=str(name))


def test_energy_of_the_work_depends_on_no_bandwidth_where_all_units_do_the_same(folder):
    """Of two equal units the one whose operations take less energy runs each layer, on every design."""
    units = "".join(UNIT[unit] % 100 for unit in UNIT)
    memory = "memory: {dram: {capacity: 80 GB, bandwidth: 2 TB/s}}\ncost: {process: 7 nm}\n"
    (folder / "chip.yaml").write_text(f"name: chip\nsource: a test\nunits:\n{units}{memory}")
    text = """
        name: s
        accelerators: [./chip.yaml]
        workloads: {resnet50: {methods: [dense]}, bert-base: {methods: [dense]}}
        batch: [1]
        dtype: fp16
        model: {overlap: none}
        axes: {memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, steps: 40, scale: log}}
        store: {variables: [latency, energy, execution_share]}
    """
    found = quiet_sweep(write(folder / "s.yaml", text)).squeeze()
    bandwidth = found["memory.dram.bandwidth"]
    leakage = power.static_power(Design(dse.load_accelerator(folder / "chip.yaml"), {"memory.dram.bandwidth": bandwidth.values}))
    work = found.energy - bandwidth.copy(data=leakage) * found.latency
    np.testing.assert_allclose(work, np.broadcast_to(work[0], work.shape), rtol=1e-9)
    assert found.execution_share.sel(execution="vector.dense").max() < 0.5
