"""Saliencies of weights, from files and from the assumed distribution."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import comb
from scipy.stats import halfnorm

from dse.accuracy.estimate import measure_shares
from dse.accuracy.retained import retained_saliency
from dse.accuracy.saliency import layer_saliency, read_network_weights
from dse.accuracy.weight_distribution import TYPICAL, WeightDistribution, sampled_layers, scale_spread
from dse.base import catalog
from dse.base.errors import InputError
from dse.readers.parsed_network import WeightTensor
from dse.sparsity.grammar import parse
from dse.sparsity.pruned_pattern import parse_pruned_patterns
from dse.workload import tables
from tests.accuracy.networks import random_weights, write_network, write_weights


def tensor(array: np.ndarray) -> WeightTensor:
    return WeightTensor(array.shape, "fp32", lambda: iter([array[:1], array[1:]]))


def share_of_order_statistics(n: int, m: int, power: int) -> float:
    """Expected share of sum |w|^power in the n largest of m independent normal weights, by integrating order statistics."""
    mean, _ = quad(lambda x: x**power * halfnorm.pdf(x), 0, 12)
    top = 0.0
    for rank in range(1, n + 1):  # the rank-th largest
        weight = rank * comb(m, rank)
        top += quad(
            lambda x, rank=rank, weight=weight: x**power * weight * halfnorm.cdf(x) ** (m - rank) * halfnorm.sf(x) ** (rank - 1) * halfnorm.pdf(x),
            0, 12,
        )[0]  # fmt: skip
    return top / (m * mean)


@pytest.mark.parametrize(("nm", "power"), list(product([(2, 4), (1, 4), (4, 8), (2, 8)], [1, 2])))
def test_sampled_weights_keep_what_order_statistics_say(nm, power):
    weights = WeightDistribution(0.0, 0.0).sample(512, 1024)
    scores = np.abs(weights) ** power
    kept = retained_saliency(scores, parse("{}:{}".format(*nm)), [1 - nm[0] / nm[1]])[0] / scores.sum(dtype=float)
    assert kept == pytest.approx(share_of_order_statistics(*nm, power), abs=0.002)


@pytest.mark.parametrize(("spread", "density"), [(0.1, 0.5), (0.3, 0.2)])
def test_the_spread_of_rows_is_recovered_from_a_pruned_sample(spread, density):
    weights = np.abs(WeightDistribution(spread, 0.0).sample(4000, 800, seed=1))
    counts = (weights > np.quantile(weights, 1 - density)).sum(axis=1)
    assert scale_spread(density, counts.std(), 800) == pytest.approx(spread, rel=0.05)


def test_independent_weights_have_no_spread():
    assert scale_spread(0.5, np.sqrt(800) / 2, 800) == pytest.approx(0, abs=1e-6)


def test_the_typical_spreads_are_the_medians_over_published_masks():
    rows, columns = [], []
    for name in ("resnet50", "transformer"):
        path = catalog.find_path("workloads", name) / "variants" / "magnitude_pruning.csv"
        with Path(path).open(newline="") as file:
            for row in csv.DictReader(file):
                if row["sparsity"] == "0.5":
                    nnz, in_row, in_column = (float(row[key]) for key in ("nnz", "row_mean", "column_mean"))
                    m, k = nnz / in_row, nnz / in_column
                    rows.append(scale_spread(in_row / k, float(row["row_std"]), round(k)))
                    columns.append(scale_spread(in_column / m, float(row["column_std"]), round(m)))
    assert len(rows) > 80
    assert (TYPICAL.row_spread, TYPICAL.column_spread) == pytest.approx((np.median(rows), np.median(columns)), abs=5e-4)


def test_saliencies_by_hand():
    weights = np.array([[1.0, -2.0], [3.0, -4.0]], np.float32)
    assert layer_saliency(tensor(weights), "l1").tolist() == [[1, 2], [3, 4]]
    assert layer_saliency(tensor(weights), "l2").tolist() == [[1, 4], [9, 16]]
    hessian = np.array([[1.0, 0.5], [0.0, 2.0]], np.float32)
    assert layer_saliency(tensor(weights), "second_order", tensor(hessian)).tolist() == [[1, 2], [0, 32]]
    inputs = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, 2.0]], np.float32)  # mean squares 1 and 8/3
    assert layer_saliency(tensor(weights), "second_order", tensor(inputs)) == pytest.approx(np.array([[1, 32 / 3], [9, 128 / 3]]))


def test_columns_of_a_convolution_run_over_its_kernel_then_over_channels():
    kernel = np.arange(1.0, 17.0, dtype=np.float32).reshape(1, 2, 2, 4).repeat(2, axis=0)  # [m, channel, height, width]
    saliency = layer_saliency(tensor(kernel), "l1")
    assert saliency[0, :4].tolist() == [1, 9, 2, 10]
    inputs = np.stack([np.full((3, 3), 1.0), np.full((3, 3), 2.0)])[None].repeat(2, axis=0)  # [sample, channel, height, width]
    assert layer_saliency(tensor(kernel), "second_order", tensor(inputs))[0, :4].tolist() == [1, 4 * 81, 4, 400]


@pytest.mark.parametrize("curvature", [np.ones((3, 5)), -np.ones((2, 2)), np.full((2, 2), np.nan)])
def test_a_curvature_that_is_wrong_is_an_error(curvature):
    with pytest.raises(InputError, match=r"fits no weights|negative, NaN or infinite"):
        layer_saliency(tensor(np.ones((2, 2), np.float32)), "second_order", tensor(curvature))


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_formats_give_the_same_shares_as_the_arrays(ending, tmp_path):
    workload = tables.load(write_network(tmp_path))
    path, arrays = tmp_path / f"weights.{ending}", random_weights()
    if ending == "npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        pytest.importorskip("safetensors.numpy").save_file(arrays, path)
    requests = parse_pruned_patterns(["2:4", "block:4x4@0.5"])
    shares, basis = measure_shares(workload, requests, path)
    conv = np.abs(np.moveaxis(arrays["conv.weight"], 1, -1).reshape(32, -1))
    fc = np.abs(arrays["fc.weight"])
    for request, share in zip(requests, shares.shares, strict=True):
        kept = [retained_saliency(s, request.pattern, [0.5])[0] / s.sum(dtype=float) * s.size for s in (conv, fc)]
        assert share == pytest.approx(sum(kept) / (conv.size + fc.size), rel=1e-6)
    assert basis == f"l1 of weights.{ending}"


def test_the_scale_of_a_layer_and_the_order_of_requests_do_not_matter(tmp_path):
    workload = tables.load(write_network(tmp_path))
    texts = ["2:4", "1:4", "row@0.5"]
    shares, _ = measure_shares(workload, parse_pruned_patterns(texts), write_weights(tmp_path))
    scaled, _ = measure_shares(
        workload, parse_pruned_patterns(texts[::-1]), write_weights(tmp_path, fc=1000 * random_weights()["fc.weight"])
    )
    assert scaled.shares[::-1] == pytest.approx(shares.shares, rel=1e-6)


def test_every_broken_layer_is_reported(tmp_path):
    workload = tables.load(write_network(tmp_path))
    nan = random_weights()["fc.weight"] * np.nan
    path = write_weights(tmp_path, fc=nan, conv=np.full((32, 16, 3, 3), np.inf, np.float32))
    with pytest.raises(InputError) as error:
        measure_shares(workload, parse_pruned_patterns(["2:4"]), path)
    assert {problem.key for problem in error.value.problems} == {"conv", "fc"}
    assert {problem.file for problem in error.value.problems} == {path}


def test_missing_and_misshaped_layers_are_reported(tmp_path):
    workload = tables.load(write_network(tmp_path))
    with pytest.raises(InputError, match="fc: the weights of this layer are missing"):
        read_network_weights(workload, write_weights(tmp_path, fc=None))
    with pytest.raises(InputError, match="64 x 97 weights for a layer of 64 x 96"):
        read_network_weights(workload, write_weights(tmp_path, fc=np.ones((64, 97), np.float32)))
    with pytest.raises(InputError, match="no such file"):
        read_network_weights(workload, tmp_path / "none.npz")
    with pytest.raises(InputError, match="go together"):
        read_network_weights(workload, write_weights(tmp_path), "second_order")


def test_without_weights_there_is_no_second_order_saliency():
    with pytest.raises(InputError, match="without weights there is no curvature"):
        list(sampled_layers([(1.0, 8, 8)], "second_order"))
