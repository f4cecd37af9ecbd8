"""Inference connection by connection equals products of matrices."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from dse.base.errors import InputError
from dse.io_theory.bounds import live_peak
from dse.io_theory.generated_network import compact_growth
from dse.io_theory.inference import compile_program, run_program
from dse.io_theory.layered_network import network_from_matrices
from dse.io_theory.orders import tile_order, two_optimal_order
from tests.io_theory.networks import graphs, random_order

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("batch", [1, 7, 64, 100])
@pytest.mark.parametrize("relu", [True, False])
def test_equal_to_csr_and_dense_products_layer_by_layer(batch, relu):
    sizes = (60, 80, 50, 30)
    matrices = [np.where(RNG.random((m, k)) < 0.3, RNG.standard_normal((m, k)), 0) for k, m in pairwise(sizes)]
    biases = [RNG.standard_normal(m) for m in sizes[1:]]
    net, x = network_from_matrices(matrices, biases, relu=relu), RNG.standard_normal((60, batch)).astype(np.float32)
    assert (net.num_inputs, net.num_outputs) == (60, 30)
    for formats in (matrices, [csr_array(matrix) for matrix in matrices]):
        values = x
        for number, (matrix, bias) in enumerate(zip(formats, biases, strict=True)):
            values = matrix @ values + bias[:, None]
            values = np.maximum(values, 0) if relu and number < 2 else values
        for order in (two_optimal_order(net), tile_order(net, 20)):
            np.testing.assert_allclose(run_program(compile_program(net, order), x), values, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("relu", [True, False])
def test_removing_dead_neurons_with_biases_does_not_change_the_outputs(relu):
    """A quarter of the rows and columns are empty."""
    matrices = [RNG.standard_normal((20, 20)) * (RNG.random((20, 20)) < 0.4) for _ in range(3)]
    for matrix in matrices[:2]:
        matrix[RNG.permutation(20)[:5]] = 0
        matrix[:, RNG.permutation(20)[:5]] = 0
    biases, x = [RNG.standard_normal(20) for _ in range(3)], RNG.standard_normal((20, 5)).astype(np.float32)
    net = network_from_matrices(matrices, biases, relu=relu)
    assert min(net.removed_neurons.values()) >= 5
    values = x
    for number, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
        values = matrix @ values + bias[:, None]
        values = np.maximum(values, 0) if relu and number < 2 else values
    np.testing.assert_allclose(run_program(compile_program(net, two_optimal_order(net)), x), values, rtol=1e-5, atol=1e-4)


@given(graphs(max_neurons=14), st.randoms(use_true_random=False))
def test_any_graph_in_any_order_equals_evaluation_neuron_by_neuron(net, random):
    """ReLU is not applied to an output, even if it is the source of a connection."""
    x = RNG.standard_normal((net.num_inputs, 3)).astype(np.float32)
    values = np.zeros((net.num_neurons, 3), np.float32)
    values[net.is_input] = x
    for n in np.flatnonzero(~net.is_input):
        incoming = net.target == n
        values[n] = net.weight[incoming] @ values[net.source[incoming]]
        if not net.is_output[n]:
            values[n] = np.maximum(values[n], 0)
    order = random_order(net, random)
    program = compile_program(net, order)
    assert program.num_registers == live_peak(net, order)
    np.testing.assert_allclose(run_program(program, x), values[net.is_output], rtol=1e-5, atol=1e-5)


def test_a_compact_growth_network_needs_registers_for_its_live_values_only():
    net = compact_growth(100, 5000, 10)
    assert compile_program(net, two_optimal_order(net)).num_registers <= 99


def test_another_number_of_inputs_is_refused():
    net = network_from_matrices([np.ones((2, 3))])
    with pytest.raises(InputError, match=r"samples of shape \(2, 1\) for 3 inputs"):
        run_program(compile_program(net, two_optimal_order(net)), np.ones((2, 1), np.float32))
