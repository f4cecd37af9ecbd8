"""The share of inputs that a layer reads: random masks, brute force over convolutions, counted masks, measured kernels."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base.input_file import read_rows
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import load_measurements
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity import random_mask
from dse.sparsity.columns import needed_share
from dse.sparsity.grammar import parse
from dse.workload import Variant
from tests.sweeping.test_capacity import described

MEASURED = Path(__file__).parents[3] / "shared" / "data"
BOOST = 1.02  # clock of an RTX 4090 over the 2.52 GHz of its data sheet

FREE = ("unstructured", "block:4x4", "block:8x2", "vector:8", "block:8x8/2:4", "block:8x8/4:2:8", "row", "column")
FIXED = ("2:4", "1:8", "2:4x4", "1:10x8", "8:2:8", "16:1:20", "16:2:10", "3:4/2:4", "1:3/block:2x2", "2:5/2:4x4", "2:4/block:4x2")


@pytest.mark.parametrize("shape", [(32, 64), (30, 50)])
@pytest.mark.parametrize("text", [*FREE, *FIXED])
def test_the_expected_share_of_columns_of_random_masks(text, shape):
    """Within four standard errors of the mean over 16 masks, plus 0.015 because tiles are assumed independent."""
    pattern, sparsity = parse(text), 0.85 if text in FREE else None
    masks = [random_mask(pattern, *shape, sparsity, seed=seed) for seed in range(16)]
    shares = np.array([mask.any(axis=0).mean() for mask in masks])
    expected = needed_share(pattern, *map(float, shape), np.mean([mask.mean() for mask in masks]))
    assert abs(expected - shares.mean()) <= 4 * shares.std() / np.sqrt(16) + 0.015


def test_the_expected_share_of_columns_by_hand():
    """V:N:M by hand: 4 of 100 columns in each of 16 blocks of 128 rows."""
    share = needed_share(parse("128:2:100"), 2048.0, 5000.0, np.float64(0.02))
    assert share == pytest.approx(1 - (1 - 4 / 100) ** 16, rel=1e-12)
    assert needed_share(parse("unstructured"), 3.0, 10.0, np.float64(0.1)) == pytest.approx(1 - 0.9**3)


def bytes_of(variant: Variant, **options) -> float:
    chip = described("  dram: {capacity: 1 GB, bandwidth: 1 TB/s}")
    return float(dse.evaluate(chip, variant, **options).bytes.sum())


def one_layer(row: dict, pattern: str, density: float, counted: float | None = None) -> Variant:
    layers = LayerArrays.from_rows([LayerRow.model_validate({"name": "l"} | row)])
    touched_columns = None if counted is None else np.array([counted])
    return Variant("n", layers, "m", parse(pattern), 1 - density, np.array([density]), touched_columns=touched_columns)


def test_counted_columns_replace_expected_ones():
    row = {"kind": "gemm", "m": 8, "k": 1000, "n": 50}
    before, after = (bytes_of(one_layer(row, "unstructured", 0.5, counted)) for counted in (None, 0.25))
    assert before - after == pytest.approx(2 * 1000 * 50 * (1 - 0.5**8 - 0.25))
    grouped = {"kind": "conv", "m": 8, "k": 10, "n": 49, "groups": 2, "input_elements": 980}
    assert bytes_of(one_layer(grouped, "unstructured", 0.5, 0.1)) == bytes_of(
        one_layer(grouped, "unstructured", 0.5)
    )  # counted over both groups together


def test_every_input_is_read_with_inputs_all_or_a_dense_layer():
    row = {"kind": "gemm", "m": 8, "k": 1000, "n": 50}
    all_inputs = 2 * (1000 * 50 + 8 * 50)
    assert bytes_of(one_layer(row, "unstructured", 0.01), inputs="all") > all_inputs > bytes_of(one_layer(row, "unstructured", 0.01))
    assert bytes_of(one_layer(row, "unstructured", 1.0)) == all_inputs + 2 * 8 * 1000


@pytest.mark.parametrize(
    ("kernel", "stride", "side", "pad"), [(1, 1, 8, 0), (3, 1, 7, 1), (3, 1, 14, 1), (3, 2, 14, 1), (4, 4, 16, 0), (5, 1, 9, 2)]
)
@pytest.mark.parametrize("density", [0.02, 0.1])
def test_the_inputs_that_convolutions_read_match_brute_force(kernel, stride, side, pad, density):
    """An input element is read if a nonzero weight multiplies it for some output. 'sol' counts no more, and at least 60%."""
    rng, channels, filters = np.random.default_rng(0), 40, 8
    outputs = (side + 2 * pad - kernel) // stride + 1
    read = np.array([_read_share(rng.random((filters, channels, kernel, kernel)) < density, side, stride, pad, outputs) for _ in range(30)])
    row = {"kind": "conv", "m": filters, "k": channels * kernel**2, "n": outputs**2, "input_elements": channels * side**2}
    sparse = bytes_of(one_layer(row, "unstructured", density)) - bytes_of(
        one_layer(row | {"input_elements": 1e-9}, "unstructured", density)
    )
    assert 0.6 * read.mean() <= sparse / (2 * channels * side**2) <= read.mean() + 4 * read.std() / np.sqrt(len(read))


def _read_share(mask: np.ndarray, side: int, stride: int, pad: int, outputs: int) -> float:
    touched = np.zeros((mask.shape[1], side + 2 * pad, side + 2 * pad), bool)
    for channel, y, x in zip(*np.nonzero(mask.any(axis=0)), strict=True):
        touched[channel, y : y + stride * outputs : stride, x : x + stride * outputs : stride] = True
    return float(touched[:, pad : pad + side, pad : pad + side].mean())


def measured() -> list[Measurement]:
    """Every published kernel, sparse and dense, whose format some description lists."""
    rows = [row for path in sorted((MEASURED / "measured").glob("*.csv")) for row in load_measurements(path).rows]
    for name in ("a100-pcie-80gb_2to4.csv", "rtx4090_2to4.csv", "rtx3090_batch1.csv"):
        rows += [row for _, row in read_rows(MEASURED / "silicon" / name, Measurement)]
    kernels = [kernel for row in rows for kernel in (row, row.dense_baseline) if kernel is not None]
    return [row for row in kernels if row.kernel != "MACKO"]  # its format of 4-bit distances needs fewer bytes than CSR


@pytest.mark.skipif(not (MEASURED / "silicon").exists(), reason="published measurements are not available")
def test_no_measured_kernel_is_faster_than_the_speed_of_light():
    """None of 13,000 kernels. Data that fits on chip is not counted: these kernels were timed without flushing caches.

    Compute-bound kernels of an RTX 4090 exceed its data sheet by up to 1.8% because its clock is boosted.
    """
    groups = defaultdict(list)
    for row in measured():
        groups[row.device, row.dtype, row.pattern].append(row)
    faster, compared = [], 0
    for (device, dtype, pattern), rows in groups.items():
        chip = dse.load_accelerator(device)
        layers = LayerArrays.from_rows([LayerRow(name=str(n), kind="gemm", m=row.m, k=row.k, n=row.n) for n, row in enumerate(rows)])
        variant = Variant("n", layers, "m", pattern, 0.5, np.array([row.stored_density for row in rows]))
        result = dse.evaluate(chip, variant, 1, dtype)
        on_chip = sum(level.capacity.value for name, level in chip.memory.items() if name != chip.outermost and level.capacity)
        latency = result.latency / (BOOST if device == "rtx4090" else 1.0)
        bound = np.where(result.bound == chip.outermost, result.latency * (1 - on_chip / result.bytes), latency)
        time = np.array([row.time_ms / 1e3 for row in rows])
        faster += [(str(row), float(b / t)) for row, b, t in zip(rows, bound, time, strict=True) if b > t]
        compared += len(rows)
    assert compared > 13_000
    assert not faster
