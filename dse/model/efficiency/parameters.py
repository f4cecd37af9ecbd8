"""The eleven parameters of a fitted kernel: meaning, unit, prior and bounds of each.

Fits work on `theta`, the logarithm of each value (log odds of a share), on which the priors are normal.
"""

from dataclasses import dataclass

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

    def to_theta(self, value: float) -> float:
        """The logarithm of a value, or its log odds."""
        return float(np.log(value / (1 - value)) if self.is_share else np.log(value))

    def from_theta(self, theta: float) -> float:
        """The value of a theta."""
        return float(1 / (1 + np.exp(-theta)) if self.is_share else np.exp(theta))


PARAMETERS = (
    Parameter("launch", "s", 3e-6, 0.5, 1e-7, 1e-3, "time of a launch before it computes anything"),
    Parameter("extra_stored", "1", 0.3, 1.0, 1e-3, 100, "further issue slots for each stored multiply-add"),
    Parameter("extra_dense", "1", 0.02, 1.5, 1e-5, 10, "issue slots for each dense multiply-add: loads of inputs, used or not"),
    Parameter("fill", "1", 30.0, 1.0, 0.1, 1e4, "multiply-adds of an output for which its prologue and epilogue take as long"),
    Parameter("edge", "1", 8.0, 1.0, 0.1, 1e3, "loads of operands: issue slots grow by the factor 1 + edge (1/rows + 1/columns) of a tile"),
    Parameter("tail", "1", 0.62, 1.0, 0.01, 0.99, "exponent of the loss by an unfilled wave: 0 for none of it, 1 for all", is_share=True),
    Parameter("bandwidth", "1", 0.88, 0.7, 0.05, 0.99, "achievable share of the bandwidth of the memory", is_share=True),
    Parameter("columns", "1", 512.0, 1.0, 8, 1e5, "columns of B that are gathered from at once: k x columns against the cache"),
    Parameter("reuse", "1", 4.0, 0.7, 1, 1e3, "multiply-adds that share one element gathered from memory"),
    Parameter("split", "1", 0.2, 1.0, 1e-3, 100, "cost of each further part that k is split into, in 50 multiply-adds of an output"),
    Parameter("flight", "1", 8.0, 1.0, 0.1, 1e3, "tiles that a processor has to work on at once to hide their latency"),
)  # fmt: skip
PRIOR = np.array([p.to_theta(p.prior) for p in PARAMETERS])
PRIOR_DEVIATION = np.array([p.deviation for p in PARAMETERS])
LOWER_BOUND = np.array([p.to_theta(p.low) for p in PARAMETERS])
UPPER_BOUND = np.array([p.to_theta(p.high) for p in PARAMETERS])


def theta_to_values(theta: Theta) -> dict[str, float]:
    """Value of each parameter by its name."""
    return {p.name: p.from_theta(float(t)) for p, t in zip(PARAMETERS, theta, strict=True)}


def values_to_theta(values: dict[str, float]) -> Theta:
    """Theta of the values by name, in the order of `PARAMETERS`."""
    return np.array([p.to_theta(values[p.name]) for p in PARAMETERS])
