"""Energy of a network on many designs: of the execution that is fastest for each layer, summed over layers, in JAX."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float

from dse.model import roofline
from dse.model.cost.design import Design
from dse.model.cost.energy import Counts, byte, dynamic
from dse.model.terms import BYTES, Case
from dse.model.work import dense_flops
from dse.schema.model_options import ResourceOverlap

trace_count = 0  # of `spent_energy`: a sweep compiles once


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of a network state that differ in work or time, and how often each of them runs."""

    work: Float[np.ndarray, "layer execution term"]
    timed: Float[np.ndarray, "layer execution term"]
    fixed: Float[np.ndarray, "layer execution"] | None
    done: Float[np.ndarray, "layer execution"]
    dense: Float[np.ndarray, "layer"]
    count: Float[np.ndarray, "layer"]

    @classmethod
    def of(cls, case: Case) -> "Layers":
        return cls.alike([case])[0]

    @classmethod
    def each(cls, case: Case) -> "Layers":
        """Every layer by itself, in the order of the network."""
        return cls(case.work, case.timed, case.fixed, case.done, dense_flops(case.layers), case.count)

    @classmethod
    def alike(cls, cases: Sequence[Case]) -> "list[Layers]":
        """Of cases that differ in their bytes alone: the same layers of each, those taken together that differ in none."""
        case = cases[0]
        apart = [part.reshape(len(each.work), -1) for each in cases for part in (each.work, each.timed, each.fixed) if part is not None]
        rows = np.column_stack([*apart, case.done, dense_flops(case.layers)])
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        fixed, count = None if case.fixed is None else case.fixed[first], np.bincount(which.ravel(), case.count)
        return [cls(each.work[first], each.timed[first], fixed, each.done[first], rows[first, -1], count) for each in cases]

    def energy(self, case: Case, design: Design, dtype: str) -> Float[np.ndarray, "layer execution"]:
        """Energy [J] of all repeats of each layer under each execution; 0 where it may not be run so."""
        return self.energy_by_level(case, design, dtype).sum(axis=-1)

    def energy_by_level(self, case: Case, design: Design, dtype: str) -> Float[np.ndarray, "layer execution level"]:
        """The same by memory level, the outermost first; that of the operations is counted with the outermost.

        Every level whose bytes the case counts takes part: the outermost one and, by on-chip capacity, those inside it.
        """
        columns = []
        for number, execution in enumerate(case.executions):
            legal = np.isfinite(self.work[:, number, 1])
            timed, *moved = (np.where(legal, self.work[:, number, term], 0.0) for term in (1, *range(BYTES, self.work.shape[2])))
            done = np.where(legal, self.done[:, number], 0.0)
            operations = Counts(done, timed - done, np.where(legal, self.dense - timed, 0.0), {execution.memory: moved[0]})
            inner = [byte(design, level) * part for level, part in zip(execution.inner, moved[1:], strict=True)]
            columns.append(np.stack([dynamic(design, execution.unit, dtype, operations), *inner], axis=-1) * self.count[:, None])
        return np.stack(columns, axis=1)


def energy_of_fastest(times: list[Any], energies: list[Any]) -> Any:
    """Least energy [J] among the executions that take no longer than the fastest one."""
    fastest = reduce(jnp.minimum, times)
    spent = [jnp.where(roofline.is_tied(time, fastest), energy, jnp.inf) for time, energy in zip(times, energies, strict=True)]
    return reduce(jnp.minimum, spent)


@partial(jax.jit, static_argnames=("compute", "overlap"), compiler_options=roofline.COMPILED)
def spent_energy(
    work: Float[Any, "layer execution term"],
    energy: Float[Any, "layer execution"],
    rows: Float[Any, "execution term row"],
    columns: Float[Any, "execution term column"],
    fixed: Float[Any, "layer execution"] | None = None,
    *,
    compute: int,
    overlap: ResourceOverlap,
) -> Float[Array, "row column"]:
    """Energy [J] of a network on many designs; arguments as of `roofline.spent_time`, the work of one repeat of a layer.

    `energy` is that of all repeats of each layer under each execution; the fastest one runs, of those that take equally long the one
    of least energy.
    """
    global trace_count
    trace_count += 1
    inverse = rows[..., :, None] * columns[..., None, :]
    zero = jnp.zeros(inverse.shape[2:], work.dtype)

    def step(total: Array, layer: tuple[Array, Array, Any]) -> tuple[Array, None]:
        beside = [None] * len(inverse) if layer[2] is None else layer[2]
        times = [
            roofline.layer_time(roofline.seconds(amounts, rates, compute), overlap, more)
            for amounts, rates, more in zip(layer[0], inverse, beside, strict=True)
        ]
        return total + energy_of_fastest(times, list(layer[1])), None

    return lax.scan(step, zero, (work, energy, fixed), unroll=roofline.at_once(len(work), len(inverse), overlap))[0]
