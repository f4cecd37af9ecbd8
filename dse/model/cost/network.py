"""Energy of a network on many designs: of the execution that is fastest for each layer, summed over layers, in JAX."""

from dataclasses import dataclass
from functools import partial, reduce
from operator import mul
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float, Int

from dse.model import roofline
from dse.model.cost.design import Design
from dse.model.cost.energy import Counts, dynamic
from dse.model.equation import BYTES, Case
from dse.model.options import Combined
from dse.model.work import dense_flops

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
        apart = [part.reshape(len(case.work), -1) for part in (case.work, case.timed, case.fixed) if part is not None]
        rows = np.column_stack([*apart, case.done, dense_flops(case.layers)])
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        fixed = None if case.fixed is None else case.fixed[first]
        return cls(case.work[first], case.timed[first], fixed, case.done[first], rows[first, -1], np.bincount(which.ravel(), case.count))

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


@partial(jax.jit, static_argnames=("shape", "chunk", "compute", "overlap"))
def spent_energy(
    start: Int[Any, ""],
    work: Float[Any, "layer execution term"],
    energy: Float[Any, "layer execution"],
    constant: Float[Any, "execution term"],
    factors: tuple[Float[Any, "execution term _"], ...],
    fixed: Float[Any, "layer execution"] | None = None,
    *,
    shape: tuple[int, ...],
    chunk: int,
    compute: int,
    overlap: Combined,
) -> Float[Array, "design"]:
    """Energy [J] on `chunk` designs from number `start` of a grid of `shape` on; arguments as of `roofline.spent_time`.

    `energy` is that of each layer under each execution; which one runs is decided by time alone, as there.
    """
    global trace_count
    trace_count += 1
    places = jnp.unravel_index(start + jnp.arange(chunk), shape)
    inverse = reduce(mul, (factor[:, :, at] for factor, at in zip(factors, places, strict=True)), constant[:, :, None])

    def step(total: Array, layer: tuple[Array, Array, Any]) -> tuple[Array, None]:
        fastest, spent = jnp.full(chunk, jnp.inf, work.dtype), jnp.zeros(chunk, work.dtype)
        beside = [None] * len(inverse) if layer[2] is None else layer[2]
        for amounts, joules, rates, more in zip(*layer[:2], inverse, beside, strict=True):
            time = roofline.layer_time(roofline.seconds(amounts, rates, compute), overlap, more)
            spent = jnp.where(time < fastest, joules, spent)
            fastest = jnp.where(time < fastest, time, fastest)
        return total + spent, None

    return lax.scan(step, jnp.zeros(chunk, work.dtype), (work, energy, fixed), unroll=roofline.UNROLL)[0]
