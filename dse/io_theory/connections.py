"""Networks and orders as tables of connections: `source,target` and, where known, `weight`, neurons by any name."""

import csv
from pathlib import Path

import numpy as np
from pydantic import Field

from dse.base.csv_table import read_rows
from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.strict_model import StrictModel
from dse.base.yaml_document import read_text
from dse.io_theory.network import Network, network
from dse.io_theory.order import Order, checked


class ConnectionRow(StrictModel):
    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    weight: float = Field(1.0, allow_inf_nan=False)


def is_table(path: Path) -> bool:
    """Whether a file is a table of connections, by its first line."""
    header = read_text(path).partition("\n")[0].split(",") if path.suffix.lower() == ".csv" and path.is_file() else []
    return {"source", "target"} <= {name.strip() for name in header}


def read(path: Path) -> Network:
    """The network of a table of connections; raises InputError. Neurons that are no target are inputs, those that are no source outputs."""
    rows = read_rows(path, ConnectionRow)
    _check_once(path, rows)
    number = {name: n for n, name in enumerate(dict.fromkeys(name for _, row in rows for name in (row.source, row.target)))}
    source, target = [number[row.source] for _, row in rows], [number[row.target] for _, row in rows]
    problems = ProblemCollector()
    with problems.collect(path):
        return network(source, target, list(number), [row.weight for _, row in rows])
    raise InputError.from_problems(problems.problems)


def _check_once(path: Path, rows: list[tuple[int, ConnectionRow]]) -> None:
    seen: dict[tuple[str, str], int] = {}
    problems = []
    for line, row in rows:
        if (first := seen.setdefault((row.source, row.target), line)) != line:
            problems.append(
                Problem(f"{row.source} -> {row.target} stands on line {first} already", "give each connection once", path, line)
            )
    if problems:
        raise InputError.from_problems(problems)


def read_order(path: Path, network: Network) -> Order:
    """The order of the rows of a table of the network's connections; raises InputError if one is unknown, missing, or comes too early."""
    rows = read_rows(path, ConnectionRow)
    _check_once(path, rows)
    name = network.names
    known = {(name[u], name[v]): n for n, (u, v) in enumerate(zip(network.source, network.target, strict=True))}
    problems = [
        Problem(f"{row.source} -> {row.target} is no connection of the network", "leave out dead neurons, and keep the names", path, line)
        for line, row in rows
        if (row.source, row.target) not in known
    ]
    if missing := known.keys() - {(row.source, row.target) for _, row in rows}:
        u, v = min(missing)
        problems.append(Problem(f"{len(missing)} connections are missing, such as {u} -> {v}", "give all of them", path))
    if problems:
        raise InputError.from_problems(problems)
    collected = ProblemCollector()
    with collected.collect(path):
        return checked(network, np.array([known[row.source, row.target] for _, row in rows], np.int32))
    raise InputError.from_problems(collected.problems)


def write_order(path: Path, network: Network, order: Order) -> None:
    """A table that `read` and `read_order` take."""
    name = network.names
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("source", "target", "weight"))
        columns = (array[order].tolist() for array in (network.source, network.target, network.weight))
        table.writerows((name[u], name[v], weight) for u, v, weight in zip(*columns, strict=True))
