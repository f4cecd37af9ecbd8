"""90% intervals of the results of a few designs, from the samples of fitted kernels.

The variant of each network is the one that it runs by the best estimate; the samples are those of a sweep, the same ones for every kernel,
for the dense network and for the pruned one.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.interval import QUANTILES, network_interval
from dse.model.efficiency.protocol import EfficiencyModel
from dse.model.layer_times import latency_samples
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.terms import LayerTerms
from dse.searching.evaluator import Evaluator
from dse.searching.space import DesignMatrix
from dse.workload import Variant

TermsKey = tuple[tuple[float, ...] | None, str, Variant]  # what terms depend on: values of dimensions that change them, and a network


@dataclass(frozen=True)
class _Terms:
    """Terms that designs share, and the efficiency, with samples, that completes them."""

    efficiency: EfficiencyModel
    known: dict[TermsKey, LayerTerms] = field(default_factory=dict)


def interval_columns(evaluator: Evaluator, designs: DesignMatrix) -> dict[str, np.ndarray]:
    """Interval ends of latency [s], performance and speedup, each [design]; nothing without fitted kernels, or where designs are
    evaluated by random efficiencies anyway."""
    if not evaluator.problem.kernels or evaluator.problem.search.robust or not len(designs):
        return {}
    terms = _Terms(efficiency_of(evaluator.problem.options, evaluator.problem.kernels, evaluator.space.accelerator))
    dense = {name: variants[0] for name, variants in evaluator.problem.feasible_variants.items()}
    own = {name: dense[name] for name in evaluator.problem.own_networks}
    latencies = dict(zip(own, _latencies(evaluator, None, own, terms), strict=True))
    base = np.stack([*latencies.values(), *(latencies[run.network] for run in evaluator.problem.fixed_runs.values())])
    by_design = [_intervals(evaluator, design, base, dense, terms) for design in designs]
    ends = {name: np.stack([each[name] for each in by_design], axis=1) for name in by_design[0]}
    return {f"{name}_{end}": values[number] for name, values in ends.items() for number, end in enumerate(QUANTILES)}


def _intervals(
    evaluator: Evaluator, design: np.ndarray, base: np.ndarray, dense: dict[str, Variant], terms: _Terms
) -> dict[str, Float[np.ndarray, "end"]]:
    """The interval ends of the results of one design; the speedup of networks that run dense is exactly one."""
    chosen = evaluator.chosen_variants(design)
    latency = _latencies(evaluator, design, chosen, terms)
    dense_latency = _latencies(evaluator, design, dense, terms)
    batches = np.array([evaluator.problem_at(design).run_settings(name)[0] for name in dense])
    samples = batches[:, None] / evaluator.problem.batch  # in the time of one of the base
    results = {"performance": samples * base / latency, "speedup": dense_latency / latency, "latency": latency}
    runs = {"performance": 2, "speedup": 2 if any(chosen[name] is not dense[name] for name in dense) else 0, "latency": 1}
    combine = evaluator.networks.over_networks.combine
    return {name: network_interval(combine(name, values), runs[name]) for name, values in results.items()}


def _latencies(
    evaluator: Evaluator, design: np.ndarray | None, variants: dict[str, Variant], terms: _Terms
) -> Float[np.ndarray, "network sample"]:
    """Latencies [s] of variants on a design, or on the accelerator as described. Designs that differ in rates only share their terms."""
    space, problem = evaluator.space, evaluator.problem if design is None else evaluator.problem_at(design)
    accelerator = space.accelerator if design is None else space.accelerator_at(design)
    key = None if design is None else tuple(design[[not dimension.changes_rates_only for dimension in space.dimensions]])
    for name, variant in variants.items():
        if (key, name, variant) not in terms.known:
            settings = problem.run_settings(name)
            terms.known[key, name, variant] = network_terms(accelerator, variant, *settings, problem.options, terms.efficiency)
    latencies = []
    for name, variant in variants.items():
        samples = latency_samples(terms.known[key, name, variant], accelerator, problem.options).sum(axis=1)
        latencies.append(samples[1:] if len(samples) > 1 else samples)
    return np.stack(latencies)
