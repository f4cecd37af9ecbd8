"""Trace a network: count the mask of each layer of each network state exactly, and find the pattern that they share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Literal

import numpy as np
from jaxtyping import Shaped
from tqdm import tqdm

from dse.base.errors import InputError, ProblemCollector
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import NetworkState, ParsedNetwork, WeightTensor
from dse.sparsity.activation_statistics import ActivationStatistics
from dse.sparsity.kinds import NM, UNSTRUCTURED, Block
from dse.sparsity.pattern import Pattern
from dse.sparsity.statistics import BLOCKS, GROUPS, BlockSize, MaskStatistics, count_nonzeros

MIN_FILLED = 0.9  # share of the nonzeros that an N:M allows, from which on masks are called N:M
Layout = Literal["channels-last", "channels-first"]


@dataclass(frozen=True)
class CountOptions:
    """How masks are counted: weights with |w| <= `tolerance` are zero.

    `layout`: order of a convolution's k. "channels-last" has all channels at the first point of the kernel, then at the next
    (as implicit GEMM reads it and as vendors prune it); "channels-first" has all points of the first channel, then of the next
    (as weights are stored).
    """

    tolerance: float = 0.0
    blocks: tuple[BlockSize, ...] = BLOCKS
    groups: tuple[int, ...] = GROUPS
    layout: Layout = "channels-last"

    @property
    def block_sizes(self) -> tuple[BlockSize, ...]:
        """Sizes of blocks to count; a group of M along k is a block of 1 x M."""
        return (*((1, group) for group in self.groups), *self.blocks)


@dataclass(frozen=True)
class TracedState:
    """One network state: the pattern that its masks share, and the statistics of each layer's mask."""

    method: str
    pattern: Pattern
    nominal_sparsity: float
    sparsity: float  # realised: 1 - nnz / size over the prunable weights
    statistics: dict[str, MaskStatistics]
    nonzeros: dict[str, float]
    layout: Layout
    dtypes: dict[str, str] = field(default_factory=dict)
    activations: dict[str, ActivationStatistics] = field(default_factory=dict)

    @property
    def is_dense(self) -> bool:
        """Whether nothing is zero in it, so that it is no variant."""
        return self.sparsity == 0 and not self.activations


def trace_network(
    network: ParsedNetwork, options: CountOptions, method: str | None = None, sparsity: float | None = None, progress: bool = False
) -> list[TracedState]:
    """Count the masks of every state of a network; raises InputError with every broken tensor.

    `method` and the nominal `sparsity` replace those of the file.
    """
    problems, traced = ProblemCollector(), []
    steps = sum(len(state.weights) for state in network.states)
    with tqdm(total=steps, desc="counting", unit="layer", disable=None if progress and steps > 1 else True) as bar:
        for state in network.states:
            with problems.collect(network.path):
                traced.append(_trace_state(network, state, options, bar))
    problems.raise_if_any()
    traced = [_named(state, method, sparsity) for state in traced]
    _check_distinct(network, traced)
    return traced


def _trace_state(network: ParsedNetwork, state: NetworkState, options: CountOptions, bar: tqdm) -> TracedState:
    """Count the masks in the layout of `options`, or channels first if only then they share a pattern."""
    statistics = _count_masks(network, state, options, bar)
    pattern, layout = _shared_pattern(statistics.values()), options.layout
    if pattern == UNSTRUCTURED and layout == "channels-last" and _has_kernels(state):
        statistics_first = _count_masks(network, state, replace(options, layout="channels-first"), None)
        if (pattern_first := _shared_pattern(statistics_first.values())) != UNSTRUCTURED:
            statistics, pattern, layout = statistics_first, pattern_first, "channels-first"
    nonzeros = {name: float(layer.nnz) for name, layer in statistics.items()} | state.nonzeros
    sparsity = _realised_sparsity(network.layers, nonzeros)
    nominal = round(sparsity, 4) if state.sparsity is None else state.sparsity
    dtypes = {name: weights.dtype for name, weights in state.weights.items()}
    return TracedState(state.method or "traced", pattern, nominal, sparsity, statistics, nonzeros, layout, dtypes)


