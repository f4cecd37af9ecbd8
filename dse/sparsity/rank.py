"""One rank of a storage format: how it stores which places of its fibres are kept, and how many bits that takes.

A matrix is a tree of ranks, for example rows, tiles of a row, places in a tile. A fibre is the children of one node. The kinds are those of
Sparseloop (Wu et al. 2022, arXiv 2205.05826: U, B, CP, RLE, UOP), and two codes of whole fibres:

    dense           every place is kept, so nothing is stored
    bitmask         one bit for each place
    index           the number of each kept place, in `width` bits (default: ceil(log2 size))
    delta           the number of dropped places before each kept one, in `width` bits; if there are more, places in between are kept too
    enumerative     the number of the choice among all C(size, kept), rounded up to whole bits
    combinatorial   the same, not rounded: what no lossless code beats on average

Where fibres keep any number of places, `pointer` bits store where each fibre starts, or fibres are `padded` to the longest.
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from dse.base.strict_model import StrictModel
from dse.base.units import Width
from dse.sparsity import expectation
from dse.sparsity.pattern import FibreCounts, FloatOrArray

RankKind = Literal["dense", "bitmask", "index", "delta", "enumerative", "combinatorial"]


class Rank(StrictModel):
    """How one rank stores which places of its fibres are kept."""

    kind: RankKind = Field(description="how it stores which places are kept", examples=["index"])
    width: Width | None = Field(
        default=None, description="width of an index or a delta; default: that of the largest number", examples=["4 bit"]
    )
    pointer: Width | None = Field(
        default=None, description="width of an offset for each fibre of the next rank; default: none is stored", examples=["32 bit"]
    )
    padded: bool = Field(default=False, description="the fibres of the next rank are padded to the longest")
    align: Width | None = Field(default=None, description="bits of each fibre are rounded up to a multiple", examples=["8 bit"])

    def bits_per_number(self, size: FloatOrArray) -> FloatOrArray:
        """Bits of one index or delta in a fibre of `size` places."""
        return self.width.value if self.width else np.maximum(np.ceil(np.log2(size)), 1.0)

    def numbers_fit(self, size: FloatOrArray) -> Any:
        """Whether the width can hold the numbers of `size` places."""
        return (2.0 ** self.bits_per_number(size) >= size) | (self.kind != "index")

    def needs_no_bits(self, fibres: FibreCounts) -> bool:
        """Whether nothing is stored, because all places are kept."""
        return self.kind == "dense" or (self.kind == "index" and fibres.random_fibres is None and fibres.kept >= fibres.size)

    def align_bits(self, bits: FloatOrArray) -> FloatOrArray:
        """Round the bits of a fibre up to a multiple of the alignment."""
        return np.ceil(bits / self.align.value) * self.align.value if self.align else bits

    def kept_places(self, fibres: FibreCounts, pad_to_longest: bool) -> FloatOrArray:
        """Places kept in all fibres together, including those that the format itself has to keep."""
        if self.kind == "dense":
            return fibres.fibres * fibres.size
        if self.kind == "delta":
            step = 2.0 ** self.bits_per_number(fibres.size)
            return fibres.total_kept + expectation.gap_padding(fibres.random_fibres, fibres.size, fibres.total_kept, step)
        if pad_to_longest:
            return fibres.fibres * expectation.longest_fibre(fibres.random_fibres, fibres.size, fibres.total_kept)
        return fibres.total_kept

    def bits(self, fibres: FibreCounts, kept: FloatOrArray) -> FloatOrArray:
        """Bits that store which places are kept; `kept`: places kept in all fibres together."""
        if self.needs_no_bits(fibres):
            return 0.0 * kept
        if self.kind == "bitmask":
            return fibres.fibres * self.align_bits(fibres.size)
        if self.kind in ("index", "delta"):
            return self._bits_of_numbers(fibres, kept)
        choices = expectation.log_binomial(fibres.size, fibres.kept) / np.log(2.0)
        return fibres.fibres * (self.align_bits(np.ceil(choices - 1e-9)) if self.kind == "enumerative" else choices)

    def _bits_of_numbers(self, fibres: FibreCounts, kept: FloatOrArray) -> FloatOrArray:
        width = self.bits_per_number(fibres.size)
        if fibres.random_fibres is None:
            return fibres.fibres * self.align_bits(fibres.kept * width)
        if self.align is None or self.kind == "delta":
            return width * kept
        return expectation.aligned_bits(fibres.random_fibres, fibres.size, fibres.total_kept, width, self.align.value)
