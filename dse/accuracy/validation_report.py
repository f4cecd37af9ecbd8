"""The reports of `dse validate accuracy`: estimated accuracies, errors of the alternatives, coverage of the intervals.

`report_accuracy` compares with published accuracies; `report_trained` (`--data trained`) with the networks that `dse accuracy train`
measured. There weights are assumed, with the layer sizes of the networks, and every estimate is read from the network's own curve.
"""

from collections.abc import Sequence

import numpy as np

from dse.accuracy.estimate import measure_shares
from dse.accuracy.estimation_models import (
    COARSE_FACTOR,
    INTERVAL_FACTOR,
    EquivalentSparsityModel,
    StructurePenaltyModel,
    is_coarse,
    model_for,
)
from dse.accuracy.interval import COVERAGE
from dse.accuracy.published_points import PublishedGrid, measured_grids, published_grids
from dse.accuracy.rank_agreement import RankAgreement, rank_agreement
from dse.accuracy.retained import RetainedShares
from dse.accuracy.validate import (
    MODELS,
    Case,
    ModelErrors,
    coverage,
    fit_model,
    make_cases,
    model_errors,
    network_of,
    pattern_of,
)  # fmt: skip
from dse.base.table_format import Row, format_json, format_markdown, format_table

MIN_TAU = 0.8
KINDS = {False: "accuracies: error over the dense value [%]", True: "perplexities: logarithm of the ratio [%]"}

FINE = "fine: N:M, V:N:M, blocks below 16 weights"
COARSE = "coarse: larger blocks and vectors, patterns in blocks"


def report_accuracy(as_json: bool = False, markdown: bool = False, grids: Sequence[PublishedGrid] | None = None) -> tuple[str, bool]:
    """The report on published accuracies, and whether the estimate passes: the smallest errors, and ranks that agree."""
    cases = make_cases(published_grids() if grids is None else grids)
    errors = {kind: model_errors(cases, kind) for kind in KINDS if any(case.curve.is_logarithmic == kind for case in cases)}
    points, summary = [_point_row(case) for case in cases], _summary(cases)
    models = [model_rows(KINDS[kind], each) for kind, each in errors.items()]
    passed = summary["kendall_tau"] >= MIN_TAU and all(map(_is_best, errors.values()))
    if as_json:
        return format_json({"points": points, "errors": [row for rows in models for row in rows], "summary": summary}), passed
    table = format_markdown if markdown else format_table
    return "\n\n".join([table(points), *map(table, models), _sentences(summary)]), passed


def _is_best(errors: ModelErrors) -> bool:
    """Whether no alternative has a smaller error over the points that all predict."""
    return errors.common_points == 0 or errors.common_errors["estimate"] == min(errors.common_errors.values())


def _point_row(case: Case) -> Row:
    curve, model = case.curve, model_for(case.curve, case.point.request.pattern)
    row: Row = {
        "network": case.grid.network,
        "method": case.grid.recipe,
        "pattern": case.point.request.text,
        "curve": curve.measured.sparsest.method,
        "equivalent": round(case.equivalent_sparsity, 3),
        "dense": _digits(curve.dense_value),
        "published": _digits(case.point.value),
        "estimated": None,
        "low": None,
        "high": None,
        "left out": None,
    }
    if not model.reaches(*case.place):
        return row | {"left out": f"the curve ends at {curve.range[1]:g}"}
    interval = model.interval(*case.place)
    return row | {"estimated": _digits(model.value(*case.place)), "low": _digits(interval.low), "high": _digits(interval.high)}


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def model_rows(kind: str, errors: ModelErrors) -> list[Row]:
    """Mean errors [%], over all points that a model predicts and over those that all models predict."""
    return [
        {
            kind: model,
            "points": errors.points[model],
            "mean error": as_percent(errors.errors[model]),
            "common points": errors.common_points,
            "mean error of these": as_percent(errors.common_errors[model]),
        }
        for model in MODELS
    ]


def as_percent(error: float) -> float | None:
    return None if np.isnan(error) else round(100 * error, 2)


