"""`dse.evaluate`"""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError


def test_a_dataset_says_what_it_was_asked(chip, net):
    found = dse.evaluate(chip, net.variant("pruned", 0.9), batch=4, overlap="none")
    assert found.attrs | {"accelerator": "chip", "workload": "net", "batch": 4, "dtype": "fp16", "overlap": "none"} == found.attrs
    assert found.sizes == {"layer": 5}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"batch": 0}, "batch: 0 is out of range; write a number of at least 1"),
        ({"dtype": "float16"}, "dtype: unknown dtype 'float16'; did you mean 'fp16'?"),
        ({"dtype": "int4"}, "'chip' has no unit that computes in 'int4'; use one of fp16, fp32, int8, or give a unit a peak for 'int4'"),
        ({"fidelity": "slow"}, "options.fidelity: 'slow' is not known here; write one of 'sol', 'r3', 'capacity' or 'calibrated'"),
        ({"fidelty": "sol"}, "options.fidelty: unknown key 'fidelty'; did you mean 'fidelity'?"),
    ],
)
def test_bad_questions(chip, net, asked, expected):
    with pytest.raises(InputError) as caught:
        dse.evaluate(chip, net.dense, **asked)
    assert str(caught.value) == expected


def test_what_is_named_is_what_is_loaded_and_a_network_by_itself_is_dense(chip, net, folder):
    expected = dse.evaluate(chip, net.dense, batch=2)
    for device, network in ((chip, net), (folder / "chip.yaml", folder / "net"), (str(folder / "chip.yaml"), str(folder / "net"))):
        assert dse.evaluate(device, network, batch=2).identical(expected)
    named = dse.evaluate("a100-sxm4-80gb", "resnet50")
    assert named.identical(dse.evaluate(dse.load_accelerator("a100-sxm4-80gb"), dse.load_workload("resnet50").dense))


@pytest.mark.parametrize(
    ("device", "network", "told"),
    [
        ("a100-sxm4", "resnet5", "accelerator: 'a100-sxm4' is not an accelerator of the catalogue; did you mean 'a100-sxm4-40gb'"),
        ("a100-sxm4", "resnet5", "variant: 'resnet5' is not a workload of the catalogue; did you mean 'resnet50'?"),
        ("a100-sxm4", "resnet5", "batch: 0 is out of range; write a number of at least 1"),
        ("./chip.yml", "./net", "accelerator: 'chip.yml' does not exist; did you mean 'chip.yaml'?"),
        ("./chip.yaml", "./chip.yaml", "chip.yaml"),
        ("./chip.yaml", {"net": "dense"}, "net: unknown key 'net'; did you mean 'network'?"),
    ],
)
def test_what_is_neither_loaded_nor_found_is_told_all_at_once(folder, monkeypatch, device, network, told):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError) as caught:
        dse.evaluate(device, network, batch=0)
    assert told in str(caught.value)


def test_without_overlap_each_resource_is_charged_its_own_time(folder, chip, net):
    """bound_share of a sweep against compute and memory times by hand."""
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "model: {overlap: none}\n")
    found = dse.sweep(path).isel(accelerator=0, dtype=0, batch=0, variant=2)
    layers = dse.evaluate(chip, net.variant("semi"), overlap="none")
    memory = layers.bytes / 1e12
    np.testing.assert_allclose(found.latency, layers.latency.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.bound_share.sel(resource="dram"), memory.sum() / layers.latency.sum(), rtol=1e-12)
    tensor = layers.flops.where(layers.unit == "tensor", 0) / 100e12
    np.testing.assert_allclose(found.bound_share.sel(resource="tensor"), tensor.sum() / layers.latency.sum(), rtol=1e-12)


def test_the_rivals_say_why_an_execution_was_chosen(chip, net):
    bound, free = (
        dse.evaluate(chip, net.variant("semi"), batch=8, dtype="fp16", dense_fallback=fallback).sel(layer="wide")
        for fallback in (False, True)
    )
    assert bound.execution.item() == "tensor.sparse_24"
    (name, times), *barred = [rival.split(maxsplit=1) for rival in bound.rivals.item().split(", ")]
    assert name == "vector.csr"
    assert float(times.removesuffix("x")) > 1
    fallback = "dense_fallback is false"
    assert barred == [["tensor.dense:", fallback], ["vector.dense:", fallback], ["tensor.blocks:", "'2:4' does not fit 'block:4x4*'"]]
    assert [rival.split()[0] for rival in free.rivals.item().split(", ")] == [
        "tensor.dense",
        "vector.csr",
        "vector.dense",
        "tensor.blocks:",
    ]


def test_a_row_that_moves_nothing_takes_no_time_and_has_no_rivals(edited, folder, chip):
    edited("net/layers.csv", ("norm,elementwise,,,,1,1,65536,65536", "norm,elementwise,,,,1,1,0,0"))
    found = dse.evaluate(chip, dse.load_workload(folder / "net").dense).sel(layer="norm")
    assert (found.latency.item(), found.rivals.item()) == (0, "")
