"""The work of every layer of a network variant under every execution: the numerator of time = work / (peak * efficiency).

The work depends on the workload, the rates (`dse.model.rates`) on the hardware, so each is computed once and all designs share it.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
from jaxtyping import Bool, Float

from dse.base.dtype import OperandDtypes
from dse.model import footprint, gain, traffic, work
from dse.model.compaction import compact_variant, keep_needed_transposes
from dse.model.executions import Execution, list_executions
from dse.model.footprint import Footprint
from dse.model.host_time import HOST_RESOURCE, Host
from dse.model.memory_levels import memory_levels
from dse.model.operand_blocks import check_whole_blocks
from dse.model.rates import DENSE_FLOPS, METADATA_BYTES, STORED_FLOPS, TRAFFIC
from dse.model.reuse import Reuse
from dse.model.stored_weights import StoredWeights, expansion_in_memory, may_expand, store_weights
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import CAPACITY_FIDELITIES, ModelOptions
from dse.sparsity.kinds import Structured
from dse.workload import Variant

OVERHEAD_RESOURCE = "launch"  # the name of the overhead among the resources that bound a layer
LayerExecution = Float[np.ndarray, "layer execution"]
Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")


class WorkCache:
    """Work of executions that is computed once for many designs: those of a search differ in a few runs, and share all other executions.

    A key names everything that its value depends on.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[[*Arguments], Value], *arguments: *Arguments) -> Value:
        """The value of a key: `compute(*arguments)`, the first time. Callers do not change it."""
        if key not in self._values:
            self._values[key] = compute(*arguments)
        return self._values[key]


@dataclass(frozen=True, eq=False)
class LayerTerms:
    """Work of one variant at one batch size, for one instance of each layer under each execution that some layer may take.

    `legal` masks the executions that a layer may take; the work of all others is 0 and never read. `dense_flops` [FLOP] is the work
    that a gain cap applies to (0 without a cap), `stored_flops` [FLOP] the work on the stored weights, `energy_flops` [FLOP] the part
    of it that takes energy, `metadata_bytes` [B] what a decoder reads, `traffic` [B] what crosses each memory, outermost first.

    `traffic_bound` [B] is what every schedule has to move, where on-chip capacity counts; `reuse` computes both from the capacities.
    `slowdown` is the measured time over the time at the speed of light, `overhead` [s] the time outside the resources, where kernels are
    fitted to measurements: sample 0 is the best estimate, the others are samples of the errors of the kernels
    (`dse.model.efficiency.interval`); `kernels` names the kernel of each.

    `candidates` are all executions of the accelerator and `legal_candidates` masks those; `unsupported` says that some pruned layer runs
    dense because no sparse run takes it; `footprint` is what the network occupies in the outermost memory; `host` launches its kernels one
    by one, if its time counts.
    """

    layers: LayerArrays
    executions: tuple[Execution, ...]
    legal: Bool[np.ndarray, "layer execution"]
    dense_flops: LayerExecution
    stored_flops: LayerExecution
    metadata_bytes: LayerExecution
    traffic: Float[np.ndarray, "layer execution memory"]
    energy_flops: LayerExecution
    footprint: Footprint
    unsupported: bool
    candidates: tuple[Execution, ...]
    legal_candidates: Bool[np.ndarray, "layer candidate"]
    reuse: Reuse | None = None
    traffic_bound: Float[np.ndarray, "layer execution memory"] | None = None
    slowdown: Float[np.ndarray, "sample layer execution term"] | None = None
    overhead: Float[np.ndarray, "sample layer execution"] | None = None
    kernels: np.ndarray | None = None  # text [layer, execution]
    host: Host | None = None

    @property
    def count(self) -> Float[np.ndarray, "layer"]:
        """How often each layer runs."""
        return self.layers.count

    @property
    def work(self) -> Float[np.ndarray, "layer execution term"]:
        """All terms of the work, stacked in the order of `dse.model.rates`."""
        flops_and_metadata = np.stack([self.dense_flops, self.stored_flops, self.metadata_bytes], axis=-1)
        return np.concatenate([flops_and_metadata, self.traffic], axis=-1)

    @property
    def has_work(self) -> Bool[np.ndarray, "layer"]:
        """Whether a layer has any work; a row of parameters has none."""
        return np.asarray((self.work > 0).any(axis=(1, 2)))

    @cached_property
    def slowed_work(self) -> Float[np.ndarray, "sample layer execution term"]:
        """Work multiplied by the slowdown: what would take as long at the speed of light. One sample without fitted kernels."""
        return self.work[None] if self.slowdown is None else self.work * self.slowdown

    @property
    def lower_bound(self) -> "LayerTerms | None":
        """The terms of a schedule that moves no more than `traffic_bound`; None where on-chip capacity does not count."""
        return None if self.traffic_bound is None else replace(self, traffic=self.traffic_bound, traffic_bound=None)

    @cached_property
    def resources(self) -> list[str]:
        """Names of what can bound a layer: the overhead, the units, their decoders, the memories, outermost first, then the host."""
        units = dict.fromkeys(execution.unit for execution in self.executions)
        decoders = dict.fromkeys(f"{execution.unit}.decoder" for execution in self.executions if execution.decode_rate)
        overhead = [] if self.overhead is None else [OVERHEAD_RESOURCE]
        host = [] if self.host is None else [HOST_RESOURCE]
        return [*overhead, *units, *decoders, self.executions[0].outermost_memory, *self.executions[0].inner_memories, *host]


