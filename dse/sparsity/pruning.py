"""Find the legal mask of a pattern with the largest score.

The score of a mask is the sum of the scores of the elements that it keeps, so choices are independent: the best N of each M, the
best blocks, the best four columns and then the best N of them, an inner pattern within each tile of an outer one. Each choice is optimal.
The columns of V:N:M are optimal for M up to MAX_EXACT_COLUMNS, where all combinations are scored; for larger M, the columns with the
largest sums are taken.
"""

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from math import inf
from typing import Literal, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from dse.base.errors import InputError
from dse.sparsity.grammar import as_pattern
from dse.sparsity.hierarchy import Hierarchy, inner_density
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, BlockFamily, Dense, Structured, VNMFamily
from dse.sparsity.mask import check_matrix_size, split_into_tiles
from dse.sparsity.pattern import Pattern

MAX_EXACT_COLUMNS = 16

Scores = Float[np.ndarray, "m k"]
Mask = Bool[np.ndarray, "m k"]


Scope = Literal["layer", "global"]


@overload
def apply(weights: ArrayLike, pattern: Pattern | str, sparsity: float | None = None, scope: Scope = "layer") -> Mask: ...
@overload
def apply(
    weights: Mapping[str, ArrayLike], pattern: Pattern | str, sparsity: float | None = None, scope: Scope = "layer"
) -> dict[str, Mask]: ...
def apply(
    weights: ArrayLike | Mapping[str, ArrayLike], pattern: Pattern | str, sparsity: float | None = None, scope: Scope = "layer"
) -> Mask | dict[str, Mask]:
    """Find the mask of `pattern` that keeps the largest sum of squared `weights` [m, k]; for a mapping of matrices, one mask each.

    `sparsity` is needed for patterns that do not fix it: the fraction of elements, blocks, rows or columns to drop. It is dropped from each
    matrix or, with `scope="global"`, from all matrices together, those with the smallest sum for their size first. Raises InputError.
    """
    pattern = as_pattern(pattern)
    _check_sparsity(pattern, sparsity)
    if not isinstance(weights, Mapping):
        return _best_mask(_squares("", weights, pattern), pattern, sparsity)
    scores = {name: _squares(name, matrix, pattern) for name, matrix in weights.items()}
    if scope == "layer" or sparsity is None:
        return {name: _best_mask(score, pattern, sparsity) for name, score in scores.items()}
    sparsities = _global_sparsities(scores, pattern, sparsity)
    return {name: _best_mask(score, pattern, sparsities[name]) for name, score in scores.items()}


def _squares(name: str, weights: ArrayLike, pattern: Pattern) -> Scores:
    matrix = np.asarray(weights, np.float32)
    _check_is_matrix(name, matrix)
    if not np.isfinite(matrix).all():
        raise InputError("the weights have elements that are NaN or infinite", "replace them by finite numbers", key=name)
    check_matrix_size(pattern, *matrix.shape)
    return np.square(matrix)


def _check_is_matrix(name: str, array: np.ndarray) -> None:
    if array.ndim != 2:
        shape = "x".join(map(str, array.shape)) or "of a number"
        raise InputError(f"an array {shape} is not a matrix", "reshape it to [m, k], as in 'array.reshape(len(array), -1)'", key=name)


def _global_sparsities(scores: Mapping[str, Scores], pattern: Pattern, sparsity: float) -> dict[str, float]:
    """The sparsity of each matrix if the tiles with the smallest mean scores of all matrices are dropped."""
    tile_scores = {name: _mean_tile_scores(score, pattern) for name, score in scores.items()}
    tile_sizes = {name: np.full(len(tiles), scores[name].size / len(tiles)) for name, tiles in tile_scores.items()}
    order = np.argsort(-np.concatenate(list(tile_scores.values())), kind="stable")
    dropped = _dropped_tiles(pattern, sparsity) or 0.0
    size = np.concatenate(list(tile_sizes.values()))[order].cumsum()
    kept = np.zeros(len(order), bool)
    kept[order] = size <= (1 - dropped) * size[-1] * (1 + 1e-12)
    ends = np.cumsum([len(tiles) for tiles in tile_scores.values()])
    inner = (1 - sparsity) / (1 - dropped) if dropped < 1 else 1.0
    return {name: 1 - inner * float(part.mean()) for name, part in zip(tile_scores, np.split(kept, ends[:-1]), strict=True)}


def _mean_tile_scores(scores: Scores, pattern: Pattern) -> Float[np.ndarray, " tile"]:
    """The score that each tile, row or column would keep, divided by its elements."""
    rows, columns = _tile_shape(pattern, *scores.shape)
    kept = scores * _best_mask(scores, pattern.inner, None) if isinstance(pattern, Hierarchy) else scores
    return np.asarray(split_into_tiles(kept, rows, columns).sum(axis=(1, 3))).ravel() / (rows * columns)


