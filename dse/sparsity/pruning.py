"""The best legal mask: of all masks of a pattern, one that keeps the most.

What a mask is worth is a sum over what it keeps, so every choice is made where it stands: the best N of each M, the best blocks,
the best four columns and then the best N of them, an inner pattern within each tile of an outer one. Each of these is optimal;
the columns of V:N:M are for M up to MOST_COLUMNS (all combinations are weighed), and a good guess beyond (the heaviest).
"""

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from math import inf
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Bool, Float

from dse.base.errors import InputError
from dse.sparsity.grammar import as_pattern
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, BlockFamily, Dense, Hierarchy, Structured, VNMFamily
from dse.sparsity.mask import check_matrix_size, split_into_tiles
from dse.sparsity.pattern import Pattern

MAX_EXACT_COLUMNS = 16

Scores = Float[Any, "m k"]
Mask = Bool[np.ndarray, "m k"]


def apply(weights: Any, pattern: Pattern | str, sparsity: float | None = None, scope: Literal["layer", "global"] = "layer") -> Any:
    """The mask of `pattern` that keeps the most of the squares of `weights` [m, k]; of several matrices, by name, one for each.

    `sparsity` [1] is that of patterns which don't fix it (elements, blocks, rows, columns): the share of them to drop, of each
    matrix or, with `scope="global"`, of all together, the lightest for their size first. Raises InputError.
    """
    pattern = as_pattern(pattern)
    sparsity = _checked(pattern, sparsity)
    if not isinstance(weights, Mapping):
        return _best(_squares(weights, pattern), pattern, sparsity)
    scores = {name: _squares(matrix, pattern) for name, matrix in weights.items()}
    shares = dict.fromkeys(scores, sparsity) if scope == "layer" or sparsity is None else _shares(scores, pattern, sparsity)
    return {name: _best(score, pattern, shares[name]) for name, score in scores.items()}


def _squares(weights: Any, pattern: Pattern) -> np.ndarray:
    scores = np.square(np.asarray(weights, np.float32))
    check_matrix_size(pattern, *scores.shape)
    return scores


def _shares(scores: Mapping[str, np.ndarray], pattern: Pattern, sparsity: float) -> dict[str, float]:
    """The sparsity of each matrix where the lightest grains of all are dropped: heavier is more square for each element."""
    worth = {name: _tile_worth(score, pattern) for name, score in scores.items()}
    sizes = {name: np.full(len(tiles), scores[name].size / len(tiles)) for name, tiles in worth.items()}
    order = np.argsort(-np.concatenate(list(worth.values())), kind="stable")
    share = _share(pattern, sparsity) or 0.0
    size = np.concatenate(list(sizes.values()))[order].cumsum()
    kept = np.zeros(len(order), bool)
    kept[order] = size <= (1 - share) * size[-1] * (1 + 1e-12)
    ends = np.cumsum([len(tiles) for tiles in worth.values()])
    inner = (1 - sparsity) / (1 - share) if share < 1 else 1.0
    return {name: 1 - inner * float(part.mean()) for name, part in zip(worth, np.split(kept, ends[:-1]), strict=True)}


def _tile_worth(scores: np.ndarray, pattern: Pattern) -> np.ndarray:
    """What each tile, row or column keeps, for each of its elements [tile]."""
    rows, columns = _tile(pattern, *scores.shape)
    kept = scores * _best(scores, pattern.inner, None) if isinstance(pattern, Hierarchy) else scores
    return np.asarray(split_into_tiles(kept, rows, columns).sum(axis=(1, 3))).ravel() / (rows * columns)


def random_mask(pattern: Pattern | str, m: int, k: int, sparsity: float | None = None, seed: int = 0) -> Mask:
    """A random mask of `pattern`, as full as it may be, every choice of tiles equally likely; raises InputError."""
    pattern, draw = as_pattern(pattern), np.random.default_rng(seed)
    check_matrix_size(pattern, m, k)
    sparsity, scores = _checked(pattern, sparsity), draw.random((m, k), np.float32)
    if not pattern.has_free_tiles:
        return _best(scores, pattern, sparsity)
    down, across = pattern.tile_grid(m, k)
    tiles = expand_tiles(_fraction(draw.random((int(down), int(across))), 1, 1, _share(pattern, sparsity)), *pattern.tile)[:m, :k]
    return tiles & _best(scores, pattern.inner, None) if isinstance(pattern, Hierarchy) else tiles


