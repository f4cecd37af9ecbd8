"""A set of whole numbers whose largest is found at once: bits in words of 64, and bits for the words, level over level."""

import numpy as np

from dse.io_theory.compiled import compiled

ONE = np.uint64(1)


def levels(size: int) -> tuple[np.ndarray, np.ndarray]:
    """An empty set of numbers below `size`: its words, and where each level of them begins."""
    counts = [-(-max(size, 1) // 64)]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 64))
    return np.zeros(sum(counts), np.uint64), np.cumsum([0, *counts])[:-1]


@compiled()
def insert(words, starts, number):
    for level in range(len(starts)):
        place = starts[level] + (number >> 6)
        before = words[place]
        words[place] = before | (ONE << np.uint64(number & 63))
        if before != 0:
            return
        number >>= 6


@compiled()
def remove(words, starts, number):
    for level in range(len(starts)):
        place = starts[level] + (number >> 6)
        words[place] &= ~(ONE << np.uint64(number & 63))
        if words[place] != 0:
            return
        number >>= 6


@compiled()
def contains(words, number):
    return (words[number >> 6] >> np.uint64(number & 63)) & ONE != 0


@compiled()
def is_empty(words):
    return words[-1] == 0


@compiled()
def largest(words, starts):
    number = np.int64(0)
    for level in range(len(starts) - 1, -1, -1):
        number = number * 64 + _top_bit(words[starts[level] + number])
    return number


@compiled()
def _top_bit(word):
    bit = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step) != 0:
            word >>= np.uint64(step)
            bit += step
    return bit
