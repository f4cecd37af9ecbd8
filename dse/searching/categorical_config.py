"""One choice of everything that is no number: its work and its rates, as arrays.

Bytes are tabulated over the on-chip capacities that designs may have, what measured kernels make of the units' work over all combinations
of what slows them, each of them once, for each network state, layer and execution.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from dse.model.cost.design import Design
from dse.model.cost.network import Layers
from dse.model.efficiency.fitted import LAUNCH, finished
from dse.model.levels import levels
from dse.model.peak import Execution
from dse.model.roofline import at_once
from dse.model.terms import BYTES, DECODE, Case, compulsory_case
from dse.schema.accelerator import Accelerator
from dse.searching.batch_evaluator import Arrays
from dse.searching.problem import SearchProblem
from dse.searching.space import Space, position
from dse.workload import Variant

ABSENT = 1e60  # FLOPs of an execution that is not there, small enough for fourth powers of its time
TINY = 1e-300  # bytes whose logarithm stands for that of none
NEAR = 1e-9  # on a value of the grid
MOST_AT_ONCE = 8  # layers of a step of the scan: those of a state are filled up to whole steps


@dataclass(frozen=True, eq=False)
class Structure:
    """`cases`: of each network state at the smallest values of what is tabulated. `inside`: the dimension, if any, that decides what
    crosses each memory, the outermost first; `slows`: those that decide what slows a unit; `grids`: the values of all such dimensions.
    `compute`: how many terms of the work are the units'."""

    accelerator: Accelerator
    cases: list[Case]
    executions: tuple[Execution, ...]
    compute: int
    arrays: Arrays
    inside: tuple[str | None, ...]
    slows: tuple[str, ...]
    grids: Mapping[str, np.ndarray]

    def places(self, values: Mapping[str, Any], number: int) -> np.ndarray:
        """Where `number` designs stand in the table of the units and in that of each memory [table, design]: the next smaller values."""
        nothing, found = np.zeros(number, int), {path: position(grid, values[path]) for path, grid in self.grids.items()}
        joint = np.ravel_multi_index([found[path] for path in self.slows], self._sizes) if self.slows else nothing
        return np.stack([joint, *(found[path] if path else nothing for path in self.inside)])

    def between(self, logarithms: Mapping[str, Any]) -> Arrays:
        """The arrays at one design, smooth in the logarithms of what is tabulated, for JAX to differentiate."""

        def at(table: Any, path: str | None) -> Any:
            return table[..., 0] if path is None else _between(table, self.grids[path], logarithms[path])

        arrays = self.arrays.singly()
        flops = arrays.flops.reshape(*arrays.flops.shape[:-1], *self._sizes)
        for path in reversed(self.slows or (None,)):
            flops = at(flops, path)
        moved = [at(arrays.moved[..., memory, :], path) for memory, path in enumerate(self.inside)]
        joules = None
        if arrays.joules is not None:
            joules = jnp.stack([at(arrays.joules[..., memory, :], path) for memory, path in enumerate(self.inside)], axis=-1)[..., None]
        return arrays._replace(flops=flops[..., None], moved=jnp.stack(moved, axis=-1)[..., None], joules=joules)

    @property
    def _sizes(self) -> list[int]:
        return [len(self.grids[path]) for path in self.slows] or [1]


def _between(table: Any, grid: np.ndarray, at: Array) -> Any:
    """Log-log lines through a table [..., capacity]; on a capacity of the grid, the line to the next one."""
    if len(grid) == 1:
        return table[..., 0]
    steps, known = jnp.log(grid), jnp.log(jnp.maximum(table, TINY))
    low = jnp.clip(jnp.searchsorted(steps, at + NEAR) - 1, 0, len(grid) - 2)
    share = (at - steps[low]) / (steps[low + 1] - steps[low])
    return jnp.exp((1 - share) * known[..., low] + share * known[..., low + 1])


def made(accelerator: Accelerator, space: Space, asked: SearchProblem, states: Sequence[Variant], with_energy: bool) -> Structure:
    """The work of `states` on one structure; raises InputError if it does not compute in the precision asked for."""
    grids = {dimension.path: dimension.grid for dimension in space.dimensions if dimension.grid is not None}
    sized, slowed = _tabulated(accelerator, space, grids)
    found = [_cases(state, [*sized, *slowed], space, asked) for state in states]
    used = {execution for each in found for execution in each[0].executions}
    executions = tuple(execution for execution in found[0][0].candidates if execution in used)
    constant, depends = _rates(executions, sized[0], [d.path for d in space.dimensions if not d.categorical])
    flops = [term for term in range(BYTES) if term == 1 or constant[:, term].any()]
    compute, step = sum(term < DECODE for term in flops), at_once(MOST_AT_ONCE, len(executions), asked.options.resource_overlap)
    design, dtype = Design(accelerator, base=space.accelerator), asked.dtype.compute if with_energy else None
    rows = [_rows(each, len(sized), executions, flops, step, design, dtype) for each in found]
    steps = np.repeat(np.arange(len(rows)), [len(row["flops"]) for row in rows])
    own = np.equal.outer(np.arange(len(rows)), steps).astype(float)
    kept = [*flops, *range(BYTES, constant.shape[1])]
    stacked = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    arrays = Arrays(**stacked, states=own, constant=constant[:, kept], depends=depends[:, :, kept])
    inside = tuple(level.inside if level.inside in grids else None for level in levels(sized[0], asked.options.fidelity))
    return Structure(accelerator, [each[0] for each in found], executions, compute, arrays, inside, _slowing(grids), grids)


