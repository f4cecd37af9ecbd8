"""Synthetic networks: random layers, and compact growth (a network that needs little fast memory by construction)."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError
from dse.io_theory.layered_network import network_from_matrices
from dse.io_theory.network import Network, build_network


def random_layers(sizes: Sequence[int], density: float, seed: int = 0) -> Network:
    """Generate layers whose connections exist independently with probability `density`.

    `sizes` are numbers of neurons, the input layer first. A neuron without a source gets a random one. Weights are normal,
    scaled so that the values keep their magnitude from layer to layer. Raises InputError for fewer than two sizes, a size
    below 1, and a density outside (0, 1].
    """
    if len(sizes) < 2 or min(sizes) < 1 or not 0 < density <= 1:
        problem = f"cannot generate layers of {'x'.join(map(str, sizes))} at density {density:g}"
        raise InputError(problem, "write two sizes or more, 0 < density <= 1")
    rng = np.random.default_rng(seed)
    return network_from_matrices([_random_matrix(rng, m, k, density) for k, m in pairwise(sizes)])


def _random_matrix(rng: np.random.Generator, m: int, k: int, density: float) -> Float[np.ndarray, "m k"]:
    mask = rng.random((m, k)) < density
    empty = np.flatnonzero(~mask.any(1))
    mask[empty, rng.integers(k, size=len(empty))] = True
    return np.where(mask, rng.standard_normal((m, k)) / np.sqrt(mask.sum(1, keepdims=True)), 0)


def compact_growth(capacity: int, steps: int, degree: int, seed: int = 0) -> Network:
    """Grow a network that attains the lower bound with a fast memory of `capacity` values (Gleinig et al. 2023).

    M - 2 values are live, at first the inputs. Each step adds a neuron with `degree` random live sources, which replaces a
    live value that was used at least once. Neurons that are never used are the outputs. Raises InputError for a capacity
    below 3, for no steps and for a degree outside 1 to M - 2.
    """
    live = list(range(capacity - 2))
    if not (1 <= degree <= len(live) and steps >= 1):
        problem = f"cannot grow a network with memory={capacity}, steps={steps}, sources={degree}"
        raise InputError(problem, "write a memory of at least 3, at least one step, and 1 to memory - 2 sources")
    rng, num_inputs = random.Random(seed), len(live)
    used, source = np.zeros(num_inputs + steps, bool), np.empty((steps, degree), np.int64)
    for step in range(steps):
        source[step] = rng.sample(live, degree)
        used[source[step]] = True
        replaced = rng.randrange(len(live))
        while not used[live[replaced]]:
            replaced = rng.randrange(len(live))
        live[replaced] = num_inputs + step
    target = np.repeat(np.arange(num_inputs, num_inputs + steps), degree)
    names = [f"input:{n}" for n in range(num_inputs)] + [f"neuron:{n}" for n in range(steps)]
    weight = np.random.default_rng(seed).standard_normal(steps * degree) / np.sqrt(degree)
    is_input = np.arange(num_inputs + steps) < num_inputs
    return build_network(source.ravel(), target, names, weight, is_input=is_input, is_output=~is_input & ~used)
