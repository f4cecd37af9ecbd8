"""Weights of compressed-tensors with a bit for each position: formats `sparse-bitmask` and `sparse-24-bitmask`.

`bitmask` [m, ceil(k / 8)] has a bit for each weight, lowest bits first; `compressed` holds the weights that it keeps, row by row, flat or
[m, k / 2] (compressed_tensors 0.9, compressors/sparse_compressors). A weight that 2:4 keeps may be zero.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Shaped

from dse.base.errors import InputError
from dse.readers.parsed_network import WeightTensor
from dse.readers.quantized.module_tensors import ModuleTensors, read_shape, read_whole, row_ranges


def read_bitmask(tensors: ModuleTensors) -> WeightTensor | None:
    """The weights [m, k] of `shape`, `bitmask` and `compressed`; None if their shapes do not match."""
    shape, mask, values = read_shape(tensors["shape"]), tensors["bitmask"], tensors["compressed"]
    if shape is None or mask.shape != (shape[0], -(-shape[1] // 8)):
        return None

    def slabs() -> Iterator[Shaped[np.ndarray, "row k"]]:
        bits, stored, start = read_whole(mask).astype(np.uint8), read_whole(values).ravel(), 0
        for rows in row_ranges(*shape):
            keeps = np.unpackbits(bits[rows], axis=1, count=shape[1], bitorder="little").astype(bool)
            slab, end = np.zeros(keeps.shape, stored.dtype), start + int(keeps.sum())
            _check_count(end, len(stored), is_last=rows.stop == shape[0])
            slab[keeps] = stored[start:end]
            start = end
            yield slab

    return WeightTensor(shape, values.dtype, slabs)


def _check_count(needed: int, stored: int, is_last: bool) -> None:
    if needed > stored or (is_last and needed < stored):
        raise InputError(f"the bit mask has {needed} weights or more, and {stored} are stored", "give the whole checkpoint")
