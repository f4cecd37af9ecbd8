"""How an execution stores the weights of a layer: as its pattern guarantees, or as counted from its masks."""

from dataclasses import replace

import numpy as np
import pytest

import dse
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import UNSTRUCTURED, Block
from dse.workload import Variant

M, K = 64, 128


def network(mask: np.ndarray, *counted: str, experts: int = 1) -> Variant:
    """One layer with a mask. For the patterns in `counted`, its stored elements are counted: blocks by a loop, others by their formula."""
    rows = [LayerRow(name="fc", kind="gemm", m=mask.shape[0], k=mask.shape[1], n=32, experts=experts)]
    stored = {pattern: np.array([elements(mask, pattern)]) for pattern in map(parse, counted)}
    return Variant("net", LayerArrays.from_rows(rows), "traced", UNSTRUCTURED, 0.5, np.array([mask.mean()]), stored_elements=stored)


def elements(mask: np.ndarray, pattern) -> float:
    if not isinstance(pattern, Block):
        return float(pattern.stored_elements(*mask.shape, mask.mean()))
    rows, columns = pattern.tile
    blocks = [mask[i : i + rows, j : j + columns] for i in range(0, len(mask), rows) for j in range(0, mask.shape[1], columns)]
    return float(sum(block.any() for block in blocks) * rows * columns)


