"""Energy of counted operations and bytes, of each layer under each execution, and the execution that runs a layer in a tie.

    energy = per operation * (executed + gated share * gated + skipped share * skipped) + per byte * bytes + static power * time

Of executions that take equally long, the one of least energy runs, then the first by name. Ties are common: a memory-bound layer takes
equally long on all units that store it in the same format. The order of units and runs in a description does not matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dse.base.array_types import AnyArray
from dse.model.cost.action_energy import energy_per_byte, energy_per_operation
from dse.model.cost.coefficients import PROCESS_PATH, published_coefficients
from dse.model.cost.design import Design
from dse.model.cost.power import static_power
from dse.model.executions import Execution
from dse.model.terms import LayerTerms
from dse.model.work import dense_flops
from dse.schema.accelerator import Accelerator
from dse.sparsity.pattern import FloatOrArray

ASSUMED_PROCESS = 7e-9  # m: assumed where a description has no process; the energy of every unit scales with it
ENERGY_DIGITS = 12  # of an energy that count


@dataclass(frozen=True)
class ActionCounts:
    """Operations of one unit at one precision [FLOP], a multiply-add counting 2, and bytes moved by each memory level [B].

    Operations with a zero operand are gated (they take time, but nothing switches) or skipped (they take no time). Counts may be arrays.
    """

    executed: FloatOrArray
    gated: FloatOrArray
    skipped: FloatOrArray
    bytes_by_memory: Mapping[str, FloatOrArray]


def dynamic_energy(design: Design, unit: str, dtype: str, counts: ActionCounts) -> FloatOrArray:
    """Energy [J] of the operations of a unit in `dtype` and of the bytes moved for them."""
    published = published_coefficients()
    operations = counts.executed + published.gated.value * counts.gated + published.skipped.value * counts.skipped
    moved = sum(energy_per_byte(design, memory) * size for memory, size in counts.bytes_by_memory.items())
    return energy_per_operation(design, unit, dtype) * operations + moved


def total_energy(design: Design, unit: str, dtype: str, counts: ActionCounts, time: FloatOrArray) -> FloatOrArray:
    """Dynamic energy plus the leakage of the whole chip over `time` [s]; raises InputError for a missing or unknown process [J]."""
    return dynamic_energy(design, unit, dtype, counts) + static_power(design) * time


def layer_energy(terms: LayerTerms, design: Design) -> Float[np.ndarray, "layer execution"]:
    """Energy [J] of one instance of each layer under each execution; 0 where the execution is not legal."""
    return (count_actions(terms) * action_energies(terms.executions, design)[..., 0]).sum(axis=-1)


def count_actions(terms: LayerTerms) -> Float[np.ndarray, "layer execution action"]:
    """Operations of one instance of each layer [FLOP], gated and skipped ones by their share, then the bytes at each memory [B].

    Every memory whose traffic the terms count takes part: the outermost one and, where on-chip capacity counts, the inner ones.
    """
    published, stored, done = published_coefficients(), terms.stored_flops, terms.energy_flops
    skipped = np.where(terms.legal, dense_flops(terms.layers)[:, None] - stored, 0.0)
    operations = done + published.gated.value * (stored - done) + published.skipped.value * skipped
    return np.concatenate([operations[..., None], terms.traffic], axis=-1)


def action_energies(executions: Sequence[Execution], design: Design) -> Float[AnyArray, "execution action *design"]:
    """Energy of an operation [J/FLOP] and of a byte at each memory [J/B], outermost first, under each execution.

    The last axis is that of the arrays in the design, of length 1 where none changes an energy.
    """
    rows = []
    for execution in executions:
        memories = (execution.outermost_memory, *execution.inner_memories)
        rows.append([energy_per_operation(design, execution.unit, execution.dtype), *(energy_per_byte(design, name) for name in memories)])
    module = design.array_module
    shape = np.broadcast_shapes((1,), *(np.shape(energy) for row in rows for energy in row))
    return module.stack([module.stack([module.broadcast_to(module.asarray(energy), shape) for energy in row]) for row in rows])


def execution_preference(
    terms: LayerTerms, accelerator: Accelerator, base: Accelerator | None = None
) -> Int[np.ndarray, "layer execution"]:
    """Rank of each execution of each layer in a tie, 0 first; `base` is the description that the accelerator was varied from."""
    given = {} if accelerator.value(PROCESS_PATH) is not None else {PROCESS_PATH: ASSUMED_PROCESS}
    energy = round_digits(layer_energy(terms, Design(accelerator, given, base)))
    names = [execution.name for execution in terms.executions]
    by_name = np.array([sorted(names).index(name) for name in names])
    order = np.lexsort((np.broadcast_to(by_name, energy.shape), energy), axis=1)
    return order.argsort(axis=1)


def round_digits(values: np.ndarray) -> np.ndarray:
    """Numbers to their leading digits, so that rounding does not order what is equal."""
    with np.errstate(divide="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(values))) + 1 - ENERGY_DIGITS)
    return np.where(unit > 0, np.round(values / np.where(unit > 0, unit, 1.0)) * unit, 0.0)
