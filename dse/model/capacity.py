"""Bytes that a product moves, against the on-chip capacity S that it has for reuse.

For C[m, n] = A[m, k] B[k, n] with G multiply-adds and p bytes an element two figures, never to be mixed up:

    bound        Q >= max(compulsory, 2 G sqrt(p_A p_B p_C) / sqrt(rho S) - 2 S)   no schedule moves less
    attainable   the best of three schedules that keep a tile of C, rows of A or columns of B    one that is known does

The bound is that of Smith et al. (2017, arXiv 1702.02017) in bytes, with rho, the most uses that a row of A has for one
element of B: 1 for a matrix, ceil(R / stride) ceil(S / stride) for a convolution (Chen et al. 2020, arXiv 1911.05662).
Schedules manage the memory as a scratchpad; a cache that evicts by recency moves more. Partial sums are as wide as results.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Array = Float[np.ndarray, "..."]

EXACT, APART = 64, 1.1  # strips of B that are tried: each number up to 64, then 10% apart, which costs below 1%

NOTHING = 1e-30  # bytes of an element that takes none, as where a layer keeps its result to itself


@dataclass(frozen=True, eq=False)
class Product:
    """One product per entry; fields are arrays that broadcast, with each other and with a capacity.

    `a`, `b`, `c`: bytes of the operands and the result, each moved once (what a sparse A stores of its positions belongs to
    `a`). A random A stores `density` of m x k. A grouped one has `groups` blocks of m / groups rows, each with a B of its own.

    Rows of A may share columns: a stripe of `stripe_rows` rows opens a column by the chance `stripe_share`, in an open one a band of
    `band_rows` rows by `band_share`, and there each row has a nonzero by `element_share` (default: all stored elements are
    nonzero, and rows independent). Of `b` no schedule reads less than the share `least`, and `most` is enough.

    A convolution's B is read from an input whose elements stand in several places: on average in `uses`, at most in
    `reach` x `reach` of one sample, which has `sample` of the n columns. `done`: share of the products with stored elements
    that are made at all.
    """

    m: Any
    k: Any
    n: Any
    a: Any
    b: Any
    c: Any
    density: Any = 1.0
    groups: Any = 1.0
    uses: Any = 1.0
    reach: Any = 1.0
    sample: Any = 1.0
    done: Any = 1.0
    stripe_rows: Any = 1.0
    stripe_share: Any = 1.0
    band_rows: Any = 1.0
    band_share: Any = 1.0
    element_share: Any = None
    least: Any = 1.0
    most: Any = 1.0

    def __post_init__(self) -> None:
        if self.element_share is None:
            object.__setattr__(self, "element_share", self.density)

    @property
    def nonzero(self) -> Any:
        """Share of A that is not zero; what is stored beyond it needs no element of B."""
        return self.stripe_share * self.band_share * self.element_share

    @property
    def sizes(self) -> tuple[Any, Any, Any]:
        """Bytes of one element of A, B and C."""
        found = self.a / (self.density * self.m * self.k), self.b * self.uses / (self.k * self.n * self.groups), self.c / (self.m * self.n)
        return np.maximum(found[0], NOTHING), np.maximum(found[1], NOTHING), np.maximum(found[2], NOTHING)

    @property
    def compulsory(self) -> Any:
        """Each byte that is needed once [B]: no schedule moves less."""
        return self.a + self.b * self.least + self.c


def bound(product: Product, capacity: Any) -> Any:
    """Bytes that every schedule moves to and from a memory of `capacity` bytes [B], in the shape that both broadcast to."""
    p = product
    multiply_adds = p.nonzero * p.m * p.k * p.n * p.done
    reused = 2 * multiply_adds * np.sqrt(np.prod(np.broadcast_arrays(*p.sizes), axis=0)) / (p.reach * np.sqrt(capacity))
    return np.maximum(p.compulsory, reused - 2 * np.asarray(capacity))


def attainable(product: Product, capacity: Any) -> Any:
    """Bytes that the best of three schedules moves [B]; with room for none of them, every operand of every multiply-add."""
    lasting = _Strips.of(product, capacity)
    nothing_kept = product.density * product.m * product.k * product.n * (sum(product.sizes) + product.sizes[2])
    found = [way.min(axis=-1) for way in (_keep_c(lasting), _keep_a(lasting), _keep_b(lasting))]
    each_once = product.a + product.b * product.most + product.c
    return np.maximum(each_once, np.minimum(np.minimum.reduce(found), nothing_kept))


def output_stationary(product: Product, capacity: Any, whole_tiles: bool = True) -> Any:
    """Bytes where a tile of C stays while A and B pass [B].

    T(a, b) = mnk (1 - (1 - d)^a) / a p_B + p_A d mk ceil(n / b) + p_C mn with (a p_C + p_B) b + 2 p_A <= S, minimised.
    Without `whole_tiles` the last tile counts by its share of the rows, as written here; it is a smooth figure, up to a tile
    below what can be had.
    """
    return np.maximum(product.compulsory, _keep_c(_Strips.of(product, capacity), whole_tiles).min(axis=-1))


@dataclass(frozen=True, eq=False)
class _Strips:
    """A product cut into strips of `width` columns, another number of them along the last axis.

    A strip reads a `patch` of one channel of B: with a rim, which neighbours read as well, so that B is read `rim` times, unless
    the strip holds whole samples. Which strips are tried does not depend on the capacity, so that more of it never moves more.
    """

    product: Product
    capacity: Any
    width: Array
    count: Array
    patch: Array
    rim: Array

    @classmethod
    def of(cls, product: Product, capacity: Any) -> "_Strips":
        p = Product(**{name: np.asarray(value, float)[..., None] for name, value in vars(product).items()})
        width = np.ceil(p.n / _counts(float(np.max(p.n))))
        width = np.where(width >= p.sample, np.ceil(width / p.sample) * p.sample, width)
        rim = np.where(width >= p.sample, 1.0, (1 + (p.reach - 1) / np.sqrt(width)) ** 2)
        return cls(
            p, np.asarray(capacity, float)[..., None], width, np.ceil(p.n / width), width * rim, np.minimum(rim, np.maximum(p.uses, 1))
        )

    @property
    def rows(self) -> Any:
        return self.product.m / self.product.groups


def _counts(most: float) -> Array:
    many = np.ceil(EXACT * APART ** np.arange(1 + max(0.0, np.ceil(np.log(most / EXACT) / np.log(APART)))))
    return np.unique(np.concatenate([np.arange(1.0, EXACT), many]))


def _keep_c(strips: _Strips, whole_tiles: bool = True) -> Array:
    """A tile of C stays; A passes once for each strip, B once for each tile."""
    p, (of_a, of_b, of_c) = strips.product, strips.product.sizes
    high = (strips.capacity - strips.patch * of_b - 2 * of_a) / (strips.width * of_c)
    return p.a * strips.count + p.b * strips.rim * _passes(strips, high, whole_tiles) + p.c


def _keep_a(strips: _Strips) -> Array:
    """Rows of A stay; B passes once for each set of them."""
    p, (of_a, of_b, of_c) = strips.product, strips.product.sizes
    high = (strips.capacity - strips.patch * of_b) / (p.k * p.density * of_a + strips.width * of_c)
    return p.a + p.b * strips.rim * _passes(strips, high) + p.c


def _keep_b(strips: _Strips) -> Array:
    """What is needed of a strip of B stays while the rows of A pass."""
    p, (of_a, of_b, of_c) = strips.product, strips.product.sizes
    held = p.k * p.most / p.uses * strips.patch * of_b + strips.width * of_c + 2 * of_a
    return np.where(held <= strips.capacity, p.a * strips.count + p.b * p.most * strips.rim + p.c, np.inf)


def _passes(strips: _Strips, high: Array, whole_tiles: bool = True) -> Array:
    """How often B passes by tiles of at most `high` rows, each of which reads what its nonzeros need.

    Rows that choose columns together stay together: a tile is so many whole stripes, else whole bands of one, else rows of one.
    """
    p, rows = strips.product, np.clip(np.floor(high), 0, strips.rows)
    stripe = np.clip(p.stripe_rows, 1, np.maximum(strips.rows, 1))
    band = np.clip(p.band_rows, 1, stripe)
    stripes, bands = np.where(stripe > 1, np.ceil(strips.rows / stripe), strips.rows), np.ceil(stripe / band)
    of_band = p.band_share * _any(p.element_share, band)
    of_stripe = p.stripe_share * _any(of_band, bands)
    found = _cut(stripes, np.floor(rows / stripe), lambda number: _any(of_stripe, number * p.reach**2), p.most, whole_tiles)
    if np.any(stripe > 1):
        by_bands = _cut(bands, np.floor(rows / band), lambda number: _any(p.stripe_share * _any(of_band, number), p.reach**2), p.most)
        found = np.where(rows < stripe, stripes * by_bands, found)
    if np.any(band > 1):
        of_rows = p.stripe_share * p.band_share
        by_rows = _cut(band, rows, lambda number: _any(of_rows * _any(p.element_share, number), p.reach**2), p.most)
        found = np.where(rows < band, stripes * bands * by_rows, found)
    return np.where(rows < np.minimum(strips.rows, 1), np.inf, found)


def _cut(total: Array, number: Array, share: Callable[[Array], Array], most: Array, whole_tiles: bool = True) -> Array:
    """Shares of B that `total` parts read, `number` at a time, each time the `share` that so many parts need, at most `most`."""
    fit = np.maximum(number, 1)
    full = np.floor(total / fit) if whole_tiles else total / fit
    return full * np.minimum(share(fit), most) + np.minimum(share(np.maximum(total - full * fit, 0)), most)


def _any(chance: Any, times: Any) -> Any:
    """The chance of at least one success in so many independent trials."""
    return -np.expm1(times * np.log1p(-np.minimum(chance, 1 - 1e-16)))
