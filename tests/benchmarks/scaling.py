"""How the cost of a sweep grows: with designs, layers, axes, resources and executions; and how long it takes to start.

    python tests/benchmarks/scaling.py

Everything from specification to dataset, latency alone, medians of 3 after a first run that compiles; a network of random fully connected
layers, all different, on a grid of bandwidth and a peak. Resources and executions: the compiled kernel alone. Start-up: whole processes.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

import dse
from dse.model import axis_dependence, jax_devices
from dse.model.grid import Grid, latency_on_grid
from dse.model.roofline import Combination, NetworkWork

RUNS = 3
BANDWIDTH, TENSOR, VECTOR = "memory.dram.bandwidth", "units.tensor_core.peak.fp16", "units.cuda_core.peak.fp16"
WORKLOAD = "name: {name}\ntask: none\nmetric: {{name: accuracy, unit: '%', direction: higher}}\nsources: [random]\n"
SPEC = """
name: {name}
accelerators: [a100-sxm4-80gb]
workloads: {{./{name}: {{methods: [dense]}}}}
batch: 32
dtype: fp16
axes:
  {axes}
store: {{variables: [latency]}}
"""
TWO = [2100, 2100]
LAYERS = 54, 216, 864, 3456
STARTS = {"--help": ["--help"], "check a sweep": ["check", "sweeps/zoo.yaml"], "check a search": ["check", "sweeps/edge_accelerator.yaml"]}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sweep = partial(random_sweep, Path(folder))
        table("designs, 54 layers", {f"{side**2:.1e}": sweep(54, [side, side]) for side in (100, 320, 1000, 3200, 10_000)})
        table("layers, 4.4e6 designs", {str(count): sweep(count, TWO) for count in LAYERS})
        with patch.object(axis_dependence, "BREAK_EVEN", np.inf):
            table("layers added up, 4.4e6 designs", {str(count): sweep(count, TWO) for count in LAYERS})
        table("axes, 4.4e6 designs, 54 layers", {"2": sweep(54, TWO), "3": sweep(54, [210, 210, 100])})
    table("resources, 54 layers, 1e6 designs", {str(count): kernel(count, 1) for count in (2, 3, 4, 6)})
    table("executions, 54 layers, 1e6 designs", {str(count): kernel(2, count) for count in (1, 2, 4, 8)})
    table("start-up", {name: partial(subprocess.run, ["dse", *words], stdout=subprocess.DEVNULL) for name, words in STARTS.items()})


def table(what: str, cases: dict[str, Callable[[], Any]]) -> None:
    seconds = [time_case(case) for case in cases.values()]
    print(
        f"| {what} | {' | '.join(cases)} |\n|---|{'---|' * len(cases)}\n| seconds | {' | '.join(f'{s:.3g}' for s in seconds)} |\n",
        flush=True,
    )


def time_case(case: Callable[[], Any]) -> float:
    times = []
    for _ in range(RUNS + 1):  # the first compiles
        start = time.perf_counter()
        case()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def random_sweep(folder: Path, layers: int, steps: list[int]) -> Callable[[], Any]:
    """A sweep of so many random layers on a grid of so many steps."""
    name = "-".join(map(str, ["random", layers, *steps]))
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "workload.yaml").write_text(WORKLOAD.format(name=name))
    sizes = np.random.default_rng(0).integers(32, 4096, (layers, 3))
    rows = [f"layer-{number},gemm,{m},{k},{n}" for number, (m, k, n) in enumerate(sizes)]
    (folder / name / "layers.csv").write_text("\n".join(["name,kind,m,k,n", *rows]) + "\n")
    ends = {BANDWIDTH: ("1 TB/s", "8 TB/s"), TENSOR: ("100 TFLOP/s", "2000 TFLOP/s"), VECTOR: ("20 TFLOP/s", "90 TFLOP/s")}
    axes = [
        f"{path}: {{from: {low}, to: {high}, steps: {n}, scale: log}}" for (path, (low, high)), n in zip(ends.items(), steps, strict=False)
    ]
    (folder / f"{name}.yaml").write_text(SPEC.format(name=name, axes="\n  ".join(axes)))
    return partial(dse.sweep, folder / f"{name}.yaml")


def kernel(resources: int, executions: int) -> Callable[[], Any]:
    """2^20 designs, as many of them at once as in a sweep."""
    random = np.random.default_rng(0)
    shapes = (54, executions, resources), (executions, resources), (executions, resources, 64), (executions, resources, 2**14)
    work, constant, rows, columns = (random.uniform(0.5, 1.5, shape) for shape in shapes)
    at_once = max(1, jax_devices.designs_at_once(constant.nbytes) // 2**14)
    network = NetworkWork(work, None)
    grid = Grid(constant, [rows, columns], 1, 2**14, at_once, np.dtype(float))

    def run() -> Any:
        with jax.enable_x64(True):
            return grid.evaluate(partial(latency_on_grid, network, combination=Combination(1, "full")))

    return run


if __name__ == "__main__":
    main()
