"""Time of the host in networks whose kernels it launches one by one: no run takes less, on any device.

It is estimated by runs that are too small to occupy the device: where twice the tokens take hardly longer, the host sets the time.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from dse.calibrate.network_measurement import NetworkRow

MIN_SHARE = 0.9  # time of the smallest run over that of the next, of at least twice the tokens, from which the host sets both

Runs = tuple[str, str, str]  # device, workload and dtype


class HostTime(NamedTuple):
    """Time of the host [s], and the tokens of the smallest run, by which it was estimated."""

    time: float
    tokens: int


def estimate_host_times(rows: Iterable[NetworkRow]) -> dict[Runs, HostTime]:
    """The time of the host for dense networks in an eager runtime; none where the smallest run occupies the device."""
    eager = sorted((*runs_of(row), row.tokens, row.dense_ms / 1e3) for row in rows if row.runtime == "eager")
    estimates = {}
    for key, group in groupby(eager, key=lambda each: each[:3]):
        times = {tokens: time for *_, tokens, time in group}
        (smallest, first), *others = times.items()
        twice = next((time for tokens, time in others if tokens >= 2 * smallest), None)
        if twice is not None and first > MIN_SHARE * twice:
            estimates[key] = HostTime(min(first, twice), smallest)
    return estimates


def runs_of(row: NetworkRow) -> Runs:
    """What the time of the host depends on."""
    return row.device, row.workload, row.dtype
