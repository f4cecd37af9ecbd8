"""What a dataset says of its origin."""

import json

import pytest
import xarray as xr

import dse
from dse.base.errors import InputError
from dse.sweeping import provenance


def test_a_dataset_without_a_specification_is_refused():
    with pytest.raises(InputError, match="does not name the specification that it was computed from"):
        provenance.rebuild_plan(xr.Dataset())


def test_a_dataset_knows_when_its_descriptions_changed(folder, edited):
    found = dse.sweep(folder / "small.yaml")
    assert provenance.rebuild_plan(found).spec.name == "small"
    edited("chip.yaml", ("1 TB/s", "2 TB/s"))
    with pytest.raises(InputError, match="changed since the dataset was computed: accelerator chip; run 'dse sweep' again"):
        provenance.rebuild_plan(found)


def test_unverified_numbers_are_named_where_they_are_used(edited, folder):
    edited("chip.yaml", ("fp16: 100 TFLOP/s", "fp16: {value: 100 TFLOP/s, unverified: true}"), ("gain: 2", "gain: 2, unverified: true"))
    edited("chip.yaml", ("fp32: 5 TFLOP/s", "fp32: {value: 5 TFLOP/s, unverified: true}"))  # not of this dtype
    found = dse.sweep(folder / "small.yaml")
    assert json.loads(found.attrs["unverified"]) == {"chip": ["units.tensor.peak.fp16", "units.tensor.runs.sparse_24"]}


def test_default_inputs_of_a_network_are_reported(edited, capsys, tmp_path):
    """In the dataset, on stderr where it was not given, in the plan of a dry run, and layer by layer."""
    from dse.cli import entry

    path = edited("small.yaml", ("./net: {methods: all}", "gpt2: {methods: [dense]}"))
    assert entry.main(["sweep", str(path), "-o", str(tmp_path / "found.nc")]) == 0
    assert (
        "gpt2: phase, sequence not given: run on attention=fused, passes=fused, sequence=1024, phase=prefill, logits=last\n"
        in capsys.readouterr().err
    )
    inputs = {"attention": "fused", "passes": "fused", "sequence": 1024, "phase": "prefill", "logits": "last"}
    assert json.loads(xr.open_dataset(tmp_path / "found.nc").attrs["run_on"]) == {"gpt2": inputs}
    assert entry.main(["sweep", str(path), "--dry-run"]) == 0
    assert "run on       gpt2: attention=fused, passes=fused, sequence=1024, phase=prefill, logits=last\n" in capsys.readouterr().out
    asked = edited("small.yaml", ("[dense]}", "[dense], inputs: {phase: decode, sequence: 10}}"))
    assert entry.main(["sweep", str(asked), "-o", str(tmp_path / "asked.nc")]) == 0
    assert "not given" not in capsys.readouterr().err
    layers = dse.evaluate("a100-sxm4-80gb", dse.load_workload("gpt2", phase="decode"))
    assert layers.attrs["run_on"] == "attention=fused, passes=fused, sequence=1024, phase=decode, logits=last"
