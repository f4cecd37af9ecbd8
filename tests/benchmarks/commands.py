"""Processor time, elapsed time and memory of whole commands: calibrated and plain sweeps, each into a netCDF file.

    python tests/benchmarks/commands.py

A first run compiles, and keeps what it compiled for the runs that are measured. Processor time is that of user and system together.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from throughput import SPEC as PLAIN_RESNET

CALIBRATED_BERT = """
name: bert
accelerators: [a100-sxm4-80gb]
workloads: [bert-base]
batch: 32
dtype: fp16
model: {fidelity: calibrated}
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 100, scale: log}
  units.tensor_core.peak.fp16: {from: 100 TFLOP/s, to: 2000 TFLOP/s, steps: 100, scale: log}
  memory.l2.bandwidth: {from: 2 TB/s, to: 20 TB/s, steps: 100, scale: log}
"""
CALIBRATED_LLAMA = """
name: llama
accelerators: [h100-sxm5-80gb]
workloads: [llama-3.1-8b]
batch: 8
dtype: bf16
model: {fidelity: calibrated}
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 100, scale: log}
  units.tensor_core.peak.bf16: {from: 200 TFLOP/s, to: 4000 TFLOP/s, steps: 100, scale: log}
"""
SWEEPS = {
    "BERT, calibrated, 1e6": CALIBRATED_BERT,
    "LLaMA-3.1 8B, calibrated, 1e4": CALIBRATED_LLAMA,
    "ResNet-50, plain, 1e6": PLAIN_RESNET,
}
RUNS = 3


def main() -> None:
    print(f"{'sweep, designs':32}{'processor s':>14}{'elapsed s':>12}{'memory GB':>12}{'file GB':>10}")
    for what, text in SWEEPS.items():
        with tempfile.TemporaryDirectory() as folder:
            spec, out = Path(folder) / "sweep.yaml", Path(folder) / "results.nc"
            spec.write_text(text)
            runs = [_measure(spec, out) for _ in range(1 + RUNS)][1:]
            processor, elapsed, memory = (statistics.median(values) for values in zip(*runs, strict=True))
            print(f"{what:32}{processor:14.1f}{elapsed:12.1f}{memory:12.2f}{out.stat().st_size / 1e9:10.2f}", flush=True)


def _measure(spec: Path, out: Path) -> tuple[float, float, float]:
    """Processor time [s], elapsed time [s] and peak memory [GB] of one command."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "dse", "sweep", spec, "-o", out, "--force", "-q"], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / 1e6


if __name__ == "__main__":
    main()
