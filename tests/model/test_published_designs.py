"""Descriptions of proposed designs against what their papers publish."""

import numpy as np
import pytest

import dse
from dse.model.memory_levels import memory_levels
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.workload import Variant

# Thousands of cycles by the density of A and of B, 4096^3 in fp16: Wang et al., ISCA 2021, fig. 21, as read off in the artifact of
# Sparseloop (micro22-sparseloop-artifact, fig13_dstc_setup/scripts/ground_truth.yaml).
DENSE = 4600
CYCLES = {
    (0.9, 1.0): 4163, (0.7, 1.0): 3300, (0.5, 1.0): 2690, (0.3, 1.0): 1930,
    (1.0, 0.4): 2500, (0.9, 0.4): 2300, (0.7, 0.4): 1820, (0.5, 0.4): 1480, (0.3, 0.4): 1100,
}  # fmt: skip


def predicted(weights: float, activations: float, fidelity: str) -> float:
    """Share of the time of a dense product at the speed of light. A full operand counts as pruned of next to nothing."""
    row = LayerRow(name="l", kind="gemm", m=4096, k=4096, n=4096, activation_density=activations)
    variant = Variant("n", LayerArrays.from_rows([row]), "m", parse("unstructured"), 0.5, np.array([min(weights, 1 - 1e-9)]))
    found = dse.evaluate("dstc-like", variant, 1, "fp16", fidelity=fidelity)
    return float(found.latency.sum()) / (2 * 4096**3 / 125e12)


def test_no_pair_of_densities_is_faster_than_the_dual_side_core_at_the_speed_of_light():
    for densities, cycles in CYCLES.items():
        assert predicted(*densities, "sol") <= cycles / DENSE


def test_the_efficiency_of_the_dual_side_core_is_the_mean_of_what_is_published():
    """One constant: right on average, 30% too fast where both operands are sparse and 33% too slow where one is nearly full."""
    off = np.log([predicted(*densities, "r3") / (cycles / DENSE) for densities, cycles in CYCLES.items()])
    assert np.exp(off.mean()) == pytest.approx(1, abs=0.01)
    assert np.exp(np.abs(off).max()) < 1.45
    ideal = [predicted(*densities, "sol") / (cycles / DENSE) for densities, cycles in CYCLES.items()]
    assert np.exp(np.log(ideal).mean()) < 0.76


def test_the_register_file_of_the_sparse_tensor_core_is_inside_its_buffer():
    """What crosses the buffer depends on it, as far as published: 8 KiB, no bandwidth."""
    chip = dse.load_accelerator("stc-like")
    assert memory_levels(chip, "capacity")[1].reuse_capacity == "memory.registers.capacity"
    assert chip.value("memory.registers.capacity") == 4 * 2048
    variant = Variant(
        "n", LayerArrays.from_rows([LayerRow(name="l", kind="gemm", m=512, k=512, n=512)]), "m", parse("dense"), 0.0, np.ones(1)
    )
    found = dse.evaluate(chip, variant, 1, "int8", fidelity="capacity")
    assert found.traffic.values[0, 1] > found.traffic.values[0, 0]
    assert "'registers' has no bandwidth" in found.notes
