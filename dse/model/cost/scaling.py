"""How circuits shrink with the process, relative to 7 nm, where the coefficients are given."""

from collections.abc import Callable

import numpy as np

from dse.base.errors import InputError
from dse.model.cost.coefficients import Node, published
from dse.model.cost.design import Design, Values

REFERENCE = 7e-9


def logic(design: Design) -> Values:
    """Area of logic over that of the same logic at 7 nm."""
    return _scaled(design, lambda node: node.transistor.value)


def sram(design: Design) -> Values:
    """Area of SRAM over that of the same SRAM at 7 nm."""
    return _scaled(design, lambda node: node.bitcell.value)


def energy(process: Values) -> Values:
    """Energy of a switching circuit over that of the same one at 7 nm."""
    return (process / REFERENCE) ** published().energy_exponent.value


def check(design: Design) -> None:
    """Raises InputError for a design without a process, or with one beyond the table (as far as it is known: JAX may trace it)."""
    process, name = design.process, design.accelerator.name
    known = [node.process.value for node in published().scaling]
    span = f"{min(known) * 1e9:g} to {max(known) * 1e9:g} nm"
    if process is None:
        raise InputError(f"'{name}' has no process, on which area, power and energy depend", f"add 'cost: {{process: 7 nm}}' ({span})")
    # A length went through units and back: 7 nm may be 7.000000000000001e-09.
    if design.arrays is not np:
        return
    if np.min(process) < min(known) * (1 - 1e-9) or np.max(process) > max(known) * (1 + 1e-9):
        raise InputError(f"'{name}' has a process for which no sizes are known", f"write one from {span}")


def _scaled(design: Design, size: Callable[[Node], float]) -> Values:
    """Interpolated along straight lines in the logarithms."""
    nodes = sorted(published().scaling, key=lambda node: node.process.value)
    processes, sizes = np.log([node.process.value for node in nodes]), np.log([size(node) for node in nodes])
    arrays = design.arrays
    at = [arrays.interp(arrays.log(process), processes, sizes) for process in (design.process, REFERENCE)]
    return arrays.exp(at[0] - at[1])
