"""The parameters of a fitted kernel: what each means, where it starts, how firmly it is held there, and its bounds."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Theta = Float[np.ndarray, "parameter"]


@dataclass(frozen=True)
class Parameter:
    """Fitted as its logarithm, or as log odds if it is a `share`; `spread` is the prior's deviation on that scale."""

    name: str
    unit: str
    prior: float
    spread: float
    low: float
    high: float
    meaning: str
    share: bool = False

    def inward(self, value: float) -> float:
        return float(np.log(value / (1 - value)) if self.share else np.log(value))

    def outward(self, theta: float) -> float:
        return float(1 / (1 + np.exp(-theta)) if self.share else np.exp(theta))


PARAMETERS = (
    Parameter("launch", "s", 3e-6, 0.5, 1e-7, 1e-3, "what a launch takes before it computes anything"),
    Parameter("extra_stored", "1", 0.3, 1.0, 1e-3, 100, "issue slots beyond the multiply-add itself, for each that is done"),
    Parameter("extra_dense", "1", 0.02, 1.5, 1e-5, 10, "issue slots for each dense multiply-add: loads, used or not"),
    Parameter("fill", "1", 30.0, 1.0, 0.1, 1e4, "multiply-adds in an output at which half of its time is prologue and epilogue"),
    Parameter("edge", "1", 8.0, 1.0, 0.1, 1e3, "rows and columns of a tile at which loading its operands takes as long as using them"),
    Parameter("tail", "1", 0.62, 1.0, 0.01, 0.99, "how much of an unfilled wave is lost", share=True),
    Parameter("bandwidth", "1", 0.88, 0.7, 0.05, 0.99, "achievable share of the memory's bandwidth", share=True),
    Parameter("columns", "1", 512.0, 1.0, 8, 1e5, "columns of B that launches in flight gather from: k x columns against the cache"),
    Parameter("reuse", "1", 4.0, 0.7, 1, 1e3, "multiply-adds for each element gathered from beyond the processor"),
    Parameter("split", "1", 0.2, 1.0, 1e-3, 100, "cost of each further part that k is split into, in 50 multiply-adds an output"),
    Parameter("flight", "1", 8.0, 1.0, 0.1, 1e3, "tiles that a processor has to work on at once to be kept busy"),
)  # fmt: skip
PRIOR = np.array([p.inward(p.prior) for p in PARAMETERS])
SPREAD = np.array([p.spread for p in PARAMETERS])
LOW = np.array([p.inward(p.low) for p in PARAMETERS])
HIGH = np.array([p.inward(p.high) for p in PARAMETERS])


def values(theta: Theta) -> dict[str, float]:
    return {p.name: p.outward(float(t)) for p, t in zip(PARAMETERS, theta, strict=True)}


def from_values(given: dict[str, float]) -> Theta:
    return np.array([p.inward(given[p.name]) for p in PARAMETERS])
