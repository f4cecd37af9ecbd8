"""Sparsity patterns: which masks of a weight matrix are legal, and which pattern may stand in for which.

A is [m, k]: m output channels by k inputs. Grids are aligned to the origin; edge tiles are padded, and the
padding counts as stored. A mask is legal in a pattern if it is a union of the pattern's grains within its limits.

| text           | meaning                                                    |
|----------------|------------------------------------------------------------|
| `dense`        | all kept                                                   |
| `unstructured` | any fraction of single elements (also `block:1x1`)         |
| `block:RxC`    | any fraction of R x C blocks, each kept or dropped whole   |
| `N:M`          | at most N of each aligned group of M along k               |
| `block:RxC*`   | a family: blocks of any multiple of R by any multiple of C |
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from dse.errors import BadInput
from dse.schema import refusal

Counts = Any  # a float or a numpy array of floats


class Pattern(ABC):
    """A set of legal masks, ordered by containment."""

    @abstractmethod
    def __str__(self) -> str:
        """The canonical text: equal patterns have equal texts."""

    @abstractmethod
    def fits(self, other: "Pattern") -> bool:
        """Whether every mask legal here is legal in `other` (a partial order; `unstructured` is below `dense`)."""

    def member_for(self, pattern: "Pattern") -> "Pattern | None":
        """The pattern as which a mask of `pattern` is stored by hardware that lists `self`; None if it can't be."""
        return self if pattern.fits(self) else None

    @property
    def density(self) -> float | None:
        """The share kept [1], where the pattern itself fixes it."""
        return None

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the tile that edges are padded to."""
        return (1, 1)

    def tiles(self, m: Counts, k: Counts) -> Counts:
        """How many tiles cover an [m, k] matrix, cut ones included."""
        rows, columns = self.tile
        return np.ceil(m / rows) * np.ceil(k / columns)

    def stored(self, m: Counts, k: Counts, density: Counts) -> Counts:
        """Elements stored for an [m, k] matrix of which `density` is nonzero, padding included."""
        rows, columns = self.tile
        return density * self.tiles(m, k) * rows * columns

    def kept(self, m: Counts, k: Counts) -> Counts:
        """Most elements of an [m, k] matrix that a mask may keep: padding, which the matrix lacks, left out."""
        return m * k * np.ones_like(k, float)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_validate, serialization=core_schema.plain_serializer_function_ser_schema(str))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "examples": ["2:4", "unstructured", "block:16x16", "block:16x16*", "dense"]}


@dataclass(frozen=True)
class Dense(Pattern):
    def __str__(self) -> str:
        return "dense"

    def fits(self, other: Pattern) -> bool:
        return isinstance(other, Dense)

    @property
    def density(self) -> float:
        return 1.0

    def stored(self, m: Counts, k: Counts, density: Counts) -> Counts:
        return m * k * np.ones_like(density, float)  # zeros too


@dataclass(frozen=True)
class Block(Pattern):
    """Any fraction of `rows` x `columns` blocks; 1 x 1 is `unstructured`."""

    rows: int
    columns: int

    def __str__(self) -> str:
        return "unstructured" if self.tile == (1, 1) else f"block:{self.rows}x{self.columns}"

    def fits(self, other: Pattern) -> bool:
        if isinstance(other, Block):
            return self.rows % other.rows == 0 and self.columns % other.columns == 0
        if isinstance(other, BlockFamily):
            return self.fits(other.base)
        return isinstance(other, Dense)  # all blocks may be kept, which no N:M allows

    @property
    def tile(self) -> tuple[int, int]:
        return (self.rows, self.columns)


UNSTRUCTURED = Block(1, 1)
DENSE = Dense()


@dataclass(frozen=True)
class BlockFamily(Pattern):
    """Blocks of any multiple of `base`: hardware that lists it stores each mask in its own block size.

    The same masks as `base` are legal, so the two fit each other; only what is stored differs.
    """

    base: Block

    def __str__(self) -> str:
        return f"block:{self.base.rows}x{self.base.columns}*"

    def fits(self, other: Pattern) -> bool:
        return self.base.fits(other.base if isinstance(other, BlockFamily) else other)

    def member_for(self, pattern: Pattern) -> Pattern | None:
        if not pattern.fits(self):
            return None
        return pattern if isinstance(pattern, Block) else self.base

    @property
    def tile(self) -> tuple[int, int]:
        return self.base.tile


@dataclass(frozen=True)
class NM(Pattern):
    """At most `n` of each aligned group of `m` along k, with n < m (n = m is `dense`)."""

    n: int
    m: int

    def __str__(self) -> str:
        return f"{self.n}:{self.m}"

    def fits(self, other: Pattern) -> bool:
        if isinstance(other, NM):
            return self._most_in_a_group(other.m) <= other.n
        return other == UNSTRUCTURED or isinstance(other, Dense) or (isinstance(other, BlockFamily) and self.fits(other.base))

    def _most_in_a_group(self, width: int) -> int:
        """Most elements that an aligned window of `width` can hold: each group it cuts gives min(n, overlap)."""
        starts = range(0, lcm(self.m, width), width)
        return max(sum(min(self.n, part) for part in _overlaps(start, start + width, self.m)) for start in starts)

    @property
    def density(self) -> float:
        return self.n / self.m

    @property
    def tile(self) -> tuple[int, int]:
        return (1, self.m)

    def stored(self, m: Counts, k: Counts, density: Counts) -> Counts:
        return self.tiles(m, k) * self.n * np.ones_like(density, float)  # every slot, used or not

    def kept(self, m: Counts, k: Counts) -> Counts:
        whole = np.floor(k / self.m)
        return m * (whole * self.n + np.minimum(k - whole * self.m, self.n))


def _overlaps(start: int, stop: int, group: int) -> list[int]:
    """Lengths in which the window [start, stop) meets each aligned group that it touches."""
    first = start - start % group
    return [min(stop, left + group) - max(start, left) for left in range(first, stop, group)]


_GRAMMAR = (
    (re.compile(r"dense"), lambda: DENSE),
    (re.compile(r"unstructured"), lambda: UNSTRUCTURED),
    (re.compile(r"(\d+):(\d+)"), lambda n, m: _nm(int(n), int(m))),
    (re.compile(r"block:(\d+)x(\d+)"), lambda r, c: _block(int(r), int(c))),
    (re.compile(r"block:(\d+)x(\d+)\*"), lambda r, c: BlockFamily(_block(int(r), int(c)))),
)


def parse(text: str) -> Pattern:
    """The pattern that `text` names; raises BadInput with what is impossible about it."""
    for form, build in _GRAMMAR:
        if match := form.fullmatch(text.strip().lower()):
            return build(*match.groups())
    known = "'dense', 'unstructured', 'block:16x16', 'block:16x16*' or 'N:M' as in '2:4'"
    raise BadInput.one(f"'{text}' is not a pattern", f"write {known}")


def _nm(n: int, m: int) -> Pattern:
    if n > m:
        raise BadInput.one(f"'{n}:{m}' keeps {n} of {m}, which is impossible", f"write N:M with N <= M, as in '{m}:{n}'")
    if n == 0:
        raise BadInput.one(f"'{n}:{m}' keeps nothing", "write N:M with N >= 1, as in '2:4'")
    return DENSE if n == m else NM(n, m)


def _block(rows: int, columns: int) -> Block:
    if rows == 0 or columns == 0:
        raise BadInput.one(f"a block of {rows}x{columns} is empty", "write at least 1 row and 1 column, as in 'block:16x16'")
    return Block(rows, columns)


def _validate(value: Any) -> Pattern:
    if isinstance(value, Pattern):
        return value
    if not isinstance(value, str):
        raise refusal(f"'{value}' is not a pattern", "write text, as in '2:4'")
    try:
        return parse(value)
    except BadInput as error:
        raise refusal(error.problems[0].what, error.problems[0].fix) from error
