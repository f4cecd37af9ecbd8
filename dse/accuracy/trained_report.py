"""The report of `dse validate accuracy --data trained`: estimates against the networks that `dse accuracy train` measured.

Weights are assumed, with the layer sizes of the networks, and every estimate is read from the network's own curve.
"""

from collections.abc import Sequence

import numpy as np

from dse.accuracy.equivalent_sparsity import COARSE_FACTOR, INTERVAL_FACTOR, EquivalentSparsityModel, is_coarse
from dse.accuracy.estimate import measure_shares
from dse.accuracy.interval import COVERAGE
from dse.accuracy.published_points import PublishedGrid, measured_grids
from dse.accuracy.rank_agreement import RankAgreement, rank_agreement
from dse.accuracy.retained_shares import RetainedShares
from dse.accuracy.validate import Case, coverage, make_cases, model_errors, network_of
from dse.accuracy.validation_report import as_percent, model_rows
from dse.base.table_format import Row, format_json, format_markdown, format_table

FINE = "fine: N:M, V:N:M, blocks below 16 weights"
COARSE = "coarse: larger blocks and vectors, patterns in blocks"


def trained_cases() -> list[Case]:
    """A case for each structured pattern of the networks."""
    return make_cases(measured_grids(), _assumed_shares)


def _assumed_shares(grid: PublishedGrid) -> RetainedShares:
    """Shares that the patterns keep of assumed weights in layers of the network's sizes."""
    assert grid.workload is not None
    return measure_shares(grid.workload, [point.request for point in grid.points])[0]


def report_trained(as_json: bool = False, markdown: bool = False, cases: Sequence[Case] | None = None) -> str:
    """The report as text, Markdown or JSON."""
    cases = trained_cases() if cases is None else cases
    groups, errors = _group_rows(cases), model_rows("error over the dense value [%]", model_errors(cases, is_logarithmic=False))
    ranks, distinct = rank_agreement(cases), rank_agreement(cases, distinct=True)
    if as_json:
        return format_json({"groups": groups, "errors": errors, "ranks": _rank_row(ranks), "distinct_ranks": _rank_row(distinct)})
    table = format_markdown if markdown else format_table
    return "\n\n".join([table(groups), table(errors), _sentences(ranks, distinct)])


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


def _sentences(ranks: RankAgreement, distinct: RankAgreement) -> str:
    return (
        f"Kendall's tau of patterns at equal sparsity: {ranks.tau:.2f} over {ranks.pairs} pairs. Of the {distinct.pairs} pairs whose "
        f"measured {COVERAGE:.0%} intervals do not overlap, {distinct.concordant} are in the measured order (tau {distinct.tau:.2f})."
    )