def _slowing(grids: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    return tuple(path for path in grids if path.startswith("units."))


def _tabulated(accelerator: Accelerator, space: Space, grids: Mapping[str, np.ndarray]) -> tuple[list[Accelerator], list[Accelerator]]:
    """The accelerator at each capacity, and with each other combination of what slows its units, everything else at its smallest value.

    Each memory depends on one capacity, so all go up together; shorter grids stay at their end.
    """
    units, slows = {d.path: d.axis.unit for d in space.dimensions}, _slowing(grids)

    def at(values: Mapping[str, float]) -> Accelerator:
        given = {path: values.get(path, grid[0]) for path, grid in grids.items()}
        launch = {LAUNCH: "1 s"} if LAUNCH in units else {}
        return accelerator.replace({path: f"{float(value)!r} {units[path]}".strip() for path, value in given.items()} | launch)

    capacities = {path: grid for path, grid in grids.items() if path not in slows}
    most = max(map(len, capacities.values()), default=1)
    sized = [at({path: grid[min(n, len(grid) - 1)] for path, grid in capacities.items()}) for n in range(most)]
    combined = itertools.islice(itertools.product(*(grids[path] for path in slows)), 1, None)
    return sized, [at(dict(zip(slows, values, strict=True))) for values in combined]


def _cases(state: Variant, accelerators: Sequence[Accelerator], space: Space, asked: SearchProblem) -> list[Case]:
    found = compulsory_case(accelerators[0], state, asked.batch, asked.dtype, asked.options)
    rest = state, asked.dtype, asked.options, asked.kernels, space.accelerator
    return [finished(found, one, *rest, sampled=False) for one in accelerators]


def _rates(executions: Sequence[Execution], accelerator: Accelerator, paths: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """1 / (P * E) of each term without the numbers at `paths` [execution, term], and whether it depends on each of these
    [path, execution, term]."""
    constant = np.zeros((len(executions), len(executions[0].rates)))
    depends = np.zeros((len(paths), *constant.shape), bool)
    for e, execution in enumerate(executions):
        for term, factors in enumerate(execution.rates):
            if factors is not None:
                constant[e, term] = 1 / np.prod([accelerator.value(path) for path in factors if path not in paths])
                depends[:, e, term] = [path in factors for path in paths]
    return constant, depends


def _rows(
    cases: list[Case], sizes: int, executions: Sequence[Execution], flops: list[int], step: int, design: Design, dtype: str | None
) -> dict[str, np.ndarray]:
    """One state as `Arrays` [step, layer, ...]. The first `sizes` cases are those of the capacities, the first one and all others those of
    what slows the units. Absent layers count nothing, absent executions take too long."""
    parts = Layers.alike(cases)
    worked = np.stack([part.timed[:, :, flops] for part in (parts[0], *parts[sizes:])], axis=-1)
    moved = np.stack([part.timed[:, :, BYTES:] for part in parts[:sizes]], axis=-1)
    something = np.any(worked > 0, axis=(1, 2, 3)) | np.any(moved > 0, axis=(1, 2, 3))  # not a row of parameters
    missing, columns = -something.sum() % step, [executions.index(execution) for execution in cases[0].executions]

    def placed(part: np.ndarray, absent: float, stands_for_none: float) -> np.ndarray:
        """With every execution and whole steps of layers."""
        shape = something.sum() + missing, len(executions), *part.shape[2:]
        whole = np.full(shape, absent)
        whole[: len(whole) - missing, columns], whole[len(whole) - missing :] = part[something], stands_for_none
        return whole.reshape(-1, step, *shape[1:])

    found = {
        "flops": placed(np.where(np.isinf(worked), ABSENT, worked), ABSENT, 1.0),
        "moved": placed(moved, 0.0, 0.0),
        "count": np.pad(parts[0].count[something], (0, missing)).reshape(-1, step),
    }
    if parts[0].fixed is not None:
        found["fixed"] = placed(parts[0].fixed, 0.0, 0.0)
    if dtype is not None:
        joules = [part.energy_by_level(case, design, dtype) for part, case in zip(parts, cases[:sizes], strict=False)]
        found["joules"] = placed(np.stack(joules, axis=-1), 0.0, 0.0)
    return found
