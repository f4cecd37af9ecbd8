"""The layers of a network, and exact statistics of every mask that came with it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf, prod

import numpy as np
from tqdm import tqdm

from dse.base.errors import InputError, ProblemCollector
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import NetworkState, ParsedNetwork, WeightTensor
from dse.sparsity import statistics
from dse.sparsity.kinds import NM, UNSTRUCTURED, Block
from dse.sparsity.pattern import Pattern
from dse.sparsity.statistics import BlockSize, MaskStatistics

FILLED = 0.9  # a mask is called N:M if it keeps at least this share of what N:M may keep


@dataclass(frozen=True)
class Counting:
    """How masks are counted. A convolution's k runs channel by channel at each point of the kernel ("channels-last", as implicit
    GEMM reads it and as vendors prune it), or point by point of each channel ("channels-first", as weights are stored)."""

    tolerance: float = 0.0
    blocks: tuple[BlockSize, ...] = statistics.BLOCKS
    groups: tuple[int, ...] = statistics.GROUPS
    layout: str = "channels-last"

    @property
    def sizes(self) -> tuple[BlockSize, ...]:
        return (*((1, group) for group in self.groups), *self.blocks)


@dataclass(frozen=True)
class Traced:
    """One network state: the pattern that its masks share, and what they say of each layer."""

    method: str
    pattern: Pattern
    nominal: float
    realised: float
    layers: dict[str, MaskStatistics]
    nonzeros: dict[str, float]
    layout: str
    dtypes: dict[str, str] = field(default_factory=dict)
    activations: dict[str, float] = field(default_factory=dict)  # share of a layer's input that is not zero

    @property
    def dense(self) -> bool:
        return self.realised == 0 and not self.activations


def trace(source: ParsedNetwork, counting: Counting, method: str | None, sparsity: float | None, progress: bool) -> list[Traced]:
    """Statistics of every state of a network; raises InputError with every broken tensor."""
    problems, found = ProblemCollector(), []
    steps = sum(len(state.weights) for state in source.states)
    with tqdm(total=steps, desc="counting", unit="layer", disable=None if progress and steps > 1 else True) as bar:
        for state in source.states:
            with problems.collect(source.path):
                found.append(_state(source, state, counting, method, sparsity, bar))
    problems.raise_if_any()
    _check_different(source, found)
    return found


def _state(source: ParsedNetwork, state: NetworkState, counting: Counting, method: str | None, sparsity: float | None, bar: tqdm) -> Traced:
    layers = _count(source, state, counting, bar)
    pattern, layout = _common_pattern(layers.values()), counting.layout
    if pattern == UNSTRUCTURED and layout == "channels-last" and _has_kernels(state):
        other = _count(source, state, replace(counting, layout="channels-first"), None)
        if (found := _common_pattern(other.values())) != UNSTRUCTURED:
            layers, pattern, layout = other, found, "channels-first"
    nonzeros = {name: float(found.nnz) for name, found in layers.items()} | state.nonzeros
    realised = _sparsity(source.layers, nonzeros)
    nominal = sparsity if sparsity is not None else state.sparsity
    dtypes = {name: weights.dtype for name, weights in state.weights.items()}
    named = method or state.method or "traced"
    return Traced(named, pattern, round(realised, 4) if nominal is None else nominal, realised, layers, nonzeros, layout, dtypes)


def _count(source: ParsedNetwork, state: NetworkState, counting: Counting, bar: tqdm | None) -> dict[str, MaskStatistics]:
    problems, found = ProblemCollector(), {}
    for name, weights in state.weights.items():
        with problems.collect(source.path, key=name):
            found[name] = statistics.count_nonzeros(
                _flat(weights, counting.layout), prod(weights.shape[1:]), counting.sizes, counting.tolerance
            )
        if bar is not None:
            bar.update()
    problems.raise_if_any()
    return found


def _flat(weights: WeightTensor, layout: str) -> Iterator[np.ndarray]:
    """Slabs as rows of the matrix [m, k]."""
    for slab in weights.slabs():
        turned = np.moveaxis(slab, 1, -1) if layout == "channels-last" and slab.ndim > 2 else slab
        yield turned.reshape(len(slab), -1)


def _has_kernels(state: NetworkState) -> bool:
    return any(len(weights.shape) > 2 and prod(weights.shape[2:]) > 1 for weights in state.weights.values())


def _common_pattern(layers: Iterable[MaskStatistics]) -> Pattern:
    """The tightest pattern that every pruned mask fits and that all of them nearly fill: an N:M, else the largest blocks, else none."""
    pruned = [layer for layer in layers if 0 < layer.nnz < layer.size]
    if not pruned:
        return UNSTRUCTURED
    nnz, found = sum(layer.nnz for layer in pruned), [layer.stored_elements() for layer in pruned]
    slots = {pattern: _slots(pattern, pruned, found) for stored in found for pattern in stored if isinstance(pattern, NM)}
    if fixed := [pattern for pattern, needed in slots.items() if nnz >= FILLED * needed]:
        return min(fixed, key=lambda pattern: (slots[pattern], pattern.m))
    shared = set.intersection(*map(set, found))
    whole = [p for p in shared if isinstance(p, Block) and sum(stored[p] for stored in found) == nnz]
    return max(whole, key=lambda pattern: prod(pattern.tile), default=UNSTRUCTURED)


def _slots(pattern: NM, pruned: list[MaskStatistics], found: list[dict[Pattern, float]]) -> float:
    """Elements that the pattern has room for in all masks; endless if one of them is not of it, nor of a tighter one."""
    legal = all(any(isinstance(own, NM) and own.is_below(pattern) for own in stored) for stored in found)
    return sum(pattern.stored_elements(len(layer.rows), len(layer.columns), 1.0) for layer in pruned) if legal else inf


def _sparsity(rows: tuple[LayerRow, ...], nonzeros: dict[str, float]) -> float:
    """1 - nnz / size over the prunable weights; a layer without a mask is dense."""
    sizes = {r.name: (r.m or 0) * (r.k or 0) * r.experts * r.count for r in rows if r.kind in WITH_WEIGHTS and r.prunable}
    kept = sum(nonzeros.get(r.name, (r.m or 0) * (r.k or 0) * r.experts) * r.count for r in rows if r.name in sizes)
    return 1 - kept / total if (total := sum(sizes.values())) else 0.0


def _check_different(source: ParsedNetwork, states: list[Traced]) -> None:
    keys = [(state.method, str(state.pattern), state.nominal) for state in states]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        listed = "; ".join(f"{method} {pattern} {nominal:g}" for method, pattern, nominal in twice)
        raise InputError(f"several states of {source.path} are called {listed}", "name their folders METHOD/SPARSITY")
