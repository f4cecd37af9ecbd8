"""Which kernels and efficiencies are assumed for patterns that no kernel was measured with.

Patterns whose rows share columns borrow kernels of another height. All others run as a dense product of the stored weights. At the
efficiency of the dense kernel that would be an optimistic bound, since measured sparse kernels reach a smaller share of the speed of light
than the dense kernels of the same source: the constants below are these ratios.
"""

from typing import NamedTuple

import numpy as np

from dse.sparsity.hierarchy import Hierarchy
from dse.sparsity.kinds import NM, UNSTRUCTURED, VNM, VNM_COLUMNS, Block, BlockFamily, VNMFamily
from dse.sparsity.pattern import Pattern


class AssumedRatio(NamedTuple):
    """E_sparse / E_dense [1], the geometric mean over kernels, and the standard deviation of its logarithm over them."""

    mean: float
    log_deviation: float


# Over the kernels with at least two launches in the sets that ship and in M-H482/NM-SpMM (fp32, A100 and RTX 3090).
NM_RATIO = AssumedRatio(0.668, 0.273)  # nine kernels of N:M and V:N:M
CSR_RATIO = AssumedRatio(0.154, 0.651)  # three kernels
# By the height of the block: CLASP on an RTX 3090 (2, 4, 8) and Triton on a V100 (32, Gale 2022); the deviation is that of these four.
BLOCK_RATIOS = {2: 0.139, 4: 0.179, 8: 0.322, 32: 0.38}
BLOCK_LOG_DEVIATION = 0.47


def assumed_ratio(pattern: Pattern) -> AssumedRatio:
    """E_sparse / E_dense of the measured pattern that is nearest."""
    if isinstance(pattern, Hierarchy):
        return assumed_ratio(pattern.inner)
    if isinstance(pattern, NM | VNM | VNMFamily):
        return NM_RATIO
    if pattern == UNSTRUCTURED:
        return CSR_RATIO
    blocks = pattern.base if isinstance(pattern, BlockFamily) else pattern
    rows = blocks.rows if isinstance(blocks, Block) else 1
    nearest = min(BLOCK_RATIOS, key=lambda height: abs(np.log(height / rows)))
    return AssumedRatio(BLOCK_RATIOS[nearest], BLOCK_LOG_DEVIATION)


def shared_height(pattern: Pattern) -> tuple[str, int] | None:
    """What the rows of a block share (the columns of N:4, or those of vectors) and how many rows do; None for all other patterns.

    N:4 is V:N:4 with V = 1 and unstructured is a vector of height 1, so that their kernels may substitute for each other.
    """
    if isinstance(pattern, VNM):
        return f"*:{VNM_COLUMNS}", pattern.v
    if isinstance(pattern, NM) and (pattern.m, pattern.v) == (VNM_COLUMNS, 1):
        return f"*:{VNM_COLUMNS}", 1
    if isinstance(pattern, Block) and pattern.columns == 1:
        return "vector", pattern.rows
    return None
