"""Stacks of experts find their layers, whichever of the two layouts a file has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.networks.layers import LayerRow
from dse.readers.layer_matching import match_weights
from dse.readers.parsed_network import WeightTensor, array_slabs


def tensor(values: np.ndarray) -> WeightTensor:
    return WeightTensor(values.shape, "fp32", lambda: array_slabs(values))


def row(name: str, m: int, k: int, experts: int = 3) -> LayerRow:
    return LayerRow(name=name, kind="gemm", m=m, k=k, n=1, experts=experts, active=1)


def whole(weights: WeightTensor) -> np.ndarray:
    return np.concatenate(list(weights.slabs()))


@given(st.integers(1, 5), st.integers(1, 6), st.integers(2, 4), st.booleans())
def test_stacked_experts_are_the_weights_of_each_expert_in_turn(m, k, experts, inputs_first):
    """An expert that is not square says how the square ones are stored."""
    weights = {"up": np.arange(experts * (m + 1) * m).reshape(experts, m + 1, m), "down": np.arange(experts * k * k).reshape(experts, k, k)}
    stored = {name: values.swapaxes(1, 2) if inputs_first else values for name, values in weights.items()}
    rows = [row("up", m + 1, m, experts), row("down", k, k, experts)]
    matched, unmatched = match_weights(rows, {name: tensor(values) for name, values in stored.items()})
    assert not unmatched
    for name, values in weights.items():
        np.testing.assert_array_equal(whole(matched[name]), values.reshape(-1, values.shape[2]))


def test_square_experts_alone_are_stored_with_inputs_first():
    """As GPT-OSS and Llama 4 store them."""
    values = np.arange(12).reshape(3, 2, 2)
    matched, _ = match_weights([row("down", 2, 2)], {"down": tensor(values)})
    np.testing.assert_array_equal(whole(matched["down"]), values.swapaxes(1, 2).reshape(6, 2))


def test_a_stack_of_other_sizes_is_refused():
    with pytest.raises(InputError, match="down: 3 experts of 2 x 5 weights for a layer of 4 x 2; give the network that they belong to"):
        match_weights([row("down", 4, 2)], {"down": tensor(np.zeros((3, 2, 5)))})


@pytest.mark.parametrize(
    ("experts", "message"),
    [
        (3, "experts.w: 2 tensors for a layer of 3 experts; give one tensor for each expert, or one stack of all"),
        (1, "experts.w: 2 tensors for one layer; give one of them"),
    ],
)
def test_a_wrong_number_of_tensors_is_refused(experts, message):
    layer = LayerRow(name="mlp.experts.w", kind="gemm", m=4, k=2, n=1, experts=experts, active=1)
    with pytest.raises(InputError, match=message):
        match_weights([layer], {f"mlp.experts.{number}.w": tensor(np.zeros((4, 2))) for number in range(2)})
