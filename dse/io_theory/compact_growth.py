"""Networks that need little fast memory because of how they grew."""

import random

import numpy as np

from dse.base.errors import InputError
from dse.io_theory.network import Network, network


def compact_growth(memory: int, steps: int, degree: int, seed: int = 0) -> Network:
    """A network that needs no more than `memory` values to reach the lower bound, grown as Gleinig et al. do; raises InputError.

    memory - 2 values are live, inputs at first. Each step adds a neuron with `degree` random sources among them, which takes
    the place of a live value that was used. Outputs are the neurons that nothing uses.
    """
    live = list(range(memory - 2))
    if not (1 <= degree <= len(live) and steps >= 1):
        what = f"no growth with {memory} values, {steps} steps, {degree} sources"
        raise InputError(what, "write a memory of at least 3, at least one step, and 1 to memory - 2 sources")
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
