"""Storage formats: how many bits say where the stored elements of a pattern stand.

Formulas: theory of the Sparsity Roofline (Shinn et al. 2023, arXiv 2310.00496) and textbook CSR/BSR.
For an [m, k] matrix of which z elements are stored (padding included):

    csr            index * z + pointer * (m + 1)
    bsr            index for each block kept + pointer * (ceil(m / R) + 1); inside a block, as nm_index
    nm_index       ceil(log2 size) for each place kept, level by level: z * ceil(log2 M) for N:M
    bitmask        one bit per place, kept or not, level by level
    combinatorial  log2 of the number of masks: what no lossless code beats on average (a real one rounds up)
"""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import gammaln

from dse.schema import Part
from dse.sparsity.kinds import NM, UNSTRUCTURED, Block, BlockFamily, Dense, Hierarchy, VNMFamily
from dse.sparsity.pattern import Counts, Level, Pattern
from dse.units import Width


def _word() -> Width:
    return Width.model_construct(value=32.0)  # no text: assumed, not given


class _Format(Part):
    """Where the nonzeros are, in bits; the values themselves are counted apart."""

    carries: ClassVar[str] = ""

    @abstractmethod
    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        """Bits beside the values of an [m, k] matrix in `pattern`, of which `stored` elements are stored."""

    @abstractmethod
    def accepts(self, pattern: Pattern) -> bool:
        """Whether the format can say where the grains of `pattern` stand."""


class DenseFormat(_Format):
    kind: Literal["dense"] = "dense"
    carries = "dense"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return 0.0 * stored

    def accepts(self, pattern: Pattern) -> bool:
        return isinstance(pattern, Dense)


class CSR(_Format):
    kind: Literal["csr"] = "csr"
    index: Width = Field(default_factory=_word)
    pointer: Width = Field(default_factory=_word)
    carries = "unstructured and N:M patterns"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return self.index.value * stored + self.pointer.value * (m + 1)

    def accepts(self, pattern: Pattern) -> bool:
        return pattern == UNSTRUCTURED or (isinstance(pattern, NM) and pattern.v == 1)


class BSR(_Format):
    kind: Literal["bsr"] = "bsr"
    index: Width = Field(default_factory=_word)
    pointer: Width = Field(default_factory=_word)
    carries = "blocks, and N:M inside blocks"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        blocks, *inside = pattern.levels(m, k, stored)
        return self.index.value * blocks.kept + self.pointer.value * (np.ceil(m / pattern.tile[0]) + 1) + _index_bits(inside)

    def accepts(self, pattern: Pattern) -> bool:
        return isinstance(pattern, Block | BlockFamily) or (isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block))


class NMIndex(_Format):
    kind: Literal["nm_index"] = "nm_index"
    carries = "patterns that fix how many they keep"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return _index_bits(pattern.levels(m, k, stored))

    def accepts(self, pattern: Pattern) -> bool:
        return (pattern.density is not None and not isinstance(pattern, Dense)) or isinstance(pattern, VNMFamily)


class Bitmask(_Format):
    kind: Literal["bitmask"] = "bitmask"
    carries = "every sparse pattern"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return sum(level.groups * level.size for level in pattern.levels(m, k, stored)) + 0.0 * stored

    def accepts(self, pattern: Pattern) -> bool:
        return not isinstance(pattern, Dense)


class Combinatorial(_Format):
    kind: Literal["combinatorial"] = "combinatorial"
    carries = "every sparse pattern"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return sum(level.groups * _log2_binomial(level.size, level.kept) for level in pattern.levels(m, k, stored)) + 0.0 * stored

    def accepts(self, pattern: Pattern) -> bool:
        return not isinstance(pattern, Dense)


def _index_bits(levels: list[Level]) -> Counts:
    """A place number for everything kept in a group; none where all of it is."""
    return sum(level.groups * level.kept * np.ceil(np.log2(level.size)) for level in levels if level.kept < level.size)


def _log2_binomial(n: Counts, k: Counts) -> Counts:
    return np.maximum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), 0.0) / np.log(2.0)


Format = Annotated[DenseFormat | CSR | BSR | NMIndex | Bitmask | Combinatorial, Field(discriminator="kind")]


def default_format(pattern: Pattern) -> Any:
    """The usual format of a pattern, for descriptions that name none."""
    return next(kind() for kind in (DenseFormat, NMIndex, CSR, BSR, Bitmask) if kind().accepts(pattern))
