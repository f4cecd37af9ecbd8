"""Results of a design: first those of each network in its variant, then one figure over the networks.

Seconds and joules of different networks are not comparable. Their weighted geometric mean is, because a change of scale of one network
changes every design's mean by the same factor. The worst of them is taken of the figures relative to each network's base, the dense
network on the accelerator as described; latency, energy and edp are then put on the scale of the bases' geometric mean, so that the
design of least `latency` is the design of most `performance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

HIGHER = ("performance", "speedup")  # is better


@dataclass(frozen=True, eq=False)
class Base:
    """The dense networks on the accelerator as described: what `performance` and the worst network are relative to."""

    latency: Float[np.ndarray, "network"]
    energy: Float[np.ndarray, "network"] | None = None

    def of(self, name: str) -> Float[np.ndarray, "network"]:
        """The base of `latency`, `energy` or `edp`."""
        if name == "latency":
            return self.latency
        assert self.energy is not None, "energy is evaluated wherever it is named"
        return self.energy if name == "energy" else self.energy * self.latency


@dataclass(frozen=True, eq=False)
class OverNetworks:
    """One figure for several networks: the geometric mean with `weights` [network], or the `worst` relative to `base`."""

    base: Base
    weights: Float[np.ndarray, "network"]
    worst: bool

    def of_each(self, latency: Any, energy: Any | None, dense: Any, arrays: Any = np) -> dict[str, Any]:
        """Results of the networks [network, ...]: `latency` [s] and `energy` [J] of their variants, `dense` [s] without any pruning."""
        reference = self.base.latency.reshape(-1, *(1,) * (arrays.ndim(latency) - 1))
        found = {"performance": reference / latency, "speedup": dense / latency, "latency": latency}
        return found if energy is None else found | {"energy": energy, "edp": energy * latency}

    def together(self, name: str, values: Any, arrays: Any = np) -> Any:
        """One figure from those of the networks, along the first axis."""
        if not self.worst:
            return arrays.exp(self.weights @ arrays.log(values) / self.weights.sum())
        if len(values) == 1:
            return values[0]
        if name in HIGHER:
            return values.min(axis=0)
        base = self.base.of(name)
        relative = values / base.reshape(-1, *(1,) * (arrays.ndim(values) - 1))
        return relative.max(axis=0) * np.exp(np.log(base).mean())

    def combined(self, each: Mapping[str, Any], arrays: Any = np) -> dict[str, Any]:
        return {name: self.together(name, values, arrays) for name, values in each.items()}

    def excess(self, limit: Any, combined: Mapping[str, Any], each: Mapping[str, Any], arrays: Any = np) -> Any:
        """By how much of its bound a constraint is broken (at most 0 where it holds). Of the worst network, it must hold for each."""
        if not self.worst:
            return limit.excess(limit.expression.evaluate(combined, arrays))
        number = len(each["latency"])
        alone = [{**combined, **{name: values[n] for name, values in each.items()}} for n in range(number)]
        return arrays.stack([limit.excess(limit.expression.evaluate(one, arrays)) + 0 * one["latency"] for one in alone]).max(axis=0)


def at_variants(values: Any, choice: Any, arrays: Any = np) -> Any:
    """Values [network, design] at the chosen variants: `values` [variant, design], `choice` [network, design]."""
    return arrays.take_along_axis(values, choice, axis=0)
