"""Time of one launch, as a differentiable function of a few parameters: clock, tiles, waves, operands from the cache, gathers, in JAX.

    compute   F / P                     F = 2 m n k d: stored multiply-adds at the peak
    issue     (F (1 + i)(1 + h (1/rows + 1/columns)) + F_dense j) / P_issue
                                        issue slots for each stored and each dense multiply-add. Where the unit has one rate, compute is 0
                                        and P_issue is P
    latency   F flight / (P_issue r)    r: tiles that a processor works on at once, as many as fit into its scratchpad, where the
                                        measurements say what a tile takes (Little's law)
    operands  q edge / (P_issue bytes)  q: bytes that all tiles load from the cache. A cache serves a unit in proportion to its rate: tiles
                                        of `edge` x `edge` load as long as they multiply
    ramp      fill parts (stored padding, inputs) / (k d)   prologue and epilogue of a tile, the same at any density. stored: issue
                                        with j = 0; inputs: operands with the rows of B alone, one for each stored multiply-add
    unit      ((((compute, issue, latency) padding, operands) + ramp) waves^tail + split + waiting) / clock
    addition  F c d k (1 + 0.63 x^8 / (1 + x^8)) / P_slots
                                        for kernels that gather: each multiply-add waits for all others of its row and column, c issue
                                        slots each; x: bytes of a row over the share `crowding` of a scratchpad
    memory    (Q miss + gathered) / (e BW)   Q: bytes that the best schedule moves with the cache of the device
    time      launch + (unit, addition, memory)

(a, b) is the 4-norm, a smooth maximum, since real pipelines overlap imperfectly. A library takes the fastest of its tiles and may split k
into parts to fill a wave; the partial sums pass through the cache.

The clock is the one that the power limit sustains: power grows with its third power, as the voltage follows it, so that a unit whose full
rate would take a power of x times the limit runs at x^(-1/3) of its clock, and at most at the highest one, `max_clock`.

Launches that are measured again and again find a part of their operands in the cache: miss = x^3 / (1 + x^3) with x the bytes of operands
and result, and of all matrices A that they multiply in turn, over the share `resident` of the cache. The layers of a network are cold:
miss = 1.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Float

from dse.model.capacity import attainable_bytes
from dse.model.efficiency.kernels.launches import KernelLaunches, PerLaunch, shared_rows
from dse.model.efficiency.kernels.parameters import PARAMETERS, TILES, Tile
from dse.model.efficiency.smooth_maximum import smooth_maximum

SPLITS = (1, 2, 4, 8, 16)  # parts that k may be split into
CLOCK_NORM = 8.0  # of the smooth minimum of the clocks that power and design allow
RESIDENCY_EXPONENT = 3.0  # of the miss rate of repeated launches
CROWDED_WAIT, CROWDING_EXPONENT = 0.63, 8.0  # longer wait of long rows, and how abruptly it begins: cuSPARSE CSR on an RTX 3090
PARTIAL_SUM_BYTES = 8.0  # of fp32, written and read
COLUMNS_PER_GROUP = 64  # columns of B that one processor multiplies a row of A with

PerTile = Float[np.ndarray, "launch tile"]
AllowedTiles = Bool[Any, "tile split"]  # of NumPy, or traced by JAX
TracedTheta = Float[Any, "parameter"]  # of NumPy, or traced by JAX
Seconds = Float[Array, "launch"]


class LaunchFeatures(NamedTuple):
    """What the time of a launch depends on besides the parameters of its kernel; times in seconds at the speed of light."""

    stated_launch: PerLaunch  # overhead that the description states [s], NaN if it states none
    energy_budget: PerLaunch  # energy of an operation at which the power limit is reached at the peak [J/FLOP], NaN if unknown
    max_clock: PerLaunch  # highest clock over that of the peak [1]
    peak: PerLaunch  # stored FLOPs at the peak [s], 0 for a unit with one rate
    stored_issue: PerLaunch  # stored FLOPs at the issue rate [s]
    dense_issue: PerLaunch  # dense FLOPs at the issue rate [s]
    padding: PerTile  # outputs of all tiles over those needed
    operands: PerTile  # bytes that all tiles load over those that the unit takes at its issue rate [s]
    step_inputs: PerTile  # share of `operands` that is rows of B, one for each stored multiply-add of a column [s]
    wave_loss: Float[np.ndarray, "launch tile split"]  # waves rounded up over waves
    inverse_edges: PerTile  # 1/rows + 1/columns of a tile
    depth: PerLaunch  # stored multiply-adds of an output
    inverse_in_flight: PerLaunch  # 1 / tiles that a processor works on at once
    waiting: PerLaunch  # work of the busiest processor over the mean, minus 1
    latency_scale: PerLaunch  # latency of instructions over that of the fitted device [1]
    partial_sums: PerLaunch  # bytes of a part's sums, as `operands` [s]
    memory: PerLaunch  # moved bytes [s]
    cache_share: PerLaunch  # bytes of operands and result, and of further copies of A, over the cache; infinite for cold launches
    gathers: PerLaunch  # one element of B for each stored multiply-add [s]
    column_share: PerLaunch  # bytes of a column of B over those of the cache
    additions: PerLaunch  # each pair of stored multiply-adds of an output, where B is gathered, one issue slot each [s]
    row_share: PerLaunch  # bytes of a row of A over those of a scratchpad, tiny if that is unknown


def launch_features(
    launches: KernelLaunches, pads_to_power_of_two: bool = False, moved_bytes: PerLaunch | None = None, max_k: float = np.inf
) -> LaunchFeatures:
    """The features of each launch, in NumPy.

    `pads_to_power_of_two`: N of an N:M pattern is padded to a power of two. `moved_bytes`: traffic of cold launches [B]; default: repeated
    launches with the traffic of the best schedule. `max_k`: greatest measured k, whose efficiency deeper products have.
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
    is_gathered = shared_rows(launches.key.family) is not None
    fitted_k = np.minimum(k, max_k)
    input_bytes = _input_bytes_of_tile(launches, density, rows, columns)
    operand_bytes = tiles * (_weight_bytes_of_tile(launches, rows) + input_bytes)
    consumed = issue_rate * launches.activation_bytes  # B/s
    cold_bytes = _scheduled_bytes(launches) if moved_bytes is None else moved_bytes
    return LaunchFeatures(
        stated_launch=np.full(len(launches), rates.launch),
        energy_budget=np.full(len(launches), rates.energy_budget),
        max_clock=np.full(len(launches), rates.max_clock),
        peak=flops / rates.peak if has_issue_rate else np.zeros(len(launches)),
        stored_issue=flops / issue_rate,
        dense_issue=dense_flops / issue_rate,
        padding=tiles * rows * columns / (m * n * launches.products)[:, None],
        operands=operand_bytes / consumed,
        step_inputs=tiles * input_bytes * (1 if is_gathered else density[:, None]) / consumed,
        wave_loss=np.ones_like(waves) if np.isnan(rates.processors) else np.ceil(waves) / waves,
        inverse_edges=np.broadcast_to(1 / rows + 1 / columns, tiles.shape),
        depth=fitted_k * density,
        inverse_in_flight=1 / tiles_in_flight(launches),
        waiting=load_imbalance(launches) - 1,
        latency_scale=np.full(len(launches), rates.latency_scale),
        partial_sums=PARTIAL_SUM_BYTES * m * n * launches.products / consumed,
        memory=cold_bytes / rates.bandwidth,
        cache_share=launches.repeated_bytes / rates.cache if moved_bytes is None and rates.cache else np.full(len(launches), np.inf),
        gathers=(flops / 2 * launches.activation_bytes if is_gathered else np.zeros(len(launches))) / rates.bandwidth,
        column_share=fitted_k * launches.activation_bytes / max(rates.cache, 1.0),
        additions=flops / (issue_rate if np.isnan(rates.slots) else rates.slots) * fitted_k * density * is_gathered,
        row_share=launches.weight_bytes / m * fitted_k / k / (1e30 if np.isnan(rates.scratchpad) else rates.scratchpad),
    )


