"""Time of the host in networks whose kernels it launches one by one, fitted to the runs that are too small to occupy the device.

    time = scale of the machine * (run + launches * launch)

Where twice the tokens take hardly longer, the host sets the time. A network is predicted by the runs of others, on its machine and
elsewhere: the host belongs to the machine, not to the device.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import t as student_t

from dse.calibrate.tables.network_measurement import NetworkRow
from dse.model.efficiency.interval import LEVEL

MIN_SHARE = 0.9  # least quotient of the times of the smallest run and the next, of at least twice the tokens, if the host sets both
NEGLIGIBLE = 1e-3  # weight of the residual that keeps the mean of the scales at one


class HostRun(NamedTuple):
    """A run that the host bounds: its time [s], and how many kernels it launches."""

    device: str
    workload: str
    dtype: str
    launches: float
    time: float


class HostFit(NamedTuple):
    """Seconds of a launch and of a run on the mean machine, and the scale of each machine (their geometric mean is one)."""

    launch: float
    run: float
    scales: dict[str, float]

    def time(self, device: str, launches: float) -> float:
        """Seconds of the host on a machine, on the mean one if it is not known."""
        return self.scales.get(device, 1.0) * (self.run + launches * self.launch)

    @property
    def half_width(self) -> float:
        """Half width of the 90% interval of the logarithm on another machine: Student's t of the scales."""
        logarithms, count = np.log(list(self.scales.values())), len(self.scales)
        if count < 2:
            return np.inf
        return float(student_t.ppf((1 + LEVEL) / 2, count - 1) * logarithms.std(ddof=1) * np.sqrt(1 + 1 / count))


def list_host_runs(rows: Iterable[tuple[NetworkRow, float]]) -> list[HostRun]:
    """The smallest run of each dense network that the host bounds; `rows` come with the launches of the dense network."""
    eager = sorted(
        (row.device, row.workload, row.dtype, row.tokens, row.dense_ms / 1e3, count) for row, count in rows if row.runtime == "eager"
    )
    runs = []
    for key, group in groupby(eager, key=lambda each: each[:3]):
        times = {tokens: (time, launches) for *_, tokens, time, launches in group}
        (smallest, (first, launches)), *others = times.items()
        twice = next((time for tokens, (time, _) in others if tokens >= 2 * smallest), None)
        if twice is not None and min(first, twice) > MIN_SHARE * max(first, twice):
            runs.append(HostRun(*key, launches, min(first, twice)))
    return runs


def fit_host(runs: Sequence[HostRun]) -> HostFit:
    """Fit the logarithms of the times of at least one run, by least squares; runs of equal launches show no further time of a run."""
    devices = list(dict.fromkeys(run.device for run in runs))
    machine = np.array([devices.index(run.device) for run in runs])
    launches, times = (np.array([getattr(run, name) for run in runs]) for name in ("launches", "time"))
    has_run = len(np.unique(launches)) > 1

    def residuals(parameters: np.ndarray) -> np.ndarray:
        launch, run, scales = parameters[0], parameters[1], parameters[2:]
        seconds = np.exp(launch) * launches + (np.exp(run) if has_run else 0.0)
        return np.append(np.log(seconds) + scales[machine] - np.log(times), NEGLIGIBLE * scales.sum())

    start = [np.log(np.median(times / launches) / 2), np.log(np.median(times) / 2), *np.zeros(len(devices))]
    launch, run, *scales = least_squares(residuals, start).x
    mean = np.exp(np.mean(scales))
    relative = {device: float(np.exp(scale) / mean) for device, scale in zip(devices, scales, strict=True)}
    return HostFit(float(np.exp(launch) * mean), float(np.exp(run) * mean) if has_run else 0.0, relative)


def fit_without_network(runs: Iterable[HostRun], workload: str) -> HostFit | None:
    """The fit to all other networks; None if there is none."""
    others = [run for run in runs if run.workload != workload]
    return fit_host(others) if others else None


def left_out_ratios(runs: Sequence[HostRun]) -> list[float]:
    """Predicted over measured time of each run by a fit without its network, where another network ran on the machine."""
    fits = {workload: fit_without_network(runs, workload) for workload in {run.workload for run in runs}}
    pairs = ((run, fits[run.workload]) for run in runs)
    return [fit.time(run.device, run.launches) / run.time for run, fit in pairs if fit is not None and run.device in fit.scales]


def describe_errors(runs: Sequence[HostRun]) -> str:
    """The fit to all runs, and the predicted over measured times of networks and of machines that are left out."""
    fit = fit_host(runs)
    without_network = [abs(ratio - 1) for ratio in left_out_ratios(runs)]
    texts = [
        f"time of the host: {fit.launch * 1e6:.3g} us a launch and {fit.run * 1e3:.3g} ms a run on the mean of {len(fit.scales)} machines"
    ]
    if without_network:
        texts.append(f"{np.mean(without_network):.0%} off for {len(without_network)} runs of networks left out")
    for device in fit.scales if len(fit.scales) > 1 else ():
        other = fit_host([run for run in runs if run.device != device])
        ratios = [other.time(device, run.launches) / run.time for run in runs if run.device == device]
        texts.append(f"{np.mean(ratios):.2f} times as long where {device} is left out")
    return ", ".join(texts)
