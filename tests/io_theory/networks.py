"""Networks for tests: the theory's small ones, and random graphs for Hypothesis."""

import numpy as np
from hypothesis import strategies as st

from dse.io_theory.layered import layered
from dse.io_theory.network import Network, network
from dse.io_theory.order import Order

CHAIN = network([0, 1, 2], [1, 2, 3], "abcd")
STAR = network([0, 1, 2, 3], [4] * 4, "abcde")
K33 = layered([np.ones((3, 3))])
TWO_LAYERS = layered([np.ones((2, 2))] * 2)


@st.composite
def graphs(draw, neurons: int = 9) -> Network:
    """Any acyclic graph; neurons without a source are inputs, those without a target, and some others, outputs."""
    count = draw(st.integers(2, neurons))
    pairs = [(u, v) for v in range(count) for u in range(v)]
    chosen = sorted(draw(st.sets(st.sampled_from(pairs), min_size=1, max_size=3 * count)))
    used = sorted({n for pair in chosen for n in pair})
    number = {n: place for place, n in enumerate(used)}
    source, target = np.array([[number[u], number[v]] for u, v in chosen]).T
    outputs = np.bincount(source, minlength=len(used)) == 0
    also = draw(st.lists(st.booleans(), min_size=len(used), max_size=len(used)))
    outputs |= np.array(also) & (np.bincount(target, minlength=len(used)) > 0)
    return network(source, target, [str(n) for n in used], outputs=outputs)


def random_order(network: Network, random) -> Order:
    """A random topological order of the connections."""
    waiting, left, order = set(range(network.weights)), network.in_degree.tolist(), []
    while waiting:
        n = random.choice(sorted(n for n in waiting if left[network.source[n]] == 0))
        waiting.remove(n)
        left[network.target[n]] -= 1
        order.append(n)
    return np.array(order, np.int32)
