"""Networks of layers in sequence, from their matrices; random ones."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from dse.base.errors import InputError, Problem
from dse.io_theory.network import Network, network


def layered(
    matrices: Sequence[Any],
    biases: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    relu: bool = True,
    notes: tuple[str, ...] = (),
) -> Network:
    """The network of weight matrices [m, k], dense or sparse, each one's k the m of the one before; raises InputError.

    What is zero is no connection. Biases [m] count whether or not they are given. `relu` after every layer but the last.
    """
    layers: list[Any] = [coo_array(csr_array(matrix)) for matrix in matrices]
    names = names or [f"layer{number}" for number in range(1, len(layers) + 1)]
    _check_chain(layers, names)
    sizes = [layers[0].shape[1], *(layer.shape[0] for layer in layers)]
    first = np.concatenate([[0], np.cumsum(sizes)])
    neurons = [f"{name}:{n}" for name, size in zip(("input", *names), sizes, strict=True) for n in range(size)]
    source = np.concatenate([layer.col + first[number] for number, layer in enumerate(layers)])
    target = np.concatenate([layer.row + first[number + 1] for number, layer in enumerate(layers)])
    weight = np.concatenate([layer.data for layer in layers]).astype(np.float32)
    bias = None if biases is None else np.concatenate([np.zeros(sizes[0]), *biases])
    places = np.arange(first[-1])
    return network(source, target, neurons, weight, bias, places < first[1], places >= first[-2], relu, notes)


def _check_chain(layers: Sequence[Any], names: Sequence[str]) -> None:
    fix = "name layers that follow one another, with --layers"
    problems = [
        Problem(f"layer '{names[n]}' takes {layers[n].shape[1]} values, and '{names[n - 1]}' before it gives {layers[n - 1].shape[0]}", fix)
        for n in range(1, len(layers))
        if layers[n].shape[1] != layers[n - 1].shape[0]
    ]
    if problems:
        raise InputError.from_problems(problems)


def random_layers(sizes: Sequence[int], density: float, seed: int = 0) -> Network:
    """Layers of these sizes, the input's first, each connection there with probability `density`; raises InputError.

    A neuron that would have no source gets one at random. Weights are normal, scaled so that values keep their size.
    """
    if len(sizes) < 2 or min(sizes) < 1 or not 0 < density <= 1:
        raise InputError(f"no layers of {'x'.join(map(str, sizes))} at density {density:g}", "write two sizes or more, 0 < density <= 1")
    rng = np.random.default_rng(seed)
    return layered([_random_matrix(rng, m, k, density) for k, m in pairwise(sizes)])


def _random_matrix(rng: np.random.Generator, m: int, k: int, density: float) -> np.ndarray:
    mask = rng.random((m, k)) < density
    empty = np.flatnonzero(~mask.any(1))
    mask[empty, rng.integers(k, size=len(empty))] = True
    return np.where(mask, rng.standard_normal((m, k)) / np.sqrt(mask.sum(1, keepdims=True)), 0)
