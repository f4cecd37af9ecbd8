"""Sliders and saved designs of `dse explore`: values that a description may have, and files that evaluate to what the page showed."""

import socket

import pytest

import dse
from dse.cli.entry import main
from dse.explorer.exploration import Exploration, evaluate_choice, quantity_text, slider_values, vary
from dse.explorer.page import save_design
from dse.html_report.results_files import read_results
from dse.sweeping import store
from tests.html_report.conftest import write_results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("explored"))


@pytest.fixture
def exploration(results):
    return Exploration.of_results(read_results(results))


def test_sliders_hold_the_described_value_and_values_that_a_description_may_have(exploration):
    device = exploration.accelerators["chip"]
    sliders = exploration.sliders("chip", "fp16")
    assert {"memory.dram.bandwidth", "units.tensor.peak.fp16", "units.tensor.runs.sparse_24.gain"} <= sliders.keys()
    assert "units.vector.runs.csr.efficiency" not in sliders  # the speed of light does not depend on it
    for path, options in sliders.items():
        assert quantity_text(device.value(path), device.at(path)) in options
        for text in list(options)[:: len(options) - 1]:
            device.replace({path: text})
    assert max(float(text) for text in slider_values(device.at("units.vector.runs.csr.efficiency"))) == 1
    assert min(float(text) for text in slider_values(device.at("units.tensor.runs.sparse_24.gain"))) == 1


def test_a_choice_evaluates_to_the_result_of_the_sweep(exploration, results):
    dataset = store.read(results)
    device = vary(exploration.accelerators["chip"], {"memory.dram.bandwidth": "2 TB/s", "units.tensor.peak.fp16": "50 TFLOP/s"})
    cell = dataset.sel({"memory.dram.bandwidth": 2e12, "units.tensor.peak.fp16": 50e12, "batch": 16}).squeeze()
    labels = [name for name in exploration.variants if not name.endswith(", dense")]
    for number, label in enumerate(labels):
        results, rows = evaluate_choice(exploration.network(device, label, 16, "fp16"))
        assert results.latency == pytest.approx(cell.latency.values[number], rel=1e-12)
        assert results.speedup == pytest.approx(cell.speedup.values[number], rel=1e-12)
        assert rows.latency.sum() == pytest.approx(results.latency)


def test_a_saved_design_is_a_description_with_the_chosen_numbers_and_their_origin(tmp_path):
    device, chosen = (
        dse.load_accelerator("a100-sxm4-80gb"),
        {"memory.dram.bandwidth": "3.5 TB/s", "units.tensor_core.peak.fp16": "312 TFLOP/s"},
    )
    path = save_design(device, chosen, tmp_path, "wider.yaml")
    saved = dse.load_accelerator(path)
    assert saved.name == "wider"
    assert saved.hypothetical
    assert saved.value("memory.dram.bandwidth") == 3.5e12
    assert saved.at("memory.dram.bandwidth").kind == "assumed"
    assert "a100-sxm4-80gb has 2.039 TB/s" in saved.at("memory.dram.bandwidth").source
    assert saved.at("units.tensor_core.peak.fp16").source == device.at("units.tensor_core.peak.fp16").source  # as described
    assert saved.value("cost.area") > device.value("cost.area")  # more interfaces, by the cost model
    assert main(["check", str(path)]) == 0
    variant = dse.load_workload("resnet50").variant("magnitude_pruning", sparsity=0.9)
    latency = [
        float(dse.evaluate(each, variant, 1).latency.sum()) for each in (saved, device.replace({"memory.dram.bandwidth": "3.5 TB/s"}))
    ]
    assert latency[0] == pytest.approx(latency[1], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "message"), [("../x.yaml", "is not a valid file name"), ("x.txt", "is not a valid file name"), ("taken.yaml", "exists")]
)
def test_wrong_and_taken_file_names_are_refused(chip, tmp_path, name, message):
    (tmp_path / "taken.yaml").write_text("")
    with pytest.raises(dse.InputError, match=message):
        save_design(chip, {}, tmp_path, name)
    assert (tmp_path / "taken.yaml").read_text() == ""


def test_an_occupied_port_is_reported(results, capsys):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert main(["explore", str(results), "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use)" in error
    assert f"--port {port + 1}" in error
    assert main(["explore", str(results), "--port", "0"]) == 2


def test_missing_results_are_reported(tmp_path, capsys):
    assert main(["explore", str(tmp_path / "gone.nc")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_search_starts_from_its_best_design(folder, tmp_path, capsys):
    (folder / "found.yaml").write_text(
        "{name: found, accelerators: [./chip.yaml], workloads: {./net: {methods: all}}, batch: [1], dtype: fp16,"
        " axes: {memory.dram.bandwidth: [1 TB/s, 4 TB/s]}, search: {maximize: [performance], sampler: exhaustive}}"
    )
    assert main(["search", str(folder / "found.yaml"), "-o", str(tmp_path / "found")]) == 0
    exploration = Exploration.of_results(read_results(tmp_path / "found"))
    assert [each.value("memory.dram.bandwidth") for each in exploration.accelerators.values()] == [4e12, 1e12]
