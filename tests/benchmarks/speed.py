"""The cost of evaluating designs, compared with other methods and the machine's limit; prints the tables of docs/explanation/speed.md.

    python tests/benchmarks/speed.py [--designs 1e9]

Brute force: 54 layers, two resources, one execution, a million designs whose two rates are all different, medians of 15. The limit is
a fused kernel in C with two threads, compiled here. Front: ResNet-50 on a grid of four axes, area and latency, as a process of its own.
"""

import argparse
import ctypes
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dse.model import jax_devices
from dse.model.grid import latency_on_grid
from dse.model.roofline import Combination, NetworkWork

LAYERS, DESIGNS, RUNS = 54, 2**20, 15
FRONT = """
name: front
accelerators: [a100-sxm4-80gb]
workloads: {{resnet50: {{methods: [magnitude_pruning], sparsities: [0.9]}}}}
batch: 32
dtype: fp16
axes:
  memory.dram.bandwidth: {{from: 1 TB/s, to: 8 TB/s, steps: {steps}, scale: log}}
  units.tensor_core.peak.fp16: {{from: 100 TFLOP/s, to: 2000 TFLOP/s, steps: {steps}, scale: log}}
  units.cuda_core.peak.fp16: {{from: 20 TFLOP/s, to: 500 TFLOP/s, steps: {steps}, scale: log}}
  memory.l2.capacity: {{from: 10 MB, to: 200 MB, steps: {steps}, scale: log}}
keep: {{front: {{minimize: [latency, area]}}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--designs", type=float, default=1e9, help="of the largest grid whose front is taken")
    parser.add_argument("--front", type=int, help=argparse.SUPPRESS)  # steps of each axis: what the processes run
    options = parser.parse_args()
    if options.front:
        front(options.front)
        return
    brute_force()
    for designs in (1e4, 1e5, 1e6, 1e7, 1e8, 1e9):
        if designs <= options.designs * 1.01:
            subprocess.run([sys.executable, __file__, "--front", str(round(designs**0.25))], check=True)


def brute_force() -> None:
    print(f"| {LAYERS} layers x {DESIGNS:,} designs | float64 | float32 |\n|---|---|---|")
    columns = [time_methods(np.dtype(name)) for name in ("float64", "float32")]
    limits = [column["fused C, 2 threads"] for column in columns]
    for name in columns[0]:
        cells = (
            f"{LAYERS * DESIGNS / column[name]:.1e}/s, {limit / column[name]:.0%}" for column, limit in zip(columns, limits, strict=True)
        )
        print(f"| {name} | {' | '.join(cells)} |")


def time_methods(precision: np.dtype) -> dict[str, float]:
    """Seconds of each method; all of them give the same latencies."""
    random = np.random.default_rng(0)
    flops, moved, x, y = (random.uniform(0.5, 1.5, size).astype(precision) for size in (LAYERS, LAYERS, DESIGNS, DESIGNS))
    work = np.stack([flops, moved], axis=-1)[:, None, :]
    with jax.enable_x64(True):
        at_once = jax_devices.designs_at_once(2 * precision.itemsize)  # as in a sweep
        rows = [jnp.stack([x[at : at + at_once], y[at : at + at_once]])[None] for at in range(0, DESIGNS, at_once)]
        kernel = partial(
            latency_on_grid,
            NetworkWork(jnp.asarray(work), None),
            columns=jnp.ones((1, 2, 1), precision),
            combination=Combination(1, "full"),
        )
        plain = jax.jit(jax.vmap(lambda u, v: jnp.maximum(flops * u, moved * v).sum()))
        on_device = [jnp.asarray(x), jnp.asarray(y)]
        methods: dict[str, Callable[[], Any]] = {
            "NumPy, chunks of 10,000": partial(_numpy, flops, moved, x, y),
            "jit(vmap)": lambda: plain(*on_device).block_until_ready(),
            "dse": lambda: [kernel(rows=some).block_until_ready() for some in rows],
            "fused C, 2 threads": _fused(flops, moved, x, y),
        }
        timings = {name: _time(method) for name, method in methods.items()}
    exact = (np.maximum(flops.astype(float)[:, None] * x[:1000], moved.astype(float)[:, None] * y[:1000])).sum(axis=0)
    for name, (_, latency) in timings.items():
        assert (
            np.abs(np.asarray(latency[0] if name == "dse" else latency).ravel()[:1000] / exact - 1).max() < 60 * np.finfo(precision).eps
        ), name
    return {name: seconds for name, (seconds, _) in timings.items()}


def _time(method: Callable[[], Any]) -> tuple[float, Any]:
    """The median time [s] of the runs after the first, which compiles, and the result."""
    result, times = method(), []
    for _ in range(RUNS):
        start = time.perf_counter()
        method()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def _numpy(flops: np.ndarray, moved: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    latency = np.empty_like(x)
    for start in range(0, len(x), 10_000):
        at = slice(start, start + 10_000)
        latency[at] = np.maximum(flops[:, None] * x[at], moved[:, None] * y[at]).sum(axis=0)
    return latency


def _fused(flops: np.ndarray, moved: np.ndarray, x: np.ndarray, y: np.ndarray) -> Callable[[], np.ndarray]:
    """The kernel in C on two halves of the designs at once."""
    folder, source = tempfile.mkdtemp(), Path(__file__).with_name("fused.c")
    subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", f"{folder}/fused.so"], check=True)
    kernel = getattr(ctypes.CDLL(f"{folder}/fused.so"), str(x.dtype))
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, *[ctypes.c_void_p] * 3, ctypes.c_ssize_t]
    latency, pool, half = np.empty_like(x), ThreadPoolExecutor(2), len(x) // 2
    halves = [[part[start:].ctypes.data for part in (x, y, latency)] for start in (0, half)]

    def run() -> np.ndarray:
        list(pool.map(lambda parts: kernel(flops.ctypes.data, moved.ctypes.data, LAYERS, *parts, half), halves))
        return latency

    return run


def front(steps: int) -> None:
    import dse

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "front.yaml"
        path.write_text(FRONT.format(steps=4))
        dse.sweep(path)  # compiles much of what follows
        path.write_text(FRONT.format(steps=steps))
        start = time.perf_counter()
        pareto_front = dse.sweep(path)
    seconds, memory = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"front of {steps**4:.2e} designs: {pareto_front.sizes['point']} points in {seconds:.2f} s, peak memory {memory:.2f} GB", flush=True
    )


if __name__ == "__main__":
    main()