def _scheduled_bytes(launches: KernelLaunches) -> PerLaunch:
    """Bytes that the best schedule moves with the cache of the device."""
    product, cache = launches.product, launches.rates.cache
    return np.asarray(attainable_bytes(product, cache) if cache else product.compulsory_bytes)


def _weight_bytes_of_tile(launches: KernelLaunches, rows: Float[np.ndarray, "tile"]) -> PerTile:
    """Bytes of A, with metadata, that a tile loads."""
    return (launches.weight_bytes / launches.m)[:, None] * rows


def _input_bytes_of_tile(
    launches: KernelLaunches, density: PerLaunch, rows: Float[np.ndarray, "tile"], columns: Float[np.ndarray, "tile"]
) -> PerTile:
    """Bytes of B that a tile loads: all k rows of B once, or one row of B for each stored weight that shares it with no other."""
    height = shared_rows(launches.key.family)
    loads = np.ones((len(density), 1)) if height is None else density[:, None] * np.maximum(rows / height, 1.0)
    return loads * columns * (launches.k * launches.activation_bytes)[:, None]


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


def mask_tiles(tile: Tile | None, splits_k: bool = True, min_edge: int = 1) -> AllowedTiles:
    """Which tiles and splits a kernel may use: only `tile`, without splits of k; None: all without an edge below `min_edge`."""
    is_allowed = [min(each) >= min_edge if tile is None else each == tile for each in TILES]
    return np.outer(is_allowed, [parts == 1 or (splits_k and tile is None) for parts in SPLITS])