def _summary(cases: Sequence[Case]) -> Row:
    ranks = rank_agreement(cases)
    summary: Row = {
        "points": len(cases),
        "estimated": sum(model_for(case.curve, case.point.request.pattern).reaches(*case.place) for case in cases),
        "coverage_network_left_out": round(coverage(cases, network_of), 3),
        "coverage_pattern_left_out": round(coverage(cases, pattern_of), 3),
        "kendall_tau": round(ranks.tau, 3),
        "pairs": ranks.pairs,
    }
    for kind in KINDS:
        model, own = fit_model(cases, kind), [case for case in cases if case.curve.is_logarithmic == kind]
        summary[f"coverage_{'perplexities' if kind else 'accuracies'}"] = round(coverage(own, network_of), 3)
        if isinstance(model, StructurePenaltyModel):
            summary |= {"penalty": round(model.penalty, 2), "perplexity_factor": round(model.factor, 3)}
        else:
            summary |= {"accuracy_factor": round(model.factor, 3)}
    return summary


def _sentences(summary: Row) -> str:
    return (
        f"{summary['estimated']} of {summary['points']} points are estimated. {COVERAGE:.0%} intervals cover "
        f"{summary['coverage_network_left_out']:.0%} of them with the network left out (accuracies {summary['coverage_accuracies']:.0%}, "
        f"perplexities {summary['coverage_perplexities']:.0%}) and {summary['coverage_pattern_left_out']:.0%} with the "
        f"pattern left out.\nKendall's tau of patterns at equal sparsity: {summary['kendall_tau']:.2f} over {summary['pairs']} pairs.\n"
        f"Learned from all points: penalty {summary['penalty']:.2f}, interval factors {summary['perplexity_factor']:.3f} "
        f"(perplexities) and {summary['accuracy_factor']:.3f} (accuracies)."
    )


def trained_cases() -> list[Case]:
    """A case for each structured pattern of the networks."""
    return make_cases(measured_grids(), _assumed_shares)


def _assumed_shares(grid: PublishedGrid) -> RetainedShares:
    """Shares that the patterns keep of assumed weights in layers of the network's sizes."""
    assert grid.workload is not None
    return measure_shares(grid.workload, [point.request for point in grid.points])[0]


def report_trained(as_json: bool = False, markdown: bool = False, cases: Sequence[Case] | None = None) -> str:
    """The report on trained networks: text, Markdown or JSON."""
    cases = trained_cases() if cases is None else cases
    groups, errors = _group_rows(cases), model_rows("error over the dense value [%]", model_errors(cases, is_logarithmic=False))
    ranks, distinct = rank_agreement(cases), rank_agreement(cases, distinct=True)
    if as_json:
        return format_json({"groups": groups, "errors": errors, "ranks": _rank_row(ranks), "distinct_ranks": _rank_row(distinct)})
    table = format_markdown if markdown else format_table
    return "\n\n".join([table(groups), table(errors), _trained_sentences(ranks, distinct)])


def _group_rows(cases: Sequence[Case]) -> list[Row]:
    """Errors and coverage of fine and of coarse patterns.

    The factor of fine patterns is that of the published points, so that no network of these has to be left out for it.
    """
    fine, coarse = ([case for case in cases if is_coarse(case.point.request.pattern) == kind] for kind in (False, True))
    return [
        _group_row(FINE, fine, INTERVAL_FACTOR),
        _group_row(COARSE, coarse, COARSE_FACTOR) | {"covered, network left out [%]": as_percent(coverage(coarse, network_of))},
    ]


def _group_row(name: str, cases: Sequence[Case], factor: float) -> Row:
    model = EquivalentSparsityModel(factor)
    within = [case for case in cases if model.reaches(*case.place)]
    return {
        "patterns": name,
        "points": len(cases),
        "estimated": len(within),
        "mean error [%]": as_percent(float(np.mean([abs(case.error(model.value(*case.place))) for case in within]))),
        "factor": factor,
        "covered [%]": as_percent(float(np.mean([model.interval(*case.place).contains(case.point.value) for case in within]))),
        "covered, network left out [%]": None,
    }


def _rank_row(ranks: RankAgreement) -> Row:
    return {"pairs": ranks.pairs, "concordant": ranks.concordant, "kendall_tau": round(ranks.tau, 3)}


def _trained_sentences(ranks: RankAgreement, distinct: RankAgreement) -> str:
    return (
        f"Kendall's tau of patterns at equal sparsity: {ranks.tau:.2f} over {ranks.pairs} pairs. Of the {distinct.pairs} pairs whose "
        f"measured {COVERAGE:.0%} intervals do not overlap, {distinct.concordant} are in the measured order (tau {distinct.tau:.2f})."
    )
