"""Speedup at iso-accuracy, compared with a loop over every design and variant."""

import itertools

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.sweeping.accuracy_losses import accuracy_drop
from dse.sweeping.iso_speedup import iso_speedup

AXES = "dtype: fp16\naxes: {memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 4 TB/s], units.tensor.runs.sparse_24.enabled: [true, false]}"


@pytest.fixture
def results(edited):
    return dse.sweep(edited("small.yaml", ("dtype: fp16", AXES)))


@pytest.mark.parametrize("drop", [0.0, 0.5, 1.0, 6.0])
def test_the_best_speedup_is_that_of_a_loop(results, drop):
    found = iso_speedup(results, drop)
    lost = results.dense_accuracy.values - results.accuracy.values
    dims = [dim for dim in results.speedup.dims if dim != "variant"]
    for place in itertools.product(*(range(results.sizes[dim]) for dim in dims)):
        here = dict(zip(dims, place, strict=True))
        candidates = {-1: 1.0} | {n: float(results.speedup.isel({**here, "variant": n})) for n in range(len(lost)) if lost[n] <= drop}
        cell = found.isel(here).sel(workload="net")
        assert float(cell.speedup) == max(candidates.values())
        assert candidates[int(cell.best)] == float(cell.speedup)


def test_the_best_variant_is_described_the_dense_network_too(results):
    found = iso_speedup(results, 0.0)
    assert (found.speedup == 1).all()
    assert (found.method.sel(variant=found.best) == "dense").all()
    found = iso_speedup(results, 6.0)
    assert set(np.unique(found.method.sel(variant=found.best))) <= {"dense", "pruned", "semi"}
    assert found.attrs["accuracy_drop"] == 6
    assert found.speedup.attrs["units"] == "1"


def test_more_tolerance_is_never_slower(results):
    speedups = [iso_speedup(results, drop).speedup.values for drop in (0.0, 0.5, 1.0, 6.0)]
    for less, more in itertools.pairwise(speedups):
        assert (more >= less).all()
        assert (less >= 1).all()


def test_a_variant_without_an_accuracy_is_never_chosen(results):
    assert np.isnan(accuracy_drop(results).sel(variant=results.method == "blocky")).all()
    unknown = results.method.values.tolist().index("blocky")
    assert not (iso_speedup(results, 100.0).best == unknown).any()


def test_losses_are_against_the_dense_network_of_each_source(edited, folder):
    edited("net/accuracy.csv", ("semi,2:4,0.5,75.5,76", "semi,2:4,0.5,75.5,77"))
    lost = accuracy_drop(dse.sweep(folder / "small.yaml"))
    np.testing.assert_allclose(lost, [1, 6, 1.5, np.nan])
    relative = accuracy_drop(dse.sweep(folder / "small.yaml"), relative=True)
    np.testing.assert_allclose(relative, [100 / 76, 600 / 76, 150 / 77, np.nan])


def test_a_metric_that_falls(edited, folder):
    edited("net/workload.yaml", ("direction: higher", "direction: lower"))
    edited("net/accuracy.csv", ("75,76", "77,76"), ("70,76", "80,76"), ("75.5,76", "76.5,76"))
    results = dse.sweep(folder / "small.yaml")
    np.testing.assert_allclose(accuracy_drop(results), [1, 4, 0.5, np.nan])
    assert not np.isin(iso_speedup(results, 1.0).best, [1, 3]).any()


def test_each_workload_by_itself_and_the_dense_variant_at_one(edited):
    both = "./net: {methods: [dense]}\n  resnet50: {methods: [magnitude_pruning]}"
    found = iso_speedup(dse.sweep(edited("small.yaml", ("./net: {methods: all}", both))), 1.0)
    assert list(found.workload.values) == ["net", "resnet50"]
    np.testing.assert_allclose(found.speedup.sel(workload="net"), 1)
    assert (found.speedup.sel(workload="resnet50") >= 1).all()


def test_the_published_figure_of_the_readme():
    """At one point of accuracy lost: 1.27x and 1.13x on an A100, 1.21x and dense on an H100, at batch 1 and 32."""
    found = iso_speedup(dse.sweep("sparsity_roofline"), 1.0).speedup.sel(workload="resnet50").squeeze("dtype")
    np.testing.assert_allclose(found.sel(batch=[1, 32]), [[1.27, 1.13], [1.21, 1.0]], atol=0.005)


def test_invalid_requests_are_refused(results):
    with pytest.raises(InputError, match="the dataset has no speedup"):
        iso_speedup(results.drop_vars("speedup"))
    with pytest.raises(InputError, match="an accuracy drop of -1 is out of range"):
        iso_speedup(results, -1.0)
