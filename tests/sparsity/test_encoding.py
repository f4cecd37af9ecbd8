"""Encodings write as many bits as are counted, and decoding restores the weights."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dse.base.errors import InputError
from dse.readers import smtx
from dse.sparsity import apply, parse, random_mask
from dse.sparsity.encoding import count, decode, encode
from dse.sparsity.format import BSR, COO, CSR, Combinatorial, Format, NMIndex, default_format

PATTERNS = [
    "dense", "unstructured", "block:4x4", "block:1x8", "vector:4", "row", "column", "2:4", "1:8", "3:5", "1:4x8", "8:2:8", "4:3:10",
    "3:4/2:4", "2:4/block:2x4", "1:2/block:2x8/2:4", "2:4/4:2:8", "1:2/3:4/2:4", "block:8x16/2:4", "block:8x16/1:4x8", "block:16x16/8:2:8",
]  # fmt: skip
WRITTEN = [
    "{kind: dense}", "{kind: csr}", "{kind: csr, index: 16 bit, pointer: 20 bit}", "{kind: csc}", "{kind: coo, index: 12 bit}", "{kind: bsr}",
    "{kind: ell}", "{kind: blocked_ell, index: 16 bit}", "{kind: delta}", "{kind: run_length, width: 1 bit}", "{kind: nm_index}",
    "{kind: delta, width: 2 bit, order: row, pointer: 16 bit}", "{kind: delta, width: 3 bit, order: column}", "{kind: bitmask}",
    "{kind: nm_index, align: 4 bit}", "{kind: enumerative}", "{kind: enumerative, align: 8 bit}", "{kind: levels, order: flat, levels: [{kind: index}]}",
    "{kind: levels, levels: [{kind: dense}, {kind: bitmask, align: 8 bit}]}", "{kind: levels, levels: [{kind: bitmask}, {kind: bitmask}]}",
    "{kind: levels, levels: [{kind: bitmask, pointer: 16 bit}, {kind: index}]}", "{kind: levels, levels: [{kind: bitmask}, {kind: dense}]}",
    "{kind: levels, levels: [{kind: dense, pointer: 16 bit}, {kind: index, align: 16 bit}]}",
    "{kind: levels, order: column, levels: [{kind: dense, padded: true}, {kind: index, width: 9 bit}]}",
    "{kind: levels, order: column, levels: [{kind: bitmask, pointer: 9 bit}, {kind: delta, width: 2 bit}, {kind: enumerative}]}",
    "{kind: levels, order: flat, levels: [{kind: bitmask, align: 32 bit}, {kind: bitmask}, {kind: index}]}",
]  # fmt: skip
FORMATS = [TypeAdapter(Format).validate_python(yaml.safe_load(text)) for text in WRITTEN]
SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "dlmc" / "sample" / "rn50" / "magnitude_pruning" / "0.8"


def pruned(text: str, m: int, k: int, sparsity: float, seed: int) -> np.ndarray:
    pattern, weights = parse(text), np.random.default_rng(seed).standard_normal((m, k))
    return weights * apply(weights, pattern, None if pattern.density is not None else sparsity)


def slots(text: str, mask: np.ndarray) -> float:
    """Elements that the pattern itself stores of a mask, whatever the format."""
    return float(encode(np.where(mask, 1.0, 0.0), parse(text), default_format(parse(text))).values.size)


def formats_for(text: str) -> list:
    return [form for form in FORMATS if form.can_store(parse(text))]


@pytest.mark.parametrize("text", PATTERNS)
@settings(max_examples=8)
@given(size=st.sampled_from([(16, 16), (19, 27), (32, 48)]), sparsity=st.sampled_from([0.0, 0.4, 0.9, 1.0]), seed=st.integers(0, 3))
def test_encodings_have_the_counted_bits_and_decode_to_the_weights(text, size, sparsity, seed):
    pattern, weights = parse(text), pruned(text, *size, sparsity, seed)
    for form in formats_for(text):
        encoded, counted = encode(weights, pattern, form), count(weights != 0, pattern, form)
        assert (encoded.values.size, encoded.bits.size) == (counted.elements, counted.metadata_bits), form
        if pattern.density is not None:
            assert encoded.values.size == pattern.stored_elements(*map(float, size), 1.0)
        np.testing.assert_array_equal(decode(encoded), weights, str(form))


@pytest.mark.parametrize("text", PATTERNS)
def test_expected_bits_are_the_mean_over_random_masks(text):
    """200 masks, within 3 standard errors; exact where the pattern fixes the bits."""
    (m, k), pattern, sparsity = (40, 72), parse(text), 0.9
    masks = [random_mask(pattern, m, k, None if pattern.density is not None else sparsity, seed) for seed in range(200)]
    for form in formats_for(text):
        expected = form.cost(pattern, float(m), float(k), stored := slots(text, masks[0]))
        assert stored > 0
        counted = [count(mask, pattern, form) for mask in masks]
        for name in ("elements", "metadata_bits"):
            found = np.array([getattr(each, name) for each in counted])
            error = 3 * found.std(ddof=1) / np.sqrt(len(found))
            assert abs(found.mean() - getattr(expected, name)) <= error + 1e-9 * found.mean(), (form, name)


@pytest.mark.skipif(not SAMPLE.exists(), reason="the mask collection is not at hand")
@pytest.mark.parametrize("form", formats_for("unstructured"), ids=lambda form: form.kind)
def test_encodings_of_real_masks_have_the_counted_bits(form):
    for file in sorted(SAMPLE.iterdir()):
        (mask,) = smtx.read_smtx(file).tensors.values()
        weights = np.concatenate(list(mask.slabs())).astype(np.float32)
        pattern = parse("unstructured")
        if not form.cost(pattern, *map(float, weights.shape), float((weights != 0).sum())).fits:
            with pytest.raises(InputError, match="does not fit"):
                encode(weights, pattern, form)
            continue
        encoded, counted = encode(weights, pattern, form), count(weights != 0, pattern, form)
        assert (encoded.values.size, encoded.bits.size) == (counted.elements, counted.metadata_bits)
        np.testing.assert_array_equal(decode(encoded), weights)


def test_a_mask_of_another_pattern_is_refused():
    with pytest.raises(InputError, match="the nonzeros are not a legal mask of '2:4'"):
        encode(np.ones((4, 4)), parse("2:4"), NMIndex())


@pytest.mark.parametrize(("text", "form"), [("block:4x4", NMIndex()), ("2:4", Combinatorial()), ("block:4x4*", BSR()), ("1:4x8", CSR())])
def test_a_pattern_that_a_format_cannot_store_is_refused(text, form):
    with pytest.raises(InputError, match="cannot encode"):
        encode(np.zeros((8, 8)), parse(text), form)


def test_numbers_that_do_not_fit_their_width_are_refused():
    narrow = CSR.model_validate({"kind": "csr", "index": "4 bit", "pointer": "32 bit"})
    with pytest.raises(InputError, match="does not fit 4 bits"):
        encode(np.ones((1, 100)), parse("unstructured"), narrow)


NARROW = [
    "{{kind: csr, index: {w} bit, pointer: {p} bit}}", "{{kind: csc, index: {w} bit, pointer: {p} bit}}", "{{kind: coo, index: {w} bit}}",
    "{{kind: ell, index: {w} bit}}", "{{kind: bsr, index: {w} bit, pointer: {p} bit}}", "{{kind: blocked_ell, index: {w} bit}}",
    "{{kind: delta, width: {w} bit}}", "{{kind: delta, width: {w} bit, order: column, pointer: {p} bit}}",
    "{{kind: levels, order: flat, levels: [{{kind: index, width: {w} bit}}]}}",
    "{{kind: levels, levels: [{{kind: bitmask, pointer: {p} bit}}, {{kind: index, width: {w} bit}}]}}",
]  # fmt: skip


@pytest.mark.parametrize("written", NARROW)
@settings(max_examples=15)
@given(
    text=st.sampled_from(["unstructured", "block:2x2", "2:4", "8:2:8", "block:4x8/2:4"]),
    size=st.sampled_from([(4, 33), (33, 8), (16, 16), (17, 16), (16, 17), (4, 64)]),
    widths=st.tuples(st.integers(1, 7), st.integers(4, 9)),
    seed=st.integers(0, 3),
)
def test_numbers_at_the_edge_of_their_width_are_encoded_or_refused(written, text, size, widths, seed):
    """The last place of a matrix is kept, and the widths are the narrowest that hold it, or one bit narrower."""
    form = TypeAdapter(Format).validate_python(yaml.safe_load(written.format(w=widths[0], p=widths[1])))
    pattern = parse(text)
    if not form.can_store(pattern):
        return
    weights = np.random.default_rng(seed).standard_normal(size)
    weights[-1, -1] = 100.0
    weights *= apply(weights, pattern, None if pattern.density is not None else 0.5)
    assert weights[-1, -1]
    counted = count(weights != 0, pattern, form)
    if not counted.fits:
        with pytest.raises(InputError, match="does not fit"):
            encode(weights, pattern, form)
        return
    encoded = encode(weights, pattern, form)
    assert (encoded.values.size, encoded.bits.size) == (counted.elements, counted.metadata_bits)
    np.testing.assert_array_equal(decode(encoded), weights)


@pytest.mark.parametrize(("rows", "columns", "fits"), [(256, 256, True), (257, 10, False), (10, 257, False), (1, 65536, False)])
def test_coordinates_must_fit_every_row_and_column_number(rows, columns, fits):
    """8 bits for a row number and 8 for a column number cannot store row 999, even in a matrix with few places."""
    form = COO.model_validate({"kind": "coo", "index": "8 bit"})
    assert bool(form.cost(parse("unstructured"), float(rows), float(columns), 4.0).fits) == fits
    weights = np.zeros((rows, columns))
    weights[-1, -1] = 1.0
    if fits:
        assert encode(weights, parse("unstructured"), form).bits.tolist() == [True] * 16  # 255, 255
    else:
        with pytest.raises(InputError, match="does not fit 8 bits"):
            encode(weights, parse("unstructured"), form)


@pytest.mark.parametrize("width", ["0.5 bit", "4.5 bit"])
def test_a_width_is_a_whole_number_of_bits(width):
    with pytest.raises(ValueError, match="not a whole number of bits"):
        CSR.model_validate({"kind": "csr", "index": width})
