"""time = W / (P * E), put together: one network state on one accelerator, as arrays for `roofline`.

W depends on the workload alone, 1 / (P * E) on the hardware alone, so each is made once and the designs of a
sweep share it. Four terms make up a layer's time under one execution:

    term 0   dense FLOPs    / (peak * gain * E)   the unit's gain cap
    term 1   stored FLOPs   / (peak * E)          what is stored has to be worked through
    term 2   metadata bytes / decode              where the run has a decoder with a rate of its own
    term 3   bytes          / bandwidth           of the outermost memory; then a term for each memory inside that counts

The compute time max(term 0, term 1) is dense / (peak * g * E) with g = min(gain, dense / stored).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.dtype import OperandDtypes
from dse.model import compaction, footprint, traffic, work
from dse.model.levels import levels
from dse.model.peak import Execution, executions
from dse.model.reuse import Reuse
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, ModelOptions
from dse.sparsity.kinds import Structured
from dse.workload import Variant

LAUNCH = "launch"  # the resource whose time a layer takes beside that of the others
DECODE, BYTES = 2, 3  # the terms from which on the work is not the unit's, and is a memory's


@dataclass(frozen=True, eq=False)
class Case:
    """The work of one variant at one batch under the executions that some layer of it may take.

    `work` is [layer, execution, term] in FLOP, FLOP, B and B; an illegal execution costs infinite FLOPs. `done`: the FLOPs of
    term 1 that take energy too. `unsupported`: some layer is pruned, but no listed run of the device takes it, so it runs dense.
    `candidates`: every execution of the device, and for which layers it is `legal`. Where on-chip capacity counts, `reuse` says how
    bytes follow from it until they do; then `work` has those that a known schedule moves, `least` is the case of what every one does.

    Where kernels are measured ones, the work of each term takes `slowed` times as long as at the speed of light, each layer takes `fixed`
    seconds more, resources overlap as pipelines do, and `draws` are the cases of other parameters that the measurements allow;
    `kernels` names the kernel that stands behind each.
    """

    layers: LayerArrays
    executions: tuple[Execution, ...]
    work: Float[np.ndarray, "layer execution term"]
    done: Float[np.ndarray, "layer execution"]
    footprint: float  # bytes in the outermost memory: weights with biases, norms and embeddings, key-value cache, activations
    unsupported: bool
    candidates: tuple[Execution, ...]
    legal: Bool[np.ndarray, "layer candidate"]
    reuse: Reuse | None = None
    least: "Case | None" = None
    slowed: Float[np.ndarray, "layer execution term"] | None = None
    fixed: Float[np.ndarray, "layer execution"] | None = None
    draws: "tuple[Case, ...]" = ()
    kernels: np.ndarray | None = None  # text [layer, execution]

    @property
    def count(self) -> Float[np.ndarray, "layer"]:
        return self.layers.count

    @property
    def timed(self) -> Float[np.ndarray, "layer execution term"]:
        """The work that would take as long at the speed of light."""
        return self.work if self.slowed is None else self.work * self.slowed

    def distinct(self, preference: Int[np.ndarray, "layer execution"] | None = None) -> "Distinct":
        """The layers that differ in time, or in what they prefer in a tie, each with the work of all its repeats: the blocks of a network
        are mostly equal."""
        nothing = np.zeros((len(self.work), 0))
        columns = (self.timed.reshape(len(self.work), -1), nothing if self.fixed is None else self.fixed)
        ranks = nothing if preference is None else preference
        rows, which = np.unique(np.concatenate([*columns, ranks], axis=1), axis=0, return_inverse=True)
        repeats = np.bincount(which.ravel(), self.count)[:, None]
        work, fixed, ranks = np.split(rows, np.cumsum([part.shape[1] for part in columns]), axis=1)
        return Distinct(
            (work * repeats).reshape(-1, *self.work.shape[1:]),
            None if self.fixed is None else fixed * repeats,
            None if preference is None else ranks.astype(int),
        )

    @cached_property
    def resources(self) -> list[str]:
        """What can bound a layer: launches where they count, the units, then the memories, outermost first."""
        units = dict.fromkeys(execution.unit for execution in self.executions)
        decoders = dict.fromkeys(f"{execution.unit}.decoder" for execution in self.executions if execution.decode_rate)
        return [*([] if self.fixed is None else [LAUNCH]), *units, *decoders, self.executions[0].memory, *self.executions[0].inner]


@dataclass(frozen=True, eq=False)
class Distinct:
    """Work of all repeats of each distinct layer, what these take beside [s], and ranks of the executions in a tie."""

    work: Float[np.ndarray, "layer execution term"]
    fixed: Float[np.ndarray, "layer execution"] | None
    preference: Int[np.ndarray, "layer execution"] | None


def case(accelerator: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, options: ModelOptions) -> Case:
    """Assemble the work of `variant`; raises InputError if the accelerator does not compute in `dtype`."""
    return with_capacity(compulsory_case(accelerator, variant, batch, dtype, options), accelerator, options)


def compulsory_case(accelerator: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, options: ModelOptions) -> Case:
    """The work of `variant` where every byte crosses every memory once."""
    candidates = executions(accelerator, dtype, options.fidelity)
    described, variant = variant.layers, compaction.compacted(variant)
    layers = variant.layers.at_batch(batch)
    stored = [work.stored_weights(layers, variant, execution) for execution in candidates]
    legal, unsupported = _legal(candidates, stored, variant, options.dense_fallback)
    pairs = list(zip(stored, candidates, strict=True))
    terms = np.stack([_terms(layers, variant, s, e, dtype, options) for s, e in pairs], axis=1)
    terms[~legal] = 0.0
    terms[~legal, 1] = np.inf
    done = np.stack([work.done_flops(layers, variant, s, e) for s, e in pairs], axis=1)
    sizes = np.stack([traffic.weight_bytes(layers, s, dtype) for s in stored], axis=1)
    smallest = np.where(legal, sizes, np.inf).min(axis=1) * variant.layers.copies
    others = dtype.bytes_per_element("weights") * variant.layers.other_parameters * variant.layers.count
    used = np.any(legal, axis=0)
    kept = tuple(execution for execution, use in zip(candidates, used, strict=True) if use)
    reuse = None
    if options.fidelity in CAPACITY_FIDELITIES:
        taken = [pair for pair, use in zip(pairs, used, strict=True) if use]
        reuse = Reuse.of(layers, variant, taken, dtype, options)
    weights = float((smallest + others).sum())
    whole = weights + footprint.cache(described, batch, dtype) + footprint.activations(described, batch, dtype)
    return Case(layers, kept, terms[:, used], done[:, used], whole, unsupported, tuple(candidates), legal, reuse)


def with_capacity(found: Case, accelerator: Accelerator, options: ModelOptions) -> Case:
    """The case with the bytes of each memory that follow from the capacities of `accelerator`, if they count."""
    if found.reuse is None:
        return found
    known, least = found.work.copy(), found.work.copy()
    legal, reuse, fused = np.isfinite(found.work[:, :, 1]), found.reuse, options.fusion == "fitting"
    for term, level in enumerate(levels(accelerator, options.fidelity), start=BYTES):
        if level.inside is None:
            continue
        capacity = accelerator.value(level.inside)
        moved = reuse.fused_attainable(capacity) if fused else reuse.attainable(capacity)
        known[:, :, term] = np.where(legal, moved, 0.0)
        least[:, :, term] = np.where(legal, reuse.fused_bound if fused else reuse.bound(capacity), 0.0)
    found = replace(found, work=known, reuse=None)  # which would take memory as long as a sweep lasts
    return replace(found, least=replace(found, work=least))


def _terms(
    layers: LayerArrays, variant: Variant, stored: work.Stored, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> np.ndarray:
    capped = work.dense_flops(layers) * stored.columns if execution.dense_rate else np.zeros(len(layers))
    decoded = np.where(layers.has_weights, stored.metadata_bits / 8, 0.0) if execution.decode_rate else np.zeros(len(layers))
    moved = traffic.compulsory(layers, variant, stored, execution, dtype, options)
    worked = work.worked_flops(layers, variant, stored, execution)
    return np.stack([capped, worked, decoded, *[moved] * (1 + len(execution.inner))], axis=1)


def _legal(
    candidates: list[Execution], stored: list[work.Stored], variant: Variant, dense_fallback: bool
) -> tuple[Bool[np.ndarray, "layer execution"], bool]:
    """Which execution may run which layer, and whether a pruned layer is left that no sparse run takes.

    Without `dense_fallback` a pruned layer that some listed run takes may not run dense.
    """
    legal = np.stack([s.legal for s in stored], axis=1)
    sparse = np.array([execution.sparse for execution in candidates])
    taken = np.any(legal & sparse, axis=1)
    compacted = isinstance(variant.pattern, Structured)  # a dense unit runs what is left as a smaller matrix
    if not dense_fallback and not compacted:
        legal &= sparse | ~taken[:, None]
    pruned = variant.layers.has_weights & (variant.density < 1)
    return legal, bool(np.any(pruned & ~taken)) and not compacted


@dataclass(frozen=True, eq=False)
class Factor:
    """What one axis multiplies inverse rates by: 1 / value where a term depends on it, else 1. It is multiplied out for some of its
    values at a time: an axis may have millions."""

    depends: Bool[np.ndarray, "execution term"]
    values: Float[np.ndarray, "value"]

    def at(self, part: slice = slice(None)) -> Float[np.ndarray, "execution term value"]:
        return np.where(self.depends[:, :, None], 1 / self.values[part], 1.0)

    @property
    def ends(self) -> Float[np.ndarray, "execution term end"]:
        """At the least and at the greatest value, between which all others lie."""
        return np.where(self.depends[:, :, None], 1 / np.array([self.values.min(), self.values.max()]), 1.0)


def inverse_rates(
    executions: tuple[Execution, ...], accelerator: Accelerator, axes: Mapping[str, np.ndarray]
) -> tuple[Float[np.ndarray, "execution term"], list[Float[np.ndarray, "execution term value"]]]:
    """1 / (P * E) of each term, split into a constant and one factor for each axis [s/FLOP or s/B].

    A rate is a product of numbers of the description, so it falls apart into factors, one for each axis that
    names one of those numbers. A term without a rate (no gain cap) has the constant 0: it never sets the time.
    """
    constant, factors = rate_factors(executions, accelerator, axes)
    return constant, [factor.at() for factor in factors]


def rate_factors(
    executions: tuple[Execution, ...], accelerator: Accelerator, axes: Mapping[str, np.ndarray]
) -> tuple[Float[np.ndarray, "execution term"], list[Factor]]:
    """The same, each axis's factor not multiplied out."""
    terms = BYTES + 1 + len(executions[0].inner)
    constant = np.zeros((len(executions), terms))
    depends = {path: np.zeros((len(executions), terms), bool) for path in axes}
    for e, execution in enumerate(executions):
        for term, paths in enumerate(execution.rates):
            if paths is None:
                continue
            constant[e, term] = 1 / np.prod([accelerator.value(path) for path in paths if path not in axes])
            for path in axes:
                depends[path][e, term] = path in paths
    return constant, [Factor(depends[path], values) for path, values in axes.items()]


def rate_paths(executions: Iterable[Execution]) -> set[str]:
    """Every dotted path that some rate depends on."""
    return {path for execution in executions for paths in execution.rates for path in paths or ()}
