"""Attention masks by their definitions, one query and key at a time: independent of the package."""

from collections.abc import Iterator
from itertools import combinations
from math import ceil

Keys = frozenset[int]


def fixed_keys(text: str, position: int, keys: int) -> Keys:
    """The keys that the query at a position attends to, for patterns whose masks the positions fix."""
    if text == "full":
        return frozenset(range(keys))
    if text.startswith("around"):
        return frozenset(key for key in range(keys) if abs(key - position) <= int(text.partition(":")[2]))
    return frozenset(key for key in range(position + 1) if any(attends(part, position, key) for part in text.split("+")))


def attends(part: str, position: int, key: int) -> bool:
    """Whether one part of a union has a key up to the query."""
    name, _, size = part.partition(":")
    tests = {
        "causal": lambda: True,
        "window": lambda: position - key < int(size),
        "global": lambda: key < int(size),
        "strided": lambda: (position - key) % int(size) == 0,
        "chunk": lambda: key // int(size) == position // int(size),
    }
    return tests[name]()


def legal_rows(text: str, position: int, keys: int) -> Iterator[Keys]:
    """Every set of keys that the query at a position may attend to."""
    name, _, sizes = text.partition(":")
    visible = range(position + 1)
    if name == "topk" and "x" in sizes:
        blocks, size = map(int, sizes.split("x"))
        own = position // size
        for chosen in combinations(range(own), min(blocks - 1, own)):
            yield frozenset(key for key in visible if key // size in (*chosen, own))
    elif name == "topk":
        yield from map(frozenset, combinations(visible, min(int(sizes), position + 1)))
    elif name == "block":
        shape, share = sizes.split("@")
        rows, columns = map(int, shape.split("x"))
        earlier = position // rows * rows // columns
        for chosen in combinations(range(earlier), ceil(float(share) * earlier)):
            yield frozenset(key for key in visible if key // columns in chosen or key >= earlier * columns)
    else:
        yield fixed_keys(text, position, keys)
