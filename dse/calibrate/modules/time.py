"""Time of one module as a differentiable function of its parameters, in JAX.

    projections  (FLOPs / (e P), weights / BW) + passes (inputs + outputs) / BW, tokens padded to `rows`
    absorbed     (FLOPs / (e P), weights / BW) + passes (inputs + outputs) / BW
    scores       (FLOPs / (score P), keys of the indexer / BW), in tiles
    selection    scores selection + tokens heads (list + sequences batch)
    attention    (FLOPs / (attention P), chosen keys / (gather BW)), heads padded to a tile; both shares by the dtype of the cache
    device       projections + absorbed + scores + selection + attention + tokens token
    time         launch (1 + spread doublings) + device, doublings = log2 of the tokens, at most of the processors;
                 (launch, exposed launch + device) where the host launches kernel by kernel

(a, b) is the 4-norm, a smooth maximum. The measurements repeat a launch, so a part of the weights and keys is in the cache: a footprint of
x times the share `resident` misses x^3 / (1 + x^3) of its bytes, and the others take the share `cached` of the time, chosen keys included.
Each query gathers its keys anew, so they may arrive faster than the memory delivers.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Float

from dse.calibrate.modules.launches import BF16_BYTES, COMPUTE_DTYPES, WEIGHT_BYTES, ModuleLaunches, PerLaunch
from dse.calibrate.modules.measurement import FLASHMLA
from dse.calibrate.modules.parameters import (
    ATTENTION,
    CACHE_DTYPES,
    EFFICIENCIES,
    GATHERS,
    LAUNCHES,
    MODULE_PARAMETERS,
    NETWORKS,
    SHARED,
    WEIGHT_DTYPES,
)
from dse.calibrate.modules.shapes import LatentShape
from dse.model.efficiency.attention.model import miss_rate
from dse.model.efficiency.smooth_maximum import smooth_maximum

SCORE_ROWS, DECODE_SCORE_ROWS = 128, 16  # queries of a tile of scores: of one index head in a prompt; padded in decode
FLASHMLA_HEADS = 128  # to which FlashMLA pads the heads of a device, on SM100
GROUP_HEADS = 16  # to which other kernels pad; FlashInfer's tile below 64 heads
LARGE_TILE_HEADS = 64  # FlashInfer's tile from this number of heads on

Seconds = Float[Array, "launch"]


class ModuleFeatures(NamedTuple):
    """What the time of a launch depends on besides the parameters; times at the peak or bandwidth in s."""

    tokens: PerLaunch
    doublings: PerLaunch  # of the tokens, from one up to one for each processor
    choosing_heads: PerLaunch  # tokens times heads that choose keys on their own
    sequences: PerLaunch
    projection: PerLaunch
    projection_weights: PerLaunch
    projection_traffic: PerLaunch
    absorbed: PerLaunch
    absorbed_weights: PerLaunch
    absorbed_traffic: PerLaunch
    scores: PerLaunch
    index_keys: PerLaunch
    selected_from: PerLaunch  # scores, or maxima of blocks
    attention: PerLaunch
    gathered: PerLaunch
    cache_share: PerLaunch  # all operands over the cache
    dtype_index: PerLaunch  # of the weights, in `WEIGHT_DTYPES`
    cache_index: PerLaunch  # of the cache, in `CACHE_DTYPES`
    launch_index: PerLaunch  # of network and dtype, in `LAUNCHES`
    host_launches: PerLaunch  # 1 where the host launches each kernel


def module_features(launches: ModuleLaunches, attends_to_all_slots: bool) -> ModuleFeatures:
    """The features of each launch, in NumPy; `attends_to_all_slots`: a query takes the time of `chosen` keys though it has fewer."""
    key, shape, rates, size = launches.key, launches.key.shape, launches.rates, len(launches)
    tokens, bandwidth = launches.tokens, rates.bandwidth
    elements = sum((outputs + inputs for outputs, inputs in launches.projection_sizes), np.zeros(size))
    if isinstance(shape, LatentShape):
        absorbed = launches.heads * (2 * shape.latent + shape.content + shape.value)
        scores, selected_from = launches.score_flops / rates.peak["fp8"], launches.scored_keys
    else:
        absorbed, selected_from = np.zeros(size), launches.kv_heads * launches.scored_keys / shape.block
        scores = _block_scores(launches, shape.block) / rates.peak["bf16"]
    slots = tokens * shape.chosen / launches.attended_keys if attends_to_all_slots else np.ones(size)
    padded, reads = _attention_tiles(launches)
    dtype_index = WEIGHT_DTYPES.index(key.weight_dtype)
    return ModuleFeatures(
        tokens=tokens,
        doublings=np.log2(np.minimum(tokens, rates.processors)),
        choosing_heads=tokens * launches.kv_heads,
        sequences=launches.sequences,
        projection=launches.projection_flops / rates.peak[COMPUTE_DTYPES[key.weight_dtype]],
        projection_weights=WEIGHT_BYTES[key.weight_dtype] * launches.projection_weights / bandwidth,
        projection_traffic=BF16_BYTES * tokens * elements / bandwidth,
        absorbed=launches.absorbed_flops / rates.peak["bf16"],
        absorbed_weights=BF16_BYTES * launches.absorbed_weights / bandwidth,
        absorbed_traffic=BF16_BYTES * tokens * absorbed / bandwidth,
        scores=scores,
        index_keys=launches.sequences * launches.keys * launches.index_key_bytes / bandwidth,
        selected_from=selected_from,
        attention=launches.attention_flops * padded / launches.heads * slots / rates.peak["bf16"],
        gathered=launches.attended_keys * launches.key_bytes * reads * slots / bandwidth,
        cache_share=launches.compulsory_bytes / max(rates.cache, 1.0),
        dtype_index=np.full(size, dtype_index),
        cache_index=np.full(size, CACHE_DTYPES.index(key.cache_dtype)),
        launch_index=np.full(size, NETWORKS.index(key.network) * len(WEIGHT_DTYPES) + dtype_index),
        host_launches=np.full(size, float(isinstance(shape, LatentShape) and key.phase == "prefill")),
    )


def dense_features(launches: ModuleLaunches) -> ModuleFeatures:
    """The features of the same module with dense latent attention: no indexer, all keys up to each query.

    Decode steps have absorbed matrices, prompts the keys and values of every head; tiles of 128 queries read those. Modules of grouped
    queries are without attention.
    """
    sparse, shape, zeros = module_features(launches, False), launches.key.shape, np.zeros(len(launches))
    share = 1 - launches.indexer_weights / launches.projection_weights
    attention, gathered = zeros, zeros
    if isinstance(shape, LatentShape) and launches.key.phase == "decode":
        factor = launches.scored_keys / launches.attended_keys
        attention, gathered = sparse.attention * factor, sparse.gathered * factor
    elif isinstance(shape, LatentShape):
        elements = launches.heads * (shape.content + shape.rotary + shape.value) * launches.scored_keys
        attention = 2 * elements / launches.rates.peak["bf16"]
        gathered = BF16_BYTES * elements / SCORE_ROWS / launches.rates.bandwidth
    return sparse._replace(
        choosing_heads=zeros, scores=zeros, index_keys=zeros, selected_from=zeros, attention=attention, gathered=gathered,
        projection=sparse.projection * share, projection_weights=sparse.projection_weights * share,
        projection_traffic=sparse.projection_traffic * share,
    )  # fmt: skip


def _attention_tiles(launches: ModuleLaunches) -> tuple[PerLaunch, PerLaunch]:
    """Heads after padding to tiles, and how often the tiles of a token gather its keys."""
    heads = launches.heads
    if not isinstance(launches.key.shape, LatentShape):
        return np.maximum(heads, GROUP_HEADS), np.ones(len(launches))
    if launches.key.kernel == FLASHMLA:
        return np.full(len(launches), float(FLASHMLA_HEADS)), np.ones(len(launches))
    tile = np.where(heads < LARGE_TILE_HEADS, GROUP_HEADS, LARGE_TILE_HEADS)
    tiles = np.ceil(heads / tile)
    return tiles * tile, tiles


def _block_scores(launches: ModuleLaunches, block: int) -> PerLaunch:
    """FLOPs of the scores of all blocks with queries padded to tiles; tiles of masked scores are skipped."""
    blocks, tiles = np.ceil(launches.keys / block), np.ceil(launches.queries / SCORE_ROWS)
    in_prompt = SCORE_ROWS * tiles * (blocks - (tiles - 1) * SCORE_ROWS / block / 2)
    scored = np.where(launches.queries == 1, DECODE_SCORE_ROWS * blocks, in_prompt) * block
    return 2 * launches.sequences * launches.index_heads * launches.key.shape.index_size * scored


def module_time(theta: Any, features: ModuleFeatures) -> Seconds:
    """Time of each launch [s] for parameters in the order of `MODULE_PARAMETERS`."""
    f = features
    values = {p: (sigmoid if p.is_share else jnp.exp)(theta[index]) for index, p in enumerate(MODULE_PARAMETERS)}
    p = {parameter.name: values[parameter] for parameter in SHARED}
    efficiencies = jnp.stack([values[parameter] for parameter in EFFICIENCIES])
    launch = jnp.stack([values[parameter] for parameter in LAUNCHES])[f.launch_index.astype(int)]
    of_attention, gather = (
        jnp.stack([values[parameter] for parameter in each])[f.cache_index.astype(int)] for each in (ATTENTION, GATHERS)
    )
    missed = miss_rate(f.cache_share / p["resident"])
    moved = missed + (1 - missed) * p["cached"]
    byte = moved / p["bandwidth"]
    padding = jnp.maximum(1.0, p["rows"] / f.tokens)
    projections = smooth_maximum(f.projection * padding / efficiencies[f.dtype_index.astype(int)], f.projection_weights * byte)
    absorbed = smooth_maximum(f.absorbed * padding / efficiencies[0], f.absorbed_weights * byte)
    traffic = (f.projection_traffic + f.absorbed_traffic) * p["passes"] / p["bandwidth"]
    scores = smooth_maximum(f.scores / p["score"], f.index_keys * byte)
    selection = f.selected_from * p["selection"] + f.choosing_heads * (p["list"] + f.sequences * p["batch"])
    attention = smooth_maximum(f.attention / of_attention, f.gathered * moved / gather)
    device = projections + absorbed + traffic + scores + selection + attention + f.tokens * p["token"]
    launched_by_host = smooth_maximum(launch, p["exposed"] * launch + device)
    return jnp.where(f.host_launches > 0, launched_by_host, launch * (1 + p["spread"] * f.doublings) + device)
