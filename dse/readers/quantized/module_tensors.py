"""The tensors of one module of a file, and slabs of weights that are computed from several of them."""

from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Float, Int, Shaped

from dse.readers.parsed_network import WeightTensor, rows_per_slab

ModuleTensors = Mapping[str, WeightTensor]  # by own name, such as "weight_packed"
Groups = Int[np.ndarray, " k"]  # of each column

ELEMENT_BYTES = 16  # of a weight that is being unpacked, with the arrays between


def read_whole(tensor: WeightTensor) -> Shaped[np.ndarray, "..."]:
    """All numbers of a small tensor."""
    slabs = list(tensor.slabs())
    return np.concatenate(slabs) if slabs else np.zeros(tensor.shape)


def read_shape(tensor: WeightTensor) -> tuple[int, int] | None:
    """Rows and columns that a tensor holds; None if it holds something else."""
    if int(np.prod(tensor.shape)) != 2:
        return None
    m, k = (int(size) for size in read_whole(tensor).ravel())
    return (m, k) if m > 0 and k > 0 else None


def row_ranges(rows: int, columns: int) -> Iterator[slice]:
    """Ranges of rows of a matrix, as many at a time as memory should hold."""
    step = rows_per_slab(ELEMENT_BYTES * columns)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def column_groups(columns: int, groups: int, order: np.ndarray | None) -> Groups:
    """The group of each column: as stated by `order`, otherwise groups of equal size, of which the last may be shorter."""
    if order is not None and len(order) == columns and order.min(initial=0) >= 0:
        return order.astype(np.int64)
    return np.arange(columns) // -(-columns // groups)


def dequantize(
    codes: Int[np.ndarray, "row k"], zeros: Int[np.ndarray, "row group"], scales: Float[np.ndarray, "row group"], groups: Groups
) -> Float[np.ndarray, "row k"]:
    """Scale times the difference of each code and the zero point of its group."""
    return (codes - zeros[:, groups]) * scales[:, groups].astype(np.float32)


def unpack_words(words: Int[np.ndarray, "*shape"], bits: int) -> Int[np.ndarray, "*shape code"]:
    """The codes of `bits` bits in each 32-bit word, lowest bits first; bits that are left over hold none."""
    shifts = bits * np.arange(32 // bits, dtype=np.uint32)
    return ((words.astype(np.uint32)[..., None] >> shifts) & np.uint32(2**bits - 1)).astype(np.int32)