def nearest(mask: Mask, pattern: Pattern | str) -> Mask:
    """The mask of `pattern` that differs from `mask` in the fewest places; raises InputError for a family."""
    pattern = as_pattern(pattern)
    _checked(pattern, None if pattern.density is not None else 0.0)
    return _best(np.where(mask, 1.0, -1.0).astype(np.float32), pattern, None)


def _checked(pattern: Pattern, sparsity: float | None) -> float | None:
    if isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(f"'{pattern}' is a family", "name one of its members")
    if pattern.density is None and sparsity is None:
        raise InputError(f"'{pattern}' may keep any fraction", "say which sparsity, from 0 to 1")
    if pattern.density is not None and sparsity is not None and abs(1 - sparsity - pattern.density) > 1e-9:
        raise InputError(f"'{pattern}' is {1 - pattern.density:g} sparse, not {sparsity:g}", "leave the sparsity out")
    if sparsity is not None and not 0 <= sparsity <= 1:
        raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number from 0 to 1")
    return sparsity


def _best(scores: np.ndarray, pattern: Pattern, sparsity: float | None) -> Mask:
    """The mask that is worth most; without a sparsity, a free pattern keeps whatever is worth anything."""
    m, k = scores.shape
    if isinstance(pattern, Dense):
        return np.ones((m, k), bool)
    rows, columns = _tile(pattern, m, k)
    padded = np.pad(scores, ((0, -m % rows), (0, -k % columns)))
    if isinstance(pattern, Block | Structured):
        kept = _fraction(padded, rows, columns, sparsity)
    elif isinstance(pattern, Hierarchy) and isinstance(pattern.outer, Block):
        inner = _best(padded, pattern.inner, None)
        kept = inner & _fraction(padded * inner, rows, columns, _share(pattern, sparsity))
    else:
        kept = best_fixed_mask(padded, pattern)
    return np.asarray(kept)[:m, :k] & (True if sparsity is not None or scores.min(initial=0) >= 0 else _worth(scores, pattern))


def _share(pattern: Pattern, sparsity: float | None) -> float | None:
    """Which share of the tiles to drop, where those that are kept are sparse themselves."""
    inner = pattern.inner.density if isinstance(pattern, Hierarchy) else None
    return None if sparsity is None else 1 - (1 - sparsity) / (inner or 1.0)


def _tile(pattern: Pattern, m: int, k: int) -> tuple[int, int]:
    if isinstance(pattern, Structured):
        return (1, k) if pattern.axis == "row" else (m, 1)
    return pattern.tile


def _worth(scores: np.ndarray, pattern: Pattern) -> Mask:
    """Where keeping a grain is worth more than dropping it."""
    m, k = scores.shape
    rows, columns = (length if size == inf else int(size) for size, length in zip(pattern.granularity, scores.shape, strict=True))
    return expand_tiles(split_into_tiles(scores, rows, columns).sum(axis=(1, 3)) > 0, rows, columns)[:m, :k]


def _fraction(scores: np.ndarray, rows: int, columns: int, sparsity: float | None) -> Mask:
    """The heaviest blocks, as many as the sparsity leaves."""
    blocks = np.asarray(split_into_tiles(scores, rows, columns).sum(axis=(1, 3)))
    if sparsity is None:
        return expand_tiles(blocks > 0, rows, columns)
    kept = round((1 - sparsity) * blocks.size)
    chosen = np.zeros(blocks.size, bool)
    chosen[np.argpartition(-blocks.ravel(), min(kept, blocks.size - 1))[:kept]] = True
    return expand_tiles(chosen.reshape(blocks.shape), rows, columns)