def best_mask(scores: Scores, pattern: Pattern, sparsity: float | None = None) -> Mask:
    """Find the mask with the largest sum of `scores` [m, k], which are at least 0; `sparsity` as in `apply`. Raises InputError."""
    _check_sparsity(pattern, sparsity)
    check_matrix_size(pattern, *scores.shape)
    return _best_mask(scores, pattern, sparsity)


def random_mask(pattern: Pattern | str, m: int, k: int, sparsity: float | None = None, seed: int = 0) -> Mask:
    """A random mask of `pattern` with as many nonzeros as it allows; every choice of tiles is equally likely. Raises InputError."""
    pattern, generator = as_pattern(pattern), np.random.default_rng(seed)
    check_matrix_size(pattern, m, k)
    _check_sparsity(pattern, sparsity)
    scores = generator.random((m, k), np.float32)
    if not pattern.has_free_tiles:
        return _best_mask(scores, pattern, sparsity)
    down, across = pattern.tile_grid(m, k)
    tiles = _best_tiles(generator.random((int(down), int(across))), 1, 1, _dropped_tiles(pattern, sparsity))
    mask = expand_tiles(tiles, *pattern.tile)[:m, :k]
    return mask & _best_mask(scores, pattern.inner, None) if isinstance(pattern, Hierarchy) else mask


def nearest(mask: Mask, pattern: Pattern | str) -> Mask:
    """Find the mask of `pattern` that differs from `mask` in the fewest places; raises InputError for a family."""
    pattern = as_pattern(pattern)
    _check_is_matrix("", mask)
    _check_sparsity(pattern, None if pattern.density is not None else 0.0)
    return _best_mask(np.where(mask, 1.0, -1.0).astype(np.float32), pattern, None)


def _check_sparsity(pattern: Pattern, sparsity: float | None) -> None:
    """Raise InputError for a family, and unless the sparsity is stated where the pattern does not fix it, and only there."""
    if isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(f"'{pattern}' is a family", "name one of its members")
    if pattern.density is None and sparsity is None:
        raise InputError(f"'{pattern}' may keep any fraction", "give a sparsity, from 0 to 1")
    if pattern.density is not None and sparsity is not None and not abs(1 - sparsity - pattern.density) <= 1e-9:
        raise InputError(f"'{pattern}' is {1 - pattern.density:g} sparse, not {sparsity:g}", "leave the sparsity out")
    if sparsity is not None and not 0 <= sparsity <= 1:
        raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number from 0 to 1")


def _best_mask(scores: Scores, pattern: Pattern, sparsity: float | None) -> Mask:
    """The mask with the largest score. Without a sparsity, free tiles are kept where their score is positive."""
    m, k = scores.shape
    if isinstance(pattern, Dense):
        return np.ones((m, k), bool)
    rows, columns = _tile_shape(pattern, m, k)
    padded = np.pad(scores, ((0, -m % rows), (0, -k % columns)))
    if isinstance(pattern, Block | Structured):
        kept = _best_tiles(padded, rows, columns, sparsity)
    elif isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        inner = _best_mask(padded, pattern.inner, None)
        kept = inner & _best_tiles(padded * inner, rows, columns, _dropped_tiles(pattern, sparsity))
    else:
        kept = best_fixed_mask(padded, pattern)
    mask = kept[:m, :k]
    return mask if sparsity is not None or scores.min(initial=0) >= 0 else mask & _positive_blocks(scores, pattern)


def _dropped_tiles(pattern: Pattern, sparsity: float | None) -> float | None:
    """The fraction of tiles to drop for a sparsity of the matrix, if the kept tiles are sparse themselves."""
    return None if sparsity is None else 1 - (1 - sparsity) / inner_density(pattern)


def _tile_shape(pattern: Pattern, m: int, k: int) -> tuple[int, int]:
    """Rows and columns of the tiles of an [m, k] matrix; whole rows and columns for structured patterns."""
    if isinstance(pattern, Structured):
        return (1, k) if pattern.axis == "row" else (m, 1)
    return pattern.tile


def _positive_blocks(scores: Scores, pattern: Pattern) -> Mask:
    """The blocks of the pattern's granularity with a positive score."""
    m, k = scores.shape
    rows, columns = (length if size == inf else int(size) for size, length in zip(pattern.granularity, scores.shape, strict=True))
    return expand_tiles(split_into_tiles(scores, rows, columns).sum(axis=(1, 3)) > 0, rows, columns)[:m, :k]


def _best_tiles(scores: Scores, rows: int, columns: int, sparsity: float | None) -> Mask:
    """The elements of the tiles with the largest scores, as many as the sparsity leaves; without one, of tiles with a positive score."""
    tiles = np.asarray(split_into_tiles(scores, rows, columns).sum(axis=(1, 3)))
    if sparsity is None:
        return expand_tiles(tiles > 0, rows, columns)
    number = round((1 - sparsity) * tiles.size)
    kept = np.zeros(tiles.size, bool)
    kept[np.argpartition(-tiles.ravel(), min(number, tiles.size - 1))[:number]] = True
    return expand_tiles(kept.reshape(tiles.shape), rows, columns)


