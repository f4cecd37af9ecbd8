"""Which layers of a network read the output of which.

A tensor is the whole output of one layer and has the number of that layer. It is live from the layer that writes it to the last layer
that reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool

from dse.base.errors import InputError, did_you_mean

NETWORK_INPUT = "input"  # in a cell of `reads`: the network's own input
SEPARATOR = ";"


@dataclass(frozen=True)
class LayerGraph:
    """The links of each layer: the layers whose outputs it reads, and the layers whose outputs are added to its result.

    `reads_network_input`: whether a layer also reads the network's own input.
    """

    reads: tuple[tuple[int, ...], ...]
    adds: tuple[tuple[int, ...], ...]
    reads_network_input: tuple[bool, ...]

    @classmethod
    def from_names(cls, names: Sequence[str], reads: Sequence[str | None], adds: Sequence[str | None]) -> "LayerGraph | None":
        """Make the graph of layers in execution order; None unless every layer has `reads`. Raises InputError."""
        if not names or None in reads:
            return None
        number_of: dict[str, int] = {}
        links = []
        for number, (name, *cells) in enumerate(zip(names, reads, adds, strict=True)):
            links.append([parse_reads(cell or NETWORK_INPUT, number_of) for cell in cells])
            number_of[name] = number
        read, added = zip(*links, strict=True)
        from_input = (NETWORK_INPUT in split_names(cell or NETWORK_INPUT) and NETWORK_INPUT not in number_of for cell in reads)
        return cls(read, added, tuple(from_input))

    def __len__(self) -> int:
        return len(self.reads)

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """The layers that read or add the output of each layer."""
        users: list[list[int]] = [[] for _ in self.reads]
        for number, links in enumerate(zip(self.reads, self.adds, strict=True)):
            for source in dict.fromkeys(sum(links, ())):
                users[source].append(number)
        return tuple(map(tuple, users))

    @cached_property
    def live(self) -> Bool[np.ndarray, "tensor layer"]:
        """Whether each tensor is in memory while each layer runs."""
        number = np.arange(len(self))
        last = np.array([max(users, default=tensor) for tensor, users in enumerate(self.users)])
        return (number[:, None] <= number) & (number <= last[:, None])


def parse_reads(cell: str, number_of: Mapping[str, int]) -> tuple[int, ...]:
    """The numbers of the layers that a cell names, without the network's input; `number_of` has all layers above. Raises InputError."""
    names = split_names(cell)
    for name in names:
        if name not in number_of and name != NETWORK_INPUT:
            fix = f"{did_you_mean(name, number_of)} ('{NETWORK_INPUT}': the input of the network)"
            raise InputError(f"no layer above is named '{name}'", fix)
    return tuple(dict.fromkeys(number_of[name] for name in names if name in number_of))


def split_names(cell: str) -> list[str]:
    return [name.strip() for name in cell.split(SEPARATOR)]
