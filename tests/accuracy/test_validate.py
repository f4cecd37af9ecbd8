"""The estimate against published accuracies, and the constants that ship against those that the points give."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse.accuracy import estimation_models
from dse.accuracy.published_points import CURVES, published_grids
from dse.accuracy.rank_agreement import RankAgreement, rank_agreement
from dse.accuracy.validate import Case, coverage, fit_model, make_cases, model_errors, network_of, pattern_of
from dse.accuracy.validation_report import report_accuracy, report_trained, trained_cases
from dse.cli.entry import main
from dse.sparsity.kinds import UNSTRUCTURED


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return make_cases(published_grids())


def test_grids_have_one_dense_network_each_and_structured_points_only(cases):
    assert {case.grid.network for case in cases} > set(CURVES)
    for case in cases:
        assert len({point.dense_accuracy for point in case.curve.measured.points}) == 1
        assert case.point.request.pattern != UNSTRUCTURED
        assert not any(point.combined_with for point in case.curve.measured.points)
        assert "int8" not in case.grid.recipe


def test_published_losses_are_compared_on_the_scale_of_the_curve(cases):
    sr_ste = {case.point.request.text: case for case in cases if case.grid.recipe == "sr_ste"}
    assert sr_ste["1:4"].point.value == pytest.approx(77.01 - (77.3 - 75.9))  # the curve is STR's, whose dense network has 77.01
    wanda = {case.point.request.text: case for case in cases if case.grid.network == "llama-2-7b" and case.grid.recipe == "wanda"}
    assert wanda["2:4"].point.value == pytest.approx(11.02 / 5.12 * 5.114)


def test_the_constants_that_ship_are_those_of_the_published_points(cases):
    perplexity, accuracy = fit_model(cases, True), fit_model(cases, False)
    assert isinstance(perplexity, estimation_models.StructurePenaltyModel)
    assert perplexity.penalty == pytest.approx(estimation_models.PENALTY, abs=0.01)
    assert perplexity.factor == pytest.approx(estimation_models.PENALTY_INTERVAL_FACTOR, abs=0.003)
    assert accuracy.factor == pytest.approx(estimation_models.INTERVAL_FACTOR, abs=0.001)
    shifts = [estimation_models.logit_shift(case.sparsity, case.equivalent_sparsity) for case in cases if case.curve.is_logarithmic]
    assert max(shifts) <= estimation_models.MAX_SHIFT


def test_no_alternative_has_a_smaller_error_with_the_network_left_out(cases):
    for is_logarithmic in (False, True):
        errors = model_errors(cases, is_logarithmic)
        assert errors.common_points >= 8
        assert min(errors.common_errors, key=lambda model: errors.common_errors[model]) == "estimate"


def test_intervals_cover_and_ranks_agree(cases):
    assert 0.85 <= coverage(cases, network_of) <= 0.95
    assert 0.85 <= coverage(cases, pattern_of) <= 0.95
    ranks = rank_agreement(cases)
    assert ranks.tau >= 0.8
    assert ranks.pairs > 50


def test_the_command_passes_and_prints_what_was_left_out(capsys):
    assert main(["validate", "accuracy", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {point["left out"] for point in report["points"]} == {None, "the curve ends at 0.9"}
    assert all(np.isfinite(row["mean error"]) for row in report["errors"])
    assert main(["validate", "accuracy", "--markdown"]) == 0
    assert "| network | method | pattern |" in capsys.readouterr().out


def test_the_documentation_has_the_report_word_for_word():
    report, passed = report_accuracy(markdown=True)
    assert passed
    assert report in (Path(__file__).parents[2] / "docs" / "explanation" / "estimated-accuracies.md").read_text()


@pytest.fixture(scope="module")
def measured() -> list[Case]:
    return trained_cases()


def test_fine_patterns_of_measured_networks_are_within_the_intervals_of_published_points(measured):
    fine = [case for case in measured if not estimation_models.is_coarse(case.point.request.pattern)]
    model = estimation_models.EquivalentSparsityModel()
    within = [case for case in fine if model.reaches(*case.place)]
    assert len(within) == 45
    assert np.mean([model.interval(*case.place).contains(case.point.value) for case in within]) >= 0.9
    assert np.mean([abs(case.error(model.value(*case.place))) for case in within]) < 0.01


def test_the_factor_of_coarse_patterns_is_that_of_measured_networks(measured):
    coarse = [case for case in measured if estimation_models.is_coarse(case.point.request.pattern)]
    assert fit_model(coarse, False).factor == pytest.approx(estimation_models.COARSE_FACTOR, abs=0.01)


def test_no_alternative_is_better_on_measured_networks(measured):
    errors = model_errors(measured, False).common_errors
    assert min(errors, key=lambda model: errors[model]) == "estimate"


def test_the_documentation_has_the_report_on_measured_networks_word_for_word(measured):
    page = Path(__file__).parents[2] / "docs" / "explanation" / "estimated-accuracies.md"
    assert report_trained(markdown=True, cases=measured) in page.read_text()


def test_an_unknown_set_of_accuracies_is_an_error(capsys):
    assert main(["validate", "accuracy", "--data", "untrained"]) == 2
    assert "'untrained' is not a set of accuracies; write 'trained'" in capsys.readouterr().err


def test_only_pairs_with_separate_intervals_are_distinct(cases):
    """Hand-computed: of three patterns at 50%, the intervals of the first two overlap, and both contain unstructured pruning's 17.29."""
    base = next(case for case in cases if case.grid.network == "llama-1-7b" and case.grid.recipe == "magnitude")
    assert base.curve.value(0.5) == pytest.approx(17.29)
    intervals = {0.53: (16.0, 15.0, 18.0), 0.55: (17.5, 17.0, 19.0), 0.57: (30.0, 29.0, 31.0)}
    points = {s: replace(base.point, value=value, low=low, high=high) for s, (value, low, high) in intervals.items()}
    ranked = [replace(base, equivalent_sparsity=s, point=point) for s, point in points.items()]
    assert rank_agreement(ranked) == RankAgreement(5, 1)  # 16 is below 17.29, at a higher equivalent sparsity
    assert rank_agreement(ranked, distinct=True) == RankAgreement(3, 0)  # those with the third
