"""A parameter of fitted kernels: its prior and bounds, and its estimate as files of fitted kernels store it.

Fits work on `theta`, the logarithm of each value (log odds of a share), on which the priors are normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dse.base.strict_model import StrictModel
from dse.base.units import SourceKind

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
    is_of_device: bool = False  # a property of the device and of how it is measured, rather than of the library

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


def theta_to_values(theta: Theta, parameters: Sequence[Parameter]) -> dict[str, float]:
    """Value of each parameter by its name."""
    return {p.name: p.from_theta(float(t)) for p, t in zip(parameters, theta, strict=True)}


def values_to_theta(values: dict[str, float], parameters: Sequence[Parameter]) -> Theta:
    """Theta of the values by name, in the order of `parameters`."""
    return np.array([p.to_theta(values[p.name]) for p in parameters])


class Estimate(StrictModel):
    """A number in SI units with its 90% interval: of the measurements, or of the prior if it is `assumed`."""

    value: float
    low: float
    high: float
    unit: str
    kind: SourceKind = "measured"


def round_estimate(value: float) -> float:
    """To four significant digits, as files state estimates."""
    return float(f"{value:.4g}")
