"""What a library leaves unexplained on every device: the mean discrepancy of its kernels, as far as devices deviate together.

    f(log2 m, log2 k, log2 n, log2 density) = weight * mean over devices of f_device

A library that takes the same tiles on several devices deviates from the model at the same shapes. The weight is the slope of the
deviations of each measured device on the mean of the others: 0 if they have nothing in common, 1 if they are equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dse.model.efficiency.discrepancy import Discrepancy, Sizes

MAX_COMPARED = 128  # launches of each kernel by which devices are compared
MAX_POINTS = 512  # launches that describe what the devices share
NOISE = 1e-3  # of their deviations, which are expected ones

DeviceDiscrepancies = tuple[tuple[Discrepancy, ...], ...]  # of the kernels of each device


class _Agreement(NamedTuple):
    """How far devices deviate together: the slope of each on the others, and the share of the squared deviations that this explains."""

    weight: float
    explained: float


def shared_discrepancy(of_devices: Mapping[str, Sequence[Discrepancy]]) -> Discrepancy | None:
    """What the kernels of one library on some devices say about another device; None if the devices do not deviate together.

    Fewer than two devices do not show whether they do.
    """
    return _shared(tuple(map(tuple, of_devices.values()))) if len(of_devices) > 1 else None


@cache
def _shared(of_devices: DeviceDiscrepancies) -> Discrepancy | None:
    weight, explained = _agreement(of_devices)
    if weight == 0:
        return None
    kernels = [discrepancy for device in of_devices for discrepancy in device]
    sizes = np.unique(np.concatenate([kernel.sizes for kernel in kernels]), axis=0)
    sizes = sizes[_spread(len(sizes), MAX_POINTS)]
    variance = np.mean([kernel.deviation**2 + kernel.noise**2 for kernel in kernels])
    return Discrepancy(
        sizes,
        weight * _expected(of_devices, sizes),
        np.exp(np.mean([np.log(kernel.lengths) for kernel in kernels], axis=0)),
        deviation=float(np.sqrt(explained * variance)),
        noise=NOISE * float(np.sqrt(variance)),
        own=float(np.sqrt((1 - explained) * variance)),
    )


def _agreement(of_devices: DeviceDiscrepancies) -> _Agreement:
    covariance = expected_variance = variance = 0.0
    for device in of_devices:
        others = [other for other in of_devices if other is not device]
        for discrepancy in device:
            compared = _spread(len(discrepancy.sizes), MAX_COMPARED)
            measured, expected = discrepancy.log_ratios[compared], _expected(others, discrepancy.sizes[compared])
            covariance += float(expected @ measured)
            expected_variance += float(expected @ expected)
            variance += float(measured @ measured)
    if covariance <= 0:
        return _Agreement(0.0, 0.0)
    return _Agreement(min(1.0, covariance / expected_variance), covariance**2 / (expected_variance * variance))


def _expected(of_devices: Iterable[Sequence[Discrepancy]], sizes: Sizes) -> Float[np.ndarray, "launch"]:
    """Mean over devices of the mean deviation of the kernels of each."""
    return np.mean([np.mean([each.expected(sizes) for each in device], axis=0) for device in of_devices], axis=0)


def _spread(count: int, limit: int) -> np.ndarray:
    """Indices of at most `limit` of `count` items, spread evenly."""
    return np.unique(np.linspace(0, count - 1, limit).astype(int))
