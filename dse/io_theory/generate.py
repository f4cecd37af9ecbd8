"""Made-up networks: random layers, and compact growth."""

import random
from collections.abc import Sequence

import numpy as np

from dse.errors import BadInput
from dse.io_theory.layered import layered
from dse.io_theory.network import Network, network


def random_layers(sizes: Sequence[int], density: float, seed: int = 0) -> Network:
    """Layers of these sizes, the input's first, each connection there with probability `density`; raises BadInput.

    A neuron that would have no source gets one at random. Weights are normal, scaled so that values keep their size.
    """
    if len(sizes) < 2 or min(sizes) < 1 or not 0 < density <= 1:
        raise BadInput.one(f"no layers of {'x'.join(map(str, sizes))} at density {density:g}", "write two sizes or more, 0 < density <= 1")
    rng = np.random.default_rng(seed)
    return layered([_random_matrix(rng, m, k, density) for k, m in zip(sizes[:-1], sizes[1:], strict=True)])


def _random_matrix(rng: np.random.Generator, m: int, k: int, density: float) -> np.ndarray:
    mask = rng.random((m, k)) < density
    empty = np.flatnonzero(~mask.any(1))
    mask[empty, rng.integers(k, size=len(empty))] = True
    return np.where(mask, rng.standard_normal((m, k)) / np.sqrt(mask.sum(1, keepdims=True)), 0)


def compact_growth(memory: int, steps: int, degree: int, seed: int = 0) -> Network:
    """A network that needs no more than `memory` values to reach the lower bound, grown as Gleinig et al. do; raises BadInput.

    memory - 2 values are live, inputs at first. Each step adds a neuron with `degree` random sources among them, which takes
    the place of a live value that was used. Outputs are the neurons that nothing uses.
    """
    live = list(range(memory - 2))
    if not (1 <= degree <= len(live) and steps >= 1):
        what = f"no growth with {memory} values, {steps} steps, {degree} sources"
        raise BadInput.one(what, "write a memory of at least 3, at least one step, and 1 to memory - 2 sources")
    rng, inputs = random.Random(seed), len(live)
    used, source = np.zeros(inputs + steps, bool), np.empty((steps, degree), np.int64)
    for step in range(steps):
        source[step] = rng.sample(live, degree)
        used[source[step]] = True
        place = rng.randrange(len(live))
        while not used[live[place]]:
            place = rng.randrange(len(live))
        live[place] = inputs + step
    target = np.repeat(np.arange(inputs, inputs + steps), degree)
    names = [f"input:{n}" for n in range(inputs)] + [f"neuron:{n}" for n in range(steps)]
    weight = np.random.default_rng(seed).standard_normal(steps * degree) / np.sqrt(degree)
    places = np.arange(inputs + steps)
    return network(source.ravel(), target, names, weight, inputs=places < inputs, outputs=(places >= inputs) & ~used)
