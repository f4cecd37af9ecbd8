"""The terms of one layer of each kind are those of every layer of its kind."""

import numpy as np
import pytest

from dse.explaining.mixtures import MixtureEvaluator
from dse.explaining.repeated_layers import LayerKinds
from dse.explaining.settings import read_settings
from dse.explaining.side import make_side
from dse.model.efficiency.efficiency_file import available_kernels
from dse.model.network_terms import efficiency_of, network_terms

SIDES = (
    "a100-sxm4-80gb, llama-3.2-1b, phase=prefill, sequence=128, 2:4, calibrated",
    "h100-sxm5-80gb, bert-base, unstructured, sparsity=0.9, capacity",
    "a100-sxm4-80gb, resnet50, 2:4, batch=8",
    "a100-sxm4-80gb, mixtral-8x7b, phase=decode, sequence=64, 2:4, calibrated",
)


@pytest.mark.parametrize("text", SIDES)
@pytest.mark.parametrize("is_dense", [True, False])
def test_layers_of_a_kind_have_the_terms_of_the_first(text, is_dense):
    side = make_side(read_settings(text))
    variant = side.dense if is_dense else side.variant
    kinds, terms = LayerKinds.of(side), MixtureEvaluator(side, side, (), "speedup").terms(side, variant)
    efficiency = efficiency_of(side.options, available_kernels(side.accelerator, side.options), with_samples=False)
    whole = network_terms(side.accelerator, variant, side.batch, side.dtype, side.options, efficiency)
    assert len(kinds.first) < len(kinds.kind)
    assert terms.layers.name == tuple(whole.layers.name[number] for number in kinds.first)
    for name in ("legal", "work", "energy_flops", "count"):
        np.testing.assert_array_equal(getattr(terms, name)[kinds.kind], getattr(whole, name))
    for own, expected in ((terms.slowdown, whole.slowdown), (terms.overhead, whole.overhead)):
        assert (own is None) == (expected is None)
        if own is not None and expected is not None:
            np.testing.assert_allclose(own[:, kinds.kind], expected, rtol=1e-12)


def test_networks_pruned_by_whole_channels_are_kept_whole():
    side = make_side(read_settings("a100-sxm4-80gb, bert-base, row, sparsity=0.25"))
    kinds = LayerKinds.of(side)
    assert kinds.take_from(side.variant) is side.variant
