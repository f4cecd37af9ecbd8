"""Weights of one file on the layers of another: by name, and by shape as a check."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from dse.base.errors import InputError, ProblemCollector
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.named_tensors import ONCE
from dse.readers.parsed_network import Operator, ParsedNetwork, WeightTensor, slabs_of


def on_network(known: ParsedNetwork, traced: ParsedNetwork) -> ParsedNetwork:
    """The masks of `traced` on the layers of `known`, which knows how often each one runs; raises InputError."""
    states, left = [], set()
    stored_as = known.network.weight_layout if known.network else "[m, k]"
    problems = ProblemCollector()
    for state in traced.states:
        with problems.collect(traced.path):
            weights, alone = matched(known.layers, state.weights, stored_as)
            states.append(replace(state, weights=weights))
            left |= set(alone)
    problems.raise_if_any()
    if not any(state.weights for state in states):
        fix = f"give the network that they belong to; its layers are called '{known.layers[0].name}' and so on"
        raise InputError("no tensor has the name of a layer", fix, traced.path)
    sizes = {name: weights.shape for state in traced.states for name, weights in state.weights.items()}
    lost = [Operator("tensor", name, "skipped", prod(sizes[name]), "belongs to no layer of the network") for name in sorted(left)]
    notes = tuple(note for note in traced.notes if note != ONCE)
    operators = (*known.operators, *(o for o in traced.operators if o.became != "layer"), *lost)
    return ParsedNetwork(
        traced.path, traced.format, known.layers, tuple(states), operators, traced.shared, known.notes + notes, known.network
    )


def matched(
    rows: Iterable[LayerRow], weights: Mapping[str, WeightTensor], stored_as: str = "[m, k]"
) -> tuple[dict[str, WeightTensor], list[str]]:
    """The weights of each row, and the names that belong to none; raises InputError where the shapes differ.

    A name belongs to the row of that name, or to the one row that it ends with, or that ends with it. `stored_as` says how a
    square matrix is stored: "[m, k]" or "[k, m]"; others tell by their shape, and for the square ones of their file too.
    """
    by_name = {row.name: row for row in rows if row.kind in WITH_WEIGHTS}
    owners = {name: _owner(name, by_name) for name in weights}
    stored_as = _orientation(by_name, weights, owners) or stored_as
    found, problems = {}, ProblemCollector()
    for row in by_name.values():
        mine = [weights[name] for name, owner in owners.items() if owner == row.name]
        with problems.collect(key=row.name):
            if mine:
                found[row.name] = _fitted(row, mine, stored_as)
    problems.raise_if_any()
    for name in by_name:  # "fc#2" uses the weights of "fc" once more
        if name.partition("#")[0] in found:
            found.setdefault(name, found[name.partition("#")[0]])
    return found, [name for name, owner in owners.items() if owner is None]


def _orientation(rows: Mapping[str, LayerRow], weights: Mapping[str, WeightTensor], owners: Mapping[str, str | None]) -> str:
    """How the matrices of a file are stored, as far as those that are not square tell."""
    told = set()
    for name, owner in owners.items():
        if owner and len(weights[name].shape) == 2 and rows[owner].m != rows[owner].k:
            told.add("[k, m]" if weights[name].shape == (rows[owner].k, rows[owner].m) else "[m, k]")
    return told.pop() if len(told) == 1 else ""


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


def _fitted(row: LayerRow, parts: list[WeightTensor], stored_as: str) -> WeightTensor:
    """The weights of one row, the experts of a mixture one below the other."""
    m, k = int(row.m or 0), int(row.k or 0)
    if len(parts) not in (1, row.experts):
        raise InputError(f"{len(parts)} tensors for a layer of {row.experts:g}", "give one of each")
    turned = []
    for part in parts:
        shape = (part.shape[0], prod(part.shape[1:]))
        flipped = shape == (k, m) and len(part.shape) == 2 and (m != k or stored_as == "[k, m]")
        if shape != (m, k) and not flipped:
            raise InputError(f"{shape[0]} x {shape[1]} weights for a layer of {m} x {k}", "give the network that they belong to")
        turned.append(_transposed(part) if flipped else part)
    return turned[0] if len(turned) == 1 else _stacked(turned)


def _transposed(weights: WeightTensor) -> WeightTensor:
    return WeightTensor(weights.shape[::-1], weights.dtype, lambda: slabs_of(np.concatenate(list(weights.slabs())).T))


def _stacked(parts: list[WeightTensor]) -> WeightTensor:
    def slabs() -> Iterator[np.ndarray]:
        for part in parts:
            yield from part.slabs()

    return WeightTensor((sum(part.shape[0] for part in parts), *parts[0].shape[1:]), parts[0].dtype, slabs)
