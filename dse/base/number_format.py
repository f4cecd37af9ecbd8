"""Number formats: the bits of an element, and of the scales that blocks of elements share.

A format is written ELEMENT:SCALE/BLOCK with optional parts behind it:

    int8:fp32/row           an fp32 scale for each row
    fp8:fp32/128x128        an fp32 scale for each block of 128 rows by 128 columns
    int4:fp16/128z4         an fp16 scale and a 4-bit zero point for each 128 values of a row; `int4:g128z4` is short for it
    fp4:e4m3/16kept+fp32    an e4m3 scale for each 16 kept values of a row, and one fp32 scale for the whole matrix
    int4:fp16/128z4!        `!`: every row has to be a multiple of a block, as the kernels of the format require
    fp8@2:4                 2 of every 4 elements of a row, each with its place in 2 bits: of a key-value cache alone

Rows of an operand run along the dimension that is summed over: weights are [m, k], inputs [n, k] and outputs [n, m]. Blocks begin at the
first element; a block that the edge of the matrix cuts has a scale of its own. In a matrix that stores only some of its values, a block
counts positions of the dense matrix, or with `kept` the stored values of a row: the values that a sparse tensor core reads. CUTLASS has
a scale for each 32 positions of 2:4 NVFP4, which are 16 kept values, and for each 64 positions of the 2:4 MX formats
(include/cutlass/gemm/collective/builders/sm1xx_common.inl). GPTQ and AWQ checkpoints count positions.
"""

import re
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

import numpy as np

from dse.base.errors import did_you_mean
from dse.base.index_bits import index_bits
from dse.base.strict_model import field_error

BITS_PER_ELEMENT = {
    "fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "fp6": 6, "fp4": 4,
    "int32": 32, "int16": 16, "int8": 8, "int4": 4, "int2": 2,
}  # fmt: skip
SCALE_BITS = {"e8m0": 8, "e4m3": 8, "fp16": 16, "bf16": 16, "fp32": 32}
GROUP_SCALE = "fp16"  # of `int4:g128`, as in checkpoints of GPTQ and AWQ

# Sources: mx* the OCP Microscaling Formats (MX) Specification v1.0 (2023); nvfp4 NVIDIA, "Introducing NVFP4 for Efficient and Accurate
# Low-Precision Inference" (2025); fp8_block128 DeepSeek-V3 (arXiv 2412.19437, section 3.3.2), whose inputs have scales as in fp8_block;
# gptq (arXiv 2210.17323) and awq (arXiv 2306.00978) with the group of 128 of most checkpoints, whose kernels require it to divide k.
NAMED_FORMATS = {
    "mxfp8": "fp8:e8m0/32kept",
    "mxfp6": "fp6:e8m0/32kept",
    "mxfp4": "fp4:e8m0/32kept",
    "mxint8": "int8:e8m0/32kept",
    "nvfp4": "fp4:e4m3/16kept+fp32",
    "fp8_block": "fp8:fp32/128",
    "fp8_block128": "fp8:fp32/128",
    "gptq": "int4:fp16/128z4!",
    "awq": "int4:fp16/128z4!",
}
NAMED_WEIGHT_FORMATS = {"fp8_block128": "fp8:fp32/128x128"}  # where weights differ from the other operands

_TEXT = re.compile(
    r"(?P<element>\w+)"
    r"(?P<blocks>:(?:g|(?P<scale>\w+)/)(?P<side>row|\d{1,9}x\d{1,9}|\d{1,9})(?P<kept>kept)?(?:z(?P<zero>\d{1,2}))?)?"
    r"(?:\+(?P<matrix>\w+))?(?P<whole>!)?(?:@(?P<n>\d{1,3}):(?P<m>\d{1,3}))?"
)
_EXAMPLE = "write ELEMENT:SCALE/BLOCK, as in 'fp4:e4m3/16+fp32', 'fp8:fp32/128x128' or 'int4:g128z4'"

