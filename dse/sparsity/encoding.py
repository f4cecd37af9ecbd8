"""Real encodings: the bits that the formats count, written and read back.

Rank by rank, pointers first: where each fibre starts, then which of its places are kept. The combinatorial floor has no encoding here:
it is a bound, which a real code meets only on average (`enumerative` is the one that comes nearest).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, log2

import numpy as np
from jaxtyping import Bool

from dse.base.errors import InputError
from dse.sparsity import tree
from dse.sparsity.format import Format
from dse.sparsity.kinds import BlockFamily, VNMFamily
from dse.sparsity.layout import ROOT, Layout, StorageCost
from dse.sparsity.mask import legal
from dse.sparsity.pattern import FibreCounts, Pattern
from dse.sparsity.rank import Rank
from dse.sparsity.tree import Fibres, Mask

Bits = Bool[np.ndarray, " bit"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A matrix as it is stored: values, and the bits that say where they stand."""

    pattern: Pattern
    format: Format
    shape: tuple[int, int]
    values: np.ndarray
    bits: Bits


def encode(weights: np.ndarray, pattern: Pattern, form: Format) -> Encoded:
    """`weights` [m, k], whose nonzeros are legal in `pattern`; raises InputError."""
    layout = _layout(pattern, form)
    stored = _stored(weights != 0, pattern, layout)
    parts, above = [np.zeros(0, bool)], ROOT
    for rank, fibres, level in zip(
        layout.ranks, tree.fibres_by_rank(stored, layout), _levels(layout, stored.shape, stored.sum()), strict=True
    ):
        if above.pointer:
            parts.append(_bits(np.concatenate([[0], fibres.sum(axis=1).cumsum()]), int(above.pointer.value)))
        if layout.coordinate:
            parts.append(_written_coordinates(fibres, int(stored.shape[1]), int(layout.coordinate.value)))
        elif not rank.needs_no_bits(level):
            parts.append(_written(rank, fibres))
        above = rank
    return Encoded(pattern, form, (weights.shape[0], weights.shape[1]), tree.pad_to_tiles(weights, pattern)[stored], np.concatenate(parts))


def decode(encoded: Encoded) -> np.ndarray:
    """The weights [m, k] that were encoded, from the values and the bits alone."""
    layout = _layout(encoded.pattern, encoded.format)
    padded = tree.pad_to_tiles(np.zeros(encoded.shape, encoded.values.dtype), encoded.pattern)
    padded[tree.mask_from_fibres(_read(encoded, layout, padded.shape), layout, padded.shape)] = encoded.values
    return padded[: encoded.shape[0], : encoded.shape[1]]


def count(mask: Mask, pattern: Pattern, form: Format) -> StorageCost:
    """Elements and bits that a legal `mask` takes in a format, counted without writing them, and whether its numbers can hold them;
    raises InputError."""
    layout = _layout(pattern, form)
    stored = _stored(mask, pattern, layout)
    total, fits, above = 0.0, bool(layout.addresses(float(stored.shape[0]), float(stored.shape[1]))), ROOT
    for rank, fibres, level in zip(
        layout.ranks, tree.fibres_by_rank(stored, layout), _levels(layout, stored.shape, stored.sum()), strict=True
    ):
        total += (0.0 if rank.needs_no_bits(level) else _counted(rank, fibres)) + (
            above.pointer.value * (len(fibres) + 1) if above.pointer else 0.0
        )
        fits &= bool(rank.numbers_fit(level.size)) and (above.pointer is None or int(fibres.sum()) < 2**above.pointer.value)
        above = rank
    return StorageCost(float(stored.sum()), total, fits)


def _layout(pattern: Pattern, form: Format) -> Layout:
    layout = form.layout(pattern)
    if layout is None or isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(
            f"'{form.kind}' can't encode '{pattern}'", f"take a member of a family; '{form.kind}' stores {form.stores_description}"
        )
    if any(rank.kind == "combinatorial" for rank in layout.ranks):
        raise InputError(f"'{form.kind}' is a bound, not a code: it can't encode '{pattern}'", "take 'enumerative', which comes nearest")
    return layout