def best_fixed_mask(scores: Scores, pattern: Pattern) -> Mask:
    """The best mask of a pattern with fixed groups, and all elements of free blocks; `scores` are complete tiles."""
    if isinstance(pattern, Dense | Block):
        return np.ones(scores.shape, bool)
    if isinstance(pattern, NM):
        return expand_tiles(_top_n_of_groups(split_into_tiles(scores, pattern.v, 1).sum(axis=(1, 3)), pattern.m, pattern.n), pattern.v, 1)
    if isinstance(pattern, VNM):
        return _best_vnm_mask(scores, pattern)
    assert isinstance(pattern, Hierarchy)
    inner = best_fixed_mask(scores, pattern.inner)
    if isinstance(pattern.outer, Block):
        return inner
    rows, columns = pattern.inner.tile
    used = inner if scores.min(initial=0) >= 0 else inner & _positive_blocks(scores, pattern.inner)  # slots may stay empty
    tiles = split_into_tiles(scores * used, rows, columns).sum(axis=(1, 3))
    return inner & expand_tiles(_top_n_of_groups(tiles, pattern.outer.m, pattern.outer.n), rows, columns)


def _best_vnm_mask(scores: Scores, pattern: VNM) -> Mask:
    """The best columns of each block, then the best n of them in each row; negative scores are dropped."""
    blocks = jnp.moveaxis(jnp.maximum(split_into_tiles(scores, pattern.v, pattern.m), 0), 2, 1)
    in_columns = _best_columns(blocks, pattern.n)[:, :, None, :] & jnp.ones(blocks.shape, bool)
    kept = top_n(jnp.where(in_columns, blocks, -jnp.inf), pattern.n) & in_columns
    return np.asarray(jnp.moveaxis(kept, 1, 2).reshape(scores.shape))


def expand_tiles(tiles: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Repeat the value of each tile for all elements of the tile."""
    return np.repeat(np.repeat(tiles, rows, axis=0), columns, axis=1)


def _top_n_of_groups(scores: Scores, group: int, n: int) -> Mask:
    """The n largest of each `group` neighbours in each row."""
    return np.asarray(top_n(jnp.asarray(scores).reshape(len(scores), -1, group), n)).reshape(scores.shape)


@partial(jax.jit, static_argnames="n")
def top_n(scores: Float[Array, "*group size"], n: int) -> Bool[Array, "*group size"]:
    """The n largest along the last axis, the first ones among equals: elements that fewer than n others precede."""
    size = scores.shape[-1]
    position = jnp.arange(size)
    preceding = jnp.zeros(scores.shape, jnp.int32)
    for other in range(size):
        score = scores[..., other : other + 1]
        preceding += (score > scores) | ((score == scores) & (other < position))
    return preceding < n


@partial(jax.jit, static_argnames="n")
def _best_columns(blocks: Float[Array, "down across v m"], n: int) -> Bool[Array, "down across m"]:
    """The 4 columns of each block whose best n elements in each row have the largest sum."""
    m = blocks.shape[-1]
    if m > MAX_EXACT_COLUMNS:
        return top_n(blocks.sum(axis=2), VNM_COLUMNS)
    columns = jnp.moveaxis(blocks, -1, 0)
    choices = jnp.array(list(combinations(range(m), VNM_COLUMNS)))

    def keep_better(best: tuple[Array, Array], choice: Array) -> tuple[tuple[Array, Array], None]:
        a, b, c, d = (columns[choice[place]] for place in range(VNM_COLUMNS))
        score = _sum_of_largest(a, b, c, d, n).sum(axis=-1)
        return (jnp.maximum(best[0], score), jnp.where((score > best[0])[..., None], choice, best[1])), None

    start = jnp.full(blocks.shape[:2], -jnp.inf), jnp.zeros((*blocks.shape[:2], VNM_COLUMNS), int)
    best_choice = lax.scan(keep_better, start, choices)[0][1]
    return (best_choice[..., None] == jnp.arange(m)).any(axis=-2)


def _sum_of_largest(a: Array, b: Array, c: Array, d: Array, n: int) -> Array:
    """The sum of the n largest of four, without sorting."""
    (high, low), (high2, low2) = ((jnp.maximum(x, y), jnp.minimum(x, y)) for x, y in ((a, b), (c, d)))
    first = jnp.maximum(high, high2)
    second = jnp.maximum(jnp.minimum(high, high2), jnp.maximum(low, low2))
    total, last = high + low + high2 + low2, jnp.minimum(low, low2)
    return {1: first, 2: first + second, 3: total - last, 4: total}[n]