def blocky(side: int) -> np.ndarray:
    """A quarter of the blocks, each half full."""
    mask = np.kron(np.random.default_rng(0).random((M // side, K // side)) < 0.25, np.ones((side, side), bool))
    return mask & (np.indices(mask.shape).sum(axis=0) % 2 == 0)


def run(chip, variant: Variant, **options):
    return dse.evaluate(chip, variant, batch=4, dtype="fp16", **options).isel(layer=0)


def test_a_mask_runs_as_the_blocks_that_it_occupies(chip):
    mask = blocky(4)
    result = run(chip, network(mask, "block:4x4"))
    kept = elements(mask, parse("block:4x4"))
    assert result.execution == "tensor.blocks"
    assert kept < M * K / 2
    metadata = 4 * (kept / 16 + M / 4 + 1)  # an index for each block and a pointer for each row of blocks
    read = 1 - (1 - mask.mean()) ** M  # share of the inputs: their column of a random mask has a nonzero
    assert result.bytes.item() == pytest.approx(2 * kept + metadata + 2 * 32 * 4 * (K * read + M))
    assert run(chip, network(mask)).execution == "vector.csr"  # without counts, the blocks are unknown


def test_a_family_uses_the_block_size_that_stores_least(chip):
    mask = blocky(8)
    small, large, both = (run(chip, network(mask, *sizes)) for sizes in (["block:4x4"], ["block:8x8"], ["block:4x4", "block:8x8"]))
    assert both.latency == min(small.latency, large.latency)


@pytest.mark.parametrize("fallback", [False, True])
def test_blocks_that_leave_nothing_out_do_not_change_the_execution(chip, fallback):
    """A mask has the same speedup whether or not its blocks were counted."""
    mask = np.random.default_rng(0).random((M, K)) < 0.5
    counted, labelled = (run(chip, network(mask, *sizes), dense_fallback=fallback) for sizes in (["block:4x4", "block:16x16"], []))
    assert counted.execution == labelled.execution
    assert counted.latency == labelled.latency


def test_blocks_padded_beyond_the_matrix_are_not_used(chip):
    mask = np.zeros((5, 5), bool)
    mask[:, 0] = True
    mask[0] = True
    assert elements(mask, parse("block:4x4")) > mask.size
    assert run(chip, network(mask, "block:4x4")).execution == "vector.csr"


def test_a_layer_that_satisfies_a_pattern_runs_as_any_pattern_that_contains_it(chip):
    assert run(chip, network(np.tile([True, False, False, False], (M, K // 4)), "1:4")).execution == "tensor.sparse_24"
    assert run(chip, network(np.tile([True, True, True, False], (M, K // 4)), "3:4")).execution == "vector.csr"


def test_layers_that_were_not_counted_run_as_their_pattern_allows(chip):
    variant = network(blocky(4), "block:4x4")
    unknown = replace(variant, stored_elements={parse("block:4x4"): np.array([np.nan])})
    assert run(chip, unknown).execution == "vector.csr"


def labelled(text: str, density: float | None = None) -> Variant:
    variant = network(np.ones((M, K), bool))
    pattern = parse(text)
    kept = pattern.density if density is None else density
    return replace(variant, pattern=pattern, density=np.array([kept]))


@pytest.mark.parametrize(("text", "gain"), [("64:2:8", 4), ("64:2:16", 8), ("64:1:8", 4)])
def test_a_24_unit_gathers_the_columns_of_wider_groups(edited, folder, text, gain):
    """V:2:M on 2:4: the gathered columns are a matrix of 4/M of the width, which runs twice as fast as dense: M/2."""
    fast = edited("chip.yaml", ("bandwidth: 1 TB/s", "bandwidth: 1000 TB/s"))
    chip = dse.load_accelerator(fast)
    result, dense = (dse.evaluate(chip, variant, batch=4096).isel(layer=0) for variant in (labelled(text), labelled("dense")))
    assert result.execution == "tensor.sparse_24"
    assert dense.latency.item() / result.latency.item() == pytest.approx(gain)


def test_gathered_columns_are_stored_with_their_indices(chip):
    result = run(chip, labelled("64:2:8"))
    bits = (M / 64) * (K / 8) * 4 * 3 + M * K / 4 * 2
    read = 1 - (1 - 4 / 8) ** (M / 64)  # share of the inputs: each block of 64 rows chooses 4 of 8 columns
    assert result.bytes.item() == pytest.approx(2 * M * K / 4 + bits / 8 + 2 * 32 * 4 * (K * read + M))


@pytest.mark.parametrize("text", ["row", "column"])
def test_pruned_rows_and_columns_leave_a_smaller_matrix_for_any_unit(chip, text):
    result, dense = run(chip, labelled(text, 0.25)), run(chip, labelled("dense"))
    assert result.execution == "tensor.dense"
    assert result.flops.item() == dense.flops.item() / 4
    moved = M if text == "row" else K  # fewer outputs written, or fewer inputs read
    assert dense.bytes.item() - result.bytes.item() == 2 * (M * K + 32 * 4 * moved) * 3 / 4


@pytest.mark.parametrize("text", ["3:4/2:4", "1:4x32", "block:32x32/2:4", "2:4/block:4x4", "64:2:*"])
def test_a_pattern_without_hardware_needs_one_line_of_yaml(edited, text):
    """It runs with the gain that its stored FLOPs allow."""
    own = text.replace("*", "16")
    chip = dse.load_accelerator(edited("chip.yaml", ("sparse_24: {pattern: 2:4, gain: 2}", f'new: {{pattern: "{text}"}}')))
    free = parse(own).density is None
    result = run(chip, labelled(own, 0.25 if free else None))
    assert result.execution == "tensor.new"
    assert result.flops.item() == pytest.approx(2 * M * K * 32 * 4 * (0.25 if free else parse(own).density))


def test_a_mask_without_empty_blocks_stores_all_of_them(edited):
    """A 2:8 mask is 2:4 in every block of 32 x 32 and leaves no block empty; a mask of pruned blocks does."""
    chip = dse.load_accelerator(edited("chip.yaml", ("sparse_24: {pattern: 2:4, gain: 2}", 'nested: {pattern: "block:32x32/2:4"}')))
    nm_mask, block_mask = (run(chip, labelled(text, 0.25)) for text in ("2:8", "block:32x32/2:4"))
    assert nm_mask.execution == block_mask.execution == "tensor.nested"
    assert nm_mask.flops.item() == 2 * block_mask.flops.item() == M * K * 32 * 4
    assert run(chip, labelled("block:64x32/2:4", 0.25)).flops == block_mask.flops
