"""Causes between ideal and predicted speedup: they add up, and match cases computed by hand."""

import numpy as np
import pytest

import dse
from dse.explaining.causes import explain_causes
from dse.explaining.settings import read_settings
from dse.explaining.side import make_side

SIDES = (
    "a100-sxm4-80gb, resnet50, asp, batch=32",
    "a100-sxm4-80gb, resnet50, magnitude_pruning, sparsity=0.9, batch=32, calibrated",
    "a100-sxm4-80gb, llama-2-7b, phase=decode, 2:4, capacity",
    "a100-sxm4-80gb, llama-2-7b, phase=prefill, 1:8, calibrated",
    "a100-sxm4-80gb, bert-base, block:32x32, sparsity=0.75, overlap=none",
    "a100-sxm4-80gb, resnet50, row, sparsity=0.5, capacity, fusion=fitting",
    "h100-sxm5-80gb, mixtral-8x7b, 2:4, int8, r3",
    "next-tensor-core, bert-base, 1:8, batch=8",
    "s2ta-like, resnet50, 2:4, int8",
    "a100-sxm4-80gb, deit-b, 2:4, calibrated, batch=8, passes=separate, sparse_layout=transposed",
)


@pytest.mark.parametrize("text", SIDES)
def test_causes_add_up_over_the_network_and_in_every_layer(text):
    side = make_side(read_settings(text))
    causes = explain_causes(side)
    assert causes.ideal + causes.speedup.sum() == pytest.approx(causes.predicted, abs=1e-9)
    assert np.allclose(causes.dense / causes.ideal + causes.seconds.sum(axis=0), causes.sparse, rtol=1e-9, atol=1e-18)
    options = {name: value for name, value in side.options if value is not None}
    for variant, latency in ((side.variant, causes.sparse), (side.dense, causes.dense)):
        evaluated = dse.evaluate(side.accelerator, variant, side.batch, side.dtype.text, **options)
        assert np.allclose(latency, evaluated.latency, rtol=1e-9, atol=0)


def test_metadata_of_a_product_that_the_memory_bounds():
    """2:4 in fp16 stores 9/16 of the bytes: with two or more rates, a product with one column gains 16/9 but for its activations."""
    causes = explain_causes(make_side(read_settings("a100-sxm4-80gb, 4096x4096x1, 2:4")))
    size, vectors = 4096 * 4096 * 2, 2 * 4096 * 2
    assert causes.predicted == pytest.approx((size + vectors) / (size * 9 / 16 + vectors))
    assert causes.names == ("metadata", "traffic")
    without_metadata = (size + vectors) / (size / 2 + vectors)
    without_traffic = (size + vectors) / (size * 9 / 16 + vectors / 2)
    metadata = ((without_traffic - 2) + (causes.predicted - without_metadata)) / 2
    assert causes.speedup[0] == pytest.approx(metadata)


def test_padding_and_gain_share_what_a_run_for_another_pattern_costs():
    """1:8 runs as 2:4 at twice the dense rate: half of the stored weights are zeros, and the gain is 2 of 8; either would suffice."""
    causes = explain_causes(make_side(read_settings("a100-sxm4-80gb, 8192x8192x8192, 1:8")))
    parts = dict(zip(causes.names, causes.speedup, strict=True))
    assert causes.predicted == pytest.approx(2)
    assert parts["gain"] == pytest.approx(parts["padding"], rel=1e-2)


def test_a_layer_that_is_not_pruned_has_one_cause(chip, net):
    causes = explain_causes(make_side({"accelerator": chip, "workload": net, "variant": "semi"}))
    layers = dict(zip(net.layers.name, causes.kind, strict=True))
    assert layers == {"stem": "not_pruned", "wide": "", "scores": "no_weights", "norm": "no_weights", "head": "not_pruned"}
    head = causes.seconds[:, net.layers.name.index("head")]
    assert head[causes.names.index("not_pruned")] == pytest.approx(causes.dense[-1] / 2)
    assert np.count_nonzero(head) == 1


def test_copies_of_transposed_activations_are_a_cause_of_their_own():
    side = make_side(read_settings("a100-sxm4-80gb, bert-base, 2:4, batch=8, passes=separate, sparse_layout=transposed"))
    causes = explain_causes(side)
    copies = np.array(["transpose" in name for name in side.variant.layers.name]) & (causes.sparse > 0)
    assert set(causes.kind[copies]) == {"transposes"} == set(causes.kind[copies | (causes.kind == "transposes")])
    assert causes.seconds[causes.names.index("transposes")].sum() == pytest.approx(causes.sparse[copies].sum())


def test_a_product_that_gains_all_of_its_ideal():
    result = dse.explain("h100-sxm5-80gb, 4096x4096x768, bf16, 2:4")
    assert (result.sentence, result.parts, result.difference) == ("2:4 gains 2x, its ideal.", (), pytest.approx(0))
    assert "ideal 2x of 2:4" in str(result)


def test_a_dense_network_has_no_ideal():
    with pytest.raises(dse.InputError, match="'resnet50' is not pruned, so that there is no ideal speedup; give a pattern"):
        dse.explain("a100-sxm4-80gb, resnet50")
