"""Work of the compute units: the FLOPs of each layer, dense or as an execution stores it.

A multiply-add counts as 2 FLOPs: C[m, n] = A[m, k] B[k, n] takes 2 m k n FLOPs dense, and 2 z n FLOPs with z stored weights.
"""

import numpy as np

from dse.model.activation_zeros import used_share
from dse.model.attention_scores import attention_scores
from dse.model.executions import Execution
from dse.model.stored_weights import StoredWeights
from dse.networks.layers import LayerArrays, PerLayer
from dse.workload import Variant


def dense_flops(layers: LayerArrays) -> PerLayer:
    """FLOPs of one instance of each layer if nothing is skipped [FLOP]."""
    return np.where(layers.has_flops, 2 * layers.m * layers.k * layers.n, 0.0)


def stored_flops(layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution) -> PerLayer:
    """FLOPs that take time [FLOP]: of the executed weights with the activations that are not skipped, at most the dense FLOPs."""
    elements = stored.executed_elements if execution.run.zeros == "skipped" else layers.weights * stored.column_share
    share = _activation_share(layers, variant, execution, {"skipped"}) * _score_share(layers, execution, {"skipped"})
    return _flops_of_elements(layers, elements) * share


def energy_flops(layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution) -> PerLayer:
    """FLOPs that take energy [FLOP]: those that take time, without the gated ones."""
    gates_weights = execution.is_sparse and execution.run.zeros == "gated"
    elements = np.minimum(stored.executed_elements, layers.weights * variant.density) if gates_weights else stored.executed_elements
    return _flops_of_elements(layers, elements) * computed_share(layers, variant, execution)


def computed_share(layers: LayerArrays, variant: Variant, execution: Execution) -> PerLayer:
    """Share of the products with a stored weight that are computed [1]: their activation is neither skipped nor gated.

    Of an attention, the share of the scores that are neither skipped nor gated.
    """
    left_out = {"skipped", "gated"}
    return _activation_share(layers, variant, execution, left_out) * _score_share(layers, execution, left_out)


def _score_share(layers: LayerArrays, execution: Execution, left_out: set[str]) -> PerLayer:
    """Share of the scores of an attention that are computed, if the run treats the others in one of the modes `left_out` [1]."""
    scores = execution.run.scores
    if scores is None or scores.zeros not in left_out:
        return np.ones(len(layers))
    return attention_scores(layers, execution.run).computed_share


def _flops_of_elements(layers: LayerArrays, elements: PerLayer) -> PerLayer:
    dense = dense_flops(layers)
    return np.where(layers.has_weights, np.minimum(2 * elements * layers.n, dense), dense)


def _activation_share(layers: LayerArrays, variant: Variant, execution: Execution, left_out: set[str]) -> PerLayer:
    """Share of the activations that are used, if the run treats their zeros in one of the modes `left_out`.

    Zeros of weights and activations are independent: a product is left out if either operand is zero. What several tokens share is left out
    if it is zero in all of them.
    """
    activations = execution.run.activations
    if activations is None or activations.zeros not in left_out:
        return np.ones(len(layers))
    return np.where(layers.has_weights, used_share(activations, variant, np.minimum(activations.tokens, layers.n)), 1.0)
