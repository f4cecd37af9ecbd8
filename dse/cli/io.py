"""`dse io`: reads and writes of a sparse network against fast memory capacity, for several orders and cache policies."""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from dse.base.dtype import BITS_PER_ELEMENT
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.output_file import check_writable, replace_file
from dse.base.progress import shows_progress
from dse.base.table_format import Row
from dse.base.units import Capacity, parse_quantity
from dse.cli.arguments.common import refuse_unused
from dse.io_theory.bounds import NetworkSummary, capacity_for_lower_bound, lower_bound, upper_bound
from dse.io_theory.connection_table import is_connection_table, read_network, read_order, write_order
from dse.io_theory.generated_network import compact_growth, random_layers
from dse.io_theory.layered_network import LAYOUTS, network_from_masks
from dse.io_theory.network import Network
from dse.io_theory.orders import Order, tile_order, two_optimal_order
from dse.io_theory.reorder import reorder
from dse.io_theory.simulate import POLICIES, check_capacity, simulate
from dse.trace.detect import parse_network

RANDOM = "random:SIZExSIZE...,density=D"
GROWTH = "growth:memory=M,steps=S,sources=K"


@dataclass(frozen=True)
class MemorySize:
    """Capacity of a fast memory in values and in bytes."""

    values: int
    bytes: float


def parse_memory_sizes(texts: Sequence[str], dtype: str) -> list[MemorySize]:
    """Parse sizes and doubling ranges such as '1KiB..8MiB' or '3..258 values', sorted and without duplicates; raises InputError."""
    if dtype not in BITS_PER_ELEMENT:
        raise InputError(f"unknown dtype '{dtype}'", did_you_mean(dtype, BITS_PER_ELEMENT))
    bytes_per_value, problems, sizes = BITS_PER_ELEMENT[dtype] / 8, ProblemCollector(), []
    for text in texts:
        with problems.collect(key="--memory"):
            sizes += _parse_range(text, bytes_per_value)
    problems.raise_if_any()
    return sorted({size.values: size for size in sizes}.values(), key=lambda size: size.values)


def _parse_range(text: str, bytes_per_value: float) -> list[MemorySize]:
    low, dots, high = text.partition("..")
    if dots and (unit := re.search(r"[a-zA-Z]+\s*$", high)) and re.fullmatch(r"[\d.\s]+", low):
        low = f"{low} {unit[0]}"  # '3..258 values'
    limits = [_parse_size(part, bytes_per_value) for part in ((low, high) if dots else (low,))]
    if limits[0].values > limits[-1].values:
        raise InputError(f"the range '{text}' is descending", "write the smaller size first")
    sizes = [limits[0]]
    while sizes[-1].values < limits[-1].values:
        doubled = MemorySize(2 * sizes[-1].values, 2 * sizes[-1].bytes)
        sizes.append(min(doubled, limits[-1], key=lambda size: size.values))
    return sizes


