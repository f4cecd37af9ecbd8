"""Bounds, simulation and live peak against reference implementations; laws of I/O theory (Gleinig et al. 2023) on random graphs."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.io_theory.bounds import (
    batch_lower_bound,
    capacity_for_lower_bound,
    dense_layer_traffic,
    layer_batch_lower_bound,
    live_peak,
    lower_bound,
    random_layer_traffic,
    topological_bandwidth,
    upper_bound,
)
from dse.io_theory.generated_network import compact_growth, random_layers
from dse.io_theory.layered_network import network_from_matrices
from dse.io_theory.network import build_network
from dse.io_theory.orders import check_order, clustered_tile_order, tile_order, two_optimal_order
from dse.io_theory.simulate import POLICIES, simulate
from tests.io_theory import reference
from tests.io_theory.networks import CHAIN, K33, STAR, TWO_LAYERS, graphs, random_order

capacities = st.integers(3, 12)

# W, N, I, O; lower and upper bound; with M = 3, 4 and 5, the optimum, and reads and writes of the two-optimal order under MIN.
SMALL = [
    (CHAIN, (3, 4, 1, 1), (8, 12), (8, 8, 8), ((7, 1), (7, 1), (7, 1))),
    (STAR, (4, 5, 4, 1), (10, 10), (10, 10, 10), ((9, 1), (9, 1), (9, 1))),
    (K33, (9, 6, 3, 3), (18, 24), (22, 20, 18), ((21, 3), (18, 3), (15, 3))),
    (TWO_LAYERS, (8, 6, 2, 2), (16, 24), (21, 16, 16), ((20, 4), (15, 3), (14, 2))),
]


@pytest.mark.parametrize(("net", "sizes", "limits", "optima", "simulated"), SMALL, ids=["chain", "star", "K33", "2-2-2"])
def test_small_networks(net, sizes, limits, optima, simulated):
    assert (net.num_connections, net.num_neurons, net.num_inputs, net.num_outputs) == sizes
    assert (lower_bound(net).total, upper_bound(net).total) == limits
    results = [simulate(net, two_optimal_order(net), capacity) for capacity in (3, 4, 5)]
    assert tuple((traffic.reads, traffic.writes) for traffic in results) == simulated
    assert tuple(reference.optimum(net, capacity) for capacity in (3, 4, 5)) == optima


@settings(max_examples=40)
@given(graphs(max_neurons=5), st.integers(3, 5))
def test_the_optimal_solver_equals_brute_force(net, capacity):
    assume(net.num_connections <= 6)
    best = reference.optimum(net, capacity)
    assert best == reference.brute_force_optimum(net, capacity)
    assert lower_bound(net).total <= best <= upper_bound(net).total


@settings(max_examples=40)
@given(graphs(max_neurons=6), st.integers(3, 6))
def test_the_lower_bound_is_attained_if_and_only_if_some_order_has_a_live_peak_below_the_capacity(net, capacity):
    assume(net.num_connections <= 6)
    peak = min(live_peak(net, np.array(order)) for order in reference.legal_orders(net))
    assert (reference.optimum(net, capacity) == lower_bound(net).total) == (peak <= capacity - 1)


@settings(max_examples=200)
@given(graphs(), capacities, st.sampled_from(POLICIES), st.booleans(), st.randoms(use_true_random=False))
def test_every_count_equals_the_reference_simulation(net, capacity, policy, free_dead, random):
    """Under MIN, only the number of reads is unique: the others depend on which of two values with equal next uses is evicted."""
    order = random_order(net, random)
    counts = simulate(net, order, capacity, policy, free_dead).counts()
    expected = reference.traffic(net, order, capacity, policy, free_dead)
    if policy == "min":
        assert _reads(counts) == _reads(expected)
    else:
        assert counts == expected


def _reads(counts: dict[str, int]) -> tuple[int, int, int]:
    return counts["weights_read"], counts["biases_read"], counts["inputs_read"] + counts["intermediates_read"]


@settings(max_examples=200)
@given(graphs(max_neurons=14), capacities)
def test_the_two_optimal_order_stays_between_the_bounds(net, capacity):
    for policy in POLICIES:
        traffic = simulate(net, two_optimal_order(net), capacity, policy)
        assert lower_bound(net).total <= traffic.total <= upper_bound(net).total
        assert traffic.reads >= lower_bound(net).reads
        assert traffic.writes >= lower_bound(net).writes


@settings(max_examples=200)
@given(graphs(max_neurons=14), capacities, st.booleans(), st.randoms(use_true_random=False))
def test_min_has_the_fewest_reads_and_more_memory_never_increases_reads(net, capacity, free_dead, random):
    order = random_order(net, random)
    reads = {policy: simulate(net, order, capacity, policy, free_dead).reads for policy in POLICIES}
    assert reads["min"] <= min(reads.values())
    for policy in ("min", "lru"):
        assert simulate(net, order, capacity + 1, policy, free_dead).reads <= reads[policy]


@settings(max_examples=200)
@given(graphs(max_neurons=14), st.randoms(use_true_random=False))
def test_capacity_above_the_live_peak_attains_the_lower_bound_under_any_policy_and_less_does_not(net, random):
    order = random_order(net, random)
    capacity = max(capacity_for_lower_bound(net, order), 3)
    lower = lower_bound(net).total
    assert {simulate(net, order, capacity, policy).total for policy in POLICIES} == {lower}
    if capacity > 3:
        assert simulate(net, order, capacity - 1).total > lower


@given(st.integers(1, 6), st.integers(2, 40), st.randoms(use_true_random=False))
def test_bandwidth_k_attains_the_lower_bound_with_k_plus_2_values(k, neurons, random):
    edges = [(v - random.randint(1, min(k, v)), v) for v in range(1, neurons)]
    source, target = np.array(edges).T
    net = build_network(source, target, [str(n) for n in range(neurons)])
    capacity = topological_bandwidth(net) + 2
    assert {simulate(net, two_optimal_order(net), capacity, policy).total for policy in POLICIES} == {lower_bound(net).total}


@given(graphs(max_neurons=14), capacities)
def test_tile_orders_are_topological_and_with_tiles_of_one_target_two_optimal(net, capacity):
    for build_order in (tile_order, clustered_tile_order):
        order = check_order(net, build_order(net, capacity))
        assert sorted(order) == list(range(net.num_connections))
    np.testing.assert_array_equal(tile_order(net, 3), two_optimal_order(net))


def test_a_dense_layer_has_exactly_the_traffic_of_the_formula():
    net = network_from_matrices([np.ones((24, 40))])
    sizes = (3, 4, 6, 10, 14, 26)
    expected = [1968, 1488, 1248, 1128, 1088, 1048]
    assert [dense_layer_traffic(24, 40, capacity) for capacity in sizes] == expected
    assert [simulate(net, tile_order(net, capacity), capacity).total for capacity in sizes] == expected


def test_a_random_layer_has_the_traffic_of_the_formula_within_a_percent():
    sizes = (3, 6, 18, 66, 258)
    assert [round(random_layer_traffic(3314, 256, 256, 0.05, capacity)) for capacity in sizes] == [7103, 6865, 6119, 4812, 4082]
    net = random_layers((256, 256), 0.05, seed=1)
    assert net.num_neurons == 512
    for capacity in sizes:
        formula = random_layer_traffic(net.num_connections, 256, 256, net.num_connections / 256**2, capacity)
        assert simulate(net, tile_order(net, capacity), capacity).total == pytest.approx(formula, rel=0.007)
    for policy in ("lru", "fifo"):  # the formula assumes a managed scratchpad: caches may even exceed the two-optimal bound
        assert simulate(net, tile_order(net, 18), 18, policy).total > upper_bound(net).total


def test_clustered_tiles_of_targets_with_common_sources_read_each_source_once():
    """Two groups of eight targets, each with eight sources of its own, in mixed order."""
    permutation = np.random.default_rng(0).permutation(16)
    net = network_from_matrices([np.kron(np.eye(2), np.ones((8, 8)))[permutation]])
    assert simulate(net, clustered_tile_order(net, 10), 10).total == lower_bound(net).total < simulate(net, tile_order(net, 10), 10).total


def test_lower_bounds_of_batches_count_weights_once_and_values_per_sample():
    net = random_layers((64, 64, 64), 0.5)
    assert batch_lower_bound(net, 1, 10**6) == lower_bound(net).total
    assert batch_lower_bound(net, 8, 10**6) == net.num_connections + net.num_neurons - net.num_inputs + 8 * (
        net.num_inputs + net.num_outputs
    )
    dense = network_from_matrices([np.ones((64, 64))] * 2)
    assert batch_lower_bound(dense, 1000, 4) == 1000 * 2 * 64**2 / 2 - 2 * 4 - 1000 * 128 + 1000 * 64
    assert layer_batch_lower_bound(9, 1000, 9) == 2 * 9 * 1000 / 3 - 2 * 9
    assert layer_batch_lower_bound(9, 1, 1000) == 0


@pytest.mark.parametrize(("capacity", "steps", "sources"), [(10, 200, 4), (300, 500, 100), (3, 5, 1)])
def test_compact_growth_attains_the_lower_bound_with_its_capacity(capacity, steps, sources):
    net = compact_growth(capacity, steps, sources, seed=3)
    if capacity == 10:
        assert (net.num_connections, net.num_neurons, net.num_inputs) == (800, 208, 8)
    lower, order = lower_bound(net).total, two_optimal_order(net)
    assert live_peak(net, order) <= capacity - 1
    assert {simulate(net, order, capacity, policy).total for policy in POLICIES} == {lower}
    if capacity > 3:
        assert min(simulate(net, order, capacity - 1, policy).total for policy in POLICIES) > lower


def test_a_compact_growth_network_of_a_million_connections_stays_between_the_bounds():
    net = compact_growth(300, 10_000, 100)
    assert net.num_connections == 10**6
    for capacity in (3, 30, 200, 300):
        totals = [simulate(net, two_optimal_order(net), capacity, policy).total for policy in POLICIES]
        assert lower_bound(net).total <= min(totals) <= max(totals) <= upper_bound(net).total
        assert (max(totals) == lower_bound(net).total) == (capacity == 300)


def test_caches_that_do_not_free_dead_values_write_more():
    net = compact_growth(10, 200, 4)
    for policy in POLICIES:
        managed, cache = (simulate(net, two_optimal_order(net), 10, policy, free_dead) for free_dead in (True, False))
        assert cache.writes > managed.writes == net.num_outputs


def test_an_order_that_is_not_topological_is_an_error():
    with pytest.raises(InputError, match="the order is not topological: c -> d comes before b -> c; put all connections into"):
        simulate(CHAIN, np.array([0, 2, 1]), 3)


def test_a_capacity_of_two_values_is_an_error():
    with pytest.raises(InputError, match="a fast memory of 2 values is too small; give at least 3"):
        simulate(CHAIN, two_optimal_order(CHAIN), 2)
