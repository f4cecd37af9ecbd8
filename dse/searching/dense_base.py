"""Evaluate the dense networks on the accelerator as described: what the performance of designs is relative to."""

import jax
import numpy as np
from jaxtyping import Float

from dse.model.cost.design import Design
from dse.model.cost.power import static_power
from dse.model.layer_times import fastest_times, layer_times
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import inverse_rates
from dse.searching.batch_evaluator import Batch, compiled_evaluate_batch
from dse.searching.categorical_config import build_config
from dse.searching.over_networks import Base
from dse.searching.problem import SearchProblem
from dse.searching.space import Space


def evaluate_base(space: Space, problem: SearchProblem) -> Base:
    """Latencies [s] of the dense networks; also energies [J], if the search scores the worst network by energy."""
    needs_energy = problem.needs_energy and problem.search.over_workloads == "worst"
    return Base(_latencies(space, problem), _energies(space, problem) if needs_energy else None)


def _latencies(space: Space, problem: SearchProblem) -> Float[np.ndarray, "network"]:
    accelerator, latencies = space.accelerator, []
    efficiency = efficiency_of(problem.options, problem.kernels, accelerator, with_samples=False)
    for dense, *_ in problem.feasible_variants.values():
        terms = network_terms(accelerator, dense, problem.batch, problem.dtype, problem.options, efficiency)
        times = layer_times(terms, inverse_rates(terms.executions, accelerator), problem.options.resource_overlap)
        latencies.append(float(fastest_times(times)[0] @ terms.count))
    return np.array(latencies)


def _energies(space: Space, problem: SearchProblem) -> Float[np.ndarray, "network"]:
    """Energy [J] with leakage."""
    described = Space(space.accelerator, ())
    dense_variants = [dense for dense, *_ in problem.feasible_variants.values()]
    config = build_config(space.accelerator, described, problem, dense_variants, True)
    entries = np.zeros((1 + len(config.capacity_paths), 1), int)
    batch = Batch(np.empty((0, 1)), entries, np.ones(1), np.ones(len(config.executions)))
    with jax.enable_x64(True):
        latency, energy = compiled_evaluate_batch(batch, config.arrays, combination=config.combination)
    return (np.asarray(energy) + static_power(Design(space.accelerator)) * np.asarray(latency))[:, 0]
