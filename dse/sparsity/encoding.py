"""Real encodings: the bits that the formats count, written and read back.

Storage is decided first: which places of the padded matrix are stored, zeros in unused slots included (`slots`). Level by level,
groups then say which of their places are kept; a format writes that as place numbers, as bit masks, or with pointers. The
combinatorial floor has no encoder here: it is a bound, which a real code meets only on average.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from dse.errors import BadInput
from dse.sparsity import choose
from dse.sparsity.format import BSR, CSR, Bitmask, Combinatorial, DenseFormat, Format
from dse.sparsity.kinds import CHOSEN, NM, VNM, Block, BlockFamily, Dense, Hierarchy, VNMFamily, Whole
from dse.sparsity.mask import legal, tiled
from dse.sparsity.pattern import Pattern

Groups = Bool[np.ndarray, "group place"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A matrix as it is stored: values, and the bits that say where they stand."""

    pattern: Pattern
    format: Format
    shape: tuple[int, int]
    values: np.ndarray
    bits: Bool[np.ndarray, "bit"]


def encode(weights: np.ndarray, pattern: Pattern, form: Format) -> Encoded:
    """`weights` [m, k], whose nonzeros are legal in `pattern`; raises BadInput."""
    if not form.accepts(pattern) or isinstance(form, Combinatorial) or isinstance(pattern, BlockFamily | VNMFamily):
        raise BadInput.one(f"'{form.kind}' can't encode '{pattern}'", "take a format that accepts it, and a member of a family")
    if not legal(weights != 0, pattern):
        raise BadInput.one(f"the nonzeros are no mask of '{pattern}'", "apply the pattern to the weights first")
    padded = _padded(weights, pattern)
    stored = slots(padded != 0, pattern)
    return Encoded(pattern, form, (weights.shape[0], weights.shape[1]), padded[stored], _written(stored, pattern, form, len(weights)))


def decode(encoded: Encoded) -> np.ndarray:
    """The weights [m, k] that were encoded, from the values and the bits alone."""
    m, k = encoded.shape
    padded = _padded(np.zeros(encoded.shape, encoded.values.dtype), encoded.pattern)
    padded[_read(encoded, padded.shape)] = encoded.values
    return padded[:m, :k]


def _padded(weights: np.ndarray, pattern: Pattern) -> np.ndarray:
    (m, k), (rows, columns) = weights.shape, pattern.tile
    return np.pad(weights, ((0, -m % rows), (0, -k % columns)))


def slots(mask: Bool[np.ndarray, "m k"], pattern: Pattern) -> Bool[np.ndarray, "m k"]:
    """The places of whole tiles that are stored for a legal mask: every slot of a fixed pattern, used or not."""
    if isinstance(pattern, Dense):
        return np.ones(mask.shape, bool)
    if isinstance(pattern, Whole):
        return mask.copy()  # which has no padding
    if isinstance(pattern, Block) or (isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block)):
        occupied = choose.spread(_any(mask, *pattern.tile), *pattern.tile)
        return occupied & slots(mask, pattern.inner) if isinstance(pattern, Hierarchy) else occupied
    return np.asarray(choose.fixed(mask.astype(np.float32), pattern))


def _any(mask: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return np.asarray(tiled(mask, rows, columns).any(axis=(1, 3)))


def groups(stored: Bool[np.ndarray, "m k"], pattern: Pattern) -> list[Groups]:
    """Which places each group keeps, level by level, as `Pattern.levels` counts them."""
    if isinstance(pattern, Whole):
        return [np.atleast_2d(stored.any(axis=1 if pattern.axis == "row" else 0))]
    if isinstance(pattern, NM):
        return [_any(stored, pattern.v, 1).reshape(-1, pattern.m)]
    if isinstance(pattern, VNM):
        return _chosen(stored, pattern)
    rows, columns = pattern.inner.tile if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, NM) else pattern.tile
    kept = _any(stored, rows, columns)
    if isinstance(pattern, Block):
        return [kept.reshape(1, -1)]
    assert isinstance(pattern, Hierarchy)
    inside = _stacked(stored, rows, columns)[kept.ravel()].reshape(-1, columns)
    size = pattern.outer.m if isinstance(pattern.outer, NM) else kept.size
    return [kept.reshape(-1, size), *([] if isinstance(pattern.inner, Block) else groups(inside, pattern.inner))]


