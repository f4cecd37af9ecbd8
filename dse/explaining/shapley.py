"""Shapley values: the part of each factor in a difference, independent of the order in which factors are changed.

    part of i = mean over all orders of ( value with i and what precedes it - value with what precedes it alone )

(Shapley 1953, "A value for n-person games".) The parts add up to the difference, a factor without effect gets 0, and exchanging the two
sides negates every part. All 2^n mixtures are evaluated for up to `EXACT` factors. For more, orders are sampled in pairs of an order and
its reverse, which keeps these properties: what is first in an order is last for the exchanged sides.
"""

from dataclasses import dataclass
from math import factorial

import numpy as np
from jaxtyping import Bool, Float, Int

EXACT = 12  # factors, of which all mixtures are evaluated
ORDERS = 256  # sampled for more


@dataclass(frozen=True, eq=False)
class Game:
    """Which mixtures have to be evaluated, and how their values make the parts.

    Edge e changes the factor `factor[e]` of the mixture `without[e]`, which gives the mixture `with_[e]`, and counts `weight[e]`.
    """

    masks: Bool[np.ndarray, "mixture factor"]
    factor: Int[np.ndarray, "edge"]
    without: Int[np.ndarray, "edge"]
    with_: Int[np.ndarray, "edge"]
    weight: Float[np.ndarray, "edge"]
    orders: int | None = None  # sampled orders; None: all of them

    @property
    def first(self) -> int:
        """Index of the mixture with no factor changed."""
        return int(np.flatnonzero(~self.masks.any(axis=1))[0])

    @property
    def last(self) -> int:
        """Index of the mixture with every factor changed."""
        return int(np.flatnonzero(self.masks.all(axis=1))[0])

    def parts(self, values: Float[np.ndarray, "mixture ..."]) -> Float[np.ndarray, "factor ..."]:
        """The part of each factor in values[last] - values[first]."""
        return self.sum_edges(values[self.with_] - values[self.without])

    def sum_edges(self, changes: Float[np.ndarray, "edge ..."]) -> Float[np.ndarray, "factor ..."]:
        """The weighted sum of the changes along the edges of each factor."""
        weighted = changes * self.weight.reshape(-1, *[1] * (changes.ndim - 1))
        totals = np.zeros((self.masks.shape[1], *changes.shape[1:]))
        np.add.at(totals, self.factor, weighted)
        return totals

    def ratio_parts(
        self, numerator: Float[np.ndarray, "mixture"], denominator: Float[np.ndarray, "mixture"]
    ) -> tuple[Float[np.ndarray, "factor"], Float[np.ndarray, "factor"]]:
        """Parts in a ratio: through the denominator and through the numerator; their sum is the part of the factor.

        Each edge is split as if numerator and denominator were two factors: a mean over the order of the two.
        """
        a, b = numerator[self.without], numerator[self.with_]
        x, y = 1 / denominator[self.without], 1 / denominator[self.with_]
        return self.sum_edges((y - x) * (a + b) / 2), self.sum_edges((b - a) * (x + y) / 2)


def make_game(factors: int, exact: int = EXACT, orders: int = ORDERS, seed: int = 0) -> Game:
    """The game of some factors: exact for up to `exact` of them, else of about `orders` sampled orders."""
    return _exact_game(factors) if factors <= exact else _sampled_game(factors, orders, seed)


def _exact_game(n: int) -> Game:
    numbers = np.arange(2**n)
    masks = (numbers[:, None] >> np.arange(n)) & 1 == 1
    sizes = masks.sum(axis=1)
    weights = np.array([factorial(size) * factorial(n - size - 1) / factorial(n) for size in range(n)])
    without = [numbers[~masks[:, i]] for i in range(n)]
    factor = np.repeat(np.arange(n), [len(each) for each in without])
    start = np.concatenate([*without, np.zeros(0, int)])
    return Game(masks, factor, start, start + (1 << factor), weights[sizes[start]] if n else np.zeros(0))


def _sampled_game(n: int, orders: int, seed: int) -> Game:
    generator = np.random.default_rng(seed)
    half = [generator.permutation(n) for _ in range(max(orders // 2, 1))]
    sampled = [order for first in half for order in (first, first[::-1])]
    steps = np.stack([np.argsort(order)[None, :] < np.arange(n + 1)[:, None] for order in sampled])  # [order, step, factor]
    masks, index = np.unique(steps.reshape(-1, n), axis=0, return_inverse=True)
    index = index.reshape(len(sampled), n + 1)
    factor = np.concatenate(sampled)
    weight = np.full(len(factor), 1 / len(sampled))
    return Game(masks, factor, index[:, :-1].ravel(), index[:, 1:].ravel(), weight, len(sampled))