def _stored(mask: Mask, pattern: Pattern, layout: Layout) -> Mask:
    if not legal(mask, pattern):
        raise InputError(f"the nonzeros are no mask of '{pattern}'", "apply the pattern to the weights first")
    return tree.stored_mask(tree.pad_to_tiles(mask, pattern), pattern, layout)


def _levels(layout: Layout, shape: tuple[int, ...], stored: int) -> list[FibreCounts]:
    return layout.levels(float(shape[0]), float(shape[1]), float(stored))


def _counted(rank: Rank, fibres: Fibres) -> float:
    kept, size = fibres.sum(axis=1), fibres.shape[1]
    if rank.kind == "bitmask":
        return len(fibres) * float(rank.align_bits(size))
    if rank.kind == "enumerative":
        return len(fibres) * float(rank.align_bits(_choice_bits(size, int(kept.max(initial=0)))))
    return float(np.sum(rank.align_bits(kept * float(rank.bits_per_number(size)))))


def _written(rank: Rank, fibres: Fibres) -> Bits:
    kept, size = fibres.sum(axis=1), fibres.shape[1]
    if rank.kind == "bitmask":
        return np.pad(fibres, ((0, 0), (0, int(rank.align_bits(size)) - size))).ravel()
    if rank.kind == "enumerative":
        return _placed(_bits(_numbers_of(fibres), width := _choice_bits(size, int(kept.max(initial=0)))), np.ones_like(kept), width, rank)
    numbers = np.nonzero(fibres)[1] if rank.kind == "index" else tree.distances(fibres)[2]
    return _placed(_bits(numbers, width := int(rank.bits_per_number(size))), kept, width, rank)


def _written_coordinates(fibres: Fibres, across: int, width: int) -> Bits:
    """A row number and a column number for each kept place of a grid with `across` columns, of `width` bits each."""
    return np.stack([_bits(numbers, width).reshape(-1, width) for numbers in np.divmod(np.nonzero(fibres)[1], across)], axis=1).ravel()


def _taken_coordinates(bits: Bits, kept: int, shape: tuple[int, int], width: int) -> Fibres:
    """The inverse: the kept places of a grid of `shape`, as one fibre."""
    rows, columns = bits.reshape(kept, 2, width).swapaxes(0, 1) @ (1 << np.arange(width, dtype=np.int64))
    found = np.zeros(shape, bool)
    found[rows, columns] = True
    return found.reshape(1, -1)


def _placed(bits: Bits, kept: np.ndarray, width: int, rank: Rank) -> Bits:
    """Numbers of `width` bits, `kept` of them for each fibre, each fibre filled up to the alignment."""
    placed = np.zeros(int(rank.align_bits(kept * width).sum()), bool)
    placed[_places(kept, width, rank)] = bits
    return placed


def _places(kept: np.ndarray, width: int, rank: Rank) -> np.ndarray:
    """Where the bits of the numbers of each fibre stand."""
    lengths, used = rank.align_bits(kept * width).astype(np.int64), kept * width
    within = np.arange(used.sum()) - np.repeat(used.cumsum() - used, used)
    return np.repeat(lengths.cumsum() - lengths, used) + within


def _bits(numbers: np.ndarray, width: int) -> Bits:
    if len(numbers) and int(numbers.max()) >= 2**width:
        raise InputError(f"{int(numbers.max())} does not fit {width} bits", "take a wider index or pointer")
    return (numbers[:, None].astype(np.int64) >> np.arange(width) & 1).astype(bool).ravel()


def _numbers(bits: Bits, number: int, width: int) -> np.ndarray:
    return bits.reshape(number, width) @ (1 << np.arange(width, dtype=np.int64))


