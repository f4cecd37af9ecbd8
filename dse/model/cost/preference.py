"""Which of several executions runs a layer where all of them take equally long: the one of least energy, then the first by name.

Ties are common: a memory-bound layer takes equally long on all units that store it in the same format. The order of units and runs in
a description does not matter.
"""

import numpy as np
from jaxtyping import Int

from dse.model.cost.design import Design
from dse.model.cost.layer_energy import layer_energy
from dse.model.terms import LayerTerms
from dse.schema.accelerator import Accelerator

PROCESS = "cost.process"
REFERENCE = 7e-9  # m: assumed where a description has no process; the energy of every unit scales with it
DIGITS = 12  # of an energy that count


def execution_preference(
    terms: LayerTerms, accelerator: Accelerator, dtype: str, base: Accelerator | None = None
) -> Int[np.ndarray, "layer execution"]:
    """Rank of each execution of each layer in a tie, 0 first; `base` is the description that the accelerator was varied from."""
    given = {} if accelerator.value(PROCESS) is not None else {PROCESS: REFERENCE}
    energy = round_digits(layer_energy(terms, Design(accelerator, given, base), dtype))
    names = [execution.name for execution in terms.executions]
    by_name = np.array([sorted(names).index(name) for name in names])
    order = np.lexsort((np.broadcast_to(by_name, energy.shape), energy), axis=1)
    return order.argsort(axis=1)


def round_digits(values: np.ndarray) -> np.ndarray:
    """Numbers to their leading digits, so that rounding does not order what is equal."""
    with np.errstate(divide="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(values))) + 1 - DIGITS)
    return np.where(unit > 0, np.round(values / np.where(unit > 0, unit, 1.0)) * unit, 0.0)
