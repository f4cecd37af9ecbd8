"""One choice of everything that is no number: its work and its rates, as arrays.

Bytes are tabulated over the on-chip capacities that designs may have, each of them once, for each network state, layer and execution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from dse.accelerator import Accelerator
from dse.dtype import Dtype
from dse.explore.search.space import Space, position
from dse.explore.search.spent import Arrays
from dse.model.cost.design import Design
from dse.model.cost.network import Layers
from dse.model.equation import BYTES, Case, compulsory_case, with_capacity
from dse.model.levels import levels
from dse.model.options import ModelOptions
from dse.workload import Variant

ABSENT = 1e300  # FLOPs of an execution that is not there
TINY = 1e-300  # bytes whose logarithm stands for that of none
NEAR = 1e-9  # on a capacity of the grid


@dataclass(frozen=True, eq=False)
class Structure:
    """`cases`: of each network state at the smallest capacities. `inside`: the dimension, if any, that decides what crosses each
    memory, the outermost first; `grids`: the capacities [B] of such dimensions."""

    accelerator: Accelerator
    cases: list[Case]
    arrays: Arrays
    inside: tuple[str | None, ...]
    grids: Mapping[str, np.ndarray]

    def places(self, values: Mapping[str, Any], number: int) -> np.ndarray:
        """Where `number` designs stand in the table of each memory [memory, design]: bytes are those of the next smaller capacity."""
        return np.stack([position(self.grids[path], values[path]) if path else np.zeros(number, int) for path in self.inside])

    def between(self, logarithms: Mapping[str, Any]) -> Arrays:
        """The arrays at one design, smooth in the logarithms of its capacities, for JAX to differentiate."""

        def at(table: Any, path: str | None) -> Any:
            return table[..., 0] if path is None else _between(table, self.grids[path], logarithms[path])

        moved = [at(self.arrays.moved[..., memory, :], path) for memory, path in enumerate(self.inside)]
        joules = at(self.arrays.joules, self.inside[0])
        return self.arrays._replace(moved=jnp.stack(moved, axis=-1)[..., None], joules=joules[..., None])


def _between(table: Any, grid: np.ndarray, at: Array) -> Any:
    """Log-log lines through a table [..., capacity]; on a capacity of the grid, the line to the next one."""
    if len(grid) == 1:
        return table[..., 0]
    steps, known = jnp.log(grid), jnp.log(jnp.maximum(table, TINY))
    low = jnp.clip(jnp.searchsorted(steps, at + NEAR) - 1, 0, len(grid) - 2)
    share = (at - steps[low]) / (steps[low + 1] - steps[low])
    return jnp.exp((1 - share) * known[..., low] + share * known[..., low + 1])


def made(
    accelerator: Accelerator, space: Space, states: Sequence[Variant], batch: int, dtype: Dtype, options: ModelOptions, with_energy: bool
) -> Structure:
    """The work of `states` on one structure; raises BadInput if it does not compute in `dtype`."""
    grids = {dimension.path: dimension.grid for dimension in space.dimensions if dimension.grid is not None}
    sized = _sized(accelerator, grids)
    found = [compulsory_case(sized[0], state, batch, dtype, options) for state in states]
    cases = [[with_capacity(each, one, options) for one in sized] for each in found]
    layers = [Layers.alike(each) for each in cases]
    design, numeric = Design(accelerator, base=space.accelerator), [d.path for d in space.dimensions if not d.structural]
    joules = [_joules(*pair, design, dtype.compute if with_energy else None) for pair in zip(layers, cases, strict=True)]
    rates = [_rates(each[0], accelerator, numeric) for each in cases]
    shape = max(len(parts[0].count) for parts in layers), max(len(each[0].executions) for each in cases)
    stacked = [_padded(shape, parts, j, *rate) for parts, j, rate in zip(layers, joules, rates, strict=True)]
    inside = tuple(level.inside if level.inside in grids else None for level in levels(sized[0], options.fidelity))
    return Structure(accelerator, [each[0] for each in cases], Arrays(*map(np.stack, zip(*stacked, strict=True))), inside, grids)


def _sized(accelerator: Accelerator, grids: Mapping[str, np.ndarray]) -> list[Accelerator]:
    """The accelerator at each capacity. Each memory depends on one of them, so all go up together; shorter grids stay at their end."""
    most = max(map(len, grids.values()), default=1)
    taken = [{path: f"{float(grid[min(n, len(grid) - 1)])!r} B" for path, grid in grids.items()} for n in range(most)]
    return [accelerator.replace(values) for values in taken]


def _joules(layers: list[Layers], cases: list[Case], design: Design, dtype: str | None) -> np.ndarray:
    """Energy of each layer [layer, execution, capacity]; 0 where none is asked for."""
    if dtype is None:
        return np.zeros((*layers[0].done.shape, len(cases)))
    return np.stack([part.energy(case, design, dtype) for part, case in zip(layers, cases, strict=True)], axis=-1)


def _rates(found: Case, accelerator: Accelerator, paths: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """1 / (P * E) of each term without the numbers at `paths` [execution, term], and whether it depends on each of these
    [path, execution, term]."""
    constant = np.zeros((len(found.executions), found.work.shape[-1]))
    depends = np.zeros((len(paths), *constant.shape), bool)
    for e, execution in enumerate(found.executions):
        for term, factors in enumerate(execution.rates):
            if factors is not None:
                constant[e, term] = 1 / np.prod([accelerator.value(path) for path in factors if path not in paths])
                depends[:, e, term] = [path in factors for path in paths]
    return constant, depends


def _padded(
    shape: tuple[int, int], layers: list[Layers], joules: np.ndarray, constant: np.ndarray, depends: np.ndarray
) -> tuple[np.ndarray, ...]:
    """As `Arrays` of one state: absent layers take no time, absent executions too much."""
    work = np.stack([part.work for part in layers], axis=-1)
    rows, missing = (0, shape[0] - len(work)), (0, shape[1] - work.shape[1])
    flops = np.pad(work[:, :, :BYTES, 0], (rows, (0, 0), (0, 0)))
    flops = np.pad(flops, ((0, 0), missing, (0, 0)), constant_values=ABSENT)
    return (
        np.where(np.isinf(flops), ABSENT, flops), np.pad(work[:, :, BYTES:], (rows, missing, (0, 0), (0, 0))),
        np.pad(layers[0].count, rows), np.pad(joules, (rows, missing, (0, 0))),
        np.pad(constant, (missing, (0, 0)), constant_values=1.0), np.pad(depends, ((0, 0), missing, (0, 0))),
    )  # fmt: skip