Size = Any  # a number, or an array of numbers that broadcasts with others


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of one matrix are stored: `element` bits each, and the scales of blocks of `rows` x `columns` elements.

    `scale` is the dtype of a block's scale (None: there are none), `zero_point_bits` the width of its zero point, and `matrix_scale` the
    dtype of one more scale for the whole matrix. `counts_kept`: blocks count stored values, not positions. `needs_whole_blocks`: the
    blocks have to divide each row. `group`: N and M, if a row stores only N of every M elements, with their places; blocks then count
    positions, or kept values if they say so.
    """

    element: str
    scale: str | None = None
    rows: float = 1
    columns: float = 1
    zero_point_bits: int = 0
    matrix_scale: str | None = None
    counts_kept: bool = False
    needs_whole_blocks: bool = False
    group: tuple[int, int] | None = None

    @property
    def element_bits(self) -> int:
        """Bits of an element without its share of a scale."""
        return BITS_PER_ELEMENT[self.element]

    @property
    def block_bits(self) -> int:
        """Bits of the scale and the zero point of a block."""
        return 0 if self.scale is None else SCALE_BITS[self.scale] + self.zero_point_bits

    @property
    def matrix_bits(self) -> int:
        """Bits of the scale of a whole matrix."""
        return 0 if self.matrix_scale is None else SCALE_BITS[self.matrix_scale]

    @property
    def has_scales(self) -> bool:
        return self.scale is not None or self.matrix_scale is not None

    @property
    def is_plain(self) -> bool:
        """Whether a matrix is stored as its elements alone."""
        return not self.has_scales and self.group is None

    @property
    def mean_bits(self) -> float:
        """Bits of an element with its share of the scale of its block, in a large matrix that the blocks divide."""
        kept, size = self.group or (1, 1)
        blocks = (kept / size if self.counts_kept else 1) / (self.rows * self.columns)
        return (self.element_bits + self._place_bits) * kept / size + self.block_bits * blocks

    @property
    def _place_bits(self) -> float:
        """Bits of the place of a kept element in its group."""
        return float(index_bits(self.group[1])) if self.group else 0.0

    def scale_bits(self, rows: Size, columns: Size) -> Size:
        """Bits of all scales and zero points of a matrix of which every element is stored."""
        lines = np.ceil(rows / self.rows) if self.rows > 1 else rows  # rows at a batch may be a mean
        blocks = lines * _count_blocks(columns, self.columns)
        return self.block_bits * blocks + self.matrix_bits * ((rows > 0) & (columns > 0))

    def bits(self, rows: Size, columns: Size) -> Size:
        """Bits of a matrix, scales and places included."""
        stored = columns if self.group is None else np.ceil(columns / self.group[1]) * self.group[0]
        return (self.element_bits + self._place_bits) * rows * stored + self.scale_bits(rows, stored if self.counts_kept else columns)

    def divides(self, columns: Size) -> Size:
        """Whether the blocks divide rows of so many columns, or need not."""
        return (not self.needs_whole_blocks) | (columns % self.columns == 0)

    def __str__(self) -> str:
        if self.is_plain:
            return self.element
        side = "row" if self.columns == inf else f"{self.columns:g}" if self.rows == 1 else f"{self.rows:g}x{self.columns:g}"
        zero_point = f"z{self.zero_point_bits}" if self.zero_point_bits else ""
        block = "" if self.scale is None else f":{self.scale}/{side}{'kept' * self.counts_kept}{zero_point}"
        pattern = f"@{self.group[0]}:{self.group[1]}" if self.group else ""
        return self.element + block + (f"+{self.matrix_scale}" if self.matrix_scale else "") + "!" * self.needs_whole_blocks + pattern


def _count_blocks(length: Size, block: float) -> Size:
    """Blocks along a side of this length; 0 for no length."""
    return np.ceil(length / block) if block < inf else 1.0 * (length > 0)


def is_number_format(name: str) -> bool:
    """Whether a name is that of an element, of a format with scales, or the text of one."""
    return name in BITS_PER_ELEMENT or name in NAMED_FORMATS or any(sign in name for sign in ":+@")


@cache
def number_format(name: str, role: str = "weights") -> NumberFormat:
    """The format of an operand by its name or its text; raises a validation error."""
    if not is_number_format(name):
        raise field_error(f"unknown dtype '{name}'", did_you_mean(name, BITS_PER_ELEMENT | NAMED_FORMATS))
    named, sign, group = name.partition("@")
    of_weights = role == "weights" and named in NAMED_WEIGHT_FORMATS
    read = _parse((NAMED_WEIGHT_FORMATS[named] if of_weights else NAMED_FORMATS.get(named, named)) + sign + group)
    if read.group is not None and role != "cache":
        fix = "state a pattern of the cache, as in 'cache=fp8@2:4'; patterns of weights are those of the network"
        raise field_error(f"'{name}' has a pattern, which '{role}' do not have", fix)
    return read


def _parse(text: str) -> NumberFormat:
    match = _TEXT.fullmatch(text)
    if match is None or (match["whole"] and not match["blocks"]):
        raise field_error(f"'{text}' is not the text of a number format", _EXAMPLE)
    scale = None if match["blocks"] is None else match["scale"] or GROUP_SCALE
    if match["element"] not in BITS_PER_ELEMENT:
        raise field_error(f"unknown element '{match['element']}' of '{text}'", did_you_mean(match["element"], BITS_PER_ELEMENT))
    for name in filter(None, (scale, match["matrix"])):
        if name not in SCALE_BITS:
            raise field_error(f"unknown scale '{name}' of '{text}'", did_you_mean(name, SCALE_BITS))
    rows, columns = _block_size(match["side"])
    read = NumberFormat(
        match["element"], scale, rows, columns, int(match["zero"] or 0), match["matrix"], bool(match["kept"]), bool(match["whole"]),
        (int(match["n"]), int(match["m"])) if match["m"] else None,
    )  # fmt: skip
    _check_blocks(text, read)
    return read


def _block_size(side: str | None) -> tuple[float, float]:
    if side in (None, "row"):
        return 1, inf if side else 1
    rows, _, columns = side.rpartition("x")
    return int(rows or 1), int(columns)


def _check_blocks(text: str, read: NumberFormat) -> None:
    """Raise a validation error for blocks that no matrix can be cut into."""
    if not (read.rows and read.columns):
        raise field_error(f"a block of '{text}' has no elements", "write how many elements share a scale")
    if read.counts_kept and read.rows > 1:
        raise field_error(f"'{text}' counts the kept values of several rows", "leave out 'kept': blocks of several rows count positions")
    if read.needs_whole_blocks and read.columns == inf:
        raise field_error(f"'{text}' needs whole blocks, and a row is always one", "leave out '!'")
    if read.group is not None and not 0 < read.group[0] < read.group[1]:
        raise field_error(f"'{text}' keeps {read.group[0]} of {read.group[1]} elements", "write N:M with 0 < N < M, as in '2:4'")
    if read.zero_point_bits and not read.element.startswith("int"):
        raise field_error(f"'{text}' has zero points, which only integers have", "leave out 'z', or write an integer element")
