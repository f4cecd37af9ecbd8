"""Accelerators and workloads of a specification: names, paths, descriptions in place, and objects in Python."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
import yaml
from yamlcore import CoreLoader

import dse
from dse.base.errors import InputError
from dse.sweeping import provenance
from tests.conftest import CHIP

GPT2 = {
    "name": "tiny",
    "task": "a test",
    "metric": {"name": "perplexity", "direction": "lower"},
    "sources": ["a test"],
    "network": {"model_type": "gpt2", "vocab_size": 100, "n_positions": 2048, "n_embd": 64, "n_layer": 2, "n_head": 4},
}


@pytest.fixture
def spec(folder, monkeypatch):
    """The small sweep as a mapping; its paths are relative to the working directory."""
    monkeypatch.chdir(folder)
    return yaml.load((folder / "small.yaml").read_text(), Loader=CoreLoader)


def errors(spec) -> list[str]:
    with pytest.raises(InputError) as caught:
        dse.sweep(spec)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("form", ["list", "keys", "selection", "list of selections"])
def test_objects_give_the_results_of_their_files(spec, chip, net, form):
    workloads = {
        "list": [net],
        "keys": {net: {"methods": "all"}},
        "selection": {"net": {"workload": net, "methods": "all"}},
        "list of selections": [{"workload": net, "methods": "all"}],
    }[form]
    results = dse.sweep({**spec, "accelerators": [chip], "workloads": workloads})
    xr.testing.assert_equal(results, dse.sweep(spec))


def test_the_provenance_of_objects_is_complete(spec, chip, net):
    """The description of the accelerator, the folder of the workload: the plan can be made again from the dataset alone."""
    results = dse.sweep({**spec, "accelerators": [chip.replace({"memory.dram.bandwidth": "3 TB/s"})], "workloads": [net]})
    again = yaml.load(results.attrs["spec"], Loader=CoreLoader)
    assert again["accelerators"][0]["memory"]["dram"]["bandwidth"] == "3 TB/s"
    assert again["workloads"] == {"net": {"workload": str(net.folder)}}
    xr.testing.assert_equal(dse.sweep(again), results)
    (accelerator,) = provenance.rebuild_plan(results).accelerators
    assert accelerator.value("memory.dram.bandwidth") == 3e12
    assert json.loads(results.attrs["description_sha256"])["workload net in memory"] == net.contents_sha256()


def test_a_workload_that_was_changed_in_memory_is_evaluated_and_reported_as_such(spec, net):
    results = dse.sweep({**spec, "workloads": [replace(net, variants=net.variants[:2])]})
    assert results.sizes["variant"] == 2
    with pytest.raises(InputError, match="changed since the dataset was computed: workload net in memory; run 'dse sweep' again"):
        provenance.rebuild_plan(results)


def test_workloads_run_on_several_inputs_are_several_objects(spec):
    phases = [dse.load_workload("gpt2", phase=phase, sequence=64) for phase in ("prefill", "decode")]
    results = dse.sweep({**spec, "workloads": phases})
    assert list(results.workload.values) == [workload.name for workload in phases]
    assert provenance.rebuild_plan(results).spec.workloads[phases[0].name].inputs == ({"phase": ("prefill",), "sequence": (64,)},)


def test_inputs_may_be_a_list_of_combinations(spec):
    """Each mapping stands for its own combinations, and one that two of them state is evaluated once."""
    listed = [{"phase": "decode", "sequence": [32, 64]}, {"phase": "prefill", "sequence": 64}, {"phase": ["prefill"], "sequence": 64}]
    results = dse.sweep({**spec, "workloads": {"gpt2": {"methods": ["dense"], "inputs": listed}}})
    single = [
        dse.load_workload("gpt2", phase=phase, sequence=length) for phase, length in (("decode", 32), ("decode", 64), ("prefill", 64))
    ]
    assert list(results.workload.values) == [workload.name for workload in single]
    assert np.array_equal(results.latency, dse.sweep({**spec, "workloads": {each: {"methods": ["dense"]} for each in single}}).latency)


def test_descriptions_may_stand_in_the_specification(folder, spec):
    """In YAML as in a mapping; a problem inside one has its line and its whole path."""
    chip = yaml.load(CHIP, Loader=CoreLoader)
    for workloads in ([GPT2], {"any": {"workload": GPT2}}, [{"workload": GPT2, "methods": "all"}]):
        results = dse.sweep({**spec, "accelerators": [chip], "workloads": workloads})
        assert set(results.workload.values) == {"tiny"}
        assert provenance.rebuild_plan(results).spec.name == "small"
    path = folder / "inline.yaml"
    path.write_text(yaml.safe_dump({**spec, "accelerators": [chip], "workloads": [{**GPT2, "metric": 3}]}, sort_keys=False))
    line = path.read_text().splitlines().index("  metric: 3") + 1
    assert errors(path)[0].startswith(f"{path}:{line}: workloads.0.metric: '3' is not valid here")


def test_a_description_in_place_runs_on_several_inputs(spec):
    results = dse.sweep({**spec, "workloads": [{"workload": GPT2, "inputs": {"phase": ["prefill", "decode"], "sequence": 16}}]})
    assert list(results.workload.values) == [f"tiny (phase={phase}, sequence=16)" for phase in ("prefill", "decode")]
    loaded = dse.load_workload(GPT2, phase="decode", sequence=16)
    assert list(dse.sweep({**spec, "workloads": [loaded]}).workload.values) == [loaded.name]


def test_measured_efficiencies_of_an_object_are_found_from_anywhere(spec, edited, folder, tmp_path, monkeypatch):
    """The file names them relative to itself."""
    edited("chip.yaml", ("source: a test", "source: a test\nefficiencies: efficiencies.yaml"))
    loaded = dse.load_accelerator(folder / "chip.yaml")
    net = dse.load_workload(folder / "net")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    problem = errors({**spec, "accelerators": [loaded], "workloads": [net], "model": {"fidelity": "calibrated"}})
    assert str(folder / "efficiencies.yaml") in problem[0]  # which this test does not write


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"accelerators": [3]}, "accelerators.0: '3' is not valid here (Input should be a valid string); write text"),
        ({"accelerators": [{"name": "x", "source": "y", "units": {"u": {"peak": {"fp16": "1 TFLOP/s"}}}}]}, "accelerators.0.memory: 'memory' is missing; add 'memory: {dram: "),
        ({"accelerators": [yaml.load(CHIP, Loader=CoreLoader)] * 2}, "accelerators: 'chip' is listed twice; list it once"),
        ({"workloads": ["./net", "./net"]}, "workloads: './net' is listed twice; list it once"),
        ({"workloads": [{"name": "x", "task": "t", "metric": {"name": "m"}, "sources": ["s"]}]}, "workloads.0.network: a description outside a folder has no layers without 'network'; add 'network', or give the path of a workload folder"),
        ({"workloads": {"net": {"workload": "nett"}}}, "workloads.net: 'nett' is not a workload of the catalogue"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_references_is_reported_with_its_place(spec, changes, expected):
    assert any(error.startswith(expected) for error in errors({**spec, **changes})), errors({**spec, **changes})


def test_objects_that_results_could_not_tell_apart_are_refused(spec, chip, net):
    assert errors({**spec, "workloads": [net, net]}) == [
        "workloads: two workloads are named 'net'; load one of them with other inputs, or list it once"
    ]
    assert errors({**spec, "accelerators": [chip, chip.replace({"memory.dram.bandwidth": "3 TB/s"})]})[0].startswith(
        "accelerators: two are named 'chip'"
    )
    assert errors({**spec, "workloads": {net: {"inputs": {"phase": "decode"}}}}) == [
        "workloads.net: the inputs of a loaded workload are fixed; give its name or path instead of the object"
    ]


def test_loading_a_loaded_description_returns_it(chip, net):
    assert dse.load_accelerator(chip) is chip
    assert dse.load_workload(net) is net
    with pytest.raises(InputError, match="'net' is loaded, so its inputs are fixed; give them with its name or path"):
        dse.load_workload(net, phase="decode")


def test_other_types_are_refused():
    with pytest.raises(
        InputError, match="'int' is not the type of an accelerator; give a name of the catalogue, a path, a mapping or an Accelerator"
    ):
        dse.load_accelerator(3)
    with pytest.raises(
        InputError, match="'NoneType' is not the type of a workload; give a name of the catalogue, a path, a mapping or a Workload"
    ):
        dse.load_workload(None)


def test_a_search_takes_objects(spec, chip, net):
    search = {
        "axes": {"memory.dram.bandwidth": ["1 TB/s", "2 TB/s"]},
        "search": {"maximize": ["performance"], "sampler": "exhaustive"},
        "batch": 1,
    }
    named = dse.search({**spec, **search})
    given = dse.search({**spec, **search, "accelerators": [chip], "workloads": [net]})
    xr.testing.assert_equal(named, given)
    assert yaml.load(given.attrs["spec"], Loader=CoreLoader)["accelerators"] == [chip.to_dict()]
    assert json.loads(given.attrs["description_sha256"])["workload net in memory"] == net.contents_sha256()
    assert json.loads(named.attrs["description_sha256"])["accelerator chip"] == chip.document.sha256


def test_an_accelerator_as_a_mapping_can_be_changed_and_loaded_again(spec, chip):
    description = chip.to_dict()
    description["name"] = "future"
    description["units"]["tensor"]["runs"]["sparse_18"] = {"pattern": "1:8", "gain": 8}
    results = dse.sweep(
        {**spec, "accelerators": [chip, description], "workloads": {"./net": {"methods": ["dense"], "patterns": {"list": ["1:8"]}}}}
    )
    speedup = results.speedup.isel(variant=1, batch=0, dtype=0)
    assert speedup.sel(accelerator="future") > speedup.sel(accelerator="chip") > 1
    assert "sparse_18" not in chip.units["tensor"].runs
