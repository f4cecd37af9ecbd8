"""Properties of a run beyond its pattern: tiles, gating, activations and decoder."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base.yaml_document import parse_document
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.accelerator import Accelerator
from dse.sparsity import random_mask
from dse.sparsity.grammar import parse
from dse.workload import Variant

M, K, N = 256, 512, 128
DENSE_FLOPS, PEAK, BANDWIDTH = 2.0 * M * K * N, 1e12, 1e15  # bound by compute, unless a test says otherwise


def chip(run: str, bandwidth: float = BANDWIDTH) -> Accelerator:
    text = f"""
name: chip
source: a test
units:
  u:
    peak: {{fp16: {PEAK} FLOP/s}}
    runs:
      r: {{{run}}}
memory:
  dram: {{bandwidth: {bandwidth} B/s}}
"""
    document = parse_document(Path("made.yaml"), text)
    accelerator = document.validate(Accelerator)
    accelerator._document = document
    return accelerator


def network(pattern: str, density: float, activations: float = 1.0, kind: str = "gemm", **sizes: float) -> Variant:
    row = LayerRow(name="fc", kind=kind, m=M, k=K, n=N, input_elements=K * N, activation_density=activations).model_copy(update=sizes)
    return Variant("net", LayerArrays.from_rows([row]), "test", parse(pattern), 1 - density, np.array([density]))


def run(accelerator: Accelerator, variant: Variant, **options):
    return dse.evaluate(accelerator, variant, **options).isel(layer=0)


def test_gating_saves_bytes_and_energy_but_no_time():
    skipped, gated = (
        run(chip(f"pattern: unstructured, format: {{kind: bitmask}}, zeros: {how}"), network("unstructured", 0.25))
        for how in ("skipped", "gated")
    )
    assert skipped.latency == pytest.approx(DENSE_FLOPS / 4 / PEAK)
    assert gated.latency == pytest.approx(DENSE_FLOPS / PEAK)
    assert gated.bytes == skipped.bytes == 2 * (M * K / 4 + K * N + M * N) + M * K / 8
    assert (skipped.gated_flops, gated.gated_flops) == (0, 0.75 * DENSE_FLOPS)


@pytest.mark.parametrize(("pattern", "density"), [("unstructured", 0.01), ("block:4x4", 0.05), ("block:2x8", 0.02)])
def test_tiles_that_a_random_mask_leaves_empty_are_skipped(pattern, density):
    result = run(chip("pattern: unstructured, format: {kind: bitmask}, tile: 8x16"), network(pattern, density))
    tiles = [random_mask(pattern, M, K, 1 - density, seed).reshape(M // 8, 8, K // 16, 16).any(axis=(1, 3)).mean() for seed in range(200)]
    assert result.latency * PEAK / DENSE_FLOPS == pytest.approx(np.mean(tiles), abs=4 * np.std(tiles) / np.sqrt(200))


def test_blocks_of_whole_tiles_are_skipped_exactly_and_counted_tiles_replace_expected_ones():
    accelerator = chip("pattern: unstructured, format: {kind: bitmask}, tile: 8x16")
    assert run(accelerator, network("block:16x16", 0.25)).latency == pytest.approx(DENSE_FLOPS / 4 / PEAK)
    assert run(accelerator, network("2:4", 0.5)).latency == pytest.approx(DENSE_FLOPS / PEAK)  # no tile is empty
    counted = network("unstructured", 0.25)
    counted.stored_elements[parse("block:8x16")] = np.array([0.4 * M * K])
    assert run(accelerator, counted).latency == pytest.approx(0.4 * DENSE_FLOPS / PEAK)


@given(st.floats(0.05, 0.95), st.floats(0.05, 1))
def test_zeros_of_two_operands_are_independent(weights, activations):
    variant = network("unstructured", weights, activations)
    both = run(chip("pattern: unstructured, activations: {}"), variant)
    assert both.latency == pytest.approx(weights * activations * DENSE_FLOPS / PEAK)
    capped = run(chip("pattern: unstructured, gain: 3, activations: {}"), variant)
    assert capped.latency == pytest.approx(max(weights * activations, 1 / 3) * DENSE_FLOPS / PEAK)
    gated = run(chip("pattern: unstructured, activations: {zeros: gated}"), variant)
    assert gated.latency == pytest.approx(weights * DENSE_FLOPS / PEAK)
    assert gated.gated_flops == pytest.approx(weights * (1 - activations) * DENSE_FLOPS, abs=1e-9 * DENSE_FLOPS)


def test_structured_activations_use_the_sparsest_pattern_that_holds_them():
    accelerator = chip('pattern: "4:8", activations: {patterns: ["2:8", "4:8"]}')
    shares = [run(accelerator, network("4:8", 0.5, density)).latency * PEAK / DENSE_FLOPS * 2 for density in (0.1, 0.25, 0.3, 0.5, 0.6)]
    assert shares == pytest.approx([0.25, 0.25, 0.5, 0.5, 1.0])


def test_compressed_activations_move_fewer_bytes():
    variant = network("unstructured", 0.5, 0.25)
    plain, packed = (
        run(chip(f"pattern: unstructured, format: {{kind: bitmask}}, activations: {{{extra}}}"), variant)
        for extra in ("", "format: {kind: bitmask}")
    )
    assert plain.bytes - packed.bytes == 2 * 0.75 * K * N - K * N / 8


def test_a_decoder_is_a_resource():
    variant = network("unstructured", 0.5)
    result = run(chip("pattern: unstructured, format: {kind: bitmask}, decode: 1 MB/s"), variant)
    assert result.latency == pytest.approx(M * K / 8 / 1e6)
    assert result.bound == "u.decoder"
    assert run(chip("pattern: unstructured, format: {kind: bitmask}, decode: 1 PB/s"), variant).bound == "u"
    added = run(chip("pattern: unstructured, format: {kind: bitmask}, decode: 1 MB/s"), variant, overlap="none")
    assert added.latency == pytest.approx(M * K / 8 / 1e6 + DENSE_FLOPS / 2 / PEAK + result.bytes / BANDWIDTH)


@pytest.mark.parametrize(
    ("pattern", "smaller"),
    [("row", {"m": M / 4}), ("column", {"k": K / 4, "input_elements": K / 4 * N}), ("channel", {"k": K / 4, "input_elements": K / 4 * N})],
)
def test_pruned_rows_columns_and_channels_run_as_the_smaller_layer(pattern, smaller):
    for bandwidth in (BANDWIDTH, 1e9):
        accelerator = chip("pattern: unstructured", bandwidth)
        result, small = run(accelerator, network(pattern, 0.25)), run(accelerator, network("dense", 1.0, **smaller))
        assert result.latency == pytest.approx(small.latency)
        assert result.bytes == small.bytes


@pytest.mark.parametrize("taps", [1, 9])
def test_an_input_of_a_convolution_is_read_if_any_column_of_its_channel_is_nonzero(taps):
    """A quarter of the columns: a quarter of the channels of a 1x1 kernel; of a 3x3 kernel, those with any of nine columns."""
    sizes = {"kind": "conv", "n": 100.0, "input_elements": K / taps * 100}
    column, channel, dense = (run(chip("pattern: unstructured"), network(*variant, **sizes)) for variant in COLUMN_VARIANTS)
    everything, outputs = 2 * K / taps * 100, 2 * M * 100
    weights = 2 * M * K * 0.25
    assert channel.bytes == pytest.approx(weights + everything / 4 + outputs)
    assert dense.bytes == pytest.approx(4 * weights + everything + outputs)
    share = (column.bytes.item() - weights - outputs) / everything
    assert share == pytest.approx(0.25) if taps == 1 else 0.5 < share < 1 - 0.75**9


COLUMN_VARIANTS = (("column", 0.25), ("channel", 0.25), ("dense", 1.0))


def test_alternatives_say_why_they_were_not_chosen():
    accelerator = chip('pattern: "2:4"')
    assert run(accelerator, network("unstructured", 0.5)).rivals == "u.r: 'unstructured' does not fit '2:4'"
    assert run(accelerator, network("1:4", 0.25)).rivals == "u.dense: dense_fallback is false"
    assert run(accelerator, network("1:4", 0.25), dense_fallback=True).rivals == "u.dense 2x"
    assert run(accelerator, network("1:4", 1.0)).rivals == "u.r: not pruned"
    narrow = chip("pattern: unstructured, format: {kind: csr, index: 8 bit, pointer: 32 bit}")
    assert run(narrow, network("unstructured", 0.5)).rivals == "u.r: too large for the numbers of 'csr'"


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("pattern: 2:4, tile: 16", "write rows x columns, as in '16x16'"),
        ("pattern: 2:4, zeros: ignored", "write one of 'skipped' or 'gated'"),
        ("pattern: 2:4, activations: {patterns: [block:4x4]}", "activations can't be 'block:4x4'"),
        ("pattern: 2:4, activations: {format: {kind: nm_index}}", "format 'nm_index' cannot store pattern 'unstructured'"),
        ("pattern: 2:4, decode: 3 GHz", "decode"),
        ("pattern: 2:4, format: {kind: delta}", "format 'delta' cannot store pattern '2:4'"),
    ],
)
def test_an_invalid_run_is_an_error(run, message):
    with pytest.raises(dse.InputError) as error:
        chip(run)
    assert message in str(error.value)