def _stacked(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """[m, k] as its tiles, one after the other [tile, row, column]."""
    return tiled(matrix, rows, columns).swapaxes(1, 2).reshape(-1, rows, columns)


def _chosen(stored: np.ndarray, pattern: VNM) -> list[Groups]:
    """The 4 columns of each block, those without nonzeros filled up from the left; then the places of each row among them."""
    blocks = _stacked(stored, pattern.v, pattern.m)
    columns = np.asarray(choose.top(blocks.any(axis=1).astype(np.float32), CHOSEN))
    places = np.nonzero(columns)[1].reshape(-1, 1, CHOSEN)
    return [columns, np.take_along_axis(blocks, np.broadcast_to(places, (*blocks.shape[:2], CHOSEN)), axis=2).reshape(-1, CHOSEN)]


def _restored(levels: Iterator[Groups], pattern: Pattern, shape: tuple[int, int]) -> Bool[np.ndarray, "m k"]:
    """The inverse of `groups`: the stored places of a padded matrix of `shape`."""
    (m, k), first = shape, next(levels)
    if isinstance(pattern, Whole):
        return np.broadcast_to(first.T if pattern.axis == "row" else first, shape).copy()
    if isinstance(pattern, NM):
        return choose.spread(first.reshape(m // pattern.v, k), pattern.v, 1)
    if isinstance(pattern, VNM):
        inside = np.zeros((len(first), pattern.v, pattern.m), bool)
        places = np.broadcast_to(np.nonzero(first)[1].reshape(-1, 1, CHOSEN), (*inside.shape[:2], CHOSEN))
        np.put_along_axis(inside, places, next(levels).reshape(*inside.shape[:2], CHOSEN), axis=2)
        return _unstacked(inside, shape)
    rows, columns = pattern.inner.tile if isinstance(pattern, Hierarchy) and isinstance(pattern.outer, NM) else pattern.tile
    if not isinstance(pattern, Hierarchy):
        return choose.spread(first.reshape(m // rows, k // columns), rows, columns)
    stacked, kept = np.zeros((first.size, rows, columns), bool), first.ravel()
    whole = isinstance(pattern.inner, Block)
    inside = np.ones((rows * int(kept.sum()), columns), bool)
    stacked[kept] = (inside if whole else _restored(levels, pattern.inner, inside.shape)).reshape(-1, rows, columns)
    return _unstacked(stacked, shape)


def _unstacked(tiles: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    (m, k), (_, rows, columns) = shape, tiles.shape
    return tiles.reshape(m // rows, k // columns, rows, columns).swapaxes(1, 2).reshape(shape)


def _written(stored: np.ndarray, pattern: Pattern, form: Format, rows: int) -> np.ndarray:
    if isinstance(form, DenseFormat):
        return np.zeros(0, bool)
    if isinstance(form, CSR):
        return _pointed(stored, form)
    levels = groups(stored, pattern)
    if isinstance(form, Bitmask):
        return np.concatenate([level.ravel() for level in levels])
    parts = [_pointed(_any(stored, *pattern.tile), form)] if isinstance(form, BSR) else []
    return np.concatenate([np.zeros(0, bool), *parts, *map(_numbered, levels[len(parts) :])])


def _pointed(kept: np.ndarray, form: Any) -> np.ndarray:
    """Offsets of the rows, then the columns of what they keep."""
    offsets, columns = np.concatenate([[0], kept.sum(axis=1).cumsum()]), np.nonzero(kept)[1]
    return np.concatenate([_bits(offsets, int(form.pointer.value)), _bits(columns, int(form.index.value))])


def _numbered(level: Groups) -> np.ndarray:
    """The numbers of the kept places; nothing where all are kept."""
    if level.all() or not level.size:
        return np.zeros(0, bool)
    return _bits(np.nonzero(level)[1], _width(level.shape[1]))


def _width(places: int) -> int:
    return int(np.ceil(np.log2(places)))


def _bits(numbers: np.ndarray, width: int) -> np.ndarray:
    if len(numbers) and int(numbers.max()) >= 2**width:
        raise BadInput.one(f"{int(numbers.max())} does not fit {width} bits", "take a wider index or pointer")
    return (numbers[:, None].astype(np.int64) >> np.arange(width) & 1).astype(bool).ravel()


def _numbers(bits: np.ndarray, width: int) -> np.ndarray:
    return bits.reshape(-1, width) @ (1 << np.arange(width, dtype=np.int64))


def _read(encoded: Encoded, shape: tuple[int, int]) -> Bool[np.ndarray, "m k"]:
    """The stored places, from the bits."""
    pattern, form, bits = encoded.pattern, encoded.format, encoded.bits
    if isinstance(form, DenseFormat):
        return np.ones(shape, bool)
    if isinstance(form, CSR):
        return _unpointed(bits, form, shape)
    if isinstance(form, BSR):
        rows, columns = pattern.tile
        blocks = _unpointed(bits, form, (shape[0] // rows, shape[1] // columns))
        used = int(form.pointer.value) * (len(blocks) + 1) + int(form.index.value) * int(blocks.sum())
        return _restored(_levels(bits[used:], encoded, blocks.reshape(1, -1)), pattern, shape)
    return _restored(_levels(bits, encoded, None), pattern, shape)


def _unpointed(bits: np.ndarray, form: Any, shape: tuple[int, int]) -> np.ndarray:
    pointer, index = int(form.pointer.value), int(form.index.value)
    offsets = _numbers(bits[: pointer * (shape[0] + 1)], pointer)
    columns = _numbers(bits[pointer * (shape[0] + 1) :][: index * int(offsets[-1])], index)
    kept = np.zeros(shape, bool)
    kept[np.repeat(np.arange(shape[0]), np.diff(offsets)), columns] = True
    return kept


def _levels(bits: np.ndarray, encoded: Encoded, first: Groups | None) -> Iterator[Groups]:
    """The groups of each level, read one after the other; their sizes follow from the pattern and the matrix."""
    (m, k), pattern = encoded.shape, encoded.pattern
    levels = pattern.levels(float(m), float(k), float(encoded.values.size))
    if first is not None:
        yield first
    for level in levels[0 if first is None else 1 :]:
        shape, kept = (round(float(level.groups)), round(float(level.size))), round(float(level.kept))
        found = np.ones(shape, bool)
        if isinstance(encoded.format, Bitmask):
            found, bits = bits[: found.size].reshape(shape), bits[found.size :]
        elif kept < shape[1]:
            used = shape[0] * kept * _width(shape[1])
            found[:] = False
            np.put_along_axis(found, _numbers(bits[:used], _width(shape[1])).reshape(shape[0], kept), True, axis=1)
            bits = bits[used:]
        yield found
