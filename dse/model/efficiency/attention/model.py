"""A fitted attention kernel, and the time of a launch as a differentiable function of its eight parameters, in JAX.

    key       rows (4 D / P, 4 score / P_q) processors / efficiency
                                              one key of a tile on one processor: both products of a head of D elements, and the
                                              exponential, maximum and sum of each score. P_q is the peak of the dtype of the queries,
                                              P that of the products
    work      (fill + key keys / parts) waves (waves rounded up / waves)^tail
    longest   (fill + key longest / parts) tail
                                              a causal tile of late queries has more keys than the mean
    unit      (work, longest) + combination of the parts, for the fastest number of parts that the keys are split into
    memory    (Q + K + V + O, each missing with cold or repeated operands, + K and V that heads of a group read again) / (e BW)
    write     (blocks write, written bytes / (e BW))
                                              only where measurements include the write of new keys and values into the cache
    time      launch + copies + write + (unit, memory)

(a, b) is the 4-norm, a smooth maximum. Tiles of masked scores are skipped. Repeated launches find a part of their operands in the cache:
a footprint of x times the share `resident` of the cache misses x^3 / (1 + x^3) of its bytes. The layers of a network are cold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Float

from dse.model.efficiency.attention.launches import AttentionKey, AttentionLaunches, PerLaunch
from dse.model.efficiency.attention.parameters import ATTENTION_PARAMETERS, TILINGS, Tiling
from dse.model.efficiency.float64 import compile_in_float64
from dse.model.efficiency.parameter import Theta
from dse.model.efficiency.smooth_maximum import smooth_maximum

PARTS = 2.0 ** np.arange(9)  # that the keys may be split into
MIN_PART = 64  # keys of a part
CHAINED_LAUNCH = 2.7e-6  # s, of a further kernel: combination of parts, copies (fitted to all kernels together)
COPIES = 2.0  # kernels that copy queries and outputs of packed heads
PARTIAL_SUM_BYTES = 8.0  # of fp32, written and read
SAMPLED_TILES = 64  # of a head, of which the keys are counted
HEAD_STEP = 32  # elements to which tiles pad a head
THREADS, BLOCK = 2048, 512  # threads of a processor, and those of a block that writes one token into the cache
MISS_EXPONENT = 3.0
PADDING = 256  # launches are padded to multiples of this, so that few sizes are compiled

Seconds = Float[Array, "launch"]


@dataclass(frozen=True, eq=False)
class AttentionModel:
    """Tiling and parameters of one attention kernel; `cost` is that of the fit."""

    key: AttentionKey
    tiling: str
    theta: Theta
    cost: float = np.inf

    def predict_times(self, launches: AttentionLaunches) -> PerLaunch:
        """Time of each launch [s], repeated as it is measured."""
        features = pad_features(attention_features(launches, TILINGS[self.tiling]))
        return np.asarray(_compiled()[0](self.theta, features))[: len(launches)]

    def time_components(self, launches: AttentionLaunches, moved_bytes: PerLaunch) -> tuple[PerLaunch, PerLaunch, PerLaunch]:
        """Overhead, time of the unit and time of the memory of cold launches that move these bytes [s]."""
        features = pad_features(attention_features(launches, TILINGS[self.tiling], moved_bytes))
        overhead, unit, memory = (np.asarray(part)[: len(launches)] for part in _compiled()[1](self.theta, features))
        return overhead, unit, memory


class AttentionFeatures(NamedTuple):
    """What the time of a launch depends on besides the parameters."""

    rows: PerLaunch
    mean_keys: PerLaunch  # of a tile, those of masked scores excluded
    longest_keys: PerLaunch
    tiles: PerLaunch
    processors: PerLaunch
    product: PerLaunch  # one row and key at the peak [s]
    exponential: PerLaunch  # one element of a head at the peak of the queries [s]
    max_parts: PerLaunch  # 1 where the keys are not split
    partial_sums: PerLaunch  # of one part, at the bandwidth [s]
    copies: PerLaunch  # kernels that copy queries
    once: PerLaunch  # all operands, each once, at the bandwidth [s]
    again: PerLaunch  # keys and values that heads of a group read again, at the bandwidth [s]
    cache_share: PerLaunch  # operands over the cache; infinite for cold launches
    head_cache_share: PerLaunch  # those of one head over the cache
    write_blocks: PerLaunch  # blocks of threads that write the cache, over those that run at once; 0 if that is not measured
    written: PerLaunch  # new keys and values, read and written, at the bandwidth [s]
    written_cache_share: PerLaunch


def attention_features(launches: AttentionLaunches, tiling: Tiling, moved_bytes: PerLaunch | None = None) -> AttentionFeatures:
    """The features of each launch, in NumPy.

    `moved_bytes`: traffic of cold launches [B], without what heads of a group read again; default: repeated launches.
    """
    rates, packed, rows = launches.rates, tiling.packed_heads(launches), tiling.tile_rows(launches)
    tiles_of_head = np.ceil(launches.queries * packed / rows)
    keys = _keys_of_tiles(launches, tiling, tiles_of_head, rows / packed)
    kv, width = launches.kv_bytes, launches.kv_heads * launches.size
    heads_at_once = np.maximum(rates.processors / (launches.sequences * tiles_of_head), 1)
    readers = np.maximum(launches.heads / launches.kv_heads / packed / heads_at_once - 1, 0)
    cache, new_elements = max(rates.cache, 1.0), 2 * launches.sequences * launches.queries * width
    splits = tiling.copies_queries(launches) if tiling.packs_single_queries else np.full(len(launches), tiling.splits_keys)
    copies = tiling.packs_single_queries & tiling.copies_queries(launches) & (launches.kv_heads > 1) & (launches.sequences > 1)
    written = launches.writes_cache * new_elements * (launches.query_bytes + launches.cache_bytes)
    blocks = launches.sequences * launches.queries * np.minimum(width, BLOCK) * np.maximum(width / BLOCK, 1) ** 0.5
    return AttentionFeatures(
        rows=rows,
        mean_keys=keys.mean(axis=1),
        longest_keys=keys.max(axis=1),
        tiles=launches.sequences * launches.heads / packed * tiles_of_head,
        processors=np.full(len(launches), rates.processors),
        product=4 * np.ceil(launches.size / HEAD_STEP) * HEAD_STEP / (rates.cache_peak if tiling.computes_in_cache_dtype else rates.peak),
        exponential=np.full(len(launches), 4 / rates.peak),
        max_parts=np.where(splits, np.maximum(keys.max(axis=1) / MIN_PART, 1), 1.0),
        partial_sums=PARTIAL_SUM_BYTES * launches.sequences * launches.heads * launches.queries * launches.size / rates.bandwidth,
        copies=np.where(copies, COPIES, 0.0),
        once=(launches.compulsory_bytes if moved_bytes is None else moved_bytes) / rates.bandwidth,
        again=kv * readers / rates.bandwidth,
        cache_share=np.full(len(launches), np.inf) if moved_bytes is not None else launches.compulsory_bytes / cache,
        head_cache_share=(kv / launches.kv_heads + launches.query_and_output_bytes / launches.heads) / cache,
        write_blocks=launches.writes_cache * blocks / (rates.processors * THREADS),
        written=written / rates.bandwidth,
        written_cache_share=written / cache,
    )


def _keys_of_tiles(
    launches: AttentionLaunches, tiling: Tiling, tiles_of_head: PerLaunch, queries_of_tile: PerLaunch
) -> Float[np.ndarray, "launch tile"]:
    """Keys that each of a sample of the tiles of a head multiplies, in whole tiles of keys."""
    tiles, step = tiles_of_head[:, None], tiling.tile_keys(launches)[:, None]
    queries, keys, causal = launches.queries[:, None], launches.keys[:, None], launches.is_causal[:, None]
    index = np.minimum(np.floor((np.arange(SAMPLED_TILES) + 0.5) * tiles / SAMPLED_TILES), tiles - 1)
    first = np.minimum(np.floor(index * queries_of_tile[:, None]), queries) + keys - queries
    last = np.minimum(np.ceil((index + 1) * queries_of_tile[:, None]), queries) + keys - queries
    end = np.where(causal, last, keys)
    start = np.where(causal, np.maximum(0, first + 1 - launches.window[:, None]), 0)
    return (np.ceil(end / step) - np.floor(start / step)) * step


def attention_time(theta: Any, features: AttentionFeatures) -> Seconds:
    """Time of each launch [s] for parameters in the order of `ATTENTION_PARAMETERS`."""
    overhead, unit, memory = attention_components(theta, features)
    return overhead + smooth_maximum(unit, memory)


def attention_components(theta: Any, features: AttentionFeatures) -> tuple[Seconds, Seconds, Seconds]:
    """Overhead of each launch, time of the unit and time of the memory [s]."""
    f = features
    p = {p.name: (sigmoid if p.is_share else jnp.exp)(theta[index]) for index, p in enumerate(ATTENTION_PARAMETERS)}
    parts = jnp.minimum(jnp.array(PARTS), f.max_parts[:, None])
    key = (smooth_maximum(f.product, f.exponential * p["score"]) / p["efficiency"] * f.rows * f.processors)[:, None]
    waves = f.tiles[:, None] * parts / f.processors[:, None]
    work = (p["fill"] + key * f.mean_keys[:, None] / parts) * waves * (jnp.ceil(waves) / waves) ** p["tail"]
    longest = (p["fill"] + key * f.longest_keys[:, None] / parts) * p["tail"]
    combination = jnp.where(parts > 1, CHAINED_LAUNCH + parts * f.partial_sums[:, None], 0.0)
    unit = (smooth_maximum(work, longest) + combination).min(axis=1)
    repeated = f.once * miss_rate(f.cache_share / p["resident"]) + f.again * miss_rate(f.head_cache_share / p["resident"])
    written = f.written * miss_rate(f.written_cache_share / p["resident"]) / p["bandwidth"]
    overhead = p["launch"] + f.copies * CHAINED_LAUNCH + smooth_maximum(f.write_blocks * p["write"], written)
    return overhead, unit, repeated / p["bandwidth"]


def miss_rate(share: Any) -> Any:
    """Share of a footprint that misses, of one that is `share` times the cache."""
    return 1 / (1 + jnp.maximum(share, 1e-12) ** -MISS_EXPONENT)


def pad_features(features: AttentionFeatures) -> AttentionFeatures:
    """The features, repeated to a multiple of `PADDING` launches."""
    size = -(-len(features.rows) // PADDING) * PADDING
    return AttentionFeatures(*(np.resize(values, size) for values in features))


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`attention_time` and `attention_components`."""
    return compile_in_float64(attention_time), compile_in_float64(attention_components)
