"""Launches whose measured time is far from what all launches of the kernel explain: most likely a slip in the table."""

from dataclasses import replace

import numpy as np

from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.record import KernelRecord

FAR = 4.0  # factor between a measured and a fitted time from which on a launch is named; repeats differ by at most 2


def describe_outliers(record: KernelRecord, launches: KernelLaunches) -> str | None:
    """How many launches of a kernel the fit is far from, with the furthest one; None if there are none."""
    fitted = replace(record.model, discrepancy=None).predict_times(launches)
    ratio = launches.time / fitted
    distance = np.abs(np.log(ratio))
    if not (distance > np.log(FAR)).any():
        return None
    worst = int(distance.argmax())
    m, k, n = (f"{getattr(launches, name)[worst]:.0f}" for name in ("m", "k", "n"))
    far = f"{int((distance > np.log(FAR)).sum())} of {len(launches)} launches are over {FAR:g} times off"
    share = f"{ratio[worst]:.3g} times" if ratio[worst] > 1 else f"1/{1 / ratio[worst]:.3g} of"
    example = f"{launches.time[worst] * 1e3:.4g} ms at m={m} k={k} n={n} is {share} the fitted time"
    return f"{record}: {far}; {example}; one wrong row widens every interval"
