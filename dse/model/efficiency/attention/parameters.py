"""What a fit determines of a fused attention kernel: eight parameters, and how its library tiles queries, keys and heads.

The priors are about the medians and spreads of 17 kernels of FlashAttention, FlashInfer and TensorRT-LLM on three GPUs, fitted with wider
priors (ai-dynamo/aiconfigurator@095f58a51c4c).
"""

from typing import NamedTuple

import numpy as np

from dse.model.efficiency.attention.launches import AttentionLaunches, PerLaunch, Phase
from dse.model.efficiency.parameter import Parameter, Theta, theta_to_values, values_to_theta

ATTENTION_PARAMETERS = (
    Parameter("launch", "s", 6e-6, 0.45, 1e-7, 1e-3, "time of a launch before it computes anything"),
    Parameter("efficiency", "1", 0.54, 0.4, 0.005, 0.99, "share of the peak that a full tile reaches", is_share=True),
    Parameter("score", "1", 75.0, 0.4, 1, 1e4, "time of the exponential, maximum and sum of a score, in elements of a head at the peak"),
    Parameter("fill", "s", 1.1e-6, 0.75, 1e-9, 1e-3, "start and end of a tile"),
    Parameter("tail", "1", 0.8, 1.0, 0.01, 0.99, "exponent of the loss by an unfilled wave: 0 for none of it, 1 for all", is_share=True),
    Parameter("bandwidth", "1", 0.8, 0.5, 0.05, 0.99, "achievable share of the bandwidth of the memory", is_share=True),
    Parameter("resident", "1", 0.5, 0.7, 0.001, 0.999, "share of the cache that keeps its contents between launches", is_share=True),
    Parameter("write", "s", 2.5e-6, 0.4, 1e-8, 1e-3, "block of threads that writes tokens into the cache, where that is measured too"),
)  # fmt: skip
ATTENTION_PRIOR = np.array([p.to_theta(p.prior) for p in ATTENTION_PARAMETERS])
ATTENTION_DEVIATION = np.array([p.deviation for p in ATTENTION_PARAMETERS])
ATTENTION_LOWER = np.array([p.to_theta(p.low) for p in ATTENTION_PARAMETERS])
ATTENTION_UPPER = np.array([p.to_theta(p.high) for p in ATTENTION_PARAMETERS])

TILE_ELEMENTS = 16384  # of the keys of a tile, where their number depends on the head size
LARGE_HEAD = 192  # elements of a head from which some libraries halve the rows


class Tiling(NamedTuple):
    """Tiles of `rows` queries (at least `min_rows`; 0: always `rows`) and `keys` keys (0: 64 to 256, fewer for larger heads).

    `packs_heads`: heads that share keys are rows of one tile; `packs_single_queries`: only where a sequence has one query, which are copied
    for that. `halves_rows` of large heads. `splits_keys`: the keys of a query are split where that is faster. `computes_in_cache_dtype`:
    products run at the peak of the dtype of the cache.
    """

    rows: int
    keys: int
    min_rows: int = 0
    packs_heads: bool = False
    packs_single_queries: bool = False
    halves_rows: bool = False
    splits_keys: bool = True
    computes_in_cache_dtype: bool = True

    def copies_queries(self, launches: AttentionLaunches) -> np.ndarray:
        """Launches whose single queries are copied to pack the heads that share keys; only those are split."""
        return (launches.queries == 1) & (launches.heads > launches.kv_heads) & ~np.isfinite(launches.window)

    def packed_heads(self, launches: AttentionLaunches) -> PerLaunch:
        """Heads that are rows of one tile."""
        group = launches.heads / launches.kv_heads
        if self.packs_single_queries:
            return np.where(self.copies_queries(launches), group, 1.0)
        return group if self.packs_heads else np.ones_like(group)

    def tile_rows(self, launches: AttentionLaunches) -> PerLaunch:
        """Rows of a tile: a power of two that covers all queries, within the limits."""
        most = np.where(self.halves_rows & (launches.size >= LARGE_HEAD), self.rows / 2, self.rows)
        covering = 2 ** np.ceil(np.log2(launches.queries * self.packed_heads(launches)) - 1e-9)
        return np.clip(covering, self.min_rows or most, most)

    def tile_keys(self, launches: AttentionLaunches) -> PerLaunch:
        """Keys of a tile."""
        by_size = np.clip(TILE_ELEMENTS / 2 ** np.ceil(np.log2(launches.size)), 64, 256)
        return by_size if self.keys == 0 else np.full(len(launches), float(self.keys))


# By name; a fit takes the one that explains the measurements best. That of FlashAttention 2 is published (Dao 2023, arXiv 2307.08691, and
# its source); the others were chosen among powers of two by the same measurements.
TILINGS = {
    "flash_attention_2": Tiling(64, 0, packs_single_queries=True),
    "flash_attention_2_encoder": Tiling(128, 64, splits_keys=False),
    "flash_attention_4": Tiling(256, 64),
    "tensorrt_prefill": Tiling(256, 32, halves_rows=True, splits_keys=False),
    "tensorrt_decode": Tiling(64, 256, packs_heads=True),
    "flashinfer": Tiling(128, 64, 16, packs_heads=True, halves_rows=True, computes_in_cache_dtype=False),
    "triton_prefill": Tiling(64, 64, 16, packs_heads=True, splits_keys=False, computes_in_cache_dtype=False),
    "triton_decode": Tiling(16, 64, 16, packs_heads=True, computes_in_cache_dtype=False),
}
TILINGS_OF_PHASE: dict[Phase, tuple[str, ...]] = {
    "prefill": ("flash_attention_2", "tensorrt_prefill", "flashinfer", "triton_prefill"),
    "decode": ("flash_attention_2", "tensorrt_decode", "flashinfer", "triton_decode"),
    "encoder": ("flash_attention_2_encoder", "flash_attention_4"),
}
# Assumed of a device without measurements: those with which the kernels of other devices predict each of three GPUs best.
TRANSFERRED_TILING: dict[Phase, str] = {
    "prefill": "flash_attention_2", "decode": "tensorrt_decode", "encoder": "flash_attention_2_encoder",
}  # fmt: skip


def attention_values(theta: Theta) -> dict[str, float]:
    """Value of each parameter by its name."""
    return theta_to_values(theta, ATTENTION_PARAMETERS)


def attention_theta(values: dict[str, float]) -> Theta:
    """Theta of the values by name, in the order of `ATTENTION_PARAMETERS`."""
    return values_to_theta(values, ATTENTION_PARAMETERS)
