"""Storage formats: how many bits it takes to store the positions of the elements of a pattern.

A format is a sequence of ranks, outermost first (see `dse.sparsity.rank`): those of the grid of tiles, then those of the places inside a
tile. Named formats (Shinn et al. 2023, arXiv 2310.00496, and textbooks), for an [m, k] matrix of which z elements are stored:

    csr, csc        index * z + pointer * (m + 1), or (k + 1)
    coo             2 index * z
    bsr             index for each kept block + pointer * (ceil(m / R) + 1); inside a block, as nm_index
    ell             rows padded to the longest; index for each element (blocked_ell: for each block)
    delta           `width` bits for each element or block: the number of dropped ones before it (run_length is the same)
    nm_index        ceil(log2 size) for each kept place, level by level: z * ceil(log2 M) for N:M
    bitmask         one bit for each place, kept or not, level by level
    enumerative     the number of the choice among all, group by group: ceil(log2 C(M, N)) for N:M
    combinatorial   the same, not rounded up: what no lossless code beats on average
    levels          any other format: `order` (rows or columns outside, or the grid `flat`) and `levels`, rank by rank
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dse.base.errors import InputError
from dse.base.index_bits import index_bits
from dse.base.strict_model import StrictModel, field_error
from dse.base.units import Width
from dse.sparsity.grammar import as_pattern
from dse.sparsity.kinds import UNSTRUCTURED, Dense, VNMFamily
from dse.sparsity.layout import Layout, Order, StorageCost, is_decodable
from dse.sparsity.pattern import FloatOrArray, Pattern
from dse.sparsity.rank import Rank, RankKind

INDEX = "width of the number of a column, row or block; default: 32 bit"
POINTER = "width of the offset at which a row or column starts; default: 32 bit"


def assumed_width(bits: float) -> Width:
    """A width that no description states: it has no text."""
    return Width.model_construct(value=float(bits))


def _word() -> Width:
    return assumed_width(32)


class _Format(StrictModel):
    """A storage format; its bits store the positions of the elements, not their values."""

    stores_description: ClassVar[str] = ""

    @abstractmethod
    def layout(self, pattern: Pattern) -> Layout | None:
        """The ranks that store the positions of the elements of `pattern`; None if the format cannot store it."""

    def can_store(self, pattern: Pattern) -> bool:
        return self.layout(pattern) is not None

    def cost(self, pattern: Pattern, m: FloatOrArray, k: FloatOrArray, stored: FloatOrArray) -> StorageCost:
        """The storage of an [m, k] matrix of which `pattern`, which the format can store, stores `stored` elements."""
        layout = self.layout(pattern)
        assert layout is not None, f"'{self.kind}' stores '{pattern}'"  # pyright: ignore[reportAttributeAccessIssue]
        return layout.cost(m, k, stored)


class DenseFormat(_Format):
    kind: Literal["dense"] = Field(default="dense", description="every element is stored, without positions")
    stores_description = "dense"

    def layout(self, pattern: Pattern) -> Layout | None:
        return Layout("flat", (), pattern) if isinstance(pattern, Dense) else None


class _Elements(_Format):
    """A format of single elements at any positions."""

    stores_description = "unstructured, and patterns of single elements with a fixed density, such as N:M and V:N:M"

    def _elements(self, pattern: Pattern, order: Order, *ranks: Rank, coordinate: Width | None = None) -> Layout | None:
        single = pattern == UNSTRUCTURED or (pattern.granularity == (1, 1) and _has_fixed_groups(pattern))
        return Layout(order, ranks, UNSTRUCTURED, pattern.tile, coordinate) if single else None


class CSR(_Elements):
    kind: Literal["csr"] = Field(default="csr", description="compressed sparse rows")
    index: Width = Field(default_factory=_word, description=INDEX)
    pointer: Width = Field(default_factory=_word, description=POINTER)

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._elements(pattern, "row", Rank(kind="dense", pointer=self.pointer), Rank(kind="index", width=self.index))


class CSC(_Elements):
    kind: Literal["csc"] = Field(default="csc", description="compressed sparse columns")
    index: Width = Field(default_factory=_word, description=INDEX)
    pointer: Width = Field(default_factory=_word, description=POINTER)

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._elements(pattern, "column", Rank(kind="dense", pointer=self.pointer), Rank(kind="index", width=self.index))


class COO(_Elements):
    kind: Literal["coo"] = Field(default="coo", description="a row and a column number for each element")
    index: Width = Field(default_factory=_word, description="width of a row number, and of a column number; default: 32 bit")

    def layout(self, pattern: Pattern) -> Layout | None:
        both = Rank(kind="index", width=assumed_width(2 * self.index.value))
        return self._elements(pattern, "flat", both, coordinate=self.index)


class _Tiles(_Format):
    """A format of any tiles of a grid, and of the places inside each tile."""

    stores_description = "blocks, and N:M inside blocks"

    def _tiles(self, pattern: Pattern, order: Order, *ranks: Rank) -> Layout | None:
        return Layout(order, (*ranks, *_ranks_inside(pattern, "index")), pattern) if pattern.has_free_tiles else None


class BSR(_Tiles):
    kind: Literal["bsr"] = Field(default="bsr", description="compressed sparse rows of blocks")
    index: Width = Field(default_factory=_word, description=INDEX)
    pointer: Width = Field(default_factory=_word, description=POINTER)

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._tiles(pattern, "row", Rank(kind="dense", pointer=self.pointer), Rank(kind="index", width=self.index))


class ELL(_Tiles):
    kind: Literal["ell", "blocked_ell"] = Field(default="ell", description="rows padded to the longest, of elements or of blocks")
    index: Width = Field(default_factory=_word, description=INDEX)
    stores_description = "unstructured; 'blocked_ell': blocks, and N:M inside blocks"

    def layout(self, pattern: Pattern) -> Layout | None:
        if self.kind == "ell" and pattern != UNSTRUCTURED:
            return None
        return self._tiles(pattern, "row", Rank(kind="dense", padded=True), Rank(kind="index", width=self.index))


class Delta(_Tiles):
    """Distances in one stream, or in one stream for each row or column (EIE, Han et al. 2016, arXiv 1602.01528: 4 bits along a column)."""

    kind: Literal["delta", "run_length"] = Field(default="delta", description="distances between stored elements or blocks")
    width: Width = Field(default_factory=lambda: assumed_width(4), description="width of a distance; default: 4 bit")
    order: Order = Field(default="flat", description="one stream over all, or one for each row or column")
    pointer: Width = Field(default_factory=_word, description="width of the offset of each row or column; default: 32 bit")
    stores_description = "unstructured, blocks, and N:M inside blocks"

    def layout(self, pattern: Pattern) -> Layout | None:
        outer = () if self.order == "flat" else (Rank(kind="dense", pointer=self.pointer),)
        return self._tiles(pattern, self.order, *outer, Rank(kind="delta", width=self.width))


class _Groups(_Format):
    """A format that encodes each group on its own."""

    align: Width | None = Field(default=None, description="bits of each group are rounded up to a multiple", examples=["8 bit"])
    stores_description = "patterns with a fixed density"

    def _groups(self, pattern: Pattern, kind: RankKind) -> Layout | None:
        return Layout("flat", _ranks_inside(pattern, kind, self.align), pattern) if _has_fixed_groups(pattern) else None


class NMIndex(_Groups):
    kind: Literal["nm_index"] = Field(default="nm_index", description="the number of each kept place in its group")

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._groups(pattern, "index")


class Enumerative(_Groups):
    kind: Literal["enumerative"] = Field(default="enumerative", description="the number of the choice among all, group by group")

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._groups(pattern, "enumerative")


class _Stream(_Format):
    """A format that encodes the groups of a level as one stream."""

    stores_description = "every sparse pattern"

    def _stream(self, pattern: Pattern, kind: RankKind) -> Layout | None:
        first = () if _has_fixed_groups(pattern) else (Rank(kind=kind),)
        return None if isinstance(pattern, Dense) else Layout("flat", (*first, *_ranks_inside(pattern, kind)), pattern)


class Bitmask(_Stream):
    kind: Literal["bitmask"] = Field(default="bitmask", description="one bit for each place")

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._stream(pattern, "bitmask")


class Combinatorial(_Stream):
    kind: Literal["combinatorial"] = Field(default="combinatorial", description="the number of the choice among all, not rounded to bits")

    def layout(self, pattern: Pattern) -> Layout | None:
        return self._stream(pattern, "combinatorial")


class Levels(_Format):
    """A format that is given rank by rank; ranks inside a tile that are left out are indices."""

    kind: Literal["levels"] = Field(default="levels", description="a format that is given rank by rank")
    order: Order = Field(default="row", description="which dimension is outside; flat: the grid of tiles as one rank")
    levels: tuple[Rank, ...] = Field(
        min_length=1,
        description="ranks of the matrix, outermost first",
        examples=["[{kind: dense, pointer: 32 bit}, {kind: index, width: 16 bit}]"],
    )
    stores_description = (
        "patterns with as many levels, if a reader can infer the length of each row: by 'pointer', 'padded: true' or a bit mask"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for rank in self.levels:
            if rank.width and rank.kind not in ("index", "delta"):
                raise field_error(f"a rank of kind '{rank.kind}' has no width", "remove 'width', or write 'kind: index' or 'kind: delta'")
            if rank.kind == "delta" and (rank.align or not rank.width):
                raise field_error("a delta has a width and no 'align'", "write '{kind: delta, width: 4 bit}', without 'align'")
        return self

    def layout(self, pattern: Pattern) -> Layout | None:
        first = 2 if pattern.has_free_tiles and self.order != "flat" else 0 if _has_fixed_groups(pattern) else 1
        ranks = self.levels + _ranks_inside(pattern, "index")[max(len(self.levels) - first, 0) :]
        if isinstance(pattern, Dense) or len(ranks) != first + len(_ranks_inside(pattern, "index")):
            return None
        streamed = not pattern.has_free_tiles and any(rank.kind == "delta" for rank in ranks)
        return Layout(self.order, ranks, pattern) if is_decodable(ranks[:first], ranks[first:]) and not streamed else None


def _has_fixed_groups(pattern: Pattern) -> bool:
    """Whether the pattern fixes what each group keeps, so that no group is left out."""
    fixed = pattern.density is not None and not isinstance(pattern, Dense) and not pattern.has_free_tiles
    return fixed or isinstance(pattern, VNMFamily)


def _ranks_inside(pattern: Pattern, kind: RankKind, align: Width | None = None) -> tuple[Rank, ...]:
    """A rank of one kind for every level inside a tile."""
    return (Rank(kind=kind, align=align),) * len(pattern.levels_inside(1.0))


Format = Annotated[
    DenseFormat | CSR | CSC | COO | BSR | ELL | Delta | NMIndex | Bitmask | Enumerative | Combinatorial | Levels,
    Field(discriminator="kind"),
]


def default_format(pattern: Pattern) -> Format:
    """The usual format of a pattern, for descriptions that state none."""
    return next(kind() for kind in (DenseFormat, NMIndex, CSR, BSR, Bitmask) if kind().can_store(pattern))


def best_format(pattern: Pattern | str, density: float | None = None, m: int = 4096, k: int = 4096, value: float = 16) -> Format:
    """Find the format with the fewest bits, values of `value` bits included, for an [m, k] matrix in `pattern`; raises InputError.

    `density` is needed for patterns that may keep any fraction; their masks are taken as random. Every number is as narrow as the matrix
    allows, and a delta is tried at every width. `dense`, which stores the zeros too, is among the candidates.
    """
    pattern = as_pattern(pattern)
    _check_density(pattern, density)
    stored = pattern.stored_elements(float(m), float(k), density if pattern.density is None else pattern.density)
    best: Format = DenseFormat()
    fewest = value * m * k
    for form in candidate_formats(pattern, m, k, stored):
        if form.can_store(pattern):
            cost = form.cost(pattern, float(m), float(k), stored)
            if (size := float(value * cost.elements + cost.metadata_bits)) < fewest:
                best, fewest = form, size
    return best


def _check_density(pattern: Pattern, density: float | None) -> None:
    """Raise InputError unless the density is stated where the pattern does not fix it, and only there."""
    if pattern.density is None and density is None:
        raise InputError(f"'{pattern}' may keep any fraction", "give a density, from 0 to 1")
    if density is not None and not 0 <= density <= 1:
        raise InputError(f"a density of {density:g} is out of range", "write a number from 0 to 1")
    if density is not None and pattern.density is not None and abs(density - pattern.density) > 1e-9:
        raise InputError(f"'{pattern}' has the density {pattern.density:g}, not {density:g}", "leave the density out")


def candidate_formats(pattern: Pattern, m: int, k: int, stored: float) -> Iterator[Format]:
    """Formats for an [m, k] matrix with `stored` elements, their numbers as narrow as it allows; some cannot store the pattern."""
    down, across = pattern.tile_grid(m, k)
    sizes = (across, down * pattern.tile[0], across * pattern.tile[1], stored + 1)
    tile, row, column, start = (assumed_width(index_bits(number)) for number in sizes)
    yield from (NMIndex(), Enumerative(), Bitmask(), BSR(index=tile, pointer=start), ELL(index=tile), ELL(kind="blocked_ell", index=tile))
    yield from (CSR(index=column, pointer=start), CSC(index=row, pointer=start))
    yield Levels(order="flat", levels=(Rank(kind="bitmask"), *_ranks_inside(pattern, "enumerative")))
    orders: tuple[Order, ...] = ("flat", "row", "column")
    yield from (Delta(width=assumed_width(width), order=order, pointer=start) for width in range(1, 17) for order in orders)
