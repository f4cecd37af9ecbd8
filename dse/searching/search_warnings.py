"""Warnings about the results of a search: variants that are left out, axes without effect, and assumptions of the model."""

from collections.abc import Iterator

from dse.model.compaction import compaction_warnings
from dse.model.cost.design import COST_PATH
from dse.model.efficiency.constant import missing_efficiency_warnings
from dse.model.efficiency.fitted import LAUNCH_LATENCY, transfer_warnings
from dse.model.executions import Execution
from dse.model.fusion import fusion_warnings
from dse.searching.evaluator import Evaluator


def collect_search_warnings(evaluator: Evaluator) -> list[str]:
    """Texts of the warnings, after designs were evaluated: they are about the configurations of these."""
    problem, accelerator = evaluator.problem, evaluator.space.accelerator.name
    terms = [each for config in evaluator.evaluated_configs for each in config.terms]
    executions = [execution for each in terms for execution in each.candidates]
    texts = [*problem.warnings, *_unused_axes(evaluator, executions)]
    for variant in evaluator.variants:
        texts += [*compaction_warnings(variant), *fusion_warnings(variant, problem.options)]
    texts += [text for each in terms for text in transfer_warnings(each, accelerator)]
    if terms:
        runs = (execution.run for execution in executions)
        texts += missing_efficiency_warnings(accelerator, runs, problem.dtype.label, problem.options.fidelity)
    return list(dict.fromkeys(texts))


def _unused_axes(evaluator: Evaluator, executions: list[Execution]) -> Iterator[str]:
    """Warn of axes that change no result: no rate, no work and no cost of the search depends on them."""
    fidelity, has_costs = evaluator.problem.options.fidelity, bool(evaluator.problem.search.costs)
    used = {path for execution in executions for factors in execution.rates for path in factors or ()}
    if fidelity == "calibrated":
        used.add(LAUNCH_LATENCY)
    for dimension in evaluator.space.dimensions if used else ():
        is_cost = has_costs and COST_PATH.fullmatch(dimension.path)
        if not dimension.categorical and dimension.grid is None and dimension.path not in used and not is_cost:
            yield f"axis '{dimension.path}' changes no result under fidelity '{fidelity}'; leave it out"
