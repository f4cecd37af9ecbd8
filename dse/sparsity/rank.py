"""One rank of a storage format: how it stores which places of its fibres are kept, in how many bits.

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

from functools import lru_cache
from math import ceil, comb, log2
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int
from pydantic import Field

from dse.base.errors import InputError
from dse.base.index_bits import index_bits
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
        return self.width.value if self.width else index_bits(size)

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


Bits = Bool[np.ndarray, " bit"]
Fibres = Bool[np.ndarray, "fibre place"]
Numbers = Int[np.ndarray, " number"]
PerFibre = Int[np.ndarray, " fibre"]


def count_bits(rank: Rank, fibres: Fibres) -> float:
    """Bits that `write_fibres` would write."""
    kept, size = fibres.sum(axis=1), fibres.shape[1]
    if rank.kind == "bitmask":
        return len(fibres) * float(rank.align_bits(size))
    if rank.kind == "enumerative":
        return len(fibres) * float(rank.align_bits(_bits_of_choice(size, int(kept.max(initial=0)))))
    return float(np.sum(rank.align_bits(kept * float(rank.bits_per_number(size)))))


def write_fibres(rank: Rank, fibres: Fibres) -> Bits:
    """Encode which places of each fibre are kept; raises InputError if a number does not fit its width."""
    kept, size = fibres.sum(axis=1), fibres.shape[1]
    if rank.kind == "bitmask":
        return np.pad(fibres, ((0, 0), (0, int(rank.align_bits(size)) - size))).ravel()
    if rank.kind == "enumerative":
        width = _bits_of_choice(size, int(kept.max(initial=0)))
        return _align_fibres(write_numbers(_number_choices(fibres), width), np.ones_like(kept), width, rank)
    numbers = np.nonzero(fibres)[1] if rank.kind == "index" else distances(fibres)[2]
    width = int(rank.bits_per_number(size))
    return _align_fibres(write_numbers(numbers, width), kept, width, rank)


def read_fibres(rank: Rank, bits: Bits, kept: PerFibre, size: int) -> tuple[Fibres, Bits]:
    """Decode fibres of `size` places, of which `kept` places each are kept; returns them and the bits that follow."""
    if rank.kind == "bitmask":
        used = len(kept) * (width := int(rank.align_bits(size)))
        return bits[:used].reshape(len(kept), width)[:, :size], bits[used:]
    if rank.kind == "enumerative":
        chosen = int(kept.max(initial=0))
        width, one_each = _bits_of_choice(size, chosen), np.ones_like(kept)
        used = int(rank.align_bits(one_each * width).sum())
        numbers = read_numbers(bits[_bit_positions(one_each, width, rank)], len(kept), width)
        return _choices_from_numbers(numbers, size, chosen), bits[used:]
    width = int(rank.bits_per_number(size))
    used = int(rank.align_bits(kept * width).sum())
    numbers = read_numbers(bits[_bit_positions(kept, width, rank)], int(kept.sum()), width)
    places = _places_from_distances(numbers, kept) if rank.kind == "delta" else numbers
    fibres = np.zeros((len(kept), size), bool)
    fibres[np.repeat(np.arange(len(kept)), kept), places] = True
    return fibres, bits[used:]


def distances(fibres: Fibres) -> tuple[Numbers, Numbers, Numbers]:
    """Fibre, place and number of dropped places before it, for every kept place."""
    fibre, place = np.nonzero(fibres)
    before = np.where(np.diff(fibre, prepend=-1) > 0, -1, np.roll(place, 1))
    return fibre, place, place - before - 1


def _places_from_distances(numbers: Numbers, kept: PerFibre) -> Numbers:
    """The inverse of `distances`: the place of each kept number within its fibre."""
    ends = (numbers + 1).cumsum()
    starts = np.concatenate([[0], ends])[kept.cumsum() - kept]
    return ends - np.repeat(starts, kept) - 1


def write_coordinates(fibres: Fibres, columns: int, width: int) -> Bits:
    """Encode a row number and a column number of `width` bits for each kept place of a grid with `columns` columns."""
    pairs = np.divmod(np.nonzero(fibres)[1], columns)
    return np.stack([write_numbers(numbers, width).reshape(-1, width) for numbers in pairs], axis=1).ravel()


def read_coordinates(bits: Bits, kept: int, shape: tuple[int, int], width: int) -> Fibres:
    """Decode the kept places of a grid of `shape`, as one fibre."""
    rows, columns = bits.reshape(kept, 2, width).swapaxes(0, 1) @ (1 << np.arange(width, dtype=np.int64))
    grid = np.zeros(shape, bool)
    grid[rows, columns] = True
    return grid.reshape(1, -1)


def write_numbers(numbers: Numbers, width: int) -> Bits:
    """Encode numbers in `width` bits each; raises InputError if one does not fit."""
    if len(numbers) and int(numbers.max()) >= 2**width:
        raise InputError(f"{int(numbers.max())} does not fit {width} bits", "take a wider index or pointer")
    return (numbers[:, None].astype(np.int64) >> np.arange(width) & 1).astype(bool).ravel()


def read_numbers(bits: Bits, count: int, width: int) -> Numbers:
    """Decode `count` numbers of `width` bits each."""
    return bits.reshape(count, width) @ (1 << np.arange(width, dtype=np.int64))


def _align_fibres(bits: Bits, kept: PerFibre, width: int, rank: Rank) -> Bits:
    """Pad the bits of each fibre, `kept` numbers of `width` bits, to the alignment."""
    aligned = np.zeros(int(rank.align_bits(kept * width).sum()), bool)
    aligned[_bit_positions(kept, width, rank)] = bits
    return aligned


def _bit_positions(kept: PerFibre, width: int, rank: Rank) -> Numbers:
    """The positions of the bits of all numbers among the aligned fibres."""
    lengths, used = rank.align_bits(kept * width).astype(np.int64), kept * width
    within_fibre = np.arange(used.sum()) - np.repeat(used.cumsum() - used, used)
    return np.repeat(lengths.cumsum() - lengths, used) + within_fibre


def _bits_of_choice(size: int, kept: int) -> int:
    """Bits of the number of a choice of `kept` of `size` places; raises InputError beyond 2^62 choices."""
    choices = comb(size, kept)
    if choices >= 2**62:
        raise InputError(f"{kept} of {size} places can be chosen in more than 2^62 ways", "take 'nm_index' or 'bitmask'")
    return ceil(log2(choices))


@lru_cache(maxsize=64)
def _binomials(size: int, kept: int) -> np.ndarray:
    """C(place, number) for all places up to `size` and numbers up to `kept`."""
    return np.array([[comb(place, number) for number in range(kept + 1)] for place in range(size + 1)], np.int64)


def _number_choices(fibres: Fibres) -> PerFibre:
    """The number of each choice in the combinatorial number system (Lehmer): C(p_1, 1) + C(p_2, 2) + ... for places p_1 < p_2 < ..."""
    if not len(fibres):
        return np.zeros(0, np.int64)
    places = np.nonzero(fibres)[1].reshape(len(fibres), -1)
    return _binomials(fibres.shape[1], places.shape[1])[places, np.arange(1, places.shape[1] + 1)].sum(axis=1)


def _choices_from_numbers(numbers: PerFibre, size: int, kept: int) -> Fibres:
    """The inverse of `_number_choices`; the largest place is decoded first."""
    fibres, table = np.zeros((len(numbers), size), bool), _binomials(size, kept)
    for number in range(kept, 0, -1):
        place = np.searchsorted(table[:, number], numbers, side="right") - 1
        fibres[np.arange(len(numbers)), place] = True
        numbers = numbers - table[place, number]
    return fibres
