"""Encode weight matrices in storage formats and decode them: the bits that the formats count, written and read.

Ranks are written outermost first. For each rank, pointers to the start of each fibre come first, then which of its places are kept. The
format `combinatorial` has no encoding: it is a lower bound, which a code meets only on average (`enumerative` comes nearest).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dse.base.errors import InputError
from dse.sparsity import tree
from dse.sparsity.format import Format
from dse.sparsity.kinds import BlockFamily, VNMFamily
from dse.sparsity.layout import ROOT, Layout, StorageCost
from dse.sparsity.mask import legal
from dse.sparsity.pattern import FibreCounts, Pattern
from dse.sparsity.rank import (
    Bits,
    Fibres,
    Rank,
    count_bits,
    read_coordinates,
    read_fibres,
    read_numbers,
    write_coordinates,
    write_fibres,
    write_numbers,
)
from dse.sparsity.tree import Mask


@dataclass(frozen=True, eq=False)
class Encoded:
    """An encoded matrix: its stored values, and the bits of their positions."""

    pattern: Pattern
    format: Format
    shape: tuple[int, int]
    values: np.ndarray
    bits: Bits


def encode(weights: np.ndarray, pattern: Pattern, form: Format) -> Encoded:
    """Encode `weights` [m, k], whose nonzeros are legal in `pattern`; raises InputError."""
    layout = _encodable_layout(pattern, form)
    stored = _stored_mask(weights != 0, pattern, layout)
    chunks, parent = [np.zeros(0, bool)], ROOT
    for rank, fibres, level in _ranks(layout, stored):
        if parent.pointer:
            offsets = np.concatenate([[0], fibres.sum(axis=1).cumsum()])
            chunks.append(write_numbers(offsets, int(parent.pointer.value)))
        if layout.coordinate:
            chunks.append(write_coordinates(fibres, int(stored.shape[1]), int(layout.coordinate.value)))
        elif not rank.needs_no_bits(level):
            chunks.append(write_fibres(rank, fibres))
        parent = rank
    values = tree.pad_to_tiles(weights, pattern)[stored]
    return Encoded(pattern, form, (weights.shape[0], weights.shape[1]), values, np.concatenate(chunks))


def decode(encoded: Encoded) -> np.ndarray:
    """Decode the weights [m, k] from the values and the bits alone."""
    stored = decode_mask(encoded)
    padded = np.zeros(stored.shape, encoded.values.dtype)
    padded[stored] = encoded.values
    return padded[: encoded.shape[0], : encoded.shape[1]]


def decode_mask(encoded: Encoded) -> Mask:
    """Decode the stored places of the matrix, padded to complete tiles; the values are those of the places in the order of rows."""
    layout = _encodable_layout(encoded.pattern, encoded.format)
    shape = tree.pad_to_tiles(np.zeros(encoded.shape, bool), encoded.pattern).shape
    return tree.mask_from_fibres(_read_ranks(encoded, layout, shape), layout, shape)


def count(mask: Mask, pattern: Pattern, form: Format) -> StorageCost:
    """Count the elements and bits of a legal `mask` in a format, and whether its numbers fit their widths; raises InputError."""
    layout = _encodable_layout(pattern, form)
    stored = _stored_mask(mask, pattern, layout)
    bits, fits, parent = 0.0, bool(layout.coordinates_fit(float(stored.shape[0]), float(stored.shape[1]))), ROOT
    for rank, fibres, level in _ranks(layout, stored):
        if parent.pointer:
            bits += parent.pointer.value * (len(fibres) + 1)
            fits &= int(fibres.sum()) < 2**parent.pointer.value
        if not rank.needs_no_bits(level):
            bits += count_bits(rank, fibres)
        fits &= bool(rank.numbers_fit(level.size))
        parent = rank
    return StorageCost(float(stored.sum()), bits, fits)


def _encodable_layout(pattern: Pattern, form: Format) -> Layout:
    """The layout of a pattern in a format; raises InputError if it has no encoding."""
    layout = form.layout(pattern)
    if layout is None or isinstance(pattern, BlockFamily | VNMFamily):
        fix = f"take a member of a family; '{form.kind}' stores {form.stores_description}"
        raise InputError(f"'{form.kind}' cannot encode '{pattern}'", fix)
    if any(rank.kind == "combinatorial" for rank in layout.ranks):
        raise InputError(f"'{form.kind}' is a bound, not a code: it cannot encode '{pattern}'", "take 'enumerative', which comes nearest")
    return layout


def _stored_mask(mask: Mask, pattern: Pattern, layout: Layout) -> Mask:
    if not legal(mask, pattern):
        raise InputError(f"the nonzeros are not a legal mask of '{pattern}'", "apply the pattern to the weights first")
    return tree.stored_mask(tree.pad_to_tiles(mask, pattern), pattern, layout)


def _ranks(layout: Layout, stored: Mask) -> Iterator[tuple[Rank, Fibres, FibreCounts]]:
    """The ranks of a format, outermost first: the rank, its fibres in a mask, and their expected counts."""
    levels = layout.levels(float(stored.shape[0]), float(stored.shape[1]), float(stored.sum()))
    return zip(layout.ranks, tree.fibres_by_rank(stored, layout), levels, strict=True)


def _read_ranks(encoded: Encoded, layout: Layout, shape: tuple[int, ...]) -> Iterator[Fibres]:
    """Decode the fibres of each rank. Their number and size follow from the pattern, the matrix and the ranks read before."""
    bits, parent, fibres = encoded.bits, ROOT, np.ones((1, 1), bool)
    levels = layout.levels(float(shape[0]), float(shape[1]), float(encoded.values.size))
    for rank, level in zip(layout.ranks, levels, strict=True):
        size, is_random = round(float(level.size)), level.random_fibres is not None
        number = int(fibres.sum()) if is_random and layout.order != "flat" else round(float(level.fibres))
        kept = np.full(number, round(float(level.total_kept)) // max(number, 1))
        if parent.pointer:
            width = int(parent.pointer.value)
            used = width * (number + 1)
            kept, bits = np.diff(read_numbers(bits[:used], number + 1, width)), bits[used:]
        if layout.coordinate:
            width = int(layout.coordinate.value)
            fibres, bits = read_coordinates(bits, encoded.values.size, (shape[0], shape[1]), width), bits[:0]
        elif rank.needs_no_bits(level):
            fibres = np.ones((number, size), bool)
        else:
            fibres, bits = read_fibres(rank, bits, kept, size)
        yield fibres
        parent = rank
