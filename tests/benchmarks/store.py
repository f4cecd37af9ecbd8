"""A sweep into a Zarr store, against the same evaluation without writing and against the disk, in one run.

    python tests/benchmarks/store.py [--designs 1e7] [--at FOLDER]

Eight variants of ResNet-50 on a grid of bandwidth, two peaks and latencies in float32: 1e8 designs are 3.2 GB, and the raw write of the
same bytes goes to the same folder. Evaluation is timed chunk by chunk, the results dropped. The store includes everything from the specification on.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dse
from dse.sweeping import run, zarr_store
from dse.sweeping.chunk import ChunkGrid, max_chunk_designs
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import load_plan

SPEC = """
name: many
accelerators: [a100-sxm4-80gb]
workloads: {{resnet50: {{methods: [magnitude_pruning], patterns: {{list: ["1:4", "2:4"]}}}}}}
batch: 32
dtype: fp16
axes:
  memory.dram.bandwidth: {{from: 1 TB/s, to: 8 TB/s, steps: {steps}, scale: log}}
  units.cuda_core.peak.fp16: {{from: 20 TFLOP/s, to: 2000 TFLOP/s, steps: {steps}, scale: log}}
  units.tensor_core.peak.fp16: {{from: 100 TFLOP/s, to: 2000 TFLOP/s, steps: 100, scale: log}}
store: {{variables: [latency], dtype: float32}}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--designs", type=float, default=1e7)
    parser.add_argument("--at", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.at) as folder:
        _compare(Path(folder), round((options.designs / 100) ** 0.5))


def _compare(folder: Path, steps: int) -> None:
    spec, out = folder / "many.yaml", folder / "many.zarr"
    spec.write_text(SPEC.format(steps=steps))
    plan = load_plan(spec)
    print(f"{plan.design_count:.3g} designs x {len(plan.variants)} variants, {plan.result_bytes / 1e9:.3g} GB")
    run.evaluate(CompiledSweep.of_plan(plan).restrict(ChunkGrid(plan, max_chunk_designs(plan))[0]))  # compiles
    size = plan.result_bytes
    disk = _measure_rate("raw write, flushed", size, lambda: _raw(folder / "raw", size))
    evaluation = _measure_rate("evaluation alone", size, lambda: _evaluate(plan))
    store = _measure_rate("evaluated and stored", size, lambda: (dse.sweep(spec, out), os.sync()))
    on_disk = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(f"the slower of disk and evaluation: {store / min(disk, evaluation):.0%} of it")
    print(f"on disk {on_disk / 1e9:.3g} GB in {zarr_store.completed_chunks(out).size} chunks; peak memory {_peak():.2f} GB")


def _measure_rate(what: str, size: int, work: Callable[[], object]) -> float:
    """Rate [B/s] of `work`, which makes or writes `size` bytes."""
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(f"{what:24}{seconds:8.2f} s {size / seconds / 1e6:8.0f} MB/s")
    return size / seconds


def _raw(path: Path, size: int) -> None:
    block = np.random.default_rng(0).bytes(2**24)  # what a disk cannot compress
    with path.open("wb") as file:
        for start in range(0, size, len(block)):
            file.write(block[: size - start])
        os.fsync(file.fileno())
    path.unlink()


def _evaluate(plan: Plan) -> None:
    compiled = CompiledSweep.of_plan(plan)
    for chunk in ChunkGrid(plan, max_chunk_designs(plan)):
        run.evaluate(compiled.restrict(chunk))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
