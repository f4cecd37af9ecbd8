"""Parse the network and the memory sizes of a `dse io` request."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dse.base.dtype import BITS_PER_ELEMENT
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.units import Capacity, parse_quantity
from dse.io_theory.connection_table import is_connection_table, read_network
from dse.io_theory.generated_network import compact_growth, random_layers
from dse.io_theory.layered_network import network_from_masks
from dse.io_theory.network import Network
from dse.io_theory.simulate import check_capacity
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
    if options.layers and (kind in GENERATORS or is_connection_table(path)):
        raise InputError("--layers is for masks only", "leave it out: this network is simulated as a whole")
    if colon and kind in GENERATORS:
        return GENERATORS[kind](spec, options.seed)
    if is_connection_table(path):
        return read_network(path)
    if (path / "workload.yaml").exists():
        raise InputError(f"'{path}' is a workload: it has counts, not masks", "give the masks from which it was traced")
    parsed = parse_network(path)
    return network_from_masks(parsed, options.layers, options.tolerance, options.layout)


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
