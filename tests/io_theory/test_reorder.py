"""Annealing: what it counts as it goes, what it gains, and that it can be cut short."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.io_theory import bounds, order, reorder
from dse.io_theory.compact_growth import compact_growth
from dse.io_theory.incremental_cost import begin_of, past_of, run
from dse.io_theory.layered import random_layers
from dse.io_theory.schedule import earliest, exchange, graph_of, latest, schedule_of
from dse.io_theory.simulate import simulate
from tests.io_theory import exact
from tests.io_theory.networks import K33, TWO_LAYERS, graphs, random_order


@settings(max_examples=60)
@given(graphs(neurons=20), st.integers(3, 8), st.randoms(use_true_random=False))
def test_the_cost_of_any_change_is_that_of_two_full_simulations(net, memory, random):
    """Changes taken and changes put back, of single connections and of runs."""
    graph = graph_of(net)
    schedule = schedule_of(graph, random_order(net, random))
    past, fast, cost = past_of(graph, schedule, memory)
    assert cost == excess(net, schedule, memory)
    for _ in range(20):
        first = random.randrange(net.weights)
        last = min(first + random.randint(1, 3), net.weights)
        soonest, end = earliest(graph, schedule, first, last), latest(graph, schedule, first, last)
        if soonest < first:
            a, m, b = random.randrange(soonest, first), first, last
        elif last < end:
            a, m, b = first, last, random.randint(last + 1, end)
        else:
            continue
        exchange(graph, schedule, a, m, b)
        begin = begin_of(graph, schedule, a, m, b)
        increase = run(graph, schedule, past, fast, begin, b, False)
        order.checked(net, schedule.connection)
        assert cost + increase == excess(net, schedule, memory)
        if random.random() < 0.5:
            exchange(graph, schedule, a, a + b - m, b)
        else:
            assert run(graph, schedule, past, fast, begin, b, True) == increase
            cost += increase


def excess(net, schedule, memory: int) -> int:
    return simulate(net, schedule.connection, memory).total - bounds.lower(net).total


@pytest.mark.parametrize("size", [30, 50])
def test_annealing_closes_a_fifth_of_the_gap_on_random_networks(size):
    """Of 4 layers; in seconds."""
    net, memory = random_layers((size,) * 5, 0.1), size
    before = simulate(net, order.two_optimal(net), memory).total
    found = reorder.reorder(net, memory, moves=60_000)
    assert found.total == simulate(net, order.checked(net, found.order), memory).total
    assert before - found.total >= 0.2 * (before - bounds.lower(net).total) > 0


@pytest.mark.parametrize("net", [K33, TWO_LAYERS])
@pytest.mark.parametrize("memory", [3, 4, 5])
def test_tiny_networks_are_brought_to_their_optimum(net, memory):
    assert reorder.reorder(net, memory, moves=5_000).total == exact.optimum(net, memory)


def test_a_scrambled_growth_is_not_needed_to_reach_the_lower_bound():
    net = compact_growth(10, 50, 4)
    found = reorder.reorder(net, 10, moves=1000)
    assert (found.total, found.start) == (bounds.lower(net).total, "two-optimal")


def test_no_moves_keep_the_best_of_the_three_starts():
    dense, sparse, wide = random_layers((40, 40), 1.0), random_layers((40,) * 5, 0.1), random_layers((200,) * 3, 0.1)
    for net, start in ((dense, "tiled"), (sparse, "two-optimal"), (wide, "clustered")):
        found = reorder.reorder(net, 10, moves=0)
        assert found.start == start
        assert found.total == found.start_total == simulate(net, found.order, 10).total


def test_cut_short_and_resumed_is_as_never_cut(tmp_path, monkeypatch):
    net = random_layers((40,) * 5, 0.1)
    whole = reorder.reorder(net, 20, moves=20_000, seed=5)
    monkeypatch.setattr(reorder, "BETWEEN_CHECKPOINTS", 0.0)
    told = []

    def cut(moves: int) -> None:
        told.append(moves)
        if sum(told) > 3000:
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            reorder.reorder(net, 20, moves=20_000, seed=5, checkpoints=tmp_path, progress=cut)
        assert sum(told) < 20_000
    resumed = reorder.reorder(net, 20, moves=20_000, seed=5, checkpoints=tmp_path, progress=told.append)
    np.testing.assert_array_equal(resumed.order, whole.order)
    assert resumed.total == whole.total
    again = []
    finished = reorder.reorder(net, 20, moves=20_000, seed=5, checkpoints=tmp_path, progress=again.append)
    assert (finished.total, again) == (whole.total, [20_000])
    assert reorder.reorder(net, 20, moves=20_000, seed=6, checkpoints=tmp_path).total != whole.total
