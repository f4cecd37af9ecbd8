"""Storage formats: how many bits say where the stored elements of a pattern stand.

Formulas: theory of the Sparsity Roofline (Shinn et al. 2023, arXiv 2310.00496) and textbook CSR/BSR.
For an [m, k] matrix of which z elements are stored (padding included):

    csr            index * z + pointer * (m + 1)
    bsr            index * z / (R C) + pointer * (ceil(m / R) + 1)
    nm_index       z * ceil(log2 M)
    bitmask        one bit per grain, kept or not
    combinatorial  log2 of the number of masks: what no lossless code beats on average (a real one rounds up)
"""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import gammaln

from dse.schema import Part
from dse.sparsity.pattern import NM, UNSTRUCTURED, Block, BlockFamily, Counts, Dense, Pattern
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
        return pattern == UNSTRUCTURED or isinstance(pattern, NM)


class BSR(_Format):
    kind: Literal["bsr"] = "bsr"
    index: Width = Field(default_factory=_word)
    pointer: Width = Field(default_factory=_word)
    carries = "blocks"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        rows, columns = pattern.tile
        return self.index.value * stored / (rows * columns) + self.pointer.value * (np.ceil(m / rows) + 1)

    def accepts(self, pattern: Pattern) -> bool:
        return isinstance(pattern, Block | BlockFamily)


class NMIndex(_Format):
    kind: Literal["nm_index"] = "nm_index"
    carries = "N:M patterns"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return stored * np.ceil(np.log2(pattern.tile[1]))

    def accepts(self, pattern: Pattern) -> bool:
        return isinstance(pattern, NM)


class Bitmask(_Format):
    kind: Literal["bitmask"] = "bitmask"
    carries = "every sparse pattern"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        return m * k + 0.0 * stored if isinstance(pattern, NM) else pattern.tiles(m, k) + 0.0 * stored

    def accepts(self, pattern: Pattern) -> bool:
        return not isinstance(pattern, Dense)


class Combinatorial(_Format):
    kind: Literal["combinatorial"] = "combinatorial"
    carries = "every sparse pattern"

    def metadata_bits(self, pattern: Pattern, m: Counts, k: Counts, stored: Counts) -> Counts:
        tiles = pattern.tiles(m, k)
        if isinstance(pattern, NM):
            return tiles * _log2_binomial(pattern.m, pattern.n) + 0.0 * stored
        rows, columns = pattern.tile
        return _log2_binomial(tiles, stored / (rows * columns))

    def accepts(self, pattern: Pattern) -> bool:
        return not isinstance(pattern, Dense)


def _log2_binomial(n: Counts, k: Counts) -> Counts:
    return np.maximum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), 0.0) / np.log(2.0)


Format = Annotated[DenseFormat | CSR | BSR | NMIndex | Bitmask | Combinatorial, Field(discriminator="kind")]


def default_format(pattern: Pattern) -> Any:
    """The usual format of a pattern, for descriptions that name none."""
    return next(kind() for kind in (DenseFormat, NMIndex, CSR, BSR) if kind().accepts(pattern))
