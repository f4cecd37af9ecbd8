"""What no schedule can beat, and what the two-optimal one never exceeds (Gleinig et al. 2023; fast memory of M >= 3 values).

Lower: every weight, bias and input is read once, every output written once. Upper: neuron by neuron, the bias is read, then
for each connection the weight and the source, and the value is written. They differ by a factor of at most 2.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from dse.io_theory.network import Network


@dataclass(frozen=True)
class Bound:
    """Values moved."""

    reads: int
    writes: int

    @property
    def total(self) -> int:
        return self.reads + self.writes


def lower(network: Network) -> Bound:
    """W + N reads, O writes: reached if and only if some order has a live peak of at most M - 1."""
    return Bound(network.weights + network.neurons, network.outputs)


def upper(network: Network) -> Bound:
    """2 W + N - I reads, N - I writes: reached with three values of fast memory."""
    computed = network.neurons - network.inputs
    return Bound(2 * network.weights + computed, computed)


def lower_batch(network: Network, batch: int, memory: int) -> float:
    """For `batch` samples, layers fused as one likes: the larger of the compulsory values and b W / sqrt(M) - 2 M - b (N - I) + b O."""
    computed = network.neurons - network.inputs
    compulsory = network.weights + computed + batch * (network.inputs + network.outputs)
    return max(compulsory, batch * network.weights / sqrt(memory) - 2 * memory - batch * (computed - network.outputs))


def lower_batch_layer(weights: int, batch: int, memory: int) -> float:
    """For one layer, 2 b W / sqrt(M) - 2 M, if that is positive. A sum over layers holds only where none are fused."""
    return max(0.0, 2 * batch * weights / sqrt(memory) - 2 * memory)


def dense_layer(outputs: int, inputs: int, memory: int) -> int:
    """Values that a dense layer moves if M - 2 partial sums stay while inputs stream past: what MIN moves in the tiled order."""
    return outputs * inputs + 2 * outputs + inputs * ceil(outputs / _sums(outputs, memory))


def random_layer(weights: float, outputs: int, inputs: int, density: float, memory: int) -> float:
    """The same for a random layer: an input is read for a tile of t sums unless none of them needs it, 1 - (1 - d)^t."""
    sums = _sums(outputs, memory)
    return weights + 2 * outputs + inputs * outputs * (1 - (1 - density) ** sums) / sums


def _sums(outputs: int, memory: int) -> int:
    return min(max(memory - 2, 1), outputs)
