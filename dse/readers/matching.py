"""Weights of one file on the layers of another: by name, and by shape as a check."""

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np

from dse.errors import BadInput, Collector, Problem
from dse.network.layers import WITH_WEIGHTS, LayerRow
from dse.readers.source import Weights, slabs_of


def matched(rows: Iterable[LayerRow], weights: Mapping[str, Weights], stored_as: str = "[m, k]") -> tuple[dict[str, Weights], list[str]]:
    """The weights of each row, and the names that belong to none; raises BadInput where the shapes differ.

    A name belongs to the row of that name, or to the one row that it ends with, or that ends with it. `stored_as` says how a
    square matrix is stored: "[m, k]" or "[k, m]"; others tell by their shape.
    """
    by_name = {row.name: row for row in rows if row.kind in WITH_WEIGHTS}
    owners = {name: _owner(name, by_name) for name in weights}
    found, problems = {}, Collector()
    for row in by_name.values():
        mine = [weights[name] for name, owner in owners.items() if owner == row.name]
        with problems.at(path=row.name):
            if mine:
                found[row.name] = _fitted(row, mine, stored_as)
    problems.raise_all()
    return found, [name for name, owner in owners.items() if owner is None]


def _owner(name: str, rows: Mapping[str, LayerRow]) -> str | None:
    for candidate in (name, _without_expert(name)):
        if candidate in rows:
            return candidate
        near = [row for row in rows if candidate.endswith(f".{row}") or row.endswith(f".{candidate}")]
        if len(near) == 1:
            return near[0]
    return None


def _without_expert(name: str) -> str:
    """'experts.3.w1' is a part of 'experts.w1'."""
    before, _, after = name.partition(".experts.")
    return f"{before}.experts.{after.partition('.')[2]}" if after.partition(".")[0].isdigit() else name


def _fitted(row: LayerRow, parts: list[Weights], stored_as: str) -> Weights:
    """The weights of one row, the experts of a mixture one below the other."""
    m, k = int(row.m or 0), int(row.k or 0)
    if len(parts) not in (1, row.experts):
        raise BadInput.one(f"{len(parts)} tensors for a layer of {row.experts:g}", "give one of each")
    turned = []
    for part in parts:
        shape = (part.shape[0], prod(part.shape[1:]))
        flipped = shape == (k, m) and len(part.shape) == 2 and (m != k or stored_as == "[k, m]")
        if shape != (m, k) and not flipped:
            raise BadInput([Problem(f"{shape[0]} x {shape[1]} weights for a layer of {m} x {k}", "give the network that they belong to")])
        turned.append(_transposed(part) if flipped else part)
    return turned[0] if len(turned) == 1 else _stacked(turned)


def _transposed(weights: Weights) -> Weights:
    return Weights(weights.shape[::-1], weights.dtype, lambda: slabs_of(np.concatenate(list(weights.slabs())).T))


def _stacked(parts: list[Weights]) -> Weights:
    def slabs() -> Iterator[np.ndarray]:
        for part in parts:
            yield from part.slabs()

    return Weights((sum(part.shape[0] for part in parts), *parts[0].shape[1:]), parts[0].dtype, slabs)
