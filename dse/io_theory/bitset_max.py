"""A set of non-negative integers with a fast maximum: a bitset, and bitsets of its non-zero words, level over level.

`words` holds the 64-bit words of all levels, the lowest first; `level_starts` is the index of the first word of each level.
"""

import numpy as np
from jaxtyping import Int, UInt64

from dse.io_theory.numba_jit import jit

ONE = np.uint64(1)


def empty_set(size: int) -> tuple[UInt64[np.ndarray, "word"], Int[np.ndarray, "level"]]:
    """An empty set of numbers below `size`: `words` and `level_starts`."""
    counts = [-(-max(size, 1) // 64)]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 64))
    return np.zeros(sum(counts), np.uint64), np.cumsum([0, *counts])[:-1]


@jit()
def insert(words, level_starts, number: int) -> None:
    for level in range(len(level_starts)):
        word = level_starts[level] + (number >> 6)
        before = words[word]
        words[word] = before | (ONE << np.uint64(number & 63))
        if before != 0:
            return
        number >>= 6


@jit()
def remove(words, level_starts, number: int) -> None:
    for level in range(len(level_starts)):
        word = level_starts[level] + (number >> 6)
        words[word] &= ~(ONE << np.uint64(number & 63))
        if words[word] != 0:
            return
        number >>= 6


@jit()
def contains(words, number: int) -> bool:
    return (words[number >> 6] >> np.uint64(number & 63)) & ONE != 0


@jit()
def largest(words, level_starts) -> np.int64:
    """The maximum of a set that is not empty."""
    number = np.int64(0)
    for level in range(len(level_starts) - 1, -1, -1):
        number = number * 64 + _top_bit(words[level_starts[level] + number])
    return number


@jit()
def _top_bit(word) -> np.int64:
    bit = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step) != 0:
            word >>= np.uint64(step)
            bit += step
    return bit
