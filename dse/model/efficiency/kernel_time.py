"""Time of one launch, as a differentiable function of eleven parameters: tiles, waves, issue slots, gathers and load imbalance, in JAX.

    compute   F / P                     F = 2 m n (k d + fill): stored multiply-adds, prologues and epilogues, at the peak
    issue     (F (1 + i)(1 + h (1/rows + 1/columns)) + F_dense j) / P_issue
                                        issue slots for each stored and each dense multiply-add. A unit that issues one instruction
                                        for many multiply-adds has one rate: compute is 0 and P_issue is P
    latency   F flight / (P_issue r)    r: tiles that a processor works on at once, as many as fit into its scratchpad, where the
                                        measurements say what a tile takes (Little's law)
    memory    (Q + gathered) / (e BW)   Q: bytes that the best schedule moves with the cache of the device
    time      launch + (((compute^4 + issue^4 + latency^4)^(1/4) * padding * waves + waiting)^4 + memory^4)^(1/4)

The 4-norm is a smooth maximum, since real pipelines overlap imperfectly. The saturating E = E_inf x / (x + x_half) of common efficiency
fits appears twice: with the work of a launch as x (`launch`), and with the multiply-adds of an output as x (`fill`). A library takes the
fastest of its tiles and may split k to fill a wave. A kernel with one tile has no choice. A library with heuristics of its own changes
tiles at certain k, even where that is slower. Beyond the greatest measured k the efficiency is constant: only the work grows.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Float

from dse.model.capacity import attainable_bytes
from dse.model.efficiency.launches import KernelLaunches, PerLaunch
from dse.model.efficiency.parameters import PARAMETERS
from dse.model.efficiency.tiles import TILES, Tile, TilesByDepth

SPLITS = (1, 2, 4, 8)  # parts that k may be split into
NORM = 4.0
SPLIT_COST = 50.0  # multiply-adds of an output, the unit of the parameter `split`
COLUMNS_PER_GROUP = 64  # columns of B that one processor multiplies a row of A with

PerTile = Float[np.ndarray, "launch tile"]
AllowedTiles = Bool[Any, "#launch tile split"]  # of NumPy, or traced by JAX
TracedTheta = Float[Any, "parameter"]  # of NumPy, or traced by JAX
Seconds = Float[Array, "launch"]


class LaunchFeatures(NamedTuple):
    """What the time of a launch depends on besides the parameters of its kernel; times in seconds at the speed of light."""

    stated_launch: PerLaunch  # overhead that the description states [s], NaN if it states none
    peak: PerLaunch  # stored FLOPs at the peak [s], 0 for a unit with one rate
    stored_issue: PerLaunch  # stored FLOPs at the issue rate [s]
    dense_issue: PerLaunch  # dense FLOPs at the issue rate [s]
    padding: PerTile  # outputs of all tiles over those needed
    wave_loss: Float[np.ndarray, "launch tile split"]  # waves rounded up over waves
    inverse_edges: Float[np.ndarray, "launch tile"]  # 1/rows + 1/columns of a tile
    depth: PerLaunch  # stored multiply-adds of an output
    k: PerLaunch
    inverse_in_flight: PerLaunch  # 1 / tiles that a processor works on at once
    waiting: PerLaunch  # work of the busiest processor over the mean, minus 1
    memory: PerLaunch  # moved bytes [s]
    gathers: PerLaunch  # one element of B for each stored multiply-add [s]
    column_share: PerLaunch  # bytes of a column of B over those of the cache


def launch_features(
    launches: KernelLaunches, pads_to_power_of_two: bool = False, moved_bytes: PerLaunch | None = None, max_k: float = np.inf
) -> LaunchFeatures:
    """The features of each launch, in NumPy.

    `pads_to_power_of_two`: N of an N:M pattern is padded to a power of two. `moved_bytes`: traffic [B], default: of the best schedule.
    `max_k`: greatest measured k, whose efficiency deeper products have.
    """
    m, k, n, rates = launches.m, launches.k, launches.n, launches.rates
    density = _padded_density(launches) if pads_to_power_of_two else launches.density
    dense_flops = 2 * m * k * n * launches.products
    flops = dense_flops * density
    has_issue_rate = not np.isnan(rates.issue)
    issue_rate = rates.issue if has_issue_rate else rates.peak
    rows, columns = (np.array(edge, float) for edge in zip(*TILES, strict=True))
    tiles = np.ceil(m[:, None] / rows) * np.ceil(n[:, None] / columns) * np.broadcast_to(launches.products, len(m))[:, None]
    waves = tiles[:, :, None] * np.array(SPLITS) / rates.processors
    is_gathered = launches.key.family == "unstructured"
    fitted_k = np.minimum(k, max_k)
    if moved_bytes is None:
        product = launches.product
        moved_bytes = np.asarray(attainable_bytes(product, rates.cache) if rates.cache else product.compulsory_bytes)
    return LaunchFeatures(
        stated_launch=np.full(len(launches), rates.launch),
        peak=flops / rates.peak if has_issue_rate else np.zeros(len(launches)),
        stored_issue=flops / issue_rate,
        dense_issue=dense_flops / issue_rate,
        padding=tiles * rows * columns / (m * n * launches.products)[:, None],
        wave_loss=np.ones_like(waves) if np.isnan(rates.processors) else np.ceil(waves) / waves,
        inverse_edges=np.broadcast_to(1 / rows + 1 / columns, tiles.shape),
        depth=fitted_k * density,
        k=fitted_k,
        inverse_in_flight=1 / tiles_in_flight(launches),
        waiting=load_imbalance(launches) - 1,
        memory=moved_bytes / rates.bandwidth,
        gathers=(flops / 2 * launches.activation_bytes if is_gathered else np.zeros(len(launches))) / rates.bandwidth,
        column_share=fitted_k * launches.activation_bytes / max(rates.cache, 1.0),
    )


def load_imbalance(launches: KernelLaunches) -> PerLaunch:
    """Work of the busiest processor over the mean [1], from the spread of the nonzeros in a row.

    The largest of p sums of r rows with relative deviation c: 1 + c sqrt(2 ln p / r), as for normal variables.
    """
    processors = launches.rates.processors
    if np.isnan(processors) or processors < 2:
        return np.ones(len(launches))
    rows = np.maximum(1.0, launches.m * launches.products * np.maximum(launches.n / COLUMNS_PER_GROUP, 1) / processors)
    return 1 + launches.row_spread * np.sqrt(2 * np.log(processors) / rows)


def tiles_in_flight(launches: KernelLaunches) -> PerLaunch:
    """Tiles that a processor works on at once, as many as fit into its scratchpad [1]; infinite if that is unknown."""
    fitting = np.broadcast_to(launches.rates.scratchpad / launches.staged_bytes, len(launches))
    return np.where(np.isnan(fitting), np.inf, np.maximum(np.floor(fitting), 1.0))


def _padded_density(launches: KernelLaunches) -> PerLaunch:
    """Density of N:M patterns with N padded to a power of two."""
    slots = np.maximum(launches.slots, 1)
    stored = np.maximum(launches.density * slots, 1)
    return np.where(launches.slots > 0, np.minimum(2 ** np.ceil(np.log2(stored) - 1e-9), slots) / slots, launches.density)


def allowed_tiles(
    tile: Tile | None, tiles_by_depth: TilesByDepth = (), k: PerLaunch | float = 1.0, splits_k: bool = True, min_edge: int = 1
) -> AllowedTiles:
    """Which tiles and splits a kernel may use for products of depth `k`.

    `tile`: the only one, without splits of k; None: all without an edge below `min_edge`. `tiles_by_depth`: other tiles from some k on.
    """
    choices = np.array([_allowed(each, splits_k, min_edge) for each in (tile, *(other for _, other in tiles_by_depth))])
    return choices[np.searchsorted([depth for depth, _ in tiles_by_depth], np.atleast_1d(k), side="right")]


def _allowed(tile: Tile | None, splits_k: bool, min_edge: int) -> Bool[np.ndarray, "tile split"]:
    is_allowed = [min(each) >= min_edge if tile is None else each == tile for each in TILES]
    return np.outer(is_allowed, [parts == 1 or (splits_k and tile is None) for parts in SPLITS])


def launch_time(theta: TracedTheta, features: LaunchFeatures, allowed: AllowedTiles) -> Seconds:
    """Time of each launch [s] for parameters in the order of `PARAMETERS`."""
    launch, unit, memory = time_components(theta, features, allowed)
    return launch + smooth_maximum(unit, memory)


def time_components(theta: TracedTheta, features: LaunchFeatures, allowed: AllowedTiles) -> tuple[Seconds, Seconds, Seconds]:
    """Overhead of each launch, which a description may state, time of the unit and time of the memory [s]."""
    f, p = features, {p.name: (sigmoid if p.is_share else jnp.exp)(theta[index]) for index, p in enumerate(PARAMETERS)}
    filled = (1 + p["fill"] / f.depth)[:, None]
    compute = f.peak[:, None] * filled
    stored = (f.stored_issue * (1 + p["extra_stored"]))[:, None] * (1 + p["edge"] * f.inverse_edges) * filled
    latency = (f.stored_issue * f.inverse_in_flight * p["flight"])[:, None] * filled
    work = smooth_maximum(smooth_maximum(compute, stored + (f.dense_issue * p["extra_dense"])[:, None]), latency)[:, :, None]
    split_cost = 1 + p["split"] * SPLIT_COST * (jnp.array(SPLITS) - 1.0) / (f.k[:, None] * filled)  # added to `fill`, not multiplied by it
    waiting = (smooth_maximum(compute, stored) * f.waiting[:, None])[:, :, None]
    times = work * f.padding[:, :, None] * f.wave_loss ** p["tail"] * split_cost[:, None, :] + waiting
    unit = jnp.where(allowed, times, jnp.inf).min(axis=(1, 2))
    gathered_share = f.column_share * p["columns"]
    miss_rate = gathered_share / (1 + gathered_share)
    memory = (f.memory + f.gathers * miss_rate / p["reuse"]) / p["bandwidth"]
    return jnp.where(jnp.isnan(f.stated_launch), p["launch"], f.stated_launch), unit, jnp.asarray(memory)


def smooth_maximum(a: Any, b: Any) -> Any:
    """The 4-norm of two times, scaled by the larger one so that it neither overflows nor underflows."""
    larger = jnp.maximum(a, b)
    return larger * ((a / larger) ** NORM + (b / larger) ** NORM) ** (1 / NORM)
