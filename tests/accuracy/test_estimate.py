"""Estimated accuracies: read from curves, with intervals, left out where nothing was measured; and what the command does with them."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

import dse
from dse.accuracy.estimate import estimate_accuracies
from dse.accuracy.estimation_models import (
    EXPONENT,
    MAX_SHIFT,
    VALUE_SPREAD,
    EquivalentSparsityModel,
    StructurePenaltyModel,
    is_coarse,
    logit_shift,
    model_for,
)
from dse.accuracy.interval import Interval, conformal_quantile, smallest_factor
from dse.accuracy.reference_curve import ReferenceCurve, choose_curve
from dse.accuracy.retained import RetainedShares
from dse.base.errors import InputError
from dse.cli.entry import main
from dse.sparsity.grammar import parse
from dse.sparsity.pruned_pattern import parse_pruned_patterns
from dse.workload import tables
from tests.accuracy.networks import ACCURACY, WORKLOAD, random_weights, write_network, write_weights

PERPLEXITY = ACCURACY.replace("0.5,90,91", "0.5,6,5").replace("0.8,85,91", "0.8,20,5").replace("0.95,60,91", "0.95,900,5")


@pytest.fixture
def curve(tmp_path) -> ReferenceCurve:
    return choose_curve(tables.load(write_network(tmp_path)))


@pytest.fixture
def perplexity(tmp_path) -> ReferenceCurve:
    folder = write_network(tmp_path, PERPLEXITY)
    (folder / "workload.yaml").write_text(WORKLOAD.replace("higher", "lower"))
    return choose_curve(tables.load(folder))


def shares_of(*shares: float) -> RetainedShares:
    """Shares of 2:4 and 1:4 where unstructured pruning keeps 1 - s^2."""
    grid = np.linspace(0, 1, 1001)
    return RetainedShares(parse_pruned_patterns(["2:4", "1:4"])[: len(shares)], np.array(shares), grid, 1 - grid**2)


def test_an_estimate_is_the_accuracy_at_the_equivalent_sparsity(curve):
    result = estimate_accuracies(curve, shares_of(1 - 0.5**2, 1 - 0.8**2), "a test")
    assert [estimate.value for estimate in result.estimates] == pytest.approx([90, 85])  # measured at 0.5 and 0.8
    assert all(each.interval.low <= each.value <= each.interval.high for each in result.estimates)
    row = result.rows()[0]
    assert (row.method, row.kind, row.dense_value, row.densities) == ("magnitude_estimated", "estimated", 91, "uniform")
    assert "a test" in row.source


def test_a_pattern_beyond_the_curve_is_left_out_with_its_reason(curve):
    result = estimate_accuracies(curve, shares_of(1 - 0.5**2, 1 - 0.96**2), "a test")
    assert [each.request.text for each in result.left_out] == ["1:4"]
    assert "0.96" in result.left_out[0].reason
    assert "measured from 0 to 0.95" in result.left_out[0].reason


def test_intervals_at_the_end_of_a_curve_continue_it_by_a_line(curve):
    model = EquivalentSparsityModel(factor=0.0)
    interval = model.interval(curve, 0.9, 0.95)
    assert (interval.low, interval.high) == pytest.approx((60, 60))
    assert curve.extended(np.array([0.95, 0.96])) == pytest.approx([60, 60 - 25 / 0.15 * 0.01])
    wide, end = EquivalentSparsityModel(factor=0.5).interval(curve, 0.9, 0.95), expit(logit(0.95) + 0.5)
    assert wide.low == pytest.approx(60 - 25 / 0.15 * (end - 0.95) - 0.5 * VALUE_SPREAD * 91)
    assert wide.high > 60


def test_perplexities_multiply_those_of_unstructured_pruning(perplexity):
    model = model_for(perplexity, parse("2:4"))
    assert isinstance(model, StructurePenaltyModel)
    assert model == StructurePenaltyModel()
    expected = 6 * np.exp(model.penalty * np.sqrt(np.log(6 / 5)) * logit_shift(0.5, 0.55) ** EXPONENT)
    assert model.value(perplexity, 0.5, 0.55) == pytest.approx(expected)
    assert model.value(perplexity, 0.5, 0.5) == pytest.approx(6)


@given(st.floats(0.05, 0.9), st.floats(0.05, 0.95), st.floats(0, 1))
def test_a_pattern_with_a_larger_equivalent_sparsity_is_never_better(sparsity, first, second):
    path = dse.load_workload("llama-2-7b")
    curve = choose_curve(path, "wanda_wikitext")
    model, low = model_for(curve, parse("2:4")), min(sparsity, 0.69)
    lower, higher = sorted(low + (0.7 - low) * part for part in (first, second))
    assert model.value(curve, low, lower) <= model.value(curve, low, higher) * (1 + 1e-9)


def test_a_large_shift_is_read_from_the_curve_and_is_no_better_than_a_small_one(perplexity):
    model = model_for(perplexity, parse("2:4"))
    assert logit_shift(0.5, 0.8) > MAX_SHIFT
    assert model.value(perplexity, 0.5, 0.8) == pytest.approx(20)
    assert not model.reaches(perplexity, 0.5, 0.96)
    interval = model.interval(perplexity, 0.5, 0.8)
    assert interval.low < 20 < interval.high


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2:4", False), ("64:2:8", False), ("block:1x8", False), ("2:4x8", False), ("unstructured", False),
     ("block:4x4", True), ("row", True), ("column", True), ("1:4x16", True), ("block:16x16/2:4", True)],
)  # fmt: skip
def test_coarse_patterns_have_wider_intervals(text, expected, tmp_path):
    curve = choose_curve(tables.load(write_network(tmp_path)))
    interval, usual = (model.interval(curve, 0.5, 0.7) for model in (model_for(curve, parse(text)), EquivalentSparsityModel()))
    assert is_coarse(parse(text)) is expected
    assert (interval.high - interval.low > usual.high - usual.low) is expected


def test_perplexities_are_interpolated_in_their_logarithm(perplexity):
    assert perplexity.value(0.8) == pytest.approx(20)
    assert perplexity.value(0.65) < perplexity.measured.accuracy(0.65)


def test_the_widest_measured_curve_is_chosen_and_estimates_are_never_on_it(tmp_path):
    short = "other,unstructured,0.6,95,96,a test,measured,uniform\n"
    estimated = "wide,unstructured,0.1,90,91,x,estimated,uniform\nwide,unstructured,0.99,9,91,x,estimated,uniform\n"
    workload = tables.load(write_network(tmp_path, ACCURACY + short + estimated))
    assert choose_curve(workload).measured.sparsest.method == "magnitude"
    assert choose_curve(workload, "other").range == (0, 0.6)
    with pytest.raises(InputError, match="no curve of unstructured pruning by 'wide'; known: 'magnitude'"):
        choose_curve(workload, "wide")


def test_networks_without_a_curve_are_errors(tmp_path):
    with pytest.raises(InputError, match="no measured curve"):
        choose_curve(dse.load_workload("opt-6.7b"), metric="accuracy")
    with pytest.raises(InputError, match="no measured curve"):
        choose_curve(replace(dse.load_workload("deit-b"), variants=()))


def test_the_smallest_factor_and_its_quantile():
    assert smallest_factor(lambda factor: Interval(10 - factor, 10 + 2 * factor), 9) == pytest.approx(1)
    assert smallest_factor(lambda factor: Interval(10 - factor, 10 + 2 * factor), 12) == pytest.approx(1)
    assert smallest_factor(lambda factor: Interval(0, 1), 2) == np.inf
    assert conformal_quantile([float(score) for score in range(1, 20)]) == 18  # the 18th of 19: 0.9 (19 + 1)
    assert conformal_quantile([3.0, 1.0]) == 3


def run(*arguments: object) -> int:
    return main(["accuracy", "estimate", *map(str, arguments)])


def test_the_command_prints_a_table_and_writes_rows_that_load(tmp_path, capsys):
    folder, weights, out = write_network(tmp_path), write_weights(tmp_path), tmp_path / "accuracy.csv"
    assert run(folder, "--weights", weights, "--patterns", "2:4", "row@0.95", "-o", out) == 0
    captured = capsys.readouterr()
    assert "2:4" in captured.out
    assert "warning: row@0.95 is left out: equivalent to" in captured.err
    with out.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["low"]) <= float(row["value"]) <= float(row["high"])
    shutil.copy(out, folder / "accuracy.csv")
    (variant,) = tables.load(folder).variants
    assert (variant.accuracy_kind, variant.sparsity) == ("estimated", pytest.approx(0.5))
    assert np.isfinite(variant.accuracy_low)


def test_estimates_are_added_to_a_workload_once(tmp_path, capsys):
    folder, weights, copy = write_network(tmp_path), write_weights(tmp_path), tmp_path / "copy"
    for into in (copy, copy, folder):
        assert run(folder, "--weights", weights, "--patterns", "2:4", "block:4x4@0.5", "--into", into) == 0
        assert [v.accuracy_kind for v in tables.load(into).variants] == ["measured"] * 3 + ["estimated"] * 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("\ufeff" + ACCURACY, id="byte order mark"),
        pytest.param(ACCURACY.replace(",", " , "), id="spaces"),
    ],
)
def test_estimates_are_added_to_any_table_that_a_workload_may_have(table, tmp_path):
    folder = write_network(tmp_path, table)
    assert run(folder, "--patterns", "2:4", "--into", folder) == 0
    variants = tables.load(folder).variants
    assert [(v.method, v.accuracy) for v in variants[:3]] == [("magnitude", 90), ("magnitude", 85), ("magnitude", 60)]
    assert len(variants) == 4


def test_estimates_are_added_to_a_workload_without_accuracies(tmp_path):
    (tmp_path / "other").mkdir()
    source, folder = write_network(tmp_path), write_network(tmp_path / "other")
    (folder / "accuracy.csv").unlink()
    assert run(source, "--patterns", "2:4", "--into", folder) == 0
    assert [variant.accuracy_kind for variant in tables.load(folder).variants] == ["estimated"]


def test_a_workload_that_estimates_would_make_invalid_stays_as_it_is(tmp_path, capsys):
    folder = write_network(tmp_path)
    rows = f"{ACCURACY}magnitude_estimated,2:4,0.5,70,91,a test,measured,uniform\n"
    (folder / "accuracy.csv").write_text(rows)
    assert run(folder, "--patterns", "2:4", "--into", folder) == 2
    assert f"{folder / 'accuracy.csv'}:" in capsys.readouterr().err
    assert (folder / "accuracy.csv").read_text() == rows


def test_a_sweep_over_estimates_says_that_they_are_estimated(tmp_path, capsys):
    folder = write_network(tmp_path)
    assert run(folder, "--patterns", "2:4", "--into", folder) == 0
    variant = tables.load(folder).variant("magnitude_estimated")
    assert variant.accuracy_kind == "estimated"
    methods = {"methods": ["magnitude_estimated"]}
    spec = {"name": "s", "accelerators": ["a100-sxm4-80gb"], "dtype": "fp16", "workloads": {str(folder): methods}}
    results = dse.sweep(spec)
    assert "estimated" in str(results["accuracy_kind"].values)


def test_json_has_the_curve_and_the_basis(tmp_path, capsys):
    assert run(write_network(tmp_path), "--patterns", "2:4", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["saliency"] == "l1 of assumed weights"
    assert row["method"] == "magnitude_estimated"
    assert row["retained"] == pytest.approx(0.746, abs=0.01)


def test_all_errors_are_reported_at_once_and_nothing_is_written(tmp_path, capsys):
    folder, out = write_network(tmp_path), tmp_path / "out.csv"
    out.write_text("there")
    assert run(folder, "--weights", tmp_path / "none.npz", "--patterns", "2:4@0.9", "row", "--method", "magnitud", "-o", out) == 2
    lines = capsys.readouterr().err.splitlines()
    for text in (
        "--patterns 2:4@0.9",
        "--patterns row",
        "none.npz: --weights: no such file",
        "did you mean 'magnitude'?",
        "exists already",
    ):
        assert sum(text in line for line in lines) == 1
    assert out.read_text() == "there"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--saliency", "second_order", "--curvature", "weights.npz"], "needs weights"),
        (["--curvature", "weights.npz", "--weights", "weights.npz"], "go together"),
        (["--into", "."], "exists and is not a workload"),
        (["--metric", "loss"], "with the metric 'loss'"),
    ],
)
def test_options_that_do_not_fit_are_errors(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path)
    write_weights(tmp_path)
    assert run("./small", "--patterns", "2:4", *options) == 2
    assert message in capsys.readouterr().err


def test_an_estimate_that_is_requested_but_impossible_writes_nothing(tmp_path, capsys):
    folder = write_network(tmp_path)
    assert run(folder, "--patterns", "row@0.95", "--into", folder) == 2
    assert "no pattern has an estimate" in capsys.readouterr().err
    assert (folder / "accuracy.csv").read_text() == ACCURACY


def test_second_order_saliency_from_the_command(tmp_path, capsys):
    folder, weights = write_network(tmp_path), write_weights(tmp_path)
    np.savez(tmp_path / "hessian.npz", **{name: np.ones_like(array) for name, array in random_weights().items()})  # type: ignore[arg-type]
    options = ["--weights", weights, "--patterns", "2:4", "--json"]
    assert run(folder, *options, "--saliency", "second_order", "--curvature", tmp_path / "hessian.npz") == 0
    assert run(folder, *options, "--saliency", "l2") == 0
    first, second = (json.loads(part) for part in capsys.readouterr().out.replace("]\n[", "]\n\n[").split("\n\n"))
    assert first[0]["equivalent"] == second[0]["equivalent"]  # a curvature of ones is no curvature
