"""Scales as a rank of the storage of a matrix: their bits in an [m, k] matrix that stores some of its values.

A format whose blocks count positions stores a scale for every block of the dense matrix. One whose blocks count kept values cuts the stored
values of each row into blocks, the last of which may be shorter: N:M keeps as many values in each row, so that the bits are exact; for
patterns with random rows, they are the mean over all masks that store as many values.
"""

import numpy as np

from dse.base.number_format import NumberFormat
from dse.sparsity import expectation
from dse.sparsity.kinds import Dense, Structured
from dse.sparsity.pattern import FloatOrArray, Pattern


def scale_bits(numbers: NumberFormat, pattern: Pattern, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> FloatOrArray:
    """Bits of the scales and zero points of an [m, k] matrix of which `pattern` stores `stored` values."""
    if not numbers.has_scales:
        return 0.0 * stored
    if isinstance(pattern, Structured):
        share = stored / np.maximum(m * k, 1.0)
        return numbers.scale_bits(m * share, k) if pattern.axis == "row" else numbers.scale_bits(m, k * share)
    if not numbers.counts_kept or isinstance(pattern, Dense):
        return numbers.scale_bits(m, k)
    if pattern.has_free_tiles:
        return numbers.block_bits * _blocks_of_random_rows(numbers, pattern, m, k, stored) + numbers.matrix_bits
    rows = np.ceil(m / pattern.tile[0]) * pattern.tile[0]
    return numbers.scale_bits(rows, stored / rows)


def _blocks_of_random_rows(numbers: NumberFormat, pattern: Pattern, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> FloatOrArray:
    """Mean number of blocks if each row of tiles keeps a random number of them."""
    (down, across), tiles = pattern.tile_grid(m, k), pattern.levels(m, k, stored)[0].kept
    kept_in_row = stored / np.maximum(tiles, 1.0) / pattern.tile[0]  # of one tile
    if numbers.columns == np.inf:
        return pattern.tile[0] * expectation.occupied_fibres(down, across, tiles)
    values = expectation.aligned_bits(down, across, tiles, kept_in_row, numbers.columns)
    return pattern.tile[0] * values / numbers.columns
