"""The parameters of a fitted kernel: meaning, unit, prior and bounds of each.

Fits work on `theta`, the logarithm of each value (log odds of a share), on which the priors are normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Theta = Float[np.ndarray, "parameter"]


@dataclass(frozen=True)
class Parameter:
    """One parameter; `deviation` is the standard deviation of the prior of theta, `low` and `high` bound the value."""

    name: str
    unit: str
    prior: float
    deviation: float
    low: float
    high: float
    meaning: str
    is_share: bool = False
    of_device: bool = False  # a property of the device and of how it is measured, rather than of the library

    def to_theta(self, value: float) -> float:
        """The logarithm of a value, or its log odds."""
        return float(np.log(value / (1 - value)) if self.is_share else np.log(value))

    def from_theta(self, theta: float) -> float:
        """The value of a theta."""
        return float(1 / (1 + np.exp(-theta)) if self.is_share else np.exp(theta))


class Distribution(NamedTuple):
    """Independent normal distributions of the parameters: mean and standard deviation of theta."""

    mean: Theta
    deviation: Theta


PARAMETERS = (
    Parameter("launch", "s", 4e-6, 0.5, 1e-7, 1e-3, "time of a launch before it computes anything", of_device=True),
    Parameter("energy", "J/FLOP", 1.3e-12, 0.5, 1e-13, 1e-11, "energy of an operation of 16 bit at 7 nm: sets the clock", of_device=True),
    Parameter("extra_stored", "1", 0.06, 1.0, 1e-4, 100, "further issue slots for each stored multiply-add"),
    Parameter("extra_dense", "1", 0.01, 1.5, 1e-5, 10, "issue slots for each dense multiply-add: loads of inputs, used or not"),
    Parameter("fill", "1", 60.0, 1.0, 0.1, 1e4, "multiply-adds of an output for which its prologue and epilogue take as long"),
    Parameter("edge", "1", 4.0, 1.0, 0.01, 1e3, "loads of a tile: issue slots grow by the factor 1 + edge (1/rows + 1/columns)"),
    Parameter("operands", "1", 70.0, 0.5, 1, 1e4, "edge of a square tile that loads from the cache as long as it computes", of_device=True),
    Parameter("tail", "1", 0.62, 1.0, 0.01, 0.99, "exponent of the loss by an unfilled wave: 0 for none of it, 1 for all", is_share=True),
    Parameter("bandwidth", "1", 0.88, 0.7, 0.05, 0.99, "achievable share of the memory's bandwidth", is_share=True, of_device=True),
    Parameter("resident", "1", 0.45, 1.0, 1e-3, 10, "share of the cache in which repeated launches find operands", of_device=True),
    Parameter("columns", "1", 512.0, 1.0, 8, 1e5, "columns of B that are gathered from at once: k x columns against the cache"),
    Parameter("reuse", "1", 4.0, 0.7, 1, 1e3, "multiply-adds that share one element gathered from memory"),
    Parameter("contention", "1", 1e-3, 1.0, 1e-8, 10, "issue slots that a gathering multiply-add waits for each other of its row"),
    Parameter("crowding", "1", 0.35, 0.5, 0.01, 100, "bytes of a row over a scratchpad from which on that wait is longer"),
    Parameter("split", "s", 2e-6, 1.0, 1e-9, 1e-3, "time to start the addition of the partial sums of a split k"),
    Parameter("flight", "1", 8.0, 1.0, 0.1, 1e3, "tiles that a processor has to work on at once to hide their latency"),
)  # fmt: skip
PRIOR = Distribution(np.array([p.to_theta(p.prior) for p in PARAMETERS]), np.array([p.deviation for p in PARAMETERS]))
LOWER_BOUND = np.array([p.to_theta(p.low) for p in PARAMETERS])
UPPER_BOUND = np.array([p.to_theta(p.high) for p in PARAMETERS])


def theta_to_values(theta: Theta, parameters: Sequence[Parameter] = PARAMETERS) -> dict[str, float]:
    """Value of each parameter by its name."""
    return {p.name: p.from_theta(float(t)) for p, t in zip(parameters, theta, strict=True)}


def values_to_theta(values: dict[str, float], parameters: Sequence[Parameter] = PARAMETERS) -> Theta:
    """Theta of the values by name, in the order of `parameters`."""
    return np.array([p.to_theta(values[p.name]) for p in parameters])
