"""Bits that are written, against bits that are counted; and nothing is lost on the way."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.errors import BadInput
from dse.readers import smtx
from dse.sparsity import apply, parse
from dse.sparsity.encoding import decode, encode
from dse.sparsity.format import BSR, CSR, Bitmask, Combinatorial, DenseFormat, NMIndex

PATTERNS = [
    "dense", "unstructured", "block:4x4", "block:1x8", "vector:4", "row", "column", "2:4", "1:8", "3:5", "1:4x8", "8:2:8", "4:3:10",
    "3:4/2:4", "2:4/block:2x4", "2:4/4:2:8", "1:2/3:4/2:4", "block:8x16/2:4", "block:8x16/1:4x8", "block:16x16/8:2:8",
]  # fmt: skip
FORMATS = [DenseFormat(), CSR(), BSR(), NMIndex(), Bitmask()]
PAIRS = [(text, form) for text in PATTERNS for form in FORMATS if form.accepts(parse(text))]
SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "dlmc" / "sample" / "rn50" / "magnitude_pruning" / "0.8"


def pruned(text: str, m: int, k: int, sparsity: float, seed: int) -> np.ndarray:
    pattern, weights = parse(text), np.random.default_rng(seed).standard_normal((m, k))
    return weights * apply(weights, pattern, None if pattern.density is not None else sparsity)


def test_every_pattern_has_an_encoding():
    assert {text for text, _ in PAIRS} == set(PATTERNS)


@pytest.mark.parametrize(("text", "form"), PAIRS, ids=lambda part: getattr(part, "kind", part))
@settings(max_examples=8)
@given(size=st.sampled_from([(1, 5), (13, 27), (32, 48)]), sparsity=st.sampled_from([0.0, 0.4, 0.9, 1.0]), seed=st.integers(0, 3))
def test_what_is_written_is_what_is_counted_and_can_be_read(text, form, size, sparsity, seed):
    (m, k) = size
    pattern, weights = parse(text), pruned(text, m, k, sparsity, seed)
    encoded = encode(weights, pattern, form)
    assert encoded.bits.size == form.metadata_bits(pattern, float(m), float(k), float(encoded.values.size))
    if pattern.density is not None:
        assert encoded.values.size == pattern.stored(float(m), float(k), 1.0)
    np.testing.assert_array_equal(decode(encoded), weights)


@pytest.mark.skipif(not SAMPLE.exists(), reason="the mask collection is not at hand")
@pytest.mark.parametrize("form", [CSR(), Bitmask()], ids=lambda form: form.kind)
def test_real_masks_are_written_in_the_bits_that_are_counted(form):
    for file in sorted(SAMPLE.iterdir()):
        weights = np.concatenate(list(smtx.weights(file).slabs())).astype(np.float32)
        encoded = encode(weights, parse("unstructured"), form)
        assert encoded.bits.size == form.metadata_bits(parse("unstructured"), *map(float, weights.shape), float((weights != 0).sum()))
        np.testing.assert_array_equal(decode(encoded), weights)


def test_a_mask_of_another_pattern_is_refused():
    with pytest.raises(BadInput, match="the nonzeros are no mask of '2:4'"):
        encode(np.ones((4, 4)), parse("2:4"), NMIndex())


@pytest.mark.parametrize(("text", "form"), [("block:4x4", NMIndex()), ("2:4", Combinatorial()), ("block:4x4*", BSR()), ("1:4x8", CSR())])
def test_what_a_format_cannot_hold_is_refused(text, form):
    with pytest.raises(BadInput, match="can't encode"):
        encode(np.zeros((8, 8)), parse(text), form)


def test_numbers_that_do_not_fit_their_width_are_refused():
    narrow = CSR.model_validate({"kind": "csr", "index": "4 bit", "pointer": "32 bit"})
    with pytest.raises(BadInput, match="does not fit 4 bits"):
        encode(np.ones((1, 100)), parse("unstructured"), narrow)
