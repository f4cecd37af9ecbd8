"""Energy of each layer under each execution: that of its operations and of the bytes that it moves."""

import numpy as np
from jaxtyping import Float

from dse.model.cost.design import Design
from dse.model.cost.energy import ActionCounts, dynamic_energy, energy_per_byte
from dse.model.terms import LayerTerms
from dse.model.work import dense_flops


def layer_energy(terms: LayerTerms, design: Design, dtype: str) -> Float[np.ndarray, "layer execution"]:
    """Energy [J] of one instance of each layer under each execution; 0 where the execution is not legal."""
    return energy_by_memory(terms, design, dtype).sum(axis=-1)


def energy_by_memory(terms: LayerTerms, design: Design, dtype: str) -> Float[np.ndarray, "layer execution memory"]:
    """Energy [J] of each layer by memory, outermost first; the energy of the operations is counted with the outermost one.

    Every memory whose traffic the terms count takes part: the outermost one and, where on-chip capacity counts, the inner ones.
    """
    columns, dense = [], dense_flops(terms.layers)
    for number, execution in enumerate(terms.executions):
        legal, stored, moved = terms.legal[:, number], terms.stored_flops[:, number], terms.traffic[:, number]
        done, skipped = terms.energy_flops[:, number], np.where(legal, dense - stored, 0.0)
        operations = ActionCounts(done, stored - done, skipped, {execution.outermost_memory: moved[:, 0]})
        inner = [energy_per_byte(design, level) * moved[:, 1 + index] for index, level in enumerate(execution.inner_memories)]
        columns.append(np.stack([dynamic_energy(design, execution.unit, dtype, operations), *inner], axis=-1))
    return np.stack(columns, axis=1)
