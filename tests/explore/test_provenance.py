"""What a dataset says of its origin."""

import json

import pytest
import xarray as xr

import dse
from dse.errors import BadInput
from dse.explore import provenance


def test_a_dataset_without_an_origin():
    with pytest.raises(BadInput, match="does not say what it was made from"):
        provenance.plan_of(xr.Dataset())


def test_a_dataset_knows_when_its_descriptions_changed(folder, edited):
    found = dse.sweep(folder / "small.yaml")
    assert provenance.plan_of(found).spec.name == "small"
    edited("chip.yaml", ("1 TB/s", "2 TB/s"))
    with pytest.raises(BadInput, match="changed since the dataset was made: accelerator chip; run 'dse sweep' again"):
        provenance.plan_of(found)


def test_unverified_numbers_are_named_where_they_are_used(edited, folder):
    edited("chip.yaml", ("fp16: 100 TFLOP/s", "fp16: {value: 100 TFLOP/s, unverified: true}"), ("gain: 2", "gain: 2, unverified: true"))
    edited("chip.yaml", ("fp32: 5 TFLOP/s", "fp32: {value: 5 TFLOP/s, unverified: true}"))  # not of this dtype
    found = dse.sweep(folder / "small.yaml")
    assert json.loads(found.attrs["unverified"]) == {"chip": ["units.tensor.peak.fp16", "units.tensor.runs.sparse_24"]}
