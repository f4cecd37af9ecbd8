"""Layers as rows and as columns, and layers of a batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.networks.layers import LayerArrays, LayerRow


def experts(tokens: float, experts: int = 8, active: int = 2) -> LayerArrays:
    return LayerArrays.from_rows([LayerRow(name="e", kind="gemm", m=6, k=4, n=tokens, experts=experts, active=active)])


def test_one_token_uses_its_own_experts_and_many_use_all():
    one, many = experts(1).at_batch(1), experts(1).at_batch(10_000)
    assert (one.count[0], one.n[0]) == (pytest.approx(2), pytest.approx(1))
    assert (many.count[0], many.n[0]) == (pytest.approx(8), pytest.approx(2500))


@given(st.integers(1, 5000), st.integers(1, 300), st.integers(1, 16), st.data())
def test_routing_conserves_work(tokens, batch, count, data):
    active = data.draw(st.integers(1, count))
    layers = experts(tokens, count, active)
    run = layers.at_batch(batch)
    assert (run.m * run.k * run.n * run.count).sum() == pytest.approx(layers.macs * batch)
    assert active - 1e-9 <= run.count[0] <= count + 1e-9
    assert layers.parameters == 6 * 4 * count


def test_expected_experts_agree_with_random_routing():
    rng = np.random.default_rng(0)
    tokens = 5
    counts = [len({e for _ in range(tokens) for e in rng.choice(8, 2, replace=False)}) for _ in range(4000)]
    standard_error = np.std(counts) / np.sqrt(len(counts))
    assert experts(tokens).at_batch(1).count[0] == pytest.approx(np.mean(counts), abs=4 * standard_error)


def test_each_sample_has_its_own_attention_operands():
    layers = LayerArrays.from_rows([LayerRow(name="qk", kind="matmul", m=128, k=64, n=32, count=12)])
    run = layers.at_batch(3)
    assert (run.count[0], run.n[0], run.input_elements[0]) == (36, 32, 64 * 32 + 128 * 64)


@pytest.mark.parametrize("name", ["resnet50", "transformer", "mixtral-8x7b", "swin-t"])
def test_columns_and_rows_are_converted_without_loss(name):
    layers = dse.load_workload(name).layers
    again = LayerArrays.from_rows(layers.to_rows())
    for column in ("m", "k", "n", "count", "groups", "input_elements", "output_elements", "prunable", "experts", "other_parameters"):
        np.testing.assert_array_equal(getattr(again, column), getattr(layers, column))
    assert not any(row.output_elements for row in layers.to_rows() if row.kind == "conv")


def test_parameters_include_biases_and_tables():
    rows = [
        LayerRow(name="table", kind="elementwise", input_elements=8, output_elements=8, other_parameters=1000),
        LayerRow(name="fc", kind="gemm", m=10, k=8, n=1, count=3, other_parameters=10),
    ]
    assert LayerArrays.from_rows(rows).parameters == 1000 + 3 * (80 + 10)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"kind": "gemm", "m": 4, "k": 4}, "needs m, k and n"),
        ({"kind": "gemm", "m": 4, "k": 4, "n": 1, "groups": 3}, "do not divide"),
        ({"kind": "elementwise", "input_elements": 4}, "moves elements"),
        ({"kind": "conv", "m": 4, "k": 4, "n": 1}, "its own input"),
        ({"kind": "gemm", "m": 4, "k": 4, "n": 1, "experts": 2, "active": 3}, "cannot be active"),
    ],
)
def test_impossible_rows_are_refused(row, message):
    with pytest.raises(ValueError, match=message):
        LayerRow(name="x", **row)