def compulsory_terms(
    accelerator: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, options: ModelOptions, cache: WorkCache | None = None
) -> LayerTerms:
    """The terms of `variant` where every byte crosses every memory once.

    `cache`: work of executions under the same `options`, shared with other accelerators. Keep its variants while it is used: they are known
    by identity.

    Raises InputError if no unit computes in `dtype`, or if it cannot store an operand.
    """
    check_whole_blocks(variant.layers, dtype)
    candidates = [e for e in list_executions(accelerator, dtype, options.fidelity) if may_expand(e, options)]
    cache, key = cache or WorkCache(), (id(variant), batch, dtype)
    compacted, layers = cache.get(key, _compact, variant, batch)
    weights = dtype.number_format("weights")
    stored = [cache.get((*key, "stored", e), store_weights, layers, compacted, e, weights) for e in candidates]
    legal, unsupported = _legal_executions(candidates, stored, compacted, options.dense_fallback)
    used = np.flatnonzero(legal.any(axis=0)).tolist()
    pairs = [(stored[number], candidates[number]) for number in used]
    columns = [cache.get((*key, "work", e), _work_of_execution, layers, compacted, s, e, dtype, options) for s, e in pairs]
    stacked = np.where(legal[:, used, None], np.stack(columns, axis=1), 0.0)
    flops = [cache.get((*key, "energy", e), work.energy_flops, layers, compacted, s, e) for s, e in pairs]
    energy_flops = np.stack(flops, axis=1)
    return LayerTerms(
        layers,
        tuple(execution for _, execution in pairs),
        legal[:, used],
        *np.moveaxis(stacked[..., :TRAFFIC], -1, 0),
        traffic=stacked[..., TRAFFIC:],
        energy_flops=np.where(legal[:, used], energy_flops, 0.0),
        footprint=_footprint(variant, compacted, layers, list(zip(stored, candidates, strict=True)), legal, batch, dtype),
        unsupported=unsupported,
        candidates=tuple(candidates),
        legal_candidates=legal,
        reuse=Reuse.of(layers, compacted, pairs, dtype, options) if options.fidelity in CAPACITY_FIDELITIES else None,
    )


def _compact(variant: Variant, batch: int) -> tuple[Variant, LayerArrays]:
    """A variant without the rows and columns that it removes and the copies that it does not need, and its layers at a batch size."""
    compacted = keep_needed_transposes(compact_variant(variant))
    return compacted, compacted.layers.at_batch(batch)


