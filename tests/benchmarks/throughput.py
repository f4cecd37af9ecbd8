"""Throughput of one sweep of a million designs against chunked float64 NumPy, in one run.

    python tests/benchmarks/throughput.py

Both do the same work: the latency of ResNet-50's 54 layers, dense and 90% magnitude-pruned, on every design of a
100 x 100 x 100 grid of bandwidth and two peaks. `dse` includes everything between specification and dataset.
Ratios hold on a noisy machine, absolute times do not.
"""

import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dse.model import grid
from dse.model.rates import STORED_FLOPS, TRAFFIC, factored_inverse_rates
from dse.sweeping import run
from dse.sweeping.job import Job, jobs_of
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import load_plan

SPEC = """
name: million
accelerators: [a100-sxm4-80gb]
workloads: {resnet50: {methods: [magnitude_pruning], sparsities: [0.9]}}
batch: 32
dtype: fp16
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 100, scale: log}
  units.tensor_core.peak.fp16: {from: 100 TFLOP/s, to: 2000 TFLOP/s, steps: 100, scale: log}
  units.cuda_core.peak.fp16: {from: 20 TFLOP/s, to: 500 TFLOP/s, steps: 100, scale: log}
"""
RUNS = 5
NUMPY_CHUNK = 10_000  # the fastest of 1e3, 1e4 and 1e5 on the machines tried


def main() -> None:
    work = 2 * 54 * 1e6  # two variants, layers, designs
    print(f"{'':46}{'seconds':>9}{'designs x layers / s':>22}{'ratio':>8}{'traces':>8}")
    for what, variables in (
        ("latency", "latency, dense_latency"),
        ("latency and shares", "latency, dense_latency, bound_share, execution_share"),
    ):
        reference, seconds = _time(partial(_numpy, _plan(f"store: {{variables: [{variables}]}}"), with_breakdown=what != "latency"))
        print(f"{f'NumPy chunked, float64, {what}':46}{seconds:9.3f}{work / seconds:22.2e}{1:8.1f}")
        for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
            before = _count_traces()
            results, own = _time(partial(run.run_in_memory, _plan(f"store: {{variables: [{variables}], dtype: {dtype}}}")))
            traces = _count_traces() - before
            print(f"{f'dse, {dtype}, {what}':46}{own:9.3f}{work / own:22.2e}{seconds / own:8.1f}{traces:8}")
            worst = np.abs(results.latency.values.ravel() / reference - 1).max()
            assert worst < tolerance, worst
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB, NumPy's included")


def _count_traces() -> int:
    """Number of compiled versions of the functions that evaluate a grid."""
    return sum(function._cache_size() for function in (grid.latency_on_grid, grid.breakdown_on_grid))


def _plan(extra: str) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.yaml"
        path.write_text(SPEC + extra)
        return load_plan(path)


def _time(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the median time of the runs after the first, which compiles."""
    result, times = work(), []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def _numpy(plan: Plan, with_breakdown: bool) -> np.ndarray:
    """Latencies of the pruned network, after those of the dense one."""
    dense, pruned = [_numpy_case(job, plan, with_breakdown) for job in jobs_of(plan)]
    assert (dense > 0).all()
    return pruned


def _numpy_case(job: Job, plan: Plan, with_breakdown: bool) -> np.ndarray:
    terms, shape = job.terms, [len(values) for values in plan.rate_axes.values()]
    constant, factors = factored_inverse_rates(terms.executions, job.accelerator, plan.rate_axes)
    designs, executions = int(np.prod(shape)), range(len(terms.executions))
    latency, breakdown = np.empty(designs), np.empty((len(executions), 2, designs))
    for start in range(0, designs, NUMPY_CHUNK):
        here = slice(start, start + NUMPY_CHUNK)
        inverse = constant[:, :, None]
        for factor, index in zip(factors, np.unravel_index(np.arange(start, start + NUMPY_CHUNK), shape), strict=True):
            inverse = inverse * factor.at()[:, :, index]
        # No run here has a gain cap, so stored FLOPs and bytes are all there is: [layer, design] for each execution.
        parts = [[terms.work[:, e, term, None] * inverse[e, term] for term in (STORED_FLOPS, TRAFFIC)] for e in executions]
        times = [np.where(terms.legal[:, e, None], np.maximum(*part), np.inf) for e, part in enumerate(parts)]
        fastest = np.minimum.reduce(times)
        latency[here] = terms.count @ fastest
        for e in executions if with_breakdown else ():
            mine, by_memory = terms.count[:, None] * np.where(times[e] == fastest, times[e], 0), parts[e][1] > parts[e][0]
            breakdown[e, 0, here], breakdown[e, 1, here] = np.where(by_memory, 0, mine).sum(0), np.where(by_memory, mine, 0).sum(0)
    return latency


if __name__ == "__main__":
    main()