def best_fixed_mask(scores: np.ndarray, pattern: Pattern) -> Any:
    """Of each group as many as the pattern fixes, and every block of one that may keep any fraction; `scores` are whole tiles."""
    if isinstance(pattern, Dense | Block):
        return np.ones(scores.shape, bool)
    if isinstance(pattern, NM):
        return expand_tiles(_top_along(split_into_tiles(scores, pattern.v, 1).sum(axis=(1, 3)), pattern.m, pattern.n), pattern.v, 1)
    if isinstance(pattern, VNM):
        blocks = jnp.moveaxis(jnp.maximum(split_into_tiles(scores, pattern.v, pattern.m), 0), 2, 1)  # what costs is dropped
        chosen = _columns(blocks, pattern.n)[:, :, None, :] & jnp.ones(blocks.shape, bool)
        kept = top_n(jnp.where(chosen, blocks, -jnp.inf), pattern.n) & chosen
        return jnp.moveaxis(kept, 1, 2).reshape(scores.shape)
    assert isinstance(pattern, Hierarchy)
    inner = best_fixed_mask(scores, pattern.inner)
    if isinstance(pattern.outer, Block):
        return inner
    rows, columns = pattern.inner.tile
    gains = scores * (inner & (True if scores.min(initial=0) >= 0 else _worth(scores, pattern.inner)))  # slots may stay empty
    tiles = split_into_tiles(gains, rows, columns).sum(axis=(1, 3))
    return inner & expand_tiles(_top_along(tiles, pattern.outer.m, pattern.outer.n), rows, columns)


def expand_tiles(chosen: Any, rows: int, columns: int) -> np.ndarray:
    """A choice of tiles as a choice of elements."""
    return np.repeat(np.repeat(np.asarray(chosen), rows, axis=0), columns, axis=1)


def _top_along(scores: Any, group: int, n: int) -> Any:
    """The n best of each `group` neighbours in each row."""
    return top_n(jnp.asarray(scores).reshape(len(scores), -1, group), n).reshape(scores.shape)


@partial(jax.jit, static_argnames="n")
def top_n(scores: Float[Array, "*group size"], n: int) -> Bool[Array, "*group size"]:
    """The n largest along the last axis, the first ones among equals: those that fewer than n others beat."""
    size = scores.shape[-1]
    earlier = jnp.arange(size)
    beaten = jnp.zeros(scores.shape, jnp.int32)
    for other in range(size):
        rival = scores[..., other : other + 1]
        beaten += (rival > scores) | ((rival == scores) & (other < earlier))
    return beaten < n


@partial(jax.jit, static_argnames="n")
def _columns(blocks: Float[Array, "down across v m"], n: int) -> Bool[Array, "down across m"]:
    """The 4 columns of each block that leave the most for the best n of them in each row."""
    m = blocks.shape[-1]
    if m > MAX_EXACT_COLUMNS:
        return top_n(blocks.sum(axis=2), VNM_COLUMNS)
    columns = jnp.moveaxis(blocks, -1, 0)
    choices = jnp.array(list(combinations(range(m), VNM_COLUMNS)))

    def weigh(best: tuple[Array, Array], choice: Array) -> tuple[tuple[Array, Array], None]:
        a, b, c, d = (columns[choice[place]] for place in range(VNM_COLUMNS))
        worth = _best_of_four(a, b, c, d, n).sum(axis=-1)
        return (jnp.maximum(best[0], worth), jnp.where((worth > best[0])[..., None], choice, best[1])), None

    start = jnp.full(blocks.shape[:2], -jnp.inf), jnp.zeros((*blocks.shape[:2], VNM_COLUMNS), int)
    chosen = lax.scan(weigh, start, choices)[0][1]
    return (chosen[..., None] == jnp.arange(m)).any(axis=-2)


def _best_of_four(a: Array, b: Array, c: Array, d: Array, n: int) -> Array:
    """The sum of the n largest of four, without sorting."""
    (high, low), (high2, low2) = ((jnp.maximum(x, y), jnp.minimum(x, y)) for x, y in ((a, b), (c, d)))
    first = jnp.maximum(high, high2)
    second = jnp.maximum(jnp.minimum(high, high2), jnp.maximum(low, low2))
    total, last = high + low + high2 + low2, jnp.minimum(low, low2)
    return {1: first, 2: first + second, 3: total - last, 4: total}[n]
