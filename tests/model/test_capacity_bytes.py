"""Bytes against on-chip capacity: published bounds, hand-computed cases, a plain loop, a drawn matrix, and what must always hold."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.model.capacity import Product, attainable, bound, output_stationary


def matrix(m, k, n, density=1.0, wide=(1, 1, 1)) -> Product:
    """A product of matrices, elements `wide` bytes each."""
    of_a, of_b, of_c = wide
    return Product(m, k, n, of_a * density * m * k, of_b * k * n, of_c * m * n, density=density)


def convolution(rows, channels, side, kernel, stride=1, samples=1, density=1.0) -> Product:
    """A padded square convolution in words; `side` of the output."""
    k, n = channels * kernel**2, samples * side**2
    inputs = samples * channels * (side * stride) ** 2
    reach = math.ceil(kernel / stride)
    uses = k * n / inputs
    return Product(rows, k, n, density * rows * k, inputs, rows * n, density=density, uses=uses, reach=reach, sample=side**2)


SIZES = np.array([514, 8322, 65538])
SPARSE = matrix(512, 512, 256, density=0.1)


def test_a_sparse_product_moves_what_the_formula_says():
    """m = k = 512, n = 256, density 0.1, in words: the smooth formula to the word, whole tiles above it."""
    assert np.round(output_stationary(SPARSE, SIZES, whole_tiles=False)).tolist() == [2_032_599, 599_895, 314_829]
    assert np.round(bound(SPARSE, SIZES)).tolist() == [590_981, 288_358, 288_358]
    whole = output_stationary(SPARSE, SIZES)
    assert np.all(whole >= [2_032_599, 599_894, 314_829]) and np.all(whole <= 1.05 * np.array([2_032_599, 599_895, 314_829]))


def test_where_one_operand_fits_every_byte_moves_once():
    """A has 26,214 nonzeros, which fit 65,538 words: no schedule does better, one does as well."""
    assert attainable(SPARSE, 65538) == bound(SPARSE, 65538) == SPARSE.compulsory


def test_a_bound_holds_where_the_reduction_is_short():
    """k = 1, m = n = 7 in 6 words takes at least 70 (exhaustive search); 2 mnk / sqrt(S) + mn would claim 89."""
    outer = matrix(7, 1, 7)
    assert bound(outer, 6) <= 70 <= attainable(outer, 6)


def test_the_capacity_that_lets_a_product_be_bound_by_compute():
    """V100, fp16: 125 TFLOP/s over 900 GB/s needs (2 B x 125e12 / 900e9)^2 words, 154 KB."""
    n = 1e6
    large = matrix(n, n, n, wide=(2, 2, 2))
    assert bound(large, 154.3e3) / 900e9 == pytest.approx(2 * n**3 / 125e12, rel=1e-3)


def test_a_convolution_has_more_reuse_than_the_matrix_that_it_unrolls_to():
    """3x3, stride 1: the lower bound is a third; and 8 KB hold a tile with its rim."""
    conv = convolution(256, 256, 28, 3)
    unrolled = matrix(conv.m, conv.k, conv.n)
    assert bound(conv, 4096) == pytest.approx((bound(unrolled, 4096) + 2 * 4096) / 3 - 2 * 4096)
    assert attainable(conv, 4096) < attainable(unrolled, 4096)


def loop(m: int, k: int, n: int, capacity: int) -> float:
    """The best tile of each schedule, in words, one by one."""
    found = [m * n * k * 4]
    for a, b in itertools.product(range(1, m + 1), range(1, n + 1)):
        tall, wide = math.ceil(m / a), math.ceil(n / b)
        if a * b + b + 2 <= capacity:
            found.append(k * n * tall + m * k * wide + m * n)
        if a * k + a * b + b <= capacity:
            found.append(k * n * tall + m * k + m * n)
        if k * b + b + 2 <= capacity:
            found.append(k * n + m * k * wide + m * n)
    return max(min(found), m * k + k * n + m * n)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 200))
def test_the_best_tile_of_a_dense_product_is_found(m, k, n, capacity):
    assert attainable(matrix(m, k, n), capacity) == pytest.approx(loop(m, k, n, capacity), rel=1e-12)


def test_a_drawn_matrix_moves_what_is_expected():
    """Strips and tiles of one random matrix, its reads counted, against the expectation at the tile that is best: within 1%."""
    m, k, n, density, capacity = 300, 200, 96, 0.05, 2000
    mask = np.random.default_rng(0).random((m, k)) < density
    counted = []
    for b in range(1, n + 1):
        a = (capacity - 2) // b - 1
        touched = sum(mask[row : row + a].any(axis=0).sum() for row in range(0, m, a)) if a else math.inf
        counted.append(n * touched + mask.sum() * math.ceil(n / b) + m * n)
    assert output_stationary(matrix(m, k, n, density), capacity) == pytest.approx(min(counted), rel=0.01)


sizes = st.integers(1, 5000)
densities = st.floats(0.001, 1)
matrices = st.builds(matrix, sizes, sizes, sizes, densities, st.tuples(*[st.sampled_from([0.5, 1, 2, 4, 6])] * 3))
convolutions = st.builds(
    convolution,
    sizes,
    sizes,
    st.integers(1, 60),
    st.sampled_from([1, 2, 3, 5, 7, 11, 16]),
    st.integers(1, 16),
    st.integers(1, 64),
    densities,
)


@given(st.one_of(matrices, convolutions), st.lists(st.floats(16, 1e9), min_size=2, max_size=20))
def test_bounds_are_sound_and_more_capacity_never_moves_more(product, capacities):
    capacity = np.sort(capacities)
    least, reached = bound(product, capacity), attainable(product, capacity)
    assert np.all(product.compulsory <= least) and np.all(least <= reached * (1 + 1e-12))
    for moved in (least, reached, output_stationary(product, capacity)):
        assert np.all(moved[1:] <= moved[:-1] * (1 + 1e-12))


@given(st.one_of(matrices, convolutions))
def test_with_room_for_everything_only_compulsory_bytes_move(product):
    room = 4 * product.compulsory * product.reach**2 + 1e3
    assert attainable(product, room) == bound(product, room) == product.compulsory


@given(st.lists(st.tuples(sizes, sizes, sizes, densities), min_size=1, max_size=5), st.lists(st.floats(16, 1e9), min_size=1, max_size=4))
def test_many_products_at_many_capacities_are_each_of_them_alone(rows, capacities):
    m, k, n, density = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    for moved in (bound, attainable):
        together = moved(matrix(m, k, n, density), np.array(capacities))
        alone = [[float(moved(matrix(*row), capacity)) for capacity in capacities] for row in rows]
        np.testing.assert_allclose(together, alone, rtol=1e-12)
