"""Grids of designs, evaluated as rows x columns: the inverse rate of a design is that of its row times that of its column.

The functions `..._on_grid` are those of `dse.model.roofline`, compiled; a `Grid` calls them with as many rows at a time as the cache holds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, mul
from typing import NamedTuple, ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from dse.base.array_types import AnyArray
from dse.model import jax_devices
from dse.model.efficiency.interval import network_interval
from dse.model.roofline import XLA_OPTIONS, Combination, NetworkWork, network_breakdown, network_energy, network_latency

MOST_COLUMNS = 2**14

P = ParamSpec("P")

RowRates = Float[AnyArray, "execution term row"]
ColumnRates = Float[AnyArray, "execution term column"]


def _compiled(function: Callable[P, AnyArray]) -> Callable[P, Array]:
    return partial(jax.jit, static_argnames="combination", compiler_options=XLA_OPTIONS)(function)


def _outer(rows: RowRates, columns: ColumnRates) -> Float[Array, "execution term row column"]:
    return jnp.asarray(rows[..., :, None] * columns[..., None, :])


@_compiled
def latency_on_grid(
    network: NetworkWork, rows: RowRates, columns: ColumnRates, *, combination: Combination
) -> Float[AnyArray, "row column"]:
    """Latency [s] of each design."""
    return network_latency(network, _outer(rows, columns), combination)


@_compiled
def energy_on_grid(
    network: NetworkWork, rows: RowRates, columns: ColumnRates, *, combination: Combination
) -> Float[AnyArray, "row column"]:
    """Energy [J] of the work on each design."""
    return network_energy(network, _outer(rows, columns), combination)


@_compiled
def varied_energy_on_grid(
    network: NetworkWork,
    energies: Float[AnyArray, "execution action entry"],
    column_entries: Int[AnyArray, "column"],
    rows: RowRates,
    columns: ColumnRates,
    row_entries: Int[AnyArray, "row"],
    *,
    combination: Combination,
) -> Float[AnyArray, "row column"]:
    """Energy [J] of the work on each design, where designs differ in the energy of an action.

    `network.energy` has the numbers of actions. The energies of a design are the entry of `energies` that its row and column add up to.
    """
    action_energies = jnp.asarray(energies)[..., row_entries[:, None] + column_entries]
    return network_energy(network, _outer(rows, columns), combination, action_energies)


@_compiled
def breakdown_on_grid(
    network: NetworkWork, rows: RowRates, columns: ColumnRates, lower_bound: NetworkWork | None = None, *, combination: Combination
) -> Float[Array, "part row column"]:
    """Time [s] in each execution while bound by each resource, flattened to one axis; then the latency of `lower_bound`, if it is given."""
    inverse_rates = _outer(rows, columns)
    breakdown = network_breakdown(network, inverse_rates, combination)
    parts = breakdown.reshape(-1, *inverse_rates.shape[2:])
    return parts if lower_bound is None else jnp.concatenate([parts, network_latency(lower_bound, inverse_rates, combination)[None]])


class Samples(NamedTuple):
    """Work and overhead of some layers in each sample of the fitted parameters, under the executions with the indices `executions`;
    `legal` is the same for all samples."""

    work: Float[AnyArray, "sample layer execution term"]
    legal: Bool[AnyArray, "layer execution"]
    overhead: Float[AnyArray, "sample layer execution"]
    executions: tuple[int, ...]


def samples_on_grid(
    groups: Sequence[Samples], rows: RowRates, columns: ColumnRates, others: Array | None = None, *, combination: Combination
) -> Float[AnyArray, "sample row column"]:
    """Latency [s] of each design in each sample; the latencies of the groups, and of `others`, add up."""
    executions = tuple(group.executions for group in groups)
    return _samples_on_grid([group[:3] for group in groups], rows, columns, others, executions=executions, combination=combination)


@partial(jax.jit, static_argnames=("executions", "combination"), compiler_options=XLA_OPTIONS)
def _samples_on_grid(
    groups: list[tuple[AnyArray, AnyArray, AnyArray]],
    rows: RowRates,
    columns: ColumnRates,
    others: Array | None,
    *,
    executions: tuple[tuple[int, ...], ...],
    combination: Combination,
) -> Float[AnyArray, "sample row column"]:
    inverse_rates = _outer(rows, columns)

    def group_latency(work: AnyArray, legal: AnyArray, overhead: AnyArray, numbers: tuple[int, ...]) -> AnyArray:
        rates = inverse_rates[jnp.array(numbers)]
        return jax.vmap(lambda w, o: network_latency(NetworkWork(w, legal, o), rates, combination))(work, overhead)

    latencies: list[AnyArray] = [group_latency(*group, numbers) for group, numbers in zip(groups, executions, strict=True)]
    return reduce(add, latencies if others is None else [others, *latencies])


@jax.jit
def intervals(
    latencies: Float[AnyArray, "sample row column"], dense: Float[AnyArray, "sample row column"] | None = None
) -> Float[Array, "quantile row column"]:
    """Interval ends (low, high) of the latency [s] of a network, then those of its speedup over the `dense` network, from samples of both.

    It is a call of its own, because a compiler that fused it with the latencies would compute these again for each quantile.
    """
    latency = network_interval(latencies, array_module=jnp)
    return latency if dense is None else jnp.concatenate([latency, network_interval(dense / latencies, 2, jnp)])


def first_column_axis(shape: Sequence[int], width: int = MOST_COLUMNS) -> int:
    """The first of the last axes of a grid that together make up no more than `width` columns."""
    return len(shape) - int((np.cumprod(shape[::-1], dtype=float) <= width).sum())


@dataclass(frozen=True, eq=False)
class Grid:
    """Inverse rates: `constant` times one of `factors` for each axis, the last axis varying fastest.

    The axes from `first_column` on make up the columns, the others the rows, of which `rows_at_once` are evaluated at a time. So a factor
    is multiplied out for rows or for columns alone. Every call has the same shape: missing rows and columns repeat others.
    """

    constant: Float[np.ndarray, "execution term"]
    factors: Sequence[Float[np.ndarray, "execution term _"]]
    first_column: int
    columns_at_once: int
    rows_at_once: int
    precision: np.dtype

    @property
    def shape(self) -> list[int]:
        return [factor.shape[-1] for factor in self.factors]

    @property
    def column_rates(self) -> Float[np.ndarray, "execution term column"]:
        indices = _axis_indices(np.arange(self.columns_at_once), self.shape[self.first_column :])
        ones = np.ones((*self.constant.shape, self.columns_at_once))
        return _multiply(ones, self.factors[self.first_column :], indices).astype(self.precision)

    def chunks(self) -> Iterator[tuple[slice, Float[np.ndarray, "execution term row"]]]:
        """The rows of each call, and their inverse rates."""
        shape = self.shape[: self.first_column]
        total, ones = math.prod(shape), np.ones(self.rows_at_once)
        for start in range(0, total, self.rows_at_once):
            indices = _axis_indices(np.arange(start, start + self.rows_at_once), shape)
            rates = _multiply(self.constant[:, :, None] * ones, self.factors[: self.first_column], indices)
            yield slice(start, min(start + self.rows_at_once, total)), rates.astype(self.precision)

    def entries(self, strides: Sequence[int]) -> tuple[list[Int[np.ndarray, "row"]], Int[np.ndarray, "column"]]:
        """The part of the rows of each call, and of the columns, of the index into a table; `strides`: of the index on each axis."""

        def sum_of(designs: np.ndarray, axes: slice) -> np.ndarray:
            indices = zip(_axis_indices(designs, self.shape[axes]), strides[axes], strict=True)
            return np.sum([index * stride for index, stride in indices], axis=0, dtype=int) + np.zeros(len(designs), int)

        of_rows, of_columns = slice(self.first_column), slice(self.first_column, None)
        starts = range(0, math.prod(self.shape[of_rows]), self.rows_at_once)
        rows = [sum_of(np.arange(start, start + self.rows_at_once), of_rows) for start in starts]
        return rows, sum_of(np.arange(self.columns_at_once), of_columns)

    def evaluate(
        self, function: Callable[..., Array], parts: tuple[int, ...] = (), inputs: Sequence[object] | None = None
    ) -> Float[np.ndarray, "*parts_and_shape"]:
        """Call `function(rows, columns)`, which returns [*parts, row, column], on every design: [*parts, *shape].

        `inputs`: a further argument for each call, as a function that was called before on an equal grid has returned it.
        """
        rows, width = math.prod(self.shape[: self.first_column]), math.prod(self.shape[self.first_column :])
        columns, results = self.column_rates, np.empty((*parts, rows, width), self.precision)
        for call, (at, rates) in enumerate(self.chunks()):
            arguments = [jax_devices.shard_rows(rates), columns, *([] if inputs is None else [inputs[call]])]
            results[..., at, :] = np.asarray(function(*arguments))[..., : at.stop - at.start, :width]
        return results.reshape((*parts, *self.shape))


def _axis_indices(designs: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Index on each axis of designs by their number; numbers beyond the last design repeat it."""
    return np.unravel_index(np.minimum(designs, math.prod(shape) - 1), shape) if shape else ()


def _multiply(rates: np.ndarray, factors: Sequence[np.ndarray], indices: Sequence[np.ndarray]) -> np.ndarray:
    return reduce(mul, (factor[:, :, index] for factor, index in zip(factors, indices, strict=True)), rates)