def launch_time(theta: TracedTheta, features: LaunchFeatures, allowed: AllowedTiles) -> Seconds:
    """Time of each launch [s] for parameters in the order of `PARAMETERS`."""
    launch, unit, memory = launch_components(theta, features, allowed)
    return launch + smooth_maximum(unit, memory)


def launch_components(theta: TracedTheta, features: LaunchFeatures, allowed: AllowedTiles) -> tuple[Seconds, Seconds, Seconds]:
    """Overhead of each launch, which a description may state, time of the unit and time of the memory [s]."""
    f, p = features, {p.name: (sigmoid if p.is_share else jnp.exp)(theta[index]) for index, p in enumerate(PARAMETERS)}
    parts, is_split = jnp.array(SPLITS, float), jnp.array(SPLITS) > 1
    stored = (f.stored_issue * (1 + p["extra_stored"]))[:, None] * (1 + p["edge"] * f.inverse_edges)
    issue = smooth_maximum(f.peak[:, None], stored + (f.dense_issue * p["extra_dense"])[:, None])
    latency = (f.stored_issue * f.inverse_in_flight * p["flight"])[:, None]
    work = smooth_maximum(smooth_maximum(issue, latency) * f.padding, f.operands * p["operands"])[:, :, None]
    steps = smooth_maximum(stored * f.padding, f.step_inputs * p["operands"]) / f.depth[:, None]
    ramp = (p["fill"] * steps)[:, :, None] * parts
    split = is_split * (p["split"] * f.latency_scale[:, None, None] + parts * (f.partial_sums * p["operands"])[:, None, None])
    times = (work + ramp) * f.wave_loss ** p["tail"] + split + (issue * f.waiting[:, None])[:, :, None]
    unit = jnp.where(allowed, times, jnp.inf).min(axis=(1, 2)) / sustained_clock(p["energy"], f.energy_budget, f.max_clock)
    crowded = sigmoid(CROWDING_EXPONENT * (jnp.log(f.row_share) - jnp.log(p["crowding"])))  # also of a row without bytes
    unit = smooth_maximum(unit, f.additions * p["contention"] * (1 + CROWDED_WAIT * crowded))
    gathered_share = f.column_share * p["columns"]
    gathered_bytes = f.gathers * gathered_share / (1 + gathered_share) / p["reuse"]
    miss_rate = 1 / (1 + (p["resident"] / f.cache_share) ** RESIDENCY_EXPONENT)
    memory = (f.memory * miss_rate + gathered_bytes) / p["bandwidth"]
    return jnp.where(jnp.isnan(f.stated_launch), p["launch"], f.stated_launch), unit, jnp.asarray(memory)


def sustained_clock(energy: Any, energy_budget: Any, max_clock: Any) -> Any:
    """Clock under load over that of the peak [1]: the highest one or that of the power limit, if lower; 1 without a limit."""
    of_power = jnp.cbrt(energy_budget / energy)
    clock = (max_clock**-CLOCK_NORM + of_power**-CLOCK_NORM) ** (-1 / CLOCK_NORM)
    return jnp.where(jnp.isnan(energy_budget), 1.0, clock)
