"""Bounds, simulation and live peak against exact answers, and the laws of I/O theory (Gleinig et al. 2023) on random graphs."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.io_theory import bounds, order
from dse.io_theory.cluster import clustered
from dse.io_theory.compact_growth import compact_growth
from dse.io_theory.layered import layered, random_layers
from dse.io_theory.network import network
from dse.io_theory.simulate import POLICIES, simulate
from tests.io_theory import exact
from tests.io_theory.networks import CHAIN, K33, STAR, TWO_LAYERS, graphs, random_order

memories = st.integers(3, 12)

# W, N, I, O; lower and upper bound; the optimum and destination-major MIN's reads and writes with 3, 4 and 5 values.
SMALL = [
    (CHAIN, (3, 4, 1, 1), (8, 12), (8, 8, 8), ((7, 1), (7, 1), (7, 1))),
    (STAR, (4, 5, 4, 1), (10, 10), (10, 10, 10), ((9, 1), (9, 1), (9, 1))),
    (K33, (9, 6, 3, 3), (18, 24), (22, 20, 18), ((21, 3), (18, 3), (15, 3))),
    (TWO_LAYERS, (8, 6, 2, 2), (16, 24), (21, 16, 16), ((20, 4), (15, 3), (14, 2))),
]


@pytest.mark.parametrize(("net", "sizes", "limits", "optima", "simulated"), SMALL, ids=["chain", "star", "K33", "2-2-2"])
def test_small_networks(net, sizes, limits, optima, simulated):
    assert (net.weights, net.neurons, net.inputs, net.outputs) == sizes
    assert (bounds.lower(net).total, bounds.upper(net).total) == limits
    found = [simulate(net, order.two_optimal(net), memory) for memory in (3, 4, 5)]
    assert tuple((traffic.reads, traffic.writes) for traffic in found) == simulated
    assert tuple(exact.optimum(net, memory) for memory in (3, 4, 5)) == optima


@settings(max_examples=40)
@given(graphs(neurons=5), st.integers(3, 5))
def test_the_exact_solver_is_brute_force(net, memory):
    assume(net.weights <= 6)
    best = exact.optimum(net, memory)
    assert best == exact.brute_force(net, memory)
    assert bounds.lower(net).total <= best <= bounds.upper(net).total


@settings(max_examples=40)
@given(graphs(neurons=6), st.integers(3, 6))
def test_the_lower_bound_is_reached_if_and_only_if_some_order_has_a_live_peak_below_the_memory(net, memory):
    assume(net.weights <= 6)
    peak = min(order.live_peak(net, np.array(each)) for each in exact.orders(net))
    assert (exact.optimum(net, memory) == bounds.lower(net).total) == (peak <= memory - 1)


@settings(max_examples=200)
@given(graphs(), memories, st.sampled_from(POLICIES), st.booleans(), st.randoms(use_true_random=False))
def test_every_count_is_that_of_a_plain_simulation(net, memory, policy, free_dead, random):
    """Reads are unique under MIN too; its writes may depend on which of two equals leaves."""
    chosen = random_order(net, random)
    found = simulate(net, chosen, memory, policy, free_dead).counts()
    expected = exact.traffic(net, chosen, memory, policy, free_dead)
    if policy == "min":
        found, expected = ({key: count for key, count in counts.items() if "read" in key} for counts in (found, expected))
        found, expected = (
            counts | {"sums_read": counts["sums_read"] + counts["inputs_read"], "inputs_read": 0} for counts in (found, expected)
        )
    assert found == expected


@settings(max_examples=200)
@given(graphs(neurons=14), memories)
def test_the_two_optimal_order_stays_between_the_bounds(net, memory):
    for policy in POLICIES:
        traffic = simulate(net, order.two_optimal(net), memory, policy)
        assert bounds.lower(net).total <= traffic.total <= bounds.upper(net).total
        assert traffic.reads >= bounds.lower(net).reads
        assert traffic.writes >= bounds.lower(net).writes


@settings(max_examples=200)
@given(graphs(neurons=14), memories, st.booleans(), st.randoms(use_true_random=False))
def test_min_reads_least_and_more_memory_never_reads_more(net, memory, free_dead, random):
    chosen = random_order(net, random)
    reads = {policy: simulate(net, chosen, memory, policy, free_dead).reads for policy in POLICIES}
    assert reads["min"] <= min(reads.values())
    for policy in ("min", "lru"):
        assert simulate(net, chosen, memory + 1, policy, free_dead).reads <= reads[policy]


@settings(max_examples=200)
@given(graphs(neurons=14), st.randoms(use_true_random=False))
def test_memory_of_the_live_peak_reaches_the_lower_bound_under_any_policy_and_less_does_not(net, random):
    chosen = random_order(net, random)
    memory = max(order.memory_of_lower_bound(net, chosen), 3)
    least = bounds.lower(net).total
    assert {simulate(net, chosen, memory, policy).total for policy in POLICIES} == {least}
    if memory > 3:
        assert simulate(net, chosen, memory - 1).total > least


@given(st.integers(1, 6), st.integers(2, 40), st.randoms(use_true_random=False))
def test_bandwidth_k_needs_no_more_than_k_plus_2_values(k, neurons, random):
    matrix = [(v - random.randint(1, min(k, v)), v) for v in range(1, neurons)]
    source, target = np.array(matrix).T
    net = network(source, target, [str(n) for n in range(neurons)])
    memory = order.bandwidth(net) + 2
    assert {simulate(net, order.two_optimal(net), memory, policy).total for policy in POLICIES} == {bounds.lower(net).total}


@given(graphs(neurons=14), memories)
def test_tiles_are_topological_and_one_destination_wide_they_are_two_optimal(net, memory):
    for tiles in (order.tiled, clustered):
        chosen = order.checked(net, tiles(net, memory))
        assert sorted(chosen) == list(range(net.weights))
    np.testing.assert_array_equal(order.tiled(net, 3), order.two_optimal(net))


def test_a_dense_layer_moves_what_its_curve_says():
    net = layered([np.ones((24, 40))])
    memories = (3, 4, 6, 10, 14, 26)
    expected = [1968, 1488, 1248, 1128, 1088, 1048]
    assert [bounds.dense_layer(24, 40, memory) for memory in memories] == expected
    assert [simulate(net, order.tiled(net, memory), memory).total for memory in memories] == expected


def test_a_random_layer_moves_within_a_percent_of_what_its_curve_says():
    memories = (3, 6, 18, 66, 258)
    assert [round(bounds.random_layer(3314, 256, 256, 0.05, memory)) for memory in memories] == [7103, 6865, 6119, 4812, 4082]
    net = random_layers((256, 256), 0.05, seed=1)
    assert net.neurons == 512
    for memory in memories:
        curve = bounds.random_layer(net.weights, 256, 256, net.weights / 256**2, memory)
        assert simulate(net, order.tiled(net, memory), memory).total == pytest.approx(curve, rel=0.007)
    for policy in ("lru", "fifo"):  # the curve assumes a managed memory: caches may even exceed the two-optimal bound
        assert simulate(net, order.tiled(net, 18), 18, policy).total > bounds.upper(net).total


def test_tiles_of_destinations_with_common_sources_read_each_source_once():
    """Two groups of eight destinations, each with eight sources of its own, that stand mixed."""
    mixed = np.random.default_rng(0).permutation(16)
    net = layered([np.kron(np.eye(2), np.ones((8, 8)))[mixed]])
    assert simulate(net, clustered(net, 10), 10).total == bounds.lower(net).total < simulate(net, order.tiled(net, 10), 10).total


def test_batches_read_weights_once_and_values_each_time():
    net = random_layers((64, 64, 64), 0.5)
    assert bounds.lower_batch(net, 1, 10**6) == bounds.lower(net).total
    assert bounds.lower_batch(net, 8, 10**6) == net.weights + net.neurons - net.inputs + 8 * (net.inputs + net.outputs)
    dense = layered([np.ones((64, 64))] * 2)
    assert bounds.lower_batch(dense, 1000, 4) == 1000 * 2 * 64**2 / 2 - 2 * 4 - 1000 * 128 + 1000 * 64
    assert bounds.lower_batch_layer(9, 1000, 9) == 2 * 9 * 1000 / 3 - 2 * 9
    assert bounds.lower_batch_layer(9, 1, 1000) == 0


@pytest.mark.parametrize(("memory", "steps", "sources"), [(10, 200, 4), (300, 500, 100), (3, 5, 1)])
def test_compact_growth_reaches_the_lower_bound_with_its_memory(memory, steps, sources):
    net = compact_growth(memory, steps, sources, seed=3)
    if memory == 10:
        assert (net.weights, net.neurons, net.inputs) == (800, 208, 8)
    least, grown = bounds.lower(net).total, order.two_optimal(net)
    assert order.live_peak(net, grown) <= memory - 1
    assert {simulate(net, grown, memory, policy).total for policy in POLICIES} == {least}
    if memory > 3:
        assert min(simulate(net, grown, memory - 1, policy).total for policy in POLICIES) > least


def test_a_grown_network_of_a_million_connections_stays_between_the_bounds():
    net = compact_growth(300, 10_000, 100)
    assert net.weights == 10**6
    for memory in (3, 30, 200, 300):
        totals = [simulate(net, order.two_optimal(net), memory, policy).total for policy in POLICIES]
        assert bounds.lower(net).total <= min(totals) <= max(totals) <= bounds.upper(net).total
        assert (max(totals) == bounds.lower(net).total) == (memory == 300)


def test_caches_that_do_not_know_what_is_dead_write_more():
    net = compact_growth(10, 200, 4)
    for policy in POLICIES:
        managed, cache = (simulate(net, order.two_optimal(net), 10, policy, free_dead) for free_dead in (True, False))
        assert cache.writes > managed.writes == net.outputs


def test_an_order_that_is_not_topological_is_refused():
    with pytest.raises(InputError, match="the order is not topological: c -> d comes before b -> c; put all connections into"):
        simulate(CHAIN, np.array([0, 2, 1]), 3)


def test_two_values_are_too_few():
    with pytest.raises(InputError, match="a fast memory of 2 values is too small; give at least 3"):
        simulate(CHAIN, order.two_optimal(CHAIN), 2)
