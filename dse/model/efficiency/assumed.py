"""What kernels that nobody measured are assumed to reach: no more than measured kernels of the nearest family of patterns.

A sparse execution without a kernel of its own runs as a dense product of the stored weights. Taken as it is, that is an optimistic
bound: measured sparse kernels reach a smaller share of the speed of light than the dense kernels of the same source. `SHARES` has
these ratios.
"""

from typing import NamedTuple

import numpy as np

from dse.sparsity.hierarchy import Hierarchy
from dse.sparsity.kinds import NM, UNSTRUCTURED, VNM, VNM_COLUMNS, Block, BlockFamily, VNMFamily
from dse.sparsity.pattern import Pattern


class Share(NamedTuple):
    """E_sparse / E_dense [1], and the deviation of its logarithm over the kernels that it is the geometric mean of."""

    ratio: float
    spread: float


# Geometric means over the kernels with at least two launches in the sets that ship and in M-H482/NM-SpMM (fp32, A100 and RTX 3090).
STRUCTURED = Share(0.668, 0.273)  # nine kernels of N:M and V:N:M
SINGLE = Share(0.154, 0.651)  # three kernels of CSR
# By the height of the block, CLASP on an RTX 3090 (2, 4, 8) and Triton on a V100 (32, Gale 2022); the deviation is that of these four.
BLOCKS = {2: 0.139, 4: 0.179, 8: 0.322, 32: 0.38}
BLOCK_SPREAD = 0.47


def share(pattern: Pattern) -> Share:
    """What kernels of a pattern reach of what dense ones do, by the nearest patterns that were measured."""
    if isinstance(pattern, Hierarchy):
        return share(pattern.inner)
    if isinstance(pattern, NM | VNM | VNMFamily):
        return STRUCTURED
    if pattern == UNSTRUCTURED:
        return SINGLE
    blocks = pattern.base if isinstance(pattern, BlockFamily) else pattern
    rows = blocks.rows if isinstance(blocks, Block) else 1
    return Share(BLOCKS[min(BLOCKS, key=lambda height: abs(np.log(height / rows)))], BLOCK_SPREAD)


def height(pattern: Pattern) -> tuple[str, int] | None:
    """What the rows of a block share, and how many rows share it; None for patterns whose rows share nothing.

    N:4 is V:N:4 with V = 1, so that kernels of 2:4 and of V:N:M stand for each other.
    """
    if isinstance(pattern, VNM):
        return f"*:{VNM_COLUMNS}", pattern.v
    if isinstance(pattern, NM) and (pattern.m, pattern.v) == (VNM_COLUMNS, 1):
        return f"*:{VNM_COLUMNS}", 1
    if isinstance(pattern, Block) and pattern.columns == 1:
        return "vector", pattern.rows
    return None
