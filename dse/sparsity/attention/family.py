"""Attention patterns that hardware lists: one pattern, or a family with free sizes, for every pattern that it contains.

`window:*`, `window:*+global:*`, `strided:*`, `window:*+strided:*`, `chunk:*`, `around:*`, `topk:*`, `topk:*xB` (blocks of any multiple of
B) and `block:RxC` (any share of the blocks of any multiple of R x C). Sizes are all free or all given.

`contains(outer, inner)`: for every context and every choice of keys by `inner`, `outer` has a mask with all its scores. It is sound (never
true where some mask is not covered), and complete for pairs of patterns whose masks the positions fix.
"""

import re
from dataclasses import dataclass
from math import inf
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from dse.base.errors import InputError
from dse.base.strict_model import field_error, validation_errors
from dse.sparsity.attention.chosen import BlockShare, TopBlocks, TopTokens
from dse.sparsity.attention.grammar import SIZE, UNION_PARTS, parse_attention
from dse.sparsity.attention.kinds import Around, Causal, Chunk, Full, TokenUnion
from dse.sparsity.attention.pattern import AttentionPattern

KINDS = {"chunk:*": Chunk, "around:*": Around}  # families of one kind


@dataclass(frozen=True)
class AttentionFamily:
    """Patterns that a unit computes without the other scores: `pattern`, or all of the kind `text`."""

    text: str
    pattern: AttentionPattern | None = None

    def __str__(self) -> str:
        return self.text

    def member_for(self, pattern: AttentionPattern) -> AttentionPattern | None:
        """The member with the fewest scores that contains `pattern`; None if there is none."""
        if self.pattern is not None:
            return self.pattern if contains(self.pattern, pattern) else None
        if self.text in KINDS:
            return pattern if isinstance(pattern, KINDS[self.text]) else None
        if self.text == "topk:*":
            return TopTokens(pattern.most_keys) if pattern.is_causal and pattern.most_keys is not None else None
        if match := re.fullmatch(f"topk:\\*x{SIZE}", self.text):
            return pattern if isinstance(pattern, TopBlocks) and pattern.size % int(match[1]) == 0 else None
        if match := re.fullmatch(f"block:{SIZE}x{SIZE}", self.text):
            divides = isinstance(pattern, BlockShare) and pattern.rows % int(match[1]) == 0 and pattern.columns % int(match[2]) == 0
            return pattern if divides else None
        return self._union_for(pattern)

    def _union_for(self, pattern: AttentionPattern) -> AttentionPattern | None:
        parts = {UNION_PARTS[part.split(":")[0]] for part in self.text.split("+")}
        if isinstance(pattern, Chunk) and "window" in parts:
            return TokenUnion(window=pattern.size)
        is_member = isinstance(pattern, TokenUnion) and all(name in parts or not size for name, size in vars(pattern).items())
        return pattern if is_member else None


UNION_FORM = r"(window|global|strided):\*(\+(global|strided):\*){0,2}"
FREE_FORMS = f"around:\\*|chunk:\\*|topk:\\*|topk:\\*x{SIZE}|block:{SIZE}x{SIZE}|{UNION_FORM}"


def parse_family(text: str) -> AttentionFamily:
    """Parse an attention pattern, or a family with free sizes; raises InputError."""
    written = text.strip().lower().replace(" ", "")
    if re.fullmatch(FREE_FORMS, written):
        if len(set(parts := written.split("+"))) < len(parts):
            raise InputError(f"'{text}' has the same part twice", "write it once")
        return AttentionFamily(written)
    pattern = parse_attention(text)
    return AttentionFamily(str(pattern), pattern)


def _validate_family(value: object) -> AttentionFamily:
    if isinstance(value, AttentionFamily):
        return value
    if not isinstance(value, str):
        raise field_error(f"'{value}' is not an attention pattern", "write text, as in 'window:*'")
    with validation_errors():
        return parse_family(value)


FAMILY_EXAMPLES = ["causal", "window:*", "window:*+global:*", "chunk:*", "topk:*", "topk:*x64", "block:64x64"]
AttentionFamilyField = Annotated[
    AttentionFamily,
    PlainValidator(_validate_family),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": FAMILY_EXAMPLES}),
]  # an attention pattern that a unit lists


def contains(outer: AttentionPattern, inner: AttentionPattern) -> bool:
    """Whether every mask of `inner` is part of a mask of `outer`."""
    if isinstance(outer, Full) or outer == inner:
        return True
    if isinstance(outer, Around):
        return _reach(inner) <= outer.distance
    if not inner.is_causal:
        return False
    match outer:
        case Causal():
            return True
        case TokenUnion():
            return _union_contains(outer, inner)
        case Chunk(size):
            return (isinstance(inner, Chunk) and size % inner.size == 0) or inner == TokenUnion(window=1)
        case TopTokens(tokens):
            return inner.most_keys is not None and inner.most_keys <= tokens
        case TopBlocks(blocks, size):
            return (most := _most_blocks(inner, size)) is not None and most <= blocks
        case BlockShare(rows, columns, share):
            return isinstance(inner, BlockShare) and (inner.rows, inner.columns) == (rows, columns) and inner.share <= share
    return False


def _reach(pattern: AttentionPattern) -> float:
    """The largest distance of a key that a query attends to, in any context."""
    match pattern:
        case Around(distance):
            return distance
        case TokenUnion(_, 0, 0):
            return pattern.window - 1
        case Chunk(size):
            return size - 1
    return inf


def _union_contains(outer: TokenUnion, inner: AttentionPattern) -> bool:
    match inner:
        case TokenUnion(_, sinks, stride):
            has_stride = not stride or (outer.stride > 0 and stride % outer.stride == 0)
            return inner.longest_window <= outer.longest_window and sinks <= outer.sinks and has_stride
        case Chunk(size):
            return size <= outer.longest_window
    return False


def _most_blocks(pattern: AttentionPattern, size: int) -> int | None:
    """The most aligned blocks of `size` keys that hold what a query attends to, its own block included; None without a limit."""
    match pattern:
        case TokenUnion(window, sinks, 0):
            return 1 + -(-max(window - 1, 0) // size) + -(-sinks // size)
        case Chunk(chunk):
            return chunk // size if chunk % size == 0 else 1 + -(-(chunk - 1) // size)
        case TopTokens(tokens):
            return 1 + tokens
        case TopBlocks(blocks, inner):
            if inner % size == 0:
                return blocks * (inner // size)
            return blocks if size % inner == 0 else 1 + blocks * ((inner - 2) // size + 2)
    return None
