"""Times of a launch of each layer by one kernel or another, with their errors."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from dse.model.efficiency import interval
from dse.networks.layers import LayerMask, PerLayer


@dataclass(frozen=True)
class LaunchTimes:
    """Overhead, time of the unit and time of the memory of a launch of each layer [s], and by which kernel.

    `factors`: samples of actual over predicted times; the first is 1.
    """

    components: Float[np.ndarray, "component layer"]
    factors: Float[np.ndarray, "component sample layer"]
    names: np.ndarray

    @property
    def total(self) -> Float[np.ndarray, "layer"]:
        """The whole time of each launch [s]: the 4-norm of `smooth_maximum`, in NumPy, because 'dse check' imports no JAX."""
        launch, unit, memory = self.components
        return launch + (unit**4 + memory**4) ** 0.25

    def with_deviation(self, name: str, deviation: PerLayer) -> "LaunchTimes":
        """The times with a further error of a standard deviation of the logarithm."""
        if self.factors.shape[1] == 1 or not deviation.any():
            return self
        samples = np.append(0.0, interval.normal_samples(name))[: self.factors.shape[1], None]
        return replace(self, factors=self.factors * np.exp(samples * deviation))

    def or_faster(self, other: "LaunchTimes", among: LayerMask) -> "LaunchTimes":
        """The times of another kernel in those layers in which it is faster."""
        is_faster = among & (other.total < self.total)
        arrays = ("components", "factors", "names")
        return LaunchTimes(*(np.where(is_faster, getattr(other, name), getattr(self, name)) for name in arrays))
