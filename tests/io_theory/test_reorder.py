"""Annealing: incremental costs, traffic gained, and resuming from a checkpoint."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.io_theory import reorder
from dse.io_theory.bounds import lower_bound
from dse.io_theory.generated_network import compact_growth, random_layers
from dse.io_theory.incremental_cost import evaluate_move, first_affected_step, record_history
from dse.io_theory.orders import check_order, two_optimal_order
from dse.io_theory.schedule import build_graph, build_schedule, earliest_start, latest_end, swap_steps
from dse.io_theory.simulate import simulate
from tests.io_theory import reference
from tests.io_theory.networks import K33, TWO_LAYERS, graphs, random_order


@settings(max_examples=60)
@given(graphs(max_neurons=20), st.integers(3, 8), st.randoms(use_true_random=False))
def test_the_incremental_cost_of_any_move_is_the_difference_of_two_full_simulations(net, capacity, random):
    """Accepted and rejected moves, of single connections and of runs."""
    graph = build_graph(net)
    schedule = build_schedule(graph, random_order(net, random))
    history, fast, cost = record_history(graph, schedule, capacity)
    assert cost == excess(net, schedule, capacity)
    for _ in range(20):
        first = random.randrange(net.num_connections)
        last = min(first + random.randint(1, 3), net.num_connections)
        earliest, latest = earliest_start(graph, schedule, first, last), latest_end(graph, schedule, first, last)
        if earliest < first:
            a, m, b = random.randrange(earliest, first), first, last
        elif last < latest:
            a, m, b = first, last, random.randint(last + 1, latest)
        else:
            continue
        swap_steps(graph, schedule, a, m, b)
        begin = first_affected_step(graph, schedule, a, m, b)
        increase = evaluate_move(graph, schedule, history, fast, begin, b, False)
        check_order(net, schedule.connection)
        assert cost + increase == excess(net, schedule, capacity)
        if random.random() < 0.5:
            swap_steps(graph, schedule, a, a + b - m, b)
        else:
            assert evaluate_move(graph, schedule, history, fast, begin, b, True) == increase
            cost += increase


def excess(net, schedule, capacity: int) -> int:
    return simulate(net, schedule.connection, capacity).total - lower_bound(net).total


@pytest.mark.parametrize("size", [30, 50])
def test_annealing_closes_a_fifth_of_the_gap_on_random_networks(size):
    """Networks of four layers."""
    net, capacity = random_layers((size,) * 5, 0.1), size
    before = simulate(net, two_optimal_order(net), capacity).total
    result = reorder.reorder(net, capacity, moves=60_000)
    assert result.traffic == simulate(net, check_order(net, result.order), capacity).total
    assert before - result.traffic >= 0.2 * (before - lower_bound(net).total) > 0


@pytest.mark.parametrize("net", [K33, TWO_LAYERS])
@pytest.mark.parametrize("capacity", [3, 4, 5])
def test_tiny_networks_reach_their_optimum(net, capacity):
    assert reorder.reorder(net, capacity, moves=5_000).traffic == reference.optimum(net, capacity)


def test_compact_growth_needs_no_search_to_attain_the_lower_bound():
    net = compact_growth(10, 50, 4)
    result = reorder.reorder(net, 10, moves=1000)
    assert (result.traffic, result.start) == (lower_bound(net).total, "two-optimal")


def test_without_moves_the_result_is_the_best_of_the_three_starts():
    dense, sparse, wide = random_layers((40, 40), 1.0), random_layers((40,) * 5, 0.1), random_layers((200,) * 3, 0.1)
    for net, start in ((dense, "tiled"), (sparse, "two-optimal"), (wide, "clustered")):
        result = reorder.reorder(net, 10, moves=0)
        assert result.start == start
        assert result.traffic == result.start_traffic == simulate(net, result.order, 10).total


def test_interrupted_and_resumed_equals_uninterrupted(tmp_path, monkeypatch):
    net = random_layers((40,) * 5, 0.1)
    uninterrupted = reorder.reorder(net, 20, moves=20_000, seed=5)
    monkeypatch.setattr(reorder, "CHECKPOINT_INTERVAL_S", 0.0)
    reported = []

    def interrupt(moves: int) -> None:
        reported.append(moves)
        if sum(reported) > 3000:
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            reorder.reorder(net, 20, moves=20_000, seed=5, checkpoints=tmp_path, progress=interrupt)
        assert sum(reported) < 20_000
    resumed = reorder.reorder(net, 20, moves=20_000, seed=5, checkpoints=tmp_path, progress=reported.append)
    np.testing.assert_array_equal(resumed.order, uninterrupted.order)
    assert resumed.traffic == uninterrupted.traffic
    again = []
    finished = reorder.reorder(net, 20, moves=20_000, seed=5, checkpoints=tmp_path, progress=again.append)
    assert (finished.traffic, again) == (uninterrupted.traffic, [20_000])
    assert reorder.reorder(net, 20, moves=20_000, seed=6, checkpoints=tmp_path).traffic != uninterrupted.traffic
