"""Which layers of a network read the output of which.

A tensor is the whole output of one layer, numbered as that layer. It is live from the layer that makes it to the last one that needs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.base.errors import InputError, did_you_mean

NETWORK_INPUT = "input"  # what the network itself is given
SEPARATOR = ";"


@dataclass(frozen=True)
class LayerGraph:
    """For each layer the numbers of those whose outputs it takes as inputs, and of those whose outputs are added to its result;
    `reads_network_input`: whether it reads the network's own input too."""

    reads: tuple[tuple[int, ...], ...]
    adds: tuple[tuple[int, ...], ...]
    reads_network_input: tuple[bool, ...]

    @classmethod
    def from_names(cls, names: Sequence[str], reads: Sequence[str | None], adds: Sequence[str | None]) -> "LayerGraph | None":
        """The graph of the layers, in the order in which they run; None unless each has `reads`. Raises InputError."""
        if not names or None in reads:
            return None
        known, found = {}, []
        for number, (name, *links) in enumerate(zip(names, reads, adds, strict=True)):
            found.append([parse_reads(text or NETWORK_INPUT, known) for text in links])
            known[name] = number
        read, added = zip(*found, strict=True)
        return cls(read, added, tuple(NETWORK_INPUT in split_names(text or NETWORK_INPUT) and NETWORK_INPUT not in known for text in reads))

    def __len__(self) -> int:
        return len(self.reads)

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """The layers that need the output of each."""
        found: list[list[int]] = [[] for _ in self.reads]
        for number, links in enumerate(zip(self.reads, self.adds, strict=True)):
            for source in dict.fromkeys(sum(links, ())):
                found[source].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def live(self) -> np.ndarray:
        """Whether the output of a layer [tensor] is in memory while a layer runs [layer]."""
        number = np.arange(len(self))
        last = np.array([max(users, default=tensor) for tensor, users in enumerate(self.users)])
        return (number[:, None] <= number) & (number <= last[:, None])


def parse_reads(text: str, known: dict[str, int]) -> tuple[int, ...]:
    """The numbers of the layers that a cell names, the network's input left out; `known`: the layers before. Raises InputError."""
    names = split_names(text)
    for name in names:
        if name not in known and name != NETWORK_INPUT:
            raise InputError(
                f"no layer above is named '{name}'", f"{did_you_mean(name, known)} ('{NETWORK_INPUT}': what the network is given)"
            )
    return tuple(dict.fromkeys(known[name] for name in names if name in known))


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(SEPARATOR)]
