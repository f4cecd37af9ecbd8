"""Bytes that one matrix product moves to and from a memory outside, as a function of the on-chip capacity S.

For C[m, n] = A[m, k] B[k, n] with G multiply-adds and p bytes an element, there are two figures, which must not be confused:

    lower bound   Q >= max(compulsory, 2 G sqrt(p_A p_B p_C) / sqrt(rho S) - 2 S)                     no schedule moves less
    attainable    the best of three schedules, which keep a tile of C, rows of A or columns of B      a known schedule moves that

The bound is that of Smith et al. (2017, arXiv 1702.02017) in bytes. rho is the maximum number of uses of one element of B by a row of A:
1 for a matrix, ceil(R / stride) ceil(S / stride) for a convolution (Chen et al. 2020, arXiv 1911.05662). The schedules manage the memory
as a scratchpad; a cache with LRU replacement moves more. Partial sums are as wide as results.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dse.sparsity.expectation import any_of
from dse.sparsity.pattern import FloatOrArray

Array = Float[np.ndarray, "..."]

# Numbers of strips of B that are tried: every number up to 64, then 10% apart, which costs less than 1% of the bytes.
MAX_CONSECUTIVE_COUNT, COUNT_RATIO = 64, 1.1

MIN_ELEMENT_BYTES = 1e-30  # instead of 0, for example if fusion keeps a result on chip


@dataclass(frozen=True, eq=False)
class Product:
    """Matrix products, one per entry of the arrays; all fields broadcast with each other and with a capacity.

    `a_bytes`, `b_bytes`, `c_bytes` are the bytes of both operands and the result, each moved once; metadata of a sparse A are included in
    `a_bytes`. `density` is the share of m x k that a random A stores. A grouped product has `groups` blocks of m / groups rows, each
    with its own B.

    Rows of A may share columns: a stripe of `stripe_rows` rows keeps a column with probability `stripe_share`; in a kept column, a band of
    `band_rows` rows is kept with probability `band_share`; in a kept band, a row has a nonzero with probability `element_share` (default:
    all stored elements are nonzero, and rows are independent). No schedule reads less than the share `needed_lower` of B, and reading
    `needed_upper` is enough.

    The B of a convolution is the unrolled input: an input element appears `uses` times on average, at most `max_uses_per_side` squared
    times in one sample, which has `sample_columns` of the n columns. `computed_share` of the products with stored elements are computed.
    """

    m: FloatOrArray
    k: FloatOrArray
    n: FloatOrArray
    a_bytes: FloatOrArray
    b_bytes: FloatOrArray
    c_bytes: FloatOrArray
    density: FloatOrArray = 1.0
    groups: FloatOrArray = 1.0
    uses: FloatOrArray = 1.0
    max_uses_per_side: FloatOrArray = 1.0
    sample_columns: FloatOrArray = 1.0
    computed_share: FloatOrArray = 1.0
    stripe_rows: FloatOrArray = 1.0
    stripe_share: FloatOrArray = 1.0
    band_rows: FloatOrArray = 1.0
    band_share: FloatOrArray = 1.0
    element_share: FloatOrArray = None
    needed_lower: FloatOrArray = 1.0
    needed_upper: FloatOrArray = 1.0

    def __post_init__(self) -> None:
        if self.element_share is None:
            object.__setattr__(self, "element_share", self.density)

    @property
    def nonzero_share(self) -> FloatOrArray:
        """Share of A that is nonzero; stored zeros need no element of B."""
        return self.stripe_share * self.band_share * self.element_share

    @property
    def element_bytes(self) -> tuple[FloatOrArray, FloatOrArray, FloatOrArray]:
        """Bytes of one element of A, B and C."""
        a = self.a_bytes / (self.density * self.m * self.k)
        b = self.b_bytes * self.uses / (self.k * self.n * self.groups)
        c = self.c_bytes / (self.m * self.n)
        return np.maximum(a, MIN_ELEMENT_BYTES), np.maximum(b, MIN_ELEMENT_BYTES), np.maximum(c, MIN_ELEMENT_BYTES)

    @property
    def compulsory_bytes(self) -> FloatOrArray:
        """Every needed byte once [B]: no schedule moves less."""
        return self.a_bytes + self.b_bytes * self.needed_lower + self.c_bytes


def lower_bound_bytes(product: Product, capacity: FloatOrArray) -> FloatOrArray:
    """Bytes that no schedule can beat with an on-chip memory of `capacity` bytes [B], in the shape that both broadcast to."""
    p = product
    multiply_adds = p.nonzero_share * p.m * p.k * p.n * p.computed_share
    mean_width = np.sqrt(np.prod(np.broadcast_arrays(*p.element_bytes), axis=0))
    reuse_limited = 2 * multiply_adds * mean_width / (p.max_uses_per_side * np.sqrt(capacity))
    return np.maximum(p.compulsory_bytes, reuse_limited - 2 * np.asarray(capacity))


def attainable_bytes(product: Product, capacity: FloatOrArray) -> FloatOrArray:
    """Bytes that the best of three schedules moves [B]; every operand of every multiply-add if the capacity is too small for all three."""
    strips = _Strips.of(product, capacity)
    schedules = [bytes_by_count.min(axis=-1) for bytes_by_count in (_keep_c(strips), _keep_a(strips), _keep_b(strips))]
    width = sum(product.element_bytes) + product.element_bytes[2]  # of both operands, and of a partial sum read and written
    no_reuse = product.density * product.m * product.k * product.n * width
    every_byte_once = product.a_bytes + product.b_bytes * product.needed_upper + product.c_bytes
    return np.maximum(every_byte_once, np.minimum(np.minimum.reduce(schedules), no_reuse))


def output_stationary_bytes(product: Product, capacity: FloatOrArray, whole_tiles: bool = True) -> FloatOrArray:
    """Bytes if a tile of C stays on chip while A and B stream [B].

    T(a, b) = mnk (1 - (1 - d)^a) / a p_B + p_A d mk ceil(n / b) + p_C mn with (a p_C + p_B) b + 2 p_A <= S, minimised over a and b.
    Without `whole_tiles`, the last tile counts by its share of the rows, as written here: a smooth figure, up to one tile below what is
    attainable.
    """
    return np.maximum(product.compulsory_bytes, _keep_c(_Strips.of(product, capacity), whole_tiles).min(axis=-1))


@dataclass(frozen=True, eq=False)
class _Strips:
    """A product whose B is cut into `count` strips of `width` columns, another count at each place of the last axis.

    A strip reads `patch` elements of one channel of B. That includes a rim that neighbouring strips read too, so that B is read
    `rim_factor` times, unless strips consist of whole samples. The counts do not depend on the capacity: more capacity never moves more.
    """

    product: Product
    capacity: FloatOrArray
    width: Array
    count: Array
    patch: Array
    rim_factor: Array

    @classmethod
    def of(cls, product: Product, capacity: FloatOrArray) -> "_Strips":
        p = Product(**{name: np.asarray(value, float)[..., None] for name, value in vars(product).items()})
        width = np.ceil(p.n / _strip_counts(float(np.max(p.n))))
        width = np.where(width >= p.sample_columns, np.ceil(width / p.sample_columns) * p.sample_columns, width)
        patch_growth = np.where(width >= p.sample_columns, 1.0, (1 + (p.max_uses_per_side - 1) / np.sqrt(width)) ** 2)
        rim_factor = np.minimum(patch_growth, np.maximum(p.uses, 1))
        return cls(p, np.asarray(capacity, float)[..., None], width, np.ceil(p.n / width), width * patch_growth, rim_factor)

    @property
    def rows(self) -> FloatOrArray:
        """Rows of one group."""
        return self.product.m / self.product.groups


def _strip_counts(max_count: float) -> Array:
    ratios = np.arange(1 + max(0.0, np.ceil(np.log(max_count / MAX_CONSECUTIVE_COUNT) / np.log(COUNT_RATIO))))
    return np.unique(np.concatenate([np.arange(1.0, MAX_CONSECUTIVE_COUNT), np.ceil(MAX_CONSECUTIVE_COUNT * COUNT_RATIO**ratios)]))


def _keep_c(strips: _Strips, whole_tiles: bool = True) -> Array:
    """Bytes if a tile of C stays: A streams once per strip, B once per tile."""
    p, (a, b, c) = strips.product, strips.product.element_bytes
    max_rows = (strips.capacity - strips.patch * b - 2 * a) / (strips.width * c)
    return p.a_bytes * strips.count + p.b_bytes * strips.rim_factor * _passes_of_b(strips, max_rows, whole_tiles) + p.c_bytes


def _keep_a(strips: _Strips) -> Array:
    """Bytes if rows of A stay: B streams once per set of rows."""
    p, (a, b, c) = strips.product, strips.product.element_bytes
    max_rows = (strips.capacity - strips.patch * b) / (p.k * p.density * a + strips.width * c)
    return p.a_bytes + p.b_bytes * strips.rim_factor * _passes_of_b(strips, max_rows) + p.c_bytes


def _keep_b(strips: _Strips) -> Array:
    """Bytes if the needed part of a strip of B stays while the rows of A stream; infinite if it does not fit."""
    p, (a, b, c) = strips.product, strips.product.element_bytes
    occupied = p.k * p.needed_upper / p.uses * strips.patch * b + strips.width * c + 2 * a
    moved = p.a_bytes * strips.count + p.b_bytes * p.needed_upper * strips.rim_factor + p.c_bytes
    return np.where(occupied <= strips.capacity, moved, np.inf)


def _passes_of_b(strips: _Strips, max_rows: Array, whole_tiles: bool = True) -> Array:
    """How often B is read by tiles of at most `max_rows` rows, each of which reads what its nonzeros need; infinite if no row fits.

    Rows that choose columns together stay together: a tile is a number of whole stripes, or whole bands of one stripe, or rows of one band.
    """
    p, rows = strips.product, np.clip(np.floor(max_rows), 0, strips.rows)
    stripe = np.clip(p.stripe_rows, 1, np.maximum(strips.rows, 1))
    band = np.clip(p.band_rows, 1, stripe)
    stripes, bands = np.where(stripe > 1, np.ceil(strips.rows / stripe), strips.rows), np.ceil(stripe / band)
    uses, limit = p.max_uses_per_side**2, p.needed_upper
    band_share = p.band_share * any_of(p.element_share, band)
    stripe_share = p.stripe_share * any_of(band_share, bands)
    passes = _passes(stripes, np.floor(rows / stripe), lambda number: any_of(stripe_share, number * uses), limit, whole_tiles)
    if np.any(stripe > 1):
        of_stripe = _passes(bands, np.floor(rows / band), lambda number: any_of(p.stripe_share * any_of(band_share, number), uses), limit)
        passes = np.where(rows < stripe, stripes * of_stripe, passes)
    if np.any(band > 1):
        kept_share = p.stripe_share * p.band_share
        of_band = _passes(band, rows, lambda number: any_of(kept_share * any_of(p.element_share, number), uses), limit)
        passes = np.where(rows < band, stripes * bands * of_band, passes)
    return np.where(rows < np.minimum(strips.rows, 1), np.inf, passes)


def _passes(total: Array, per_tile: Array, share: Callable[[Array], Array], limit: Array, whole_tiles: bool = True) -> Array:
    """How often B is read by `total` parts of A in tiles of `per_tile` parts: the sum over tiles of the `share` of B that a tile needs."""
    size = np.maximum(per_tile, 1)
    full_tiles = np.floor(total / size) if whole_tiles else total / size
    rest = np.maximum(total - full_tiles * size, 0)
    return full_tiles * np.minimum(share(size), limit) + np.minimum(share(rest), limit)
