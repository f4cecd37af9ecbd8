"""Time calls on the CPU or GPU: median of repeats, with operands that are in no cache."""

import time
from collections.abc import Callable

import numpy as np

Call = Callable[[], object]
Timer = Callable[[Call, int], list[float]]  # (call, repeats) -> seconds of each

WARM_UP_CALLS = 3  # untimed: page faults, clocks, compilation at the first call
MAX_SECONDS, MIN_REPEATS = 2.0, 3  # of one kernel at one shape: a slow call is repeated less often, but not below the minimum


def measure_median(timer: Timer, call: Call, repeats: int) -> tuple[float, float]:
    """Median time of up to `repeats` calls [s], and their interquartile range over it."""
    shortest = min(timer(call, WARM_UP_CALLS))
    affordable = max(MIN_REPEATS, int(MAX_SECONDS / max(shortest, 1e-9)))
    low, median, high = np.quantile(timer(call, min(repeats, affordable)), [0.25, 0.5, 0.75])
    return float(median), float((high - low) / median)


def cpu_timer(evicted_bytes: int) -> Timer:
    """A timer by the wall clock that writes `evicted_bytes` before each call, to evict the operands from the caches; 0 keeps them."""
    waste = np.zeros(evicted_bytes // 8)

    def time_once(call: Call) -> float:
        np.add(waste, 1, out=waste)
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return lambda call, repeats: [time_once(call) for _ in range(repeats)]


def gpu_timer(evicted_bytes: int) -> Timer:
    """A timer by events in the stream of the GPU; the eviction before each call hides the launch overhead of the host."""
    import torch  # pyright: ignore[reportMissingImports]

    waste = torch.empty(evicted_bytes, dtype=torch.int8, device="cuda")

    def enqueue(call: Call) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        waste.zero_()
        start.record()
        call()
        end.record()
        return start, end

    def timer(call: Call, repeats: int) -> list[float]:
        events = [enqueue(call) for _ in range(repeats)]
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in events]

    return timer