def with_capacity(terms: LayerTerms, accelerator: Accelerator, options: ModelOptions) -> LayerTerms:
    """The terms with the bytes of each memory that follow from the on-chip capacities of `accelerator`, where these count."""
    if terms.reuse is None:
        return terms
    attainable, bound = terms.traffic.copy(), terms.traffic.copy()
    reuse, fused = terms.reuse, options.fusion == "fitting"
    for memory, level in enumerate(memory_levels(accelerator, options.fidelity)):
        if level.reuse_capacity is not None:
            capacity = accelerator.value(level.reuse_capacity)
            moved = reuse.fused_attainable(capacity) if fused else reuse.attainable(capacity)
            least = reuse.fused_lower_bound if fused else reuse.lower_bound(capacity)
            attainable[..., memory] = np.where(terms.legal, moved, 0.0)
            bound[..., memory] = np.where(terms.legal, least, 0.0)
    return replace(terms, traffic=attainable, traffic_bound=bound)


def _work_of_execution(
    layers: LayerArrays, variant: Variant, stored: StoredWeights, execution: Execution, dtype: OperandDtypes, options: ModelOptions
) -> Float[np.ndarray, "layer term"]:
    nothing = np.zeros(len(layers))
    columns = [nothing] * TRAFFIC
    columns[DENSE_FLOPS] = gain.capped_flops(work.dense_flops(layers), stored.column_share, execution.run)
    columns[STORED_FLOPS] = work.stored_flops(layers, variant, stored, execution)
    if execution.decode_rate:
        metadata = np.where(layers.has_weights, stored.metadata_bits / 8, 0.0)
        columns[METADATA_BYTES] = metadata + traffic.detected_bytes(layers, execution, dtype, options)
    moved = traffic.compulsory_bytes(layers, variant, stored, execution, dtype, options)
    return np.stack([*columns, *[moved] * (1 + len(execution.inner_memories))], axis=-1)


def _legal_executions(
    candidates: Sequence[Execution], stored: Sequence[StoredWeights], variant: Variant, dense_fallback: bool
) -> tuple[Bool[np.ndarray, "layer execution"], bool]:
    """Which execution may run which layer, and whether a pruned layer is left that no sparse run takes.

    Without `dense_fallback` a pruned layer that some sparse run takes may not run dense. Expanded executions do not bind a layer so: no
    unit lists its pattern.
    """
    legal = np.stack([s.legal for s in stored], axis=1)
    sparse = np.array([execution.is_sparse for execution in candidates])
    listed = np.array([not execution.is_expanded for execution in candidates])
    has_sparse_run, has_listed_run = np.any(legal & sparse, axis=1), np.any(legal & sparse & listed, axis=1)
    compacted = isinstance(variant.pattern, Structured)  # a dense unit runs what is left as a smaller matrix
    if not dense_fallback and not compacted:
        legal &= sparse | ~has_listed_run[:, None]
    return legal, bool(np.any(variant.is_pruned & ~has_sparse_run)) and not compacted


def _footprint(
    variant: Variant,
    compacted: Variant,
    layers: LayerArrays,
    pairs: Sequence[tuple[StoredWeights, Execution]],
    legal: np.ndarray,
    batch: int,
    dtype: OperandDtypes,
) -> Footprint:
    """Bytes in the outermost memory; biases, norms and embeddings count as weights.

    Weights, and inputs that an activation pass expands, are as small as a legal execution has them.
    """
    sizes = np.stack([traffic.weight_bytes(layers, s, dtype) for s, _ in pairs], axis=1)
    expansions = np.stack([expansion_in_memory(s, execution) for s, execution in pairs], axis=1)
    expansion = np.where(legal, expansions, np.inf).min(axis=1)
    smallest = np.where(legal, sizes, np.inf).min(axis=1) * compacted.layers.copies
    other = dtype.bytes_per_element("weights") * compacted.layers.other_parameters * compacted.layers.count
    activations = footprint.peak_activation_bytes(variant.layers, batch, dtype, expansion)
    return Footprint(float((smallest + other).sum()), footprint.kv_cache_bytes(variant.layers, batch, dtype), activations, batch)
