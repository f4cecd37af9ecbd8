"""Bytes that a product moves, against the on-chip capacity S that it has for reuse.

For C[m, n] = A[m, k] B[k, n] with G multiply-adds and p bytes an element two figures, never to be mixed up:

    bound        Q >= max(compulsory, 2 G sqrt(p_A p_B p_C) / sqrt(rho S) - 2 S)   no schedule moves less
    attainable   the best of three schedules that keep a tile of C, rows of A or columns of B    one that is known does

The bound is that of Smith et al. (2017, arXiv 1702.02017) in bytes, with rho, the most uses that a row of A has for one
element of B: 1 for a matrix, ceil(R / stride) ceil(S / stride) for a convolution (Chen et al. 2020, arXiv 1911.05662).
Schedules manage the memory as a scratchpad; a cache that evicts by recency moves more. Partial sums are as wide as results.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Array = Float[np.ndarray, "..."] | float

EXACT, APART = 64, 1.1  # strips of B that are tried: each number up to 64, then 10% apart, which costs below 1%


@dataclass(frozen=True, eq=False)
class Product:
    """One product per entry; fields are arrays that broadcast, with each other and with a capacity.

    `a`, `b`, `c`: bytes of the operands and the result, each moved once (what a sparse A stores of its positions belongs to
    `a`). A random A keeps `density` of m x k. A grouped one has `groups` blocks of m / groups rows, each with a B of its own.

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

    @property
    def sizes(self) -> tuple[Any, Any, Any]:
        """Bytes of one element of A, B and C."""
        of_a = self.a / np.maximum(self.density * self.m * self.k, 1e-300)
        return of_a, self.b * self.uses / (self.k * self.n * self.groups), self.c / (self.m * self.n)

    @property
    def compulsory(self) -> Any:
        """Each byte once [B]."""
        return self.a + self.b + self.c


def bound(product: Product, capacity: Any) -> Array:
    """Bytes that every schedule moves to and from a memory of `capacity` bytes [B]."""
    p = product
    multiply_adds = p.density * p.m * p.k * p.n * p.done
    reused = 2 * multiply_adds * np.sqrt(np.prod(np.broadcast_arrays(*p.sizes), axis=0)) / (p.reach * np.sqrt(capacity))
    return np.maximum(p.compulsory, reused - 2 * np.asarray(capacity))


def attainable(product: Product, capacity: Any) -> Array:
    """Bytes that the best of three schedules moves [B]; with room for none of them, every operand of every multiply-add."""
    lasting = _Strips.of(product, capacity)
    nothing_kept = product.density * product.m * product.k * product.n * (sum(product.sizes) + product.sizes[2])
    found = [way.min(axis=-1) for way in (_keep_c(lasting), _keep_a(lasting), _keep_b(lasting))]
    return np.maximum(product.compulsory, np.minimum(np.minimum.reduce(found), nothing_kept))


def output_stationary(product: Product, capacity: Any, whole_tiles: bool = True) -> Array:
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
    """A strip of B stays while the rows of A pass."""
    p, (of_a, of_b, of_c) = strips.product, strips.product.sizes
    held = p.k / p.uses * strips.patch * of_b + strips.width * of_c + 2 * of_a
    return np.where(held <= strips.capacity, p.a * strips.count + p.b * strips.rim + p.c, np.inf)


def _passes(strips: _Strips, high: Array, whole_tiles: bool = True) -> Array:
    """How often B passes by tiles of `high` rows, each of which reads what its nonzeros need: 1 - (1 - d)^rows of it."""
    rows = np.clip(np.floor(high), 0, strips.rows)
    fit = np.maximum(rows, 1)
    full = np.floor(strips.rows / fit) if whole_tiles else strips.rows / fit
    return np.where(rows < np.minimum(strips.rows, 1), np.inf, full * _needed(strips, fit) + _needed(strips, strips.rows - full * fit))


def _needed(strips: _Strips, rows: Array) -> Array:
    p = strips.product
    return -np.expm1(np.maximum(rows, 0) * p.reach**2 * np.log1p(-np.minimum(p.density, 1 - 1e-16)))