def _read(encoded: Encoded, layout: Layout, shape: tuple[int, ...]) -> Iterator[Fibres]:
    """The fibres of each rank; how many there are, and how long, follows from the pattern, the matrix and what was read before."""
    bits, above, fibres = encoded.bits, ROOT, np.ones((1, 1), bool)
    for rank, level in zip(layout.ranks, _levels(layout, shape, encoded.values.size), strict=True):
        size, drawn = round(float(level.size)), level.drawn is not None
        number = int(fibres.sum()) if drawn and layout.order != "flat" else round(float(level.groups))
        kept = np.full(number, round(float(level.total)) // max(number, 1))
        if above.pointer:
            used = int(above.pointer.value) * (number + 1)
            kept, bits = np.diff(_numbers(bits[:used], number + 1, int(above.pointer.value))), bits[used:]
        if layout.coordinate:
            fibres, bits = _taken_coordinates(bits, encoded.values.size, (shape[0], shape[1]), int(layout.coordinate.value)), bits[:0]
        elif rank.needs_no_bits(level):
            fibres = np.ones((number, size), bool)
        else:
            fibres, bits = _taken(rank, bits, kept, size)
        yield fibres
        above = rank


def _taken(rank: Rank, bits: Bits, kept: np.ndarray, size: int) -> tuple[Fibres, Bits]:
    """The next fibres, and the bits after them."""
    if rank.kind == "bitmask":
        used = len(kept) * (wide := int(rank.align_bits(size)))
        return bits[:used].reshape(len(kept), wide)[:, :size], bits[used:]
    if rank.kind == "enumerative":
        most = int(kept.max(initial=0))
        width, number = _choice_bits(size, most), np.ones_like(kept)
        used = int(rank.align_bits(number * width).sum())
        return _choices_of(_numbers(bits[_places(number, width, rank)], len(kept), width), size, most), bits[used:]
    width = int(rank.bits_per_number(size))
    used, numbers = int(rank.align_bits(kept * width).sum()), _numbers(bits[_places(kept, width, rank)], int(kept.sum()), width)
    fibres, fibre = np.zeros((len(kept), size), bool), np.repeat(np.arange(len(kept)), kept)
    if rank.kind == "delta":
        after = (numbers + 1).cumsum()
        first = np.concatenate([[0], after])[kept.cumsum() - kept]
        numbers = after - np.repeat(first, kept) - 1
    fibres[fibre, numbers] = True
    return fibres, bits[used:]


def _choice_bits(size: int, kept: int) -> int:
    choices = comb(size, kept)
    if choices >= 2**62:
        raise InputError(f"{kept} of {size} places can be chosen in more than 2^62 ways", "take 'nm_index' or 'bitmask'")
    return ceil(log2(choices))


@lru_cache(maxsize=64)
def _binomials(size: int, kept: int) -> np.ndarray:
    return np.array([[comb(place, number) for number in range(kept + 1)] for place in range(size + 1)], np.int64)


def _numbers_of(fibres: Fibres) -> np.ndarray:
    """The number of each choice in the combinatorial number system (Lehmer): C(p_1, 1) + C(p_2, 2) + ... for places p_1 < p_2 < ..."""
    if not len(fibres):
        return np.zeros(0, np.int64)
    places = np.nonzero(fibres)[1].reshape(len(fibres), -1)
    return _binomials(fibres.shape[1], places.shape[1])[places, np.arange(1, places.shape[1] + 1)].sum(axis=1)


def _choices_of(numbers: np.ndarray, size: int, kept: int) -> Fibres:
    """The inverse: the largest place first."""
    fibres, table = np.zeros((len(numbers), size), bool), _binomials(size, kept)
    for place in range(kept, 0, -1):
        found = np.searchsorted(table[:, place], numbers, side="right") - 1
        fibres[np.arange(len(numbers)), found] = True
        numbers = numbers - table[found, place]
    return fibres
