"""Scaling of circuits with the process, relative to 7 nm, at which the coefficients are given."""

from collections.abc import Callable

import numpy as np

from dse.base.errors import InputError
from dse.model.cost.coefficients import ProcessNode, published_coefficients
from dse.model.cost.design import Design
from dse.sparsity.pattern import FloatOrArray

REFERENCE_PROCESS = 7e-9  # m


def logic_area_scale(design: Design) -> FloatOrArray:
    """Area of logic relative to the same logic at 7 nm [1]."""
    return _interpolate(design, lambda node: node.transistor.value)


def sram_area_scale(design: Design) -> FloatOrArray:
    """Area of SRAM relative to the same SRAM at 7 nm [1]."""
    return _interpolate(design, lambda node: node.bitcell.value)


def energy_scale(process: FloatOrArray) -> FloatOrArray:
    """Energy of a switching circuit relative to the same circuit at 7 nm [1]."""
    return (process / REFERENCE_PROCESS) ** published_coefficients().energy_exponent.value


def check_process(design: Design) -> None:
    """Raise InputError for a design without a process, or with one outside the table (which is unknown while JAX traces)."""
    process, name = design.process, design.accelerator.name
    nodes = [node.process.value for node in published_coefficients().scaling]
    span = f"{min(nodes) * 1e9:g} to {max(nodes) * 1e9:g} nm"
    if process is None:
        raise InputError(f"'{name}' has no process, on which area, power and energy depend", f"add 'cost: {{process: 7 nm}}' ({span})")
    if design.array_module is not np:
        return
    # Unit conversion rounds: 7 nm may be 7.000000000000001e-09.
    if np.min(process) < min(nodes) * (1 - 1e-9) or np.max(process) > max(nodes) * (1 + 1e-9):
        raise InputError(f"'{name}' has a process for which no circuit sizes are known", f"write one from {span}")


def _interpolate(design: Design, size: Callable[[ProcessNode], float]) -> FloatOrArray:
    """Size relative to 7 nm, interpolated linearly in the logarithms."""
    nodes = sorted(published_coefficients().scaling, key=lambda node: node.process.value)
    log_processes, log_sizes = np.log([node.process.value for node in nodes]), np.log([size(node) for node in nodes])
    xp = design.array_module
    log_size, log_reference = (xp.interp(xp.log(process), log_processes, log_sizes) for process in (design.process, REFERENCE_PROCESS))
    return xp.exp(log_size - log_reference)
