"""`dse io`: what on-chip memory of each size leaves to be moved, between the bounds, by which order and policy."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dse.base.atomic_write import check_writable, replace_file
from dse.base.dtype import BITS_PER_ELEMENT
from dse.base.errors import InputError
from dse.io_theory import bounds, connections, inputs
from dse.io_theory.inputs import Size
from dse.io_theory.network import Network
from dse.io_theory.order import Order, memory_of_lower_bound, tiled, two_optimal
from dse.io_theory.reorder import reorder
from dse.io_theory.simulate import POLICIES, simulate

Row = dict[str, Any]


def execute(options: argparse.Namespace) -> str:
    """The table as text or JSON, once figure, CSV and orders are written; raises InputError."""
    sizes = inputs.sizes(options.memory, options.dtype)
    if options.moves < 0 or options.seed < 0 or options.tolerance < 0:
        raise InputError("--moves, --seed and --tolerance can't be negative", "write numbers from 0 on")
    if options.write_orders and (options.out is None or not options.moves):
        raise InputError("--write-orders has no orders or no place", "give -o, and --moves above 0")
    network = inputs.network_of(options)
    given = connections.read_order(options.order, network) if options.order else None
    if options.out is not None:
        check_writable(*_files(options, sizes))
    for note in network.notes:
        print(f"note: {note}", file=sys.stderr)
    rows = table(network, sizes, options.moves, options.seed, given, options.out, options.write_orders)
    about = summary(network, options.dtype, given)
    if options.out is not None:
        _draw(options.out, options.network, about, rows)
    return json.dumps({**about, "rows": rows}, indent=2) if options.json else f"{_described(about)}\n\n{_columns(rows)}"


def _files(options: argparse.Namespace, sizes: list[Size]) -> list[Path]:
    """What is written: figure, table, checkpoints, orders."""
    names = ["io.png", "io.csv"]
    names += ["annealing/checkpoint.npz"] if options.moves else []
    names += [f"order_{size.values}.csv" for size in sizes if options.write_orders]
    return [options.out / name for name in names]


def summary(network: Network, dtype: str, given: Order | None = None) -> dict[str, Any]:
    """What holds for every size of memory; counts are values."""
    least = {"two_optimal": memory_of_lower_bound(network, two_optimal(network))}
    if given is not None:
        least["given"] = memory_of_lower_bound(network, given)
    return {
        "connections": network.weights,
        "neurons": network.neurons,
        "inputs": network.inputs,
        "outputs": network.outputs,
        "dead_neurons_removed": network.removed,
        "lower_bound": bounds.lower(network).total,
        "upper_bound": bounds.upper(network).total,
        "dtype": dtype,
        "bytes_per_value": BITS_PER_ELEMENT[dtype] / 8,
        "memory_of_lower_bound": least,
    }


def table(
    network: Network, sizes: list[Size], moves: int, seed: int, given: Order | None = None, out: Path | None = None, orders: bool = False
) -> list[Row]:
    """One row a size of fast memory: values moved by each order under each policy, dead values freed."""
    rows = []
    with tqdm(total=moves * len(sizes), desc="reordering", unit="move", delay=2, disable=not moves) as bar:
        for size in sizes:
            rows.append(_row(network, size, moves, seed, given, out, orders, bar.update))
            bar.update((len(rows) * moves) - bar.n)  # an annealing that reaches the bound ends early
    return rows


def _row(
    network: Network, size: Size, moves: int, seed: int, given: Order | None, out: Path | None, orders: bool, progress: Callable[[int], Any]
) -> Row:
    memory, least = size.values, bounds.lower(network).total
    ordered = {"two_optimal": two_optimal(network), "given": given}
    totals = {
        f"{name}_{policy}": simulate(network, order, memory, policy).total
        for name, order in ordered.items()
        if order is not None
        for policy in POLICIES
    }
    totals["tiled_min"] = simulate(network, tiled(network, memory), memory).total
    row = {"memory": size.bytes, "values": memory, "lower_bound": least, "upper_bound": bounds.upper(network).total, **totals}
    if moves:
        found = reorder(network, memory, moves, seed, out and out / "annealing", progress)
        gap = totals["two_optimal_min"] - least
        row |= {"reordered_min": found.total, "reordered_from": found.start, "gap_closed": 1 - (found.total - least) / gap if gap else None}
        if out and orders:
            replace_file(out / f"order_{memory}.csv", lambda path: connections.write_order(path, network, found.order))
    return row


def _draw(out: Path, name: str, about: dict[str, Any], rows: list[Row]) -> None:
    import pandas as pd

    from dse.plot import io

    values = pd.DataFrame(rows)
    figure = io.figure(values, name, about)
    replace_file(out / "io.png", lambda path: figure.savefig(path, dpi=150, format="png"))
    replace_file(out / "io.csv", lambda path: values.to_csv(path, index=False))


def _described(about: dict[str, Any]) -> str:
    dead = ", ".join(f"{number} {reason}" for reason, number in about["dead_neurons_removed"].items() if number)
    counts = f"{about['connections']} connections, {about['neurons']} neurons, {about['inputs']} inputs, {about['outputs']} outputs"
    lines = [f"network     {counts}", f"removed     {f'dead neurons: {dead}' if dead else 'no dead neurons'}"]
    lines.append(f"bounds      {about['lower_bound']} to {about['upper_bound']} values moved for one sample")
    for order, least in about["memory_of_lower_bound"].items():
        size = shown(least * about["bytes_per_value"])
        lines.append(
            f"reached     the lower one by the {order.replace('_', '-')} order from {least} values on ({size} of {about['dtype']})"
        )
    return "\n".join(lines)


def shown(size: float) -> str:
    """Bytes with a binary prefix."""
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.4g} B"


SHOWN = {
    "lower_bound": "lower", "two_optimal_min": "MIN", "two_optimal_lru": "LRU", "two_optimal_fifo": "FIFO",
    "tiled_min": "tiled MIN", "given_min": "given MIN", "given_lru": "given LRU", "given_fifo": "given FIFO",
    "reordered_min": "reordered MIN", "upper_bound": "upper",
}  # fmt: skip


def _columns(rows: list[Row]) -> str:
    kept = {key: title for key, title in SHOWN.items() if key in rows[0]}
    lines = [["memory", "values", *kept.values(), *(["gap closed"] if "gap_closed" in rows[0] else [])]]
    for row in rows:
        closed = [f"{row['gap_closed']:.1%}" if row["gap_closed"] is not None else "-"] if "gap_closed" in row else []
        lines.append([shown(row["memory"]), str(row["values"]), *(str(row[key]) for key in kept), *closed])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
