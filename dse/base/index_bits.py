"""Bits of an index: which of the places of a group, row or tile an element has.

N:M metadata are such indices, those of sparse weights (`dse.sparsity.rank`) and those of a key-value cache (`dse.base.number_format`).
"""

from typing import Any

import numpy as np

Size = Any  # a number, or an array of numbers


def index_bits(size: Size) -> Size:
    """Bits of an index into `size` places; at least one."""
    return np.maximum(np.ceil(np.log2(size)), 1.0)
