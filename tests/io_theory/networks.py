"""Small networks with known optima, and random graphs and orders for Hypothesis."""

import numpy as np
from hypothesis import strategies as st

from dse.io_theory.layered_network import network_from_matrices
from dse.io_theory.network import Network, build_network
from dse.io_theory.orders import Order

CHAIN = build_network([0, 1, 2], [1, 2, 3], "abcd")
STAR = build_network([0, 1, 2, 3], [4] * 4, "abcde")
K33 = network_from_matrices([np.ones((3, 3))])
TWO_LAYERS = network_from_matrices([np.ones((2, 2))] * 2)


@st.composite
def graphs(draw, max_neurons: int = 9) -> Network:
    """Any acyclic graph. Neurons without a source are inputs; neurons without a target, and some others, are outputs."""
    count = draw(st.integers(2, max_neurons))
    pairs = [(u, v) for v in range(count) for u in range(v)]
    chosen = sorted(draw(st.sets(st.sampled_from(pairs), min_size=1, max_size=3 * count)))
    used = sorted({n for pair in chosen for n in pair})
    number = {n: index for index, n in enumerate(used)}
    source, target = np.array([[number[u], number[v]] for u, v in chosen]).T
    is_output = np.bincount(source, minlength=len(used)) == 0
    extra = draw(st.lists(st.booleans(), min_size=len(used), max_size=len(used)))
    is_output |= np.array(extra) & (np.bincount(target, minlength=len(used)) > 0)
    return build_network(source, target, [str(n) for n in used], is_output=is_output)


def random_order(network: Network, random) -> Order:
    """A random topological order of the connections."""
    waiting, remaining_in, order = set(range(network.num_connections)), network.in_degree.tolist(), []
    while waiting:
        n = random.choice(sorted(n for n in waiting if remaining_in[network.source[n]] == 0))
        waiting.remove(n)
        remaining_in[network.target[n]] -= 1
        order.append(n)
    return np.array(order, np.int32)
