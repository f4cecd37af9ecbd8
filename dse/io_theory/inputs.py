"""What `dse io` is asked: which network, and which sizes of fast memory."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dse.base.dtype import BITS_PER_ELEMENT
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.units import Capacity, parse_quantity
from dse.io_theory import connections, masks
from dse.io_theory.compact_growth import compact_growth
from dse.io_theory.layered import random_layers
from dse.io_theory.network import Network
from dse.io_theory.simulate import check_memory
from dse.trace import detect

MEMORY = ("1KiB..8MiB",)
RANDOM = "random:SIZExSIZE...,density=D"
GROWTH = "growth:memory=M,steps=S,sources=K"


@dataclass(frozen=True)
class Size:
    """A fast memory: `values` of it, in `bytes`."""

    values: int
    bytes: float


def sizes(texts: Sequence[str], dtype: str) -> list[Size]:
    """Sizes and ranges of them, which double from step to step ('1KiB..8MiB', '3..258 values'); raises InputError."""
    if dtype not in BITS_PER_ELEMENT:
        raise InputError(f"unknown dtype '{dtype}'", did_you_mean(dtype, BITS_PER_ELEMENT))
    width, problems, found = BITS_PER_ELEMENT[dtype] / 8, ProblemCollector(), []
    for text in texts:
        with problems.collect(key="--memory"):
            found += _range(text, width)
    problems.raise_if_any()
    return sorted({size.values: size for size in found}.values(), key=lambda size: size.values)


def _range(text: str, width: float) -> list[Size]:
    low, dots, high = text.partition("..")
    if dots and (unit := re.search(r"[a-zA-Z]+\s*$", high)) and re.fullmatch(r"[\d.\s]+", low):
        low = f"{low} {unit[0]}"  # '3..258 values'
    ends = [_size(part, width) for part in ((low, high) if dots else (low,))]
    if ends[0].values > ends[-1].values:
        raise InputError(f"'{text}' runs backwards", "write the smaller size first")
    steps = [ends[0]]
    while steps[-1].values < ends[-1].values:
        steps.append(min(Size(2 * steps[-1].values, 2 * steps[-1].bytes), ends[-1], key=lambda size: size.values))
    return steps


def _size(text: str, width: float) -> Size:
    if plain := re.fullmatch(r"\s*(\d{1,12})\s*values\s*", text):
        values, size = int(plain[1]), int(plain[1]) * width
    else:
        size = parse_quantity(text, Capacity)
        values = int(size // width)
    check_memory(values)
    return Size(values, size)


def network_of(options: argparse.Namespace) -> Network:
    """The network that is asked about: generated, a table of connections, or the masks of any file that a reader knows."""
    kind, colon, what = options.network.partition(":")
    path = Path(options.network)
    if options.layers and (kind in GENERATED or connections.is_table(path)):
        raise InputError("--layers is for masks", "leave it out: this network is taken whole")
    if colon and kind in GENERATED:
        return GENERATED[kind](what, options.seed)
    if connections.is_table(path):
        return connections.read(path)
    if (path / "workload.yaml").exists():
        raise InputError(f"'{path}' is a workload: it keeps counts, not masks", "give the masks that it was traced from")
    source = detect.read(path, detect.Hints())
    return masks.of_source(source, options.layers, options.tolerance, options.layout)


def _random(what: str, seed: int) -> Network:
    match = re.fullmatch(r"(\d{1,9}(?:x\d{1,9})+),density=(\d*\.?\d+(?:e-?\d+)?)", what)
    if match is None:
        raise InputError(f"'random:{what}' is no network", f"write {RANDOM}, as in 'random:784x300x100x10,density=0.1'")
    return random_layers([int(size) for size in match[1].split("x")], float(match[2]), seed)


def _growth(what: str, seed: int) -> Network:
    match = re.fullmatch(r"memory=(\d{1,9}),steps=(\d{1,9}),sources=(\d{1,9})", what)
    if match is None:
        raise InputError(f"'growth:{what}' is no network", f"write {GROWTH}, as in 'growth:memory=300,steps=1000,sources=4'")
    return compact_growth(int(match[1]), int(match[2]), int(match[3]), seed)


GENERATED = {"random": _random, "growth": _growth}
