"""Energy of a network on many designs: of the execution that is fastest for each layer, summed over layers, in JAX."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float

from dse.model import roofline
from dse.model.cost.design import Design
from dse.model.cost.energy import Counts, dynamic
from dse.model.equation import BYTES, Case
from dse.model.options import Overlap
from dse.model.work import dense_flops

trace_count = 0  # of `spent_energy`: a sweep compiles once


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of a network state that differ in work, and how often each of them runs."""

    work: Float[np.ndarray, "layer execution term"]
    done: Float[np.ndarray, "layer execution"]
    dense: Float[np.ndarray, "layer"]
    count: Float[np.ndarray, "layer"]

    @classmethod
    def of(cls, case: Case) -> "Layers":
        return cls.alike([case])[0]

    @classmethod
    def alike(cls, cases: Sequence[Case]) -> "list[Layers]":
        """Of cases that differ in their bytes alone: the same layers of each, those taken together that differ in none."""
        case, works = cases[0], [found.work.reshape(len(found.work), -1) for found in cases]
        rows = np.column_stack([*works, case.done, dense_flops(case.layers)])
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        count = np.bincount(which.ravel(), case.count)
        return [cls(found.work[first], found.done[first], rows[first, -1], count) for found in cases]

    def energy(self, case: Case, design: Design, dtype: str) -> Float[np.ndarray, "layer execution"]:
        """Energy [J] of all repeats of each layer under each execution; 0 where it may not be run so."""
        columns = []
        for number, execution in enumerate(case.executions):
            legal = np.isfinite(self.work[:, number, 1])
            timed, moved = (np.where(legal, self.work[:, number, term], 0.0) for term in (1, BYTES))
            done = np.where(legal, self.done[:, number], 0.0)
            counts = Counts(done, timed - done, np.where(legal, self.dense - timed, 0.0), {execution.memory: moved})
            columns.append(dynamic(design, execution.unit, dtype, counts) * self.count)
        return np.stack(columns, axis=1)


@partial(jax.jit, static_argnames=("compute", "overlap"))
def spent_energy(
    work: Float[Any, "layer execution term"],
    energy: Float[Any, "layer execution"],
    rows: Float[Any, "execution term row"],
    columns: Float[Any, "execution term column"],
    *,
    compute: int,
    overlap: Overlap,
) -> Float[Array, "row column"]:
    """Energy [J] of a network on many designs; arguments as of `roofline.spent_time`, the work of one repeat of a layer.

    `energy` is that of all repeats of each layer under each execution; which one runs is decided by time alone, as there.
    """
    global trace_count
    trace_count += 1
    inverse = rows[..., :, None] * columns[..., None, :]
    zero = jnp.zeros(inverse.shape[2:], work.dtype)

    def step(total: Array, layer: tuple[Array, Array]) -> tuple[Array, None]:
        fastest, spent = zero + jnp.inf, zero
        for amounts, joules, rates in zip(*layer, inverse, strict=True):
            time = roofline.layer_time(roofline.seconds(amounts, rates, compute), overlap)
            spent = jnp.where(time < fastest, joules, spent)
            fastest = jnp.where(time < fastest, time, fastest)
        return total + spent, None

    unroll = max(1, min(roofline.UNROLL // len(inverse), len(work)))
    return lax.scan(step, zero, (work, energy), unroll=unroll)[0]
