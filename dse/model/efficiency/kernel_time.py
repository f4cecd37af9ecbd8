"""Seconds of one launch: time = W / (P * E) with an E that knows tiles, waves, instructions, gathers and imbalance. In JAX.

    compute   F / P                     F = 2 m n (k d + fill) of stored weights and of starting and ending an output, at the peak
    issue     (F (1 + i)(1 + h / tile edges) + F_dense j) / P_issue
                                        what else has to be issued: for each stored weight, and for each dense one. A unit that
                                        issues one instruction for many multiply-adds has one rate: compute is 0, P_issue is P
    latency   F flight / (P_issue r)    r: tiles that a processor works on at once, as many as its scratchpad holds, where the
                                        measurements tell what one takes: fewer of them wait longer for each other (Little's law)
    memory    (Q + gathered) / (e BW)   Q: bytes that the best schedule moves with the cache of the device
    time      launch + (((compute^4 + issue^4 + latency^4)^(1/4) * padding * waves + waiting)^4 + memory^4)^(1/4)

The 4-norm is a maximum that is rounded where two terms are alike: real pipelines don't overlap perfectly. The saturating
E = E_inf x / (x + x_half) of the usual fits appears twice: x the work of a launch (`launch`), and x the multiply-adds of an
output (`fill`). A library chooses the tile that is fastest, of those that it has, and may split k to fill a wave; a kernel with one
tile has no choice; and one that goes by rules of its own takes other tiles for deeper products, though they may be slower.
The efficiency of a product that is deeper than any measured one is that of the greatest measured k: only the work grows.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid

from dse.model.capacity import attainable
from dse.model.efficiency.launches import KernelLaunches
from dse.model.efficiency.tiles import TILES, Deeper, Tile

SPLITS = (1, 2, 4, 8)
NORM = 4.0
SPLIT_COST = 50.0  # multiply-adds an output, the unit of the parameter `split`

Features = dict[str, Any]


def features(launches: KernelLaunches, power_slots: bool = False, moved: Any = None, max_k: float = np.inf) -> Features:
    """What the model needs of each launch, in NumPy; `power_slots`: N of an N:M is padded to a power of two; `moved`: the bytes, if
    they are known [B]; `max_k`: greatest k that was measured, whose efficiency deeper products have."""
    m, k, n, rates = launches.m, launches.k, launches.n, launches.rates
    density = _padded(launches) if power_slots else launches.density
    dense = 2 * m * k * n * launches.products
    flops = dense * density
    issues = not np.isnan(rates.issue)
    rows, columns = (np.array(edge, float) for edge in zip(*TILES, strict=True))
    tiles = np.ceil(m[:, None] / rows) * np.ceil(n[:, None] / columns) * np.broadcast_to(launches.products, len(m))[:, None]
    waves = tiles[:, :, None] * np.array(SPLITS) / rates.processors
    unfilled = np.ones_like(waves) if np.isnan(rates.processors) else np.ceil(waves) / waves
    gathered = flops / 2 * launches.value_bytes if launches.key.family == "unstructured" else np.zeros(len(launches))
    depth = np.minimum(k, max_k)
    if moved is None:
        moved = np.asarray(attainable(launches.product, rates.cache)) if rates.cache else launches.product.compulsory
    return {
        "launch": np.full(len(launches), rates.launch),
        "compute": flops / rates.peak if issues else np.zeros(len(launches)),
        "stored": flops / (rates.issue if issues else rates.peak),
        "dense": dense / (rates.issue if issues else rates.peak),
        "padding": tiles * rows * columns / (m * n * launches.products)[:, None],
        "unfilled": unfilled,
        "edges": np.broadcast_to(1 / rows + 1 / columns, tiles.shape),
        "depth": depth * density,
        "k": depth,
        "alone": 1 / in_flight(launches),
        "waiting": imbalance(launches) - 1,
        "moved": moved / rates.bandwidth,
        "gathered": gathered / rates.bandwidth,
        "column_share": depth * launches.value_bytes / max(rates.cache, 1.0),
    }


def imbalance(launches: KernelLaunches) -> np.ndarray:
    """Work of the busiest processor over the mean, from the deviation of the nonzeros in a row [1].

    The largest of p sums of r rows, each with relative deviation c: 1 + c sqrt(2 ln p / r), as for normal ones.
    """
    processors = launches.rates.processors
    if np.isnan(processors) or processors < 2:
        return np.ones(len(launches))
    rows = np.maximum(1.0, launches.m * launches.products * np.maximum(launches.n / 64, 1) / processors)
    return 1 + launches.spread * np.sqrt(2 * np.log(processors) / rows)


def in_flight(launches: KernelLaunches) -> np.ndarray:
    """Tiles that a processor works on at once, as many as its scratchpad has room for [1]; without end where that is not known."""
    room = np.broadcast_to(launches.rates.scratchpad / launches.staged, len(launches))
    return np.where(np.isnan(room), np.inf, np.maximum(np.floor(room), 1.0))


def _padded(launches: KernelLaunches) -> np.ndarray:
    slots = np.maximum(launches.slots, 1)
    kept = np.maximum(launches.density * slots, 1)
    return np.where(launches.slots > 0, np.minimum(2 ** np.ceil(np.log2(kept) - 1e-9), slots) / slots, launches.density)


def allowed(tile: Tile | None, deeper: Deeper = (), k: Any = 1.0, splits: bool = True, least: int = 1) -> np.ndarray:
    """Which [launch, tile, split] the kernel may take: all whose edges are no shorter than `least`, or one tile with k in one part;
    `deeper`: other tiles from some k on."""
    ways = np.array([_ways(each, splits, least) for each in (tile, *(other for _, other in deeper))])
    return ways[np.searchsorted([depth for depth, _ in deeper], np.atleast_1d(k), side="right")]


def _ways(tile: Tile | None, splits: bool, least: int) -> np.ndarray:
    known = [min(each) >= least if tile is None else each == tile for each in TILES]
    return np.outer(known, [parts == 1 or (splits and tile is None) for parts in SPLITS])


def seconds(theta: Any, f: Features, choice: Any) -> Any:
    """Time of each launch [s] for the parameters `theta`, which stand in the order of `PARAMETERS`."""
    launch, computing, moving = parts(theta, f, choice)
    return launch + norm(computing, moving)


def parts(theta: Any, f: Features, choice: Any) -> tuple[Any, Any, Any]:
    """What a launch takes before anything, of the unit, and of the memory [s]. A description may state the first."""
    launch, stored, dense, fill, edge = (jnp.exp(theta[n]) for n in range(5))
    tail, bandwidth, columns, reuse, split = sigmoid(theta[5]), sigmoid(theta[6]), jnp.exp(theta[7]), jnp.exp(theta[8]), jnp.exp(theta[9])
    filled = (1 + fill / f["depth"])[:, None]
    needed, issued = f["compute"][:, None] * filled, (f["stored"] * (1 + stored))[:, None] * (1 + edge * f["edges"]) * filled
    latency = (f["stored"] * f["alone"] * jnp.exp(theta[10]))[:, None] * filled
    work = norm(norm(needed, issued + (f["dense"] * dense)[:, None]), latency)[:, :, None]
    cut = 1 + split * SPLIT_COST * (jnp.array(SPLITS) - 1.0) / (f["k"][:, None] * filled)  # beside `fill`, not times it
    waited = (norm(needed, issued) * f["waiting"][:, None])[:, :, None]
    ways = work * f["padding"][:, :, None] * f["unfilled"] ** tail * cut[:, None, :] + waited
    computing = jnp.where(choice, ways, jnp.inf).min(axis=(1, 2))
    held = f["column_share"] * columns
    missed = held / (1 + held)  # of what is gathered, beyond the cache
    moving = (f["moved"] + f["gathered"] * missed / reuse) / bandwidth
    return jnp.where(jnp.isnan(f["launch"]), launch, f["launch"]), computing, moving


def norm(a: Any, b: Any) -> Any:
    larger = jnp.maximum(a, b)
    return larger * ((a / larger) ** NORM + (b / larger) ** NORM) ** (1 / NORM)
