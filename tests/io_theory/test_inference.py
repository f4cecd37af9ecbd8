"""Networks run connection by connection give what matrices give."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from dse.base.errors import InputError
from dse.io_theory import inference, order
from dse.io_theory.compact_growth import compact_growth
from dse.io_theory.layered import layered
from tests.io_theory.networks import graphs, random_order

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("batch", [1, 7, 64, 100])
@pytest.mark.parametrize("relu", [True, False])
def test_equal_to_csr_and_dense_products_layer_by_layer(batch, relu):
    sizes = (60, 80, 50, 30)
    matrices = [np.where(RNG.random((m, k)) < 0.3, RNG.standard_normal((m, k)), 0) for k, m in pairwise(sizes)]
    biases = [RNG.standard_normal(m) for m in sizes[1:]]
    net, x = layered(matrices, biases, relu=relu), RNG.standard_normal((60, batch)).astype(np.float32)
    assert (net.inputs, net.outputs) == (60, 30)
    for stored in (matrices, [csr_array(matrix) for matrix in matrices]):
        values = x
        for number, (matrix, bias) in enumerate(zip(stored, biases, strict=True)):
            values = matrix @ values + bias[:, None]
            values = np.maximum(values, 0) if relu and number < 2 else values
        for chosen in (order.two_optimal(net), order.tiled(net, 20)):
            np.testing.assert_allclose(inference.run(inference.program(net, chosen), x), values, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("relu", [True, False])
def test_dead_neurons_change_nothing_though_they_have_biases(relu):
    """A quarter of the rows and columns is empty."""
    matrices = [RNG.standard_normal((20, 20)) * (RNG.random((20, 20)) < 0.4) for _ in range(3)]
    for matrix in matrices[:2]:
        matrix[RNG.permutation(20)[:5]] = 0
        matrix[:, RNG.permutation(20)[:5]] = 0
    biases, x = [RNG.standard_normal(20) for _ in range(3)], RNG.standard_normal((20, 5)).astype(np.float32)
    net = layered(matrices, biases, relu=relu)
    assert min(net.removed.values()) >= 5
    values = x
    for number, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
        values = matrix @ values + bias[:, None]
        values = np.maximum(values, 0) if relu and number < 2 else values
    np.testing.assert_allclose(inference.run(inference.program(net, order.two_optimal(net)), x), values, rtol=1e-5, atol=1e-4)


@given(graphs(neurons=14), st.randoms(use_true_random=False))
def test_any_graph_in_any_order_neuron_by_neuron(net, random):
    """An output that is used again is used unchanged."""
    x = RNG.standard_normal((net.inputs, 3)).astype(np.float32)
    values = np.zeros((net.neurons, 3), np.float32)
    values[net.input] = x
    for n in np.flatnonzero(~net.input):
        mine = net.target == n
        values[n] = net.weight[mine] @ values[net.source[mine]]
        if not net.output[n]:
            values[n] = np.maximum(values[n], 0)
    chosen = random_order(net, random)
    made = inference.program(net, chosen)
    assert made.slots == order.live_peak(net, chosen)
    np.testing.assert_allclose(inference.run(made, x), values[net.output], rtol=1e-5, atol=1e-5)


def test_a_grown_network_needs_slots_for_its_live_values_alone():
    net = compact_growth(100, 5000, 10)
    assert inference.program(net, order.two_optimal(net)).slots <= 99


def test_another_number_of_inputs_is_refused():
    net = layered([np.ones((2, 3))])
    with pytest.raises(InputError, match=r"samples of shape \(2, 1\) for 3 inputs"):
        inference.run(inference.program(net, order.two_optimal(net)), np.ones((2, 1), np.float32))
