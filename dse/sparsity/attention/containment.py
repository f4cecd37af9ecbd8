"""Containment of attention patterns: whether hardware for one pattern can compute all scores that another needs.

`contains(outer, inner)`: for every context and every choice of keys by `inner`, `outer` has a mask with all its scores. It is sound (never
true where some mask is not covered), and complete for pairs of patterns whose masks the positions fix.
"""

from math import inf

from dse.sparsity.attention.chosen import BlockShare, TopBlocks, TopTokens
from dse.sparsity.attention.kinds import Around, Causal, Chunk, Full, TokenUnion
from dse.sparsity.attention.pattern import AttentionPattern


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