def _parse_size(text: str, bytes_per_value: float) -> MemorySize:
    if match := re.fullmatch(r"\s*(\d{1,12})\s*values\s*", text):
        values, size = int(match[1]), int(match[1]) * bytes_per_value
    else:
        size = parse_quantity(text, Capacity)
        values = int(size // bytes_per_value)
    check_capacity(values)
    return MemorySize(values, size)


def load_network(options: argparse.Namespace) -> Network:
    """Generate a network, read it from a table of connections, or build it from masks in any format that a reader supports."""
    kind, colon, spec = options.network.partition(":")
    path = Path(options.network)
    if kind in GENERATORS or is_connection_table(path):
        refuse_unused(options, ("layers", "tolerance", "layout"), "on this network: it is for masks only")
    if colon and kind in GENERATORS:
        return GENERATORS[kind](spec, options.seed)
    if is_connection_table(path):
        return read_network(path)
    if (path / "workload.yaml").exists():
        raise InputError(f"'{path}' is a workload: it has counts, not masks", "give the masks from which it was traced")
    parsed = parse_network(path)
    return network_from_masks(parsed, options.layers, options.tolerance or 0.0, options.layout or LAYOUTS[0])


def _generate_random(spec: str, seed: int) -> Network:
    match = re.fullmatch(r"(\d{1,9}(?:x\d{1,9})+),density=(\d*\.?\d+(?:e-?\d+)?)", spec)
    if match is None:
        raise InputError(f"'random:{spec}' is not a valid network", f"write {RANDOM}, as in 'random:784x300x100x10,density=0.1'")
    return random_layers([int(size) for size in match[1].split("x")], float(match[2]), seed)


def _generate_growth(spec: str, seed: int) -> Network:
    match = re.fullmatch(r"memory=(\d{1,9}),steps=(\d{1,9}),sources=(\d{1,9})", spec)
    if match is None:
        raise InputError(f"'growth:{spec}' is not a valid network", f"write {GROWTH}, as in 'growth:memory=300,steps=1000,sources=4'")
    return compact_growth(int(match[1]), int(match[2]), int(match[3]), seed)


GENERATORS = {"random": _generate_random, "growth": _generate_growth}


def execute(options: argparse.Namespace) -> str:
    """Write figure, CSV and orders, and return the table as text or JSON; raises InputError."""
    sizes = parse_memory_sizes(options.memory, options.dtype)
    _check(options)
    network = load_network(options)
    user_order = read_order(options.order, network) if options.order else None
    if options.out is not None:
        check_writable(*_output_files(options, sizes))
    for note in network.notes:
        print(f"warning: {note}", file=sys.stderr)
    rows = simulate_sizes(network, sizes, options.moves, options.seed, user_order, options.out, options.write_orders)
    summary = summarise(network, options.dtype, user_order)
    if options.out is not None:
        _write_figure(options.out, options.network, summary, rows)
    return json.dumps({**summary, "rows": rows}, indent=2) if options.json else f"{_format_summary(summary)}\n\n{_format_rows(rows)}"


def _check(options: argparse.Namespace) -> None:
    for name in ("moves", "seed", "tolerance"):
        if not 0 <= (getattr(options, name) or 0) < math.inf:
            raise InputError(f"{getattr(options, name)} is out of range", "write a finite number of at least 0", key=f"--{name}")
    if options.write_orders and (options.out is None or not options.moves):
        raise InputError("--write-orders needs a search and an output folder", "give -o, and --moves above 0")


def _output_files(options: argparse.Namespace, sizes: list[MemorySize]) -> list[Path]:
    """Figure, table, checkpoints and orders."""
    names = ["io.png", "io.csv"]
    names += ["annealing/checkpoint.npz"] if options.moves else []
    names += [f"order_{size.values}.csv" for size in sizes if options.write_orders]
    return [options.out / name for name in names]


def summarise(network: Network, dtype: str, user_order: Order | None = None) -> NetworkSummary:
    """Properties of the network that do not depend on the memory size; bounds and capacities in values."""
    capacity = {"two_optimal": capacity_for_lower_bound(network, two_optimal_order(network))}
    if user_order is not None:
        capacity["given"] = capacity_for_lower_bound(network, user_order)
    return {
        "connections": network.num_connections,
        "neurons": network.num_neurons,
        "inputs": network.num_inputs,
        "outputs": network.num_outputs,
        "dead_neurons_removed": network.removed_neurons,
        "lower_bound": lower_bound(network).total,
        "upper_bound": upper_bound(network).total,
        "dtype": dtype,
        "bytes_per_value": BITS_PER_ELEMENT[dtype] / 8,
        "memory_of_lower_bound": capacity,
    }


def simulate_sizes(
    network: Network,
    sizes: list[MemorySize],
    moves: int,
    seed: int,
    user_order: Order | None = None,
    out: Path | None = None,
    write_orders: bool = False,
) -> list[Row]:
    """One row for each memory size: reads and writes of each order under each policy, with dead values freed."""
    rows = []
    with tqdm(total=moves * len(sizes), desc="reordering", unit="move", delay=2, disable=not (moves and shows_progress())) as bar:
        for size in sizes:
            row = _simulate_orders(network, size.values, user_order)
            if moves:
                row |= _search_order(network, row, moves, seed, out, write_orders, bar.update)
            rows.append({"memory": size.bytes, **row})
            bar.update((len(rows) * moves) - bar.n)  # an annealing that attains the bound ends early
    return rows


def _simulate_orders(network: Network, capacity: int, user_order: Order | None) -> Row:
    orders = {"two_optimal": two_optimal_order(network), "given": user_order}
    totals = {
        f"{name}_{policy}": simulate(network, order, capacity, policy).total
        for name, order in orders.items()
        if order is not None
        for policy in POLICIES
    }
    tiled = simulate(network, tile_order(network, capacity), capacity).total
    bounds = {"lower_bound": lower_bound(network).total, "upper_bound": upper_bound(network).total}
    return {"values": capacity, **bounds, **totals, "tiled_min": tiled}


def _search_order(
    network: Network, row: Row, moves: int, seed: int, out: Path | None, write_orders: bool, progress: Callable[[int], object]
) -> Row:
    """Columns of the best order after annealing, and the share of the gap to the lower bound that it closes."""
    capacity, lower = row["values"], row["lower_bound"]
    result = reorder(network, capacity, moves, seed, out and out / "annealing", progress)
    if out and write_orders:
        replace_file(out / f"order_{capacity}.csv", lambda path: write_order(path, network, result.order))
    gap = row["two_optimal_min"] - lower
    gap_closed = 1 - (result.traffic - lower) / gap if gap else None
    return {"reordered_min": result.traffic, "reordered_from": result.start, "gap_closed": gap_closed}


def _write_figure(out: Path, name: str, summary: NetworkSummary, rows: list[Row]) -> None:
    import pandas as pd

    from dse.plot.io import plot_io

    table = pd.DataFrame(rows)
    figure = plot_io(table, name, summary)
    replace_file(out / "io.png", lambda path: figure.savefig(path, dpi=150, format="png"))
    replace_file(out / "io.csv", lambda path: table.to_csv(path, index=False))


def _format_summary(summary: NetworkSummary) -> str:
    dead = ", ".join(f"{number} {reason}" for reason, number in summary["dead_neurons_removed"].items() if number)
    counts = ", ".join(f"{summary[name]} {name}" for name in ("connections", "neurons", "inputs", "outputs"))
    lines = [f"network     {counts}", f"removed     {f'dead neurons: {dead}' if dead else 'no dead neurons'}"]
    lines.append(f"bounds      {summary['lower_bound']} to {summary['upper_bound']} values read and written for one sample")
    for order, capacity in summary["memory_of_lower_bound"].items():
        size = _format_bytes(capacity * summary["bytes_per_value"])
        needed = f"{capacity} values ({size} of {summary['dtype']})"
        lines.append(f"attained    the lower bound, by the {order.replace('_', '-')} order with at least {needed}")
    return "\n".join(lines)


def _format_bytes(size: float) -> str:
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.4g} B"


TITLES = {
    "lower_bound": "lower", "two_optimal_min": "MIN", "two_optimal_lru": "LRU", "two_optimal_fifo": "FIFO",
    "tiled_min": "tiled MIN", "given_min": "given MIN", "given_lru": "given LRU", "given_fifo": "given FIFO",
    "reordered_min": "reordered MIN", "upper_bound": "upper",
}  # fmt: skip


def _format_rows(rows: list[Row]) -> str:
    titles = {key: title for key, title in TITLES.items() if key in rows[0]}
    has_search = "gap_closed" in rows[0]
    lines = [["memory", "values", *titles.values(), *(["gap closed"] if has_search else [])]]
    for row in rows:
        gap_closed = [f"{row['gap_closed']:.1%}" if row["gap_closed"] is not None else "-"] if has_search else []
        lines.append([_format_bytes(row["memory"]), str(row["values"]), *(str(row[key]) for key in titles), *gap_closed])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
