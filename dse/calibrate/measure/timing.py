"""How long a call takes: the median of many, its operands out of the caches, by the clock of the processor that computes it."""

import time
from collections.abc import Callable

import numpy as np

Call = Callable[[], object]
Each = Callable[[Call, int], list[float]]  # seconds of each of so many calls

WARM_UP = 3  # calls that don't count: pages, clocks, what is compiled at the first call
ENOUGH, FEWEST = 2.0, 3  # seconds of one kernel at one shape, after which so few calls will do


def measured(each: Each, call: Call, repeats: int) -> tuple[float, float]:
    """Median time of `repeats` calls [s], of fewer if they are long, and how far the middle half of them lies apart, over it [1]."""
    short = min(each(call, WARM_UP))
    low, middle, high = np.quantile(each(call, min(repeats, max(FEWEST, int(ENOUGH / max(short, 1e-9))))), [0.25, 0.5, 0.75])
    return float(middle), float((high - low) / middle)


def on_cpu(evicted: int) -> Each:
    """By the wall clock. Before each call so many bytes are written, more than the caches hold; 0 leaves the operands in them."""
    waste = np.zeros(evicted // 8)

    def once(call: Call) -> float:
        np.add(waste, 1, out=waste)
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return lambda call, repeats: [once(call) for _ in range(repeats)]


def on_gpu(evicted: int) -> Each:
    """By events in the stream of the GPU, so that what the host takes to launch is hidden behind the eviction."""
    import torch  # pyright: ignore[reportMissingImports]

    waste = torch.empty(evicted, dtype=torch.int8, device="cuda")

    def once(call: Call) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        waste.zero_()
        start.record()
        call()
        end.record()
        return start, end

    def each(call: Call, repeats: int) -> list[float]:
        events = [once(call) for _ in range(repeats)]
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in events]

    return each
