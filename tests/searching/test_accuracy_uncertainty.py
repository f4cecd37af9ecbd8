"""Samples of uncertain accuracies in a search: shares by hand, intervals of zero width, the first line, another design that is better."""

import json

import numpy as np
import pytest

import dse
from dse.cli import entry
from dse.report.result_table import render
from dse.report.show_results import result_tables
from dse.schema.search import AccuracyTolerance
from dse.schema.workload_selection import WorkloadSelection
from dse.searching.accuracy_uncertainty import SampledDesigns
from dse.searching.feasible_variants import sample_feasible, select_feasible
from dse.workload import tables
from dse.workload.pattern_shares import PatternShares
from tests.searching.search_specs import write

AXES = "\n  memory.dram.bandwidth: [0.5 TB/s, 1 TB/s, 2 TB/s]\n"
SEARCH = "maximize: [performance]\nconstraints: [accuracy_drop <= 1]\nsampler: exhaustive"
HEADER = "method,pattern,sparsity,value,dense_value,low,high,source,kind\n"


def make_search(folder, *rows: str):
    """The path of a search over the network of the fixtures with some rows of accuracy.csv; the tolerance is at 75."""
    path = write(folder, SEARCH, AXES)
    (folder / "net/accuracy.csv").write_text(HEADER + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("interval", "chosen", "sentence"),
    [
        ("75,76,74,76", "2:4", "the accuracies cannot decide between 2:4 and dense: 2:4 in 50% of samples, dense in 50%"),
        ("75.5,76,75,76", "2:4", "2:4 stays the best: 2:4 in 95% of samples, dense in 5%"),
        ("74.9,76,74,75.5", "dense", "the accuracies cannot decide between dense and 2:4: dense in 61% of samples, 2:4 in 39%"),
    ],
)
def test_the_share_of_a_pattern_is_its_probability_to_be_within_the_tolerance(folder, interval, chosen, sentence):
    """At a median of 75, a 5% quantile of 75, and a median that is refused: 1 - Phi(1.645 x 0.1 / 0.6) = 39%."""
    front = dse.search(make_search(folder, f"semi,2:4,0.5,{interval},a test,measured"))
    assert front.attrs["accuracy_samples"].startswith(sentence)
    assert front.attrs["decided"] == int("stays" in sentence)
    best = json.loads(front.attrs["best_designs"])[0]
    assert chosen in best["states"]
    assert best["pattern_shares"] == f"./net: {sentence.partition(': ')[2]}"
    assert sentence in render(result_tables(front), "table").replace("\n  ", " ")


def test_the_interval_of_the_objective_is_that_of_the_chosen_variants(folder):
    """In 95% of the samples the performance of 2:4, otherwise that of the dense network: the 5% quantile is the dense one."""
    front = dse.search(make_search(folder, "semi,2:4,0.5,75.5,76,75,76,a test,measured"))
    sparse, dense = (
        float(dse.search(make_search(folder, row)).performance.max())
        for row in ("semi,2:4,0.5,75.5,76,,,t,measured", "semi,2:4,0.5,70,76,,,t,measured")
    )
    assert f"performance {dense:.4g} to {sparse:.4g} in 90% of samples" in front.attrs["accuracy_samples"]


def test_intervals_of_zero_width_change_no_result(folder):
    rows = "pruned,unstructured,0.5,75,76", "semi,2:4,0.5,75.5,76", "pruned,unstructured,0.9,70,76"
    exact = dse.search(make_search(folder, *(f"{row},,,a test,measured" for row in rows)))
    sampled = dse.search(make_search(folder, *(f"{row},{row.split(',')[3]},{row.split(',')[3]},a test,measured" for row in rows)))
    for name in exact.variables:
        np.testing.assert_array_equal(sampled[name], exact[name])
    assert sampled.attrs["accuracy_samples"] == "2:4 stays the best: 2:4 in 100% of samples"
    assert "accuracy_samples" not in exact.attrs


@pytest.mark.parametrize(
    ("kind", "first_line"),
    [
        (
            "estimated",
            "the accuracy of the best pattern is estimated, not measured: ./net runs semi 2:4 0.5, accuracy 75.5 (75 to 76), estimated",
        ),
        ("measured", "memory.dram.bandwidth: 2 TB/s"),
    ],
)
def test_the_first_line_says_that_an_accuracy_is_estimated(folder, capsys, kind, first_line):
    path = make_search(folder, f"semi,2:4,0.5,75.5,76,75,76,a test,{kind}")
    assert entry.main(["search", str(path), "-o", str(folder / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == first_line
    assert any(line.startswith("samples of the accuracies: 2:4 stays the best: 2:4 in 95% of samples, dense in 5%") for line in lines)
    assert f"accuracies: ./net: accuracy 75.5 (75 to 76), {kind}" in lines
    assert entry.main(["show", str(folder / "out")]) == 0
    assert ("estimated, not measured" in capsys.readouterr().out.splitlines()[0]) == (kind == "estimated")


def test_candidates_of_a_curve_are_at_the_sparsities_that_samples_allow(folder):
    """The interpolated variant at the tolerance is within it in half of the samples; sparser ones in fewer, the exact dense one always."""
    make_search(folder, "pruned,unstructured,0.5,75,76,74,76,a test,estimated")
    net, tolerance = tables.load(folder / "net"), AccuracyTolerance("accuracy_drop <= 0.5", 0.5, relative=False)
    sampled = sample_feasible(net, WorkloadSelection(), tolerance)
    shares = dict(zip([variant.sparsity for variant in sampled.variants], sampled.feasible.mean(axis=1), strict=True))
    assert shares[0.0] == 1
    nominal = select_feasible(net, WorkloadSelection(), tolerance)[-1]
    assert shares[nominal.sparsity] == pytest.approx(0.5, abs=0.002)
    ordered = [shares[sparsity] for sparsity in sorted(shares)]
    assert ordered == sorted(ordered, reverse=True)
    assert len(ordered) > 5


def test_another_design_is_better_where_its_objective_is_by_more_than_the_tie_tolerance():
    certain = tuple({"net": PatternShares({"2:4": 1.0}, "2:4")} for _ in range(2))
    objective = np.array([[-2.0, -2.0, np.inf, -2.0], [-1.9, -2.1, -1.0, -3.0]])
    designs = SampledDesigns(certain, objective, -1.0, "performance", 0.0)
    assert designs.better_share == 0.75
    assert SampledDesigns(certain, objective, -1.0, "performance", 0.1).better_share == 0.5
    assert designs.sentence == "2:4 stays the best: 2:4 in 100% of samples; another of the 2 best designs is better in 75%"
    assert SampledDesigns(certain[:1], objective[:1, :2], -1.0, "performance", 0.0).better_share == 0
