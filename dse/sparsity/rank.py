"""One rank of a format: how it says which places of its fibres are kept, and what that takes.

A matrix is a tree of ranks: rows, tiles of a row, places in a tile. A fibre is one node's children. The kinds are those of
Sparseloop (Wu et al. 2022, arXiv 2205.05826: U, B, CP, RLE, UOP), and two codes of whole fibres:

    dense           every place is kept: nothing to say
    bitmask         one bit for each place
    index           the number of each kept place, in `width` bits (ceil(log2 size), if not given)
    delta           how many dropped places precede each kept one, in `width` bits; where more do, places in between are kept too
    enumerative     the number of the choice among all C(size, kept), rounded up to whole bits
    combinatorial   the same, not rounded: what no lossless code beats on average

Fibres that keep any number of places have `pointer` bits for where each of them starts, or are `padded` to the longest.
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from dse.base.strict_model import StrictModel
from dse.base.units import Width
from dse.sparsity import expectation
from dse.sparsity.pattern import FibreCounts, FloatOrArray


class Rank(StrictModel):
    kind: Literal["dense", "bitmask", "index", "delta", "enumerative", "combinatorial"]
    width: Width | None = Field(default=None, description="of an index or a delta", examples=["4 bit"])
    pointer: Width | None = Field(default=None, description="an offset for each fibre of the next rank", examples=["32 bit"])
    padded: bool = Field(default=False, description="the fibres of the next rank are padded to the longest")
    align: Width | None = Field(default=None, description="bits of each fibre are rounded up to a multiple", examples=["8 bit"])

    def bits_per_number(self, size: FloatOrArray) -> FloatOrArray:
        """Bits of one index or delta among `size` places."""
        return self.width.value if self.width else np.maximum(np.ceil(np.log2(size)), 1.0)

    def numbers_fit(self, size: FloatOrArray) -> Any:
        """Whether the numbers of `size` places fit the width."""
        return (2.0 ** self.bits_per_number(size) >= size) | (self.kind != "index")

    def needs_no_bits(self, level: FibreCounts) -> bool:
        """Whether no place needs a number, since the pattern keeps them all."""
        return self.kind == "dense" or (self.kind == "index" and level.drawn is None and level.kept >= level.size)

    def align_bits(self, bits: FloatOrArray) -> FloatOrArray:
        """Bits of a fibre, in whole units of the alignment."""
        return np.ceil(bits / self.align.value) * self.align.value if self.align else bits

    def kept_places(self, level: FibreCounts, equal: bool) -> FloatOrArray:
        """Places kept, those included that the format itself has to keep; `equal`: every fibre as many as the fullest."""
        if self.kind == "dense":
            return level.groups * level.size
        if self.kind == "delta":
            return level.total + expectation.gap_padding(level.drawn, level.size, level.total, 2.0 ** self.bits_per_number(level.size))
        return level.groups * expectation.longest_fibre(level.drawn, level.size, level.total) if equal else level.total

    def bits(self, level: FibreCounts, kept: FloatOrArray) -> FloatOrArray:
        """Bits that say which places are kept, `kept` in all."""
        if self.needs_no_bits(level):
            return 0.0 * kept
        if self.kind == "bitmask":
            return level.groups * self.align_bits(level.size)
        if self.kind in ("index", "delta"):
            return self._numbers(level, kept)
        choices = expectation.log_binomial(level.size, level.kept) / np.log(2.0)
        return level.groups * (self.align_bits(np.ceil(choices - 1e-9)) if self.kind == "enumerative" else choices)

    def _numbers(self, level: FibreCounts, kept: FloatOrArray) -> FloatOrArray:
        each = self.bits_per_number(level.size)
        if level.drawn is None:
            return level.groups * self.align_bits(level.kept * each)
        if self.align is None or self.kind == "delta":
            return each * kept
        return expectation.aligned_bits(level.drawn, level.size, level.total, each, self.align.value)
