"""The machine at hand: what it is called, how it is timed, and a description of what is known of it."""

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dse.base import catalog
from dse.base.dtype import parse_dtype
from dse.calibrate.measure.libraries import Timed
from dse.calibrate.measure.timing import Each, measured, on_cpu, on_gpu
from dse.calibrate.sanity_checks import from_outside

SQUARE, SQUARE_ON_GPU = 1024, 8192
STREAM = 64 * 2**20  # bytes copied to find the bandwidth: larger than most caches
EVICTED_ON_GPU = 256 * 2**20  # takes longer to write than a launch takes, on any GPU yet

# What drivers call a device, where the catalogue does not.
REPORTED = {
    "nvidia-h100-80gb-hbm3": "h100-sxm5-80gb", "nvidia-h100-pcie": "h100-pcie-80gb", "nvidia-h200": "h200-sxm-141gb",
    "nvidia-b200": "b200-sxm-180gb", "nvidia-a100-80gb-pcie": "a100-pcie-80gb", "nvidia-geforce-rtx-3090": "rtx3090",
    "nvidia-geforce-rtx-4090": "rtx4090", "nvidia-a100-sxm4-80gb": "a100-sxm4-80gb", "nvidia-a100-sxm4-40gb": "a100-sxm4-40gb",
    "nvidia-l40s": "l40s", "nvidia-l4": "l4", "nvidia-a10": "a10", "tesla-t4": "t4", "tesla-v100-sxm2-32gb": "v100-sxm2-32gb",
}  # fmt: skip


def name(cuda: bool) -> tuple[str, bool]:
    """A name for the machine, and whether the catalogue describes it."""
    if not cuda:
        return "cpu-" + _slug(_processor()), False
    import torch  # pyright: ignore[reportMissingImports]

    return known(torch.cuda.get_device_name())


def known(reported: str) -> tuple[str, bool]:
    """The name in the catalogue of a GPU as its driver calls it; else a name made of that, and that it is none."""
    slug = _slug(reported)
    found = REPORTED.get(slug, slug)
    return found, found in catalog.list_names("accel_models")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor() or platform.machine())


def timer(cuda: bool, warm: bool) -> Each:
    """Times calls, with operands that are in no cache unless `warm`."""
    if cuda:
        return on_gpu(0 if warm else EVICTED_ON_GPU)
    return on_cpu(0 if warm else 2 * _largest_cache())


def description(named: str, rows: Sequence[Mapping[str, Any]], dense: Iterable[Timed], cuda: bool) -> str:
    """A device of which nothing is known but these measurements: its peaks are the best that any kernel reached, there or with a large
    square product; it runs the patterns of the kernels that were timed."""
    peaks = {kernel.dtype: _square(kernel, cuda) for kernel in dense}
    bandwidth, cache, processors = _gpu() if cuda else _cpu()
    for row in rows:
        m, k, n, density, time = (float(row[name]) for name in ("m", "k", "n", "density", "time_ms"))
        peaks[row["dtype"]] = max(peaks.get(row["dtype"], 0.0), _rate(m, k, n, density, time))
        bandwidth = max(bandwidth, from_outside(m, k, n, density, parse_dtype(row["dtype"]), cache) / (time / 1e3))
    listed = ", ".join(f"{dtype}: {{value: {rate / 1e9:.6g} GFLOP/s, kind: measured}}" for dtype, rate in peaks.items())
    patterns = dict.fromkeys(row["pattern"] for row in rows if row["pattern"] != "dense")
    runs = "".join(f'\n      {_slug(pattern).replace("-", "_")}: {{pattern: "{pattern}"}}' for pattern in patterns)
    unit = "cuda_core" if cuda else "core"
    level = f"\n  cache: {{capacity: {cache} B}}" if cache else ""
    return f"""# Written by 'dse measure': a peak is the highest rate measured, the bandwidth that of a copy or a faster kernel.
name: {named}
description: the machine that measurements.csv was taken on
source: "{rows[-1]["source"]}"
units:
  {unit}:
    processors: {processors}
    peak: {{{listed}}}{f"{chr(10)}    runs:{runs}" if runs else ""}
memory:
  dram: {{bandwidth: {{value: {bandwidth / 1e9:.6g} GB/s, kind: measured}}}}{level}
"""


def _rate(m: float, k: float, n: float, density: float, time_ms: float) -> float:
    return 2 * m * k * n * density / (time_ms / 1e3)


def _square(kernel: Timed, cuda: bool) -> float:
    """Rate of a product that is large enough to show what the unit can do [FLOP/s]."""
    edge = SQUARE_ON_GPU if cuda else SQUARE
    a, b = np.random.default_rng(0).standard_normal((2, edge, edge), np.float32)
    return _rate(edge, edge, edge, 1.0, 1e3 * min(timer(cuda, warm=True)(kernel.store(a)(b), 5)))


def _cpu() -> tuple[float, int, int]:
    """Bandwidth of a copy [B/s], the largest cache [B], cores."""
    a, b = np.ones(STREAM // 8), np.zeros(STREAM // 8)
    time, _ = measured(on_cpu(0), lambda: np.copyto(b, a), 5)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * STREAM / time, _largest_cache(), cores


def _largest_cache() -> int:
    """Of the first core [B], as Linux tells it; 0 elsewhere."""
    sizes = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) * 1024 for size in sizes if size.endswith("K")), default=0)


def _gpu() -> tuple[float, int, int]:
    import torch  # pyright: ignore[reportMissingImports]

    a = torch.ones(8 * STREAM // 4, device="cuda")
    b, properties = torch.empty_like(a), torch.cuda.get_device_properties(0)
    time, _ = measured(on_gpu(0), lambda: b.copy_(a), 10)
    return 2 * 8 * STREAM / time, int(properties.L2_cache_size), int(properties.multi_processor_count)