def _named(state: TracedState, method: str | None, sparsity: float | None) -> TracedState:
    return replace(state, method=method or state.method, nominal_sparsity=state.nominal_sparsity if sparsity is None else sparsity)


def _count_masks(network: ParsedNetwork, state: NetworkState, options: CountOptions, bar: tqdm | None) -> dict[str, MaskStatistics]:
    problems, statistics = ProblemCollector(), {}
    for name, weights in state.weights.items():
        with problems.collect(network.path, key=name):
            slabs, columns = _matrix_slabs(weights, options.layout), prod(weights.shape[1:])
            statistics[name] = count_nonzeros(slabs, columns, options.block_sizes, options.tolerance)
        if bar is not None:
            bar.update()
    problems.raise_if_any()
    return statistics


def _matrix_slabs(weights: WeightTensor, layout: Layout) -> Iterator[Shaped[np.ndarray, "row k"]]:
    """Slabs of the weights as rows of the matrix [m, k]."""
    for slab in weights.slabs():
        ordered = np.moveaxis(slab, 1, -1) if layout == "channels-last" and slab.ndim > 2 else slab
        yield ordered.reshape(len(slab), -1)


def _has_kernels(state: NetworkState) -> bool:
    return any(len(weights.shape) > 2 and prod(weights.shape[2:]) > 1 for weights in state.weights.values())


def _shared_pattern(layers: Iterable[MaskStatistics]) -> Pattern:
    """The tightest N:M that every pruned mask fits and that all together nearly fill; else the largest blocks, all full; else none."""
    pruned = [layer for layer in layers if 0 < layer.nnz < layer.size]
    if not pruned:
        return UNSTRUCTURED
    nnz, stored = sum(layer.nnz for layer in pruned), [layer.stored_elements() for layer in pruned]
    candidates = dict.fromkeys(pattern for patterns in stored for pattern in patterns if isinstance(pattern, NM))
    allowed = {pattern: _allowed_nonzeros(pattern, pruned, stored) for pattern in candidates}
    if filled := [pattern for pattern, nonzeros in allowed.items() if nnz >= MIN_FILLED * nonzeros]:
        return min(filled, key=lambda pattern: (allowed[pattern], pattern.m))
    common = set.intersection(*map(set, stored))
    full_blocks = [p for p in common if isinstance(p, Block) and sum(elements[p] for elements in stored) == nnz]
    return max(full_blocks, key=lambda pattern: prod(pattern.tile), default=UNSTRUCTURED)


def _allowed_nonzeros(pattern: NM, masks: Sequence[MaskStatistics], stored: Sequence[dict[Pattern, float]]) -> float:
    """Nonzeros that an N:M allows in all masks together; infinite if one of the masks does not fit it."""
    fits = all(any(isinstance(own, NM) and own.is_below(pattern) for own in patterns) for patterns in stored)
    return sum(pattern.stored_elements(len(mask.rows), len(mask.columns), 1.0) for mask in masks) if fits else inf


def _realised_sparsity(rows: tuple[LayerRow, ...], nonzeros: dict[str, float]) -> float:
    """1 - nnz / size over the prunable weights; a layer that was not counted is dense."""
    prunable = [row for row in rows if row.kind in WITH_WEIGHTS and row.prunable]
    sizes = {row.name: (row.m or 0) * (row.k or 0) * row.experts for row in prunable}
    total = sum(sizes[row.name] * row.count for row in prunable)
    total_nonzeros = sum(nonzeros.get(row.name, sizes[row.name]) * row.count for row in prunable)
    return 1 - total_nonzeros / total if total else 0.0


def _check_distinct(network: ParsedNetwork, states: list[TracedState]) -> None:
    """Raise InputError if two states have the same method, pattern and nominal sparsity."""
    keys = [(state.method, str(state.pattern), state.nominal_sparsity) for state in states]
    if repeated := sorted({key for key in keys if keys.count(key) > 1}):
        listed = "; ".join(f"{method} {pattern} {sparsity:g}" for method, pattern, sparsity in repeated)
        raise InputError(f"several states of {network.path} are called {listed}", "name their folders METHOD/SPARSITY")
