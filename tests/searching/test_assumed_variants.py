"""Searches with hypothetical patterns: what is assumed of their accuracy decides what a design may run, and results say so."""

import json
import warnings

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.cli import entry
from dse.report.result_table import render
from dse.report.show_results import result_tables
from dse.searching import run
from dse.sweeping.model_warnings import ModelWarning
from tests.searching.search_specs import write

AXES = "\n  memory.dram.bandwidth: [0.5 TB/s, 1 TB/s, 2 TB/s]\n"
EXHAUSTIVE = "maximize: [performance]\nconstraints: [accuracy_drop <= 1]\nsampler: exhaustive"
ASSUMED = "'./net': 2:4 counts as accurate enough by assumption, without an 'accuracy_drop'"


def make_search(folder, selection: str, search: str = EXHAUSTIVE):
    """The path of a search over the network of the fixtures, of which `selection` says the variants."""
    path = write(folder, search, AXES)
    path.write_text(path.read_text().replace("{methods: all}", selection))
    return path


def search_with_warnings(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        front = dse.search(path)
    return front, [str(warning.message) for warning in caught]


def best(front) -> dict[str, object]:
    return json.loads(front.attrs["best_designs"])[0]


def test_a_pattern_without_a_drop_runs_and_every_result_says_that_its_accuracy_is_assumed(folder):
    front, texts = search_with_warnings(make_search(folder, '{methods: [dense], patterns: ["2:4"]}'))
    assert best(front)["states"] == "./net: hypothetical 2:4 0.5"
    assert best(front)["accuracies"] == "./net: assumed to be accurate enough"
    what = "the accuracy of the best pattern is assumed, not measured"
    assert front.attrs["inferred_accuracies"] == f"{what}: ./net runs hypothetical 2:4 0.5, assumed to be accurate enough"
    assert front.assumed_accuracies.values[front.best] == "./net: 2:4"
    assert what in render(result_tables(front), "table").replace("\n  ", " ")
    (text,) = [text for text in texts if "assumption" in text]
    assert text.startswith(ASSUMED)


def test_a_check_prints_what_is_assumed(folder, capsys):
    path = make_search(folder, '{methods: [dense], patterns: ["2:4"]}')
    assert entry.main(["check", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{path}: ok, search 'small_search'\n"
    assert printed.err.startswith(f"warning: {ASSUMED}")


def test_the_performance_is_that_of_the_hypothetical_variant(folder, net):
    front, _ = search_with_warnings(make_search(folder, '{methods: [dense], patterns: ["2:4"]}'))
    chip = dse.load_accelerator(folder / "chip.yaml")
    design = chip.replace({"memory.dram.bandwidth": f"{front['memory.dram.bandwidth'].values[front.best][0]} B/s"})
    pattern = dse.sparsity.parse("2:4")
    pruned = net.hypothetical_variant(pattern, net.own_density(pattern), 0.5, "own")
    options = {"fidelity": "r3", "dense_fallback": True}
    times = [float(dse.evaluate(*each, 4, "fp16", **options).latency.sum()) for each in ((chip, net.dense), (design, pruned))]
    assert front.performance.values[front.best] == pytest.approx(times[0] / times[1], rel=1e-9)


def test_a_stated_drop_counts_like_a_measured_one(folder):
    """Up to the tolerance the result is as without a stated drop; above it, as without the pattern."""
    free, _ = search_with_warnings(make_search(folder, '{methods: [dense], patterns: ["2:4"]}'))
    dense, _ = search_with_warnings(make_search(folder, "{methods: [dense]}"))
    results = {}
    for drop in ("0", "1", "1.1", "1.3 %", "1.4 %"):  # of 76 points, 1.3% is 0.99 points
        path = make_search(folder, f'{{methods: [dense], patterns: {{list: ["2:4"], accuracy_drop: {drop}}}}}')
        results[drop] = search_with_warnings(path)
    for drop, (front, texts) in results.items():
        expected = free if drop in ("0", "1", "1.3 %") else dense
        np.testing.assert_array_equal(front.performance, expected.performance)
        assert not any("by assumption" in text for text in texts)
    assert best(results["1"][0])["accuracies"] == "./net: assumed to drop by 1 point"
    left_out = "'./net': the search leaves out 2:4 (1.4 %): its assumed accuracy drop is above 'accuracy_drop <= 1'"
    assert [text for text in results["1.4 %"][1] if "leaves out" in text] == [left_out]
    assert "assumed_accuracies" not in results["1.4 %"][0]


def test_measured_variants_compete_and_one_as_fast_is_preferred(folder):
    """The mask that is measured leaves the first layer dense, and 2:4 of all layers is faster."""
    path = make_search(folder, '{methods: all, patterns: ["2:4"]}')
    methods = [variant.method for variant in run.load_evaluator(path).variants]
    assert methods.index("hypothetical") == len(methods) - 1
    assert best(search_with_warnings(path)[0])["states"] == "./net: hypothetical 2:4 0.5"


def test_a_measured_loss_above_the_tolerance_and_the_command_for_estimates_are_in_the_warning(folder):
    _, texts = search_with_warnings(make_search(folder, '{patterns: ["2:4"]}', EXHAUSTIVE.replace("<= 1", "<= 0.4")))
    measured = "measured, 2:4 loses at least 0.5 of accuracy (semi)"
    estimate = f"'dse accuracy estimate {folder / 'net'} --patterns 2:4' gives estimates"
    assert f"{ASSUMED}; {measured}; {estimate}" in texts


def test_densities_are_those_of_a_sweep(folder):
    patterns = '[{list: ["block:8x8"], densities: from_method, accuracy_drop: 0.5}, {list: ["block:16x16"], densities: [0.5, 0.25]}]'
    path = make_search(folder, f"{{methods: [pruned], patterns: {patterns}}}")
    searched = [v for v in run.load_evaluator(path).variants if v.method == "hypothetical"]
    swept = dse.sweep(path)
    made = swept.isel(variant=swept.method.values == "hypothetical")
    assert [str(v.pattern) for v in searched] == made.pattern.values.tolist()
    np.testing.assert_allclose([v.sparsity for v in searched], made.sparsity)
    assert [v.accuracy_text for v in searched] == ["assumed to drop by 0.5 points"] * 2 + ["assumed to be accurate enough"] * 2
    _, texts = search_with_warnings(path)
    assert any("block:16x16@0.5 and block:16x16@0.75 count as accurate enough" in text for text in texts)


def test_densities_of_unknown_accuracy_are_left_out_unless_none_is_known(folder):
    path = make_search(folder, '{methods: [blocky, semi], patterns: {list: ["unstructured"], densities: from_method}}')
    searched = [v for v in run.load_evaluator(path).variants if v.method == "hypothetical"]
    assert [(v.densities_from, v.accuracy_text) for v in searched] == [("semi 0.5", "assumed to drop by 0.5 points")]
    path.write_text(path.read_text().replace("[blocky, semi]", "[blocky]"))
    searched = [v for v in run.load_evaluator(path).variants if v.method == "hypothetical"]
    assert [(v.densities_from, v.accuracy_text) for v in searched] == [("blocky 0.75", "assumed to be accurate enough")]


@pytest.mark.parametrize(("tolerance", "drop"), [("1", "1 point"), ("1.5 %", "1.316 %")])
def test_a_pattern_with_the_densities_of_a_measured_variant_is_assumed_to_lose_as_much(folder, tolerance, drop):
    """At sparsity 0.5 that is 1 of 76 points, at 0.9 it is 6."""
    search = EXHAUSTIVE.replace("<= 1", f"<= {tolerance}")
    path = make_search(folder, '{methods: [pruned], patterns: {list: ["block:8x8"], densities: from_method}}', search)
    searched = [v for v in run.load_evaluator(path).variants if v.method == "hypothetical"]
    assert [(str(v), v.accuracy_text) for v in searched] == [("hypothetical block:8x8 0.5 from pruned 0.5", f"assumed to drop by {drop}")]
    text = "'./net': block:8x8 is assumed to lose as much accuracy as the measured variants whose densities it has"
    assert text in search_with_warnings(path)[1]


def test_a_drop_in_another_unit_than_the_tolerance_needs_the_dense_accuracy(folder):
    accuracies = folder / "net/accuracy.csv"
    accuracies.write_text(accuracies.read_text().replace("75.5,76", "75.5,77"))
    path = make_search(folder, '{patterns: {list: ["2:4"], accuracy_drop: {"2:4": 1 %}}}')
    with pytest.raises(InputError) as caught:
        dse.search(path)
    assert str(caught.value) == (
        f"{path}:5: workloads../net.patterns.accuracy_drop: the accuracy drop of '2:4' is in %, and the tolerance in points; sources give "
        "different accuracies of dense 'net', 76 to 77; write the drop in points"
    )
    path.write_text(path.read_text().replace("accuracy_drop <= 1", "accuracy_drop <= 1 %"))
    assert best(search_with_warnings(path)[0])["accuracies"] == "./net: assumed to drop by 1 %"


def test_each_network_has_one_warning_whatever_its_inputs(tmp_path):
    front, texts = search_with_warnings({
        "name": "two_phases", "accelerators": ["a100-sxm4-80gb"], "dtype": "fp16", "axes": {"memory.dram.bandwidth": ["1 TB/s", "2 TB/s"]},
        "workloads": {"gpt2": {"patterns": ["2:4", "1:4"], "inputs": {"phase": ["prefill", "decode"], "sequence": 128}}},
        "search": {"maximize": ["throughput[gpt2/decode, batch=8]"], "over_workloads": "worst", "sampler": "exhaustive"},
    })  # fmt: skip
    assert [text for text in texts if "by assumption" in text] == [
        "'gpt2': 2:4 and 1:4 count as accurate enough by assumption, without an 'accuracy_drop'"
    ]
    assert " and gpt2 (phase=decode, sequence=128) and " in front.attrs["inferred_accuracies"]


def test_samples_of_accuracies_name_the_patterns_that_are_assumed(folder):
    header = "method,pattern,sparsity,value,dense_value,low,high,source,kind\n"
    (folder / "net/accuracy.csv").write_text(f"{header}semi,2:4,0.5,75,76,74,76,a test,measured\n")
    front, _ = search_with_warnings(make_search(folder, '{patterns: ["1:4"]}'))
    assert front.attrs["accuracy_samples"].startswith("1:4 (assumed) stays the best: 1:4 (assumed) in 100% of samples")


@pytest.mark.parametrize("search", ["robust: {spread: 0.2, samples: 4}", "trials: 40\nask_batch: 10"])
def test_samplers_and_robust_searches_run_assumed_variants(folder, search):
    path = make_search(folder, '{methods: [dense], patterns: ["2:4"]}', f"constraints: [area <= 420 mm^2]\n{search}")
    assert "hypothetical 2:4" in best(search_with_warnings(path)[0])["states"]


def test_a_search_with_another_assumption_is_another_search(folder):
    selections = ('{patterns: ["2:4"]}', '{patterns: {list: ["2:4"], accuracy_drop: 1}}', '{patterns: {list: ["2:4"], accuracy_drop: 1 %}}')
    origins = {run.load_evaluator(make_search(folder, selection)).problem.origin for selection in selections}
    assert len(origins) == 3


def test_a_pattern_that_no_design_runs_is_warned_of(folder):
    path = make_search(folder, '{methods: [dense], patterns: ["2:4", "3:4"]}')
    chip = folder / "chip.yaml"
    chip.write_text(chip.read_text().replace("csr: {pattern: unstructured", "csr: {enabled: false, pattern: unstructured"))
    _, texts = search_with_warnings(path)
    assert [text for text in texts if "no design" in text] == ["no design has an enabled run for '3:4': its layers run dense"]
