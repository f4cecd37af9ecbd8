"""Networks and orders as CSV tables of connections: columns `source`, `target` and optionally `weight`, neurons by name."""

import csv
from pathlib import Path

import numpy as np
from pydantic import Field

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import read_header, read_rows
from dse.base.strict_model import StrictModel
from dse.io_theory.network import Network, build_network
from dse.io_theory.orders import Order, check_order


class ConnectionRow(StrictModel):
    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    weight: float = Field(1.0, allow_inf_nan=False)


def is_connection_table(path: Path) -> bool:
    """Whether the first line of a file is the header of a table of connections."""
    return path.suffix.lower() == ".csv" and path.is_file() and {"source", "target"} <= set(read_header(path))


def read_network(path: Path) -> Network:
    """Read a network; neurons without a source are inputs, neurons without a target are outputs. Raises InputError."""
    rows = _read_connections(path)
    names = list(dict.fromkeys(name for _, row in rows for name in (row.source, row.target)))
    number = {name: n for n, name in enumerate(names)}
    source, target = [number[row.source] for _, row in rows], [number[row.target] for _, row in rows]
    problems = ProblemCollector()
    with problems.collect(path):
        return build_network(source, target, names, [row.weight for _, row in rows])
    raise InputError.from_problems(problems.problems)


def read_order(path: Path, network: Network) -> Order:
    """Read an order of the network's connections: that of the rows.

    Raises InputError for an unknown, duplicate or missing connection and for an order that is not topological.
    """
    rows = _read_connections(path)
    name = network.names
    index = {(name[u], name[v]): n for n, (u, v) in enumerate(zip(network.source, network.target, strict=True))}
    fix = "leave out dead neurons, and keep the names"
    problems = [
        Problem(f"{row.source} -> {row.target} is not a connection of the network", fix, path, line)
        for line, row in rows
        if (row.source, row.target) not in index
    ]
    if missing := index.keys() - {(row.source, row.target) for _, row in rows}:
        u, v = min(missing)
        problems.append(Problem(f"{len(missing)} connections are missing, such as {u} -> {v}", "add them", path))
    if problems:
        raise InputError.from_problems(problems)
    order_problems = ProblemCollector()
    with order_problems.collect(path):
        return check_order(network, np.array([index[row.source, row.target] for _, row in rows], np.int32))
    raise InputError.from_problems(order_problems.problems)


def _read_connections(path: Path) -> list[tuple[int, ConnectionRow]]:
    """The rows of a table with their line numbers; raises InputError for duplicates."""
    rows = read_rows(path, ConnectionRow)
    first_line: dict[tuple[str, str], int] = {}
    problems = []
    for line, row in rows:
        if (first := first_line.setdefault((row.source, row.target), line)) != line:
            problem = f"duplicate connection {row.source} -> {row.target}, first given on line {first}"
            problems.append(Problem(problem, "give each connection once", path, line))
    if problems:
        raise InputError.from_problems(problems)
    return rows


def write_order(path: Path, network: Network, order: Order) -> None:
    """Write an order as a table that `read_network` and `read_order` accept."""
    name = network.names
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("source", "target", "weight"))
        columns = (array[order].tolist() for array in (network.source, network.target, network.weight))
        table.writerows((name[u], name[v], weight) for u, v, weight in zip(*columns, strict=True))
