"""Bounds and attainable bytes against literal schedules, which move operands one by one and count them.

A schedule keeps a tile of C, or a strip of B, in a memory of `capacity` bytes, streams the rest, and reads a row of B only where a random
mask has a nonzero. Nothing of it comes from `dse.model`.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dse
from dse.base.yaml_document import parse_document
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.accelerator import Accelerator
from dse.sparsity import count, random_mask
from dse.sparsity.format import default_format
from dse.sparsity.grammar import parse
from dse.workload import Variant

FREE = ("unstructured", "block:4x4", "block:8x2", "vector:8", "block:8x8/2:4")
FIXED = ("2:4", "1:8", "2:4x4", "1:8x8", "8:2:8", "16:2:16", "16:1:32", "3:4/2:4", "1:4/2:4x4")
BYTES = 2  # fp16


def chip(pattern: str, capacity: float) -> Accelerator:
    text = f"""
name: chip
source: a test
units: {{u: {{peak: {{fp16: 1 PFLOP/s}}, runs: {{r: {{pattern: "{pattern}"}}}}}}}}
memory:
  dram: {{capacity: 1 GB, bandwidth: 1 MB/s}}
  l1: {{capacity: {capacity!r} B}}
"""
    document = parse_document(Path("chip.yaml"), text)
    accelerator = document.validate(Accelerator)
    accelerator._document = document
    return accelerator


def keep_c(mask: np.ndarray, a_bytes: float, n: int, capacity: float, height: int, width: int) -> float:
    """Bytes if a tile of height x width partial sums stays; a row of B is read for each column with a nonzero in the tile."""
    if height * width * BYTES + width * BYTES + 2 * a_bytes > capacity:
        return np.inf
    moved = 0.0
    for top in range(0, len(mask), height):
        tile = mask[top : top + height]
        for left in range(0, n, width):
            columns = min(width, n - left)
            moved += BYTES * columns * int(tile.any(axis=0).sum()) + BYTES * columns * len(tile)
    return moved + a_bytes * mask.size * -(-n // width)  # a_bytes: mean over all elements of A, stored or not


def keep_b(mask: np.ndarray, a_bytes: float, n: int, capacity: float, width: int) -> float:
    """Bytes if the needed rows of a strip of B stay while A streams."""
    needed = int(mask.any(axis=0).sum())
    if needed * width * BYTES + width * BYTES + 2 * a_bytes > capacity:
        return np.inf
    return BYTES * needed * n + BYTES * len(mask) * n + a_bytes * mask.size * -(-n // width)


def best_schedule(mask: np.ndarray, a_bytes: float, n: int, capacity: float, stripe: int) -> float:
    heights = sorted({h for h in (1, 2, 4, stripe // 2, stripe, 2 * stripe, 4 * stripe, len(mask)) if 0 < h <= len(mask)})
    widths = sorted({w for w in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, n) if w <= n})
    tiles = [keep_c(mask, a_bytes, n, capacity, height, width) for height in heights for width in widths]
    return min([*tiles, *(keep_b(mask, a_bytes, n, capacity, width) for width in widths)])


cases = st.tuples(
    st.sampled_from([*FREE, *FIXED]), st.sampled_from([32, 64, 100]), st.sampled_from([32, 64, 96]), st.integers(4, 64), st.floats(200, 2e5)
)


def evaluate_case(case: tuple):
    text, m, k, n, capacity = case
    pattern, sparsity = parse(text), 0.75 if text in FREE else None
    masks = [random_mask(pattern, m, k, sparsity, seed=seed) for seed in range(4)]
    density = float(np.mean([mask.mean() for mask in masks]))
    layers = LayerArrays.from_rows([LayerRow(name="l", kind="gemm", m=m, k=k, n=n)])
    variant = Variant("n", layers, "m", pattern, 1 - density, np.array([density]))
    result = dse.evaluate(chip(text, capacity), variant, 1, "fp16", fidelity="capacity").isel(layer=0)
    return result, masks, pattern, n, capacity


@settings(max_examples=25)
@given(cases)
def test_the_best_literal_schedule_is_between_the_bound_and_the_attainable_bytes(case):
    """For every kind of pattern in its default format, at any capacity; means over four masks, with a margin for their variance."""
    result, masks, pattern, n, capacity = evaluate_case(case)
    moved = []
    for mask in masks:
        cost = count(mask, pattern, default_format(pattern))
        a_bytes = (BYTES * cost.elements + cost.metadata_bits / 8) / mask.size
        moved.append(best_schedule(mask, a_bytes, n, capacity, pattern.tile[0]))
    assume(np.all(np.isfinite(moved)))
    literal, bound = float(np.mean(moved)), float(result.bytes_bound)
    assert bound <= literal * 1.03
    assert bound <= float(result.bytes) * (1 + 1e-12)
    assert float(result.bytes) <= 1.4 * literal


@pytest.mark.parametrize("m", [8, 16, 32, 64])
def test_rows_that_share_columns_share_inputs(m):
    """64:2:M, 4096^3, on a unit that gathers columns: tiles of 64 x 500 outputs; A is read for each of nine strips."""
    schedule = 0.0
    for left in range(0, 4096, 500):
        width = min(500, 4096 - left)
        schedule += 64 * (4096 // m * 4 + 64) * width * BYTES
    pattern = parse(f"64:2:{m}")
    layers = LayerArrays.from_rows([LayerRow(name="l", kind="gemm", m=4096, k=4096, n=4096)])
    variant = Variant("n", layers, "m", pattern, 1 - 2 / m, np.array([2 / m]))
    for runs in ("2:4", "64:2:*"):
        result = dse.evaluate(chip(runs, 65536.0), variant, 1, "fp16", fidelity="capacity").isel(layer=0)
        weights = 2 * 4096**2 * 2 / m + 64 * (4096 / m) * 4 * np.ceil(np.log2(m)) / 8 + 4096**2 * 2 / m * 2 / 8
        assert result.bytes_bound <= schedule + 9 * weights
        assert result.bytes <= 1.02 * (schedule + 9 * weights)
