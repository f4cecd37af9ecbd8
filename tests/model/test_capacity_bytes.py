"""Bytes of a product against on-chip capacity: published bounds, cases by hand, plain loops, a random matrix, and laws."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.model.capacity import Product, attainable_bytes, lower_bound_bytes, output_stationary_bytes


def matrix(m: Any, k: Any, n: Any, density: Any = 1.0, element_bytes: tuple[float, ...] = (1, 1, 1)) -> Product:
    """A product of matrices A, B and C with so many bytes an element."""
    a, b, c = element_bytes
    return Product(m, k, n, a * density * m * k, b * k * n, c * m * n, density=density)


def convolution(rows, channels, side, kernel, stride=1, samples=1, density=1.0) -> Product:
    """A padded square convolution in words, with an output of `side` x `side`."""
    k, n = channels * kernel**2, samples * side**2
    inputs = samples * channels * (side * stride) ** 2
    uses = k * n / inputs
    return Product(
        rows,
        k,
        n,
        density * rows * k,
        inputs,
        rows * n,
        density=density,
        uses=uses,
        max_uses_per_side=math.ceil(kernel / stride),
        sample_columns=side**2,
    )


SIZES = np.array([514, 8322, 65538])
SPARSE = matrix(512, 512, 256, density=0.1)


def test_a_sparse_product_moves_the_bytes_of_the_formula():
    """m = k = 512, n = 256, density 0.1, in words: the smooth formula exactly, whole tiles at most 5% above it."""
    assert np.round(output_stationary_bytes(SPARSE, SIZES, whole_tiles=False)).tolist() == [2_032_599, 599_895, 314_829]
    assert np.round(lower_bound_bytes(SPARSE, SIZES)).tolist() == [590_981, 288_358, 288_358]
    whole_tiles = output_stationary_bytes(SPARSE, SIZES)
    assert np.all(whole_tiles >= [2_032_599, 599_894, 314_829])
    assert np.all(whole_tiles <= 1.05 * np.array([2_032_599, 599_895, 314_829]))


def test_every_byte_moves_once_if_one_operand_fits():
    """A has 26,214 nonzeros, which fit into 65,538 words: the bound is attainable."""
    assert attainable_bytes(SPARSE, 65538) == lower_bound_bytes(SPARSE, 65538) == SPARSE.compulsory_bytes


def test_the_lower_bound_holds_for_a_short_reduction():
    """k = 1, m = n = 7 in 6 words takes at least 70 (exhaustive search); 2 mnk / sqrt(S) + mn would claim 89."""
    outer = matrix(7, 1, 7)
    assert lower_bound_bytes(outer, 6) <= 70 <= attainable_bytes(outer, 6)


def test_the_capacity_that_makes_a_product_compute_bound():
    """V100, fp16: 125 TFLOP/s over 900 GB/s needs (2 B x 125e12 / 900e9)^2 words, 154 KB."""
    n = 1e6
    large = matrix(n, n, n, element_bytes=(2, 2, 2))
    assert lower_bound_bytes(large, 154.3e3) / 900e9 == pytest.approx(2 * n**3 / 125e12, rel=1e-3)


def test_a_convolution_has_more_reuse_than_its_unrolled_matrix():
    """3x3, stride 1: the part of the lower bound that depends on the capacity is a third."""
    conv = convolution(256, 256, 28, 3)
    unrolled = matrix(conv.m, conv.k, conv.n)
    assert lower_bound_bytes(conv, 4096) == pytest.approx((lower_bound_bytes(unrolled, 4096) + 2 * 4096) / 3 - 2 * 4096)
    assert attainable_bytes(conv, 4096) < attainable_bytes(unrolled, 4096)


def best_schedule(m: int, k: int, n: int, capacity: int) -> float:
    """Words moved by the best tile of any of the three schedules, by trying all tiles."""
    moved = [m * n * k * 4]
    for a, b in itertools.product(range(1, m + 1), range(1, n + 1)):
        tall, wide = math.ceil(m / a), math.ceil(n / b)
        if a * b + b + 2 <= capacity:
            moved.append(k * n * tall + m * k * wide + m * n)
        if a * k + a * b + b <= capacity:
            moved.append(k * n * tall + m * k + m * n)
        if k * b + b + 2 <= capacity:
            moved.append(k * n + m * k * wide + m * n)
    return max(min(moved), m * k + k * n + m * n)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 200))
def test_the_best_tile_of_a_dense_product_is_found(m, k, n, capacity):
    assert attainable_bytes(matrix(m, k, n), capacity) == pytest.approx(best_schedule(m, k, n, capacity), rel=1e-12)


def test_a_random_matrix_moves_the_expected_bytes():
    """The reads of the best tile of one random matrix, counted, are within 1% of the expectation."""
    m, k, n, density, capacity = 300, 200, 96, 0.05, 2000
    mask = np.random.default_rng(0).random((m, k)) < density
    counted = []
    for b in range(1, n + 1):
        a = (capacity - 2) // b - 1
        touched = sum(mask[row : row + a].any(axis=0).sum() for row in range(0, m, a)) if a else math.inf
        counted.append(n * touched + mask.sum() * math.ceil(n / b) + m * n)
    assert output_stationary_bytes(matrix(m, k, n, density), capacity) == pytest.approx(min(counted), rel=0.01)


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
def test_attainable_bytes_are_above_the_bound_and_more_capacity_never_moves_more(product, capacities):
    capacity = np.sort(capacities)
    lower, attainable = lower_bound_bytes(product, capacity), attainable_bytes(product, capacity)
    assert np.all(product.compulsory_bytes <= lower)
    assert np.all(lower <= attainable * (1 + 1e-12))
    for moved in (lower, attainable, output_stationary_bytes(product, capacity)):
        assert np.all(moved[1:] <= moved[:-1] * (1 + 1e-12))


@given(st.one_of(matrices, convolutions))
def test_a_capacity_for_everything_moves_compulsory_bytes_only(product):
    capacity = 4 * product.compulsory_bytes * product.max_uses_per_side**2 + 1e3
    assert attainable_bytes(product, capacity) == lower_bound_bytes(product, capacity) == product.compulsory_bytes


@given(st.lists(st.tuples(sizes, sizes, sizes, densities), min_size=1, max_size=5), st.lists(st.floats(16, 1e9), min_size=1, max_size=4))
def test_arrays_of_products_and_capacities_equal_single_evaluations(rows, capacities):
    m, k, n, density = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    for evaluate in (lower_bound_bytes, attainable_bytes):
        at_once = evaluate(matrix(m, k, n, density), np.array(capacities))
        single = [[float(evaluate(matrix(*row), capacity)) for capacity in capacities] for row in rows]
        np.testing.assert_allclose(at_once, single, rtol=1e-12)
