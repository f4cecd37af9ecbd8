"""The machine on which kernels are timed: its name, a timer, and a description from measurements."""

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dse.base.dtype import parse_dtype
from dse.calibrate.device_names import find_devices
from dse.calibrate.measure.libraries import LibraryKernel
from dse.calibrate.measure.timing import Timer, cpu_timer, gpu_timer, measure_median
from dse.calibrate.tables.sanity_checks import uncacheable_bytes

SQUARE_ON_CPU, SQUARE_ON_GPU = 1024, 8192  # edge of the product that measures a peak
COPIED_ON_CPU, COPIED_ON_GPU = 64 * 2**20, 512 * 2**20  # bytes copied to measure the bandwidth: more than most caches hold
EVICTED_ON_GPU = 256 * 2**20  # bytes that take longer to write than the host takes to launch a kernel, on any GPU so far


def identify_device(cuda: bool) -> tuple[str, bool]:
    """Name of the GPU or CPU of this machine, and whether the catalogue describes it."""
    if not cuda:
        return "cpu-" + _slug(_cpu_model()), False
    import torch  # pyright: ignore[reportMissingImports]

    return find_in_catalog(torch.cuda.get_device_name())


def find_in_catalog(driver_name: str) -> tuple[str, bool]:
    """Name in the catalogue of a GPU that a driver reports, or one derived from that; and whether the catalogue has it."""
    devices = find_devices(driver_name)
    return (devices[0], True) if len(devices) == 1 else (_slug(driver_name), False)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor() or platform.machine())


def create_timer(cuda: bool, warm: bool) -> Timer:
    """A timer for calls with operands that are in no cache, unless `warm`."""
    if cuda:
        return gpu_timer(0 if warm else EVICTED_ON_GPU)
    return cpu_timer(0 if warm else 2 * _largest_cache_bytes())


def describe_machine(name: str, rows: Sequence[Mapping[str, Any]], dense_kernels: Iterable[LibraryKernel], cuda: bool) -> str:
    """Description of a device from its measurements, as YAML; it runs the patterns of the kernels that were timed.

    Peaks are the highest rates of any kernel, in `rows` or at a large square product. The bandwidth is that of a copy or a faster kernel.
    """
    peaks = {kernel.dtype: _square_product_rate(kernel, cuda) for kernel in dense_kernels}
    bandwidth, cache_bytes, processors = _probe_gpu() if cuda else _probe_cpu()
    for row in rows:
        m, k, n, density, time_ms = (float(row[column]) for column in ("m", "k", "n", "density", "time_ms"))
        peaks[row["dtype"]] = max(peaks.get(row["dtype"], 0.0), _flop_rate(m, k, n, density, time_ms))
        bandwidth = max(bandwidth, uncacheable_bytes(m, k, n, density, parse_dtype(row["dtype"]), cache_bytes) / (time_ms / 1e3))
    peak_entries = ", ".join(f"{dtype}: {{value: {rate / 1e9:.6g} GFLOP/s, kind: measured}}" for dtype, rate in peaks.items())
    patterns = dict.fromkeys(row["pattern"] for row in rows if row["pattern"] != "dense")
    runs = "".join(f'\n      {_slug(pattern).replace("-", "_")}: {{pattern: "{pattern}"}}' for pattern in patterns)
    unit = "cuda_core" if cuda else "core"
    cache = f"\n  cache: {{capacity: {cache_bytes} B}}" if cache_bytes else ""
    return f"""# Written by 'dse measure': a peak is the highest rate measured, the bandwidth that of a copy or a faster kernel.
name: {name}
description: the machine that measurements.csv was taken on
source: "{rows[-1]["source"]}"
units:
  {unit}:
    processors: {processors}
    peak: {{{peak_entries}}}{f"{chr(10)}    runs:{runs}" if runs else ""}
memory:
  dram: {{bandwidth: {{value: {bandwidth / 1e9:.6g} GB/s, kind: measured}}}}{cache}
"""


def _flop_rate(m: float, k: float, n: float, density: float, time_ms: float) -> float:
    return 2 * m * k * n * density / (time_ms / 1e3)


def _square_product_rate(kernel: LibraryKernel, cuda: bool) -> float:
    """Rate of a product that is large enough to reach the peak of the unit [FLOP/s]."""
    edge = SQUARE_ON_GPU if cuda else SQUARE_ON_CPU
    a, b = np.random.default_rng(0).standard_normal((2, edge, edge), np.float32)
    shortest = min(create_timer(cuda, warm=True)(kernel.store(a)(b), 5))
    return _flop_rate(edge, edge, edge, 1.0, 1e3 * shortest)


def _probe_cpu() -> tuple[float, int, int]:
    """Bandwidth of a copy [B/s], largest cache [B], cores."""
    source, target = np.ones(COPIED_ON_CPU // 8), np.zeros(COPIED_ON_CPU // 8)
    time, _ = measure_median(cpu_timer(0), lambda: np.copyto(target, source), 5)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * COPIED_ON_CPU / time, _largest_cache_bytes(), cores


def _largest_cache_bytes() -> int:
    """Largest cache of the first core [B], as Linux reports it; 0 on other systems."""
    sizes = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) * 1024 for size in sizes if size.endswith("K")), default=0)


def _probe_gpu() -> tuple[float, int, int]:
    """Bandwidth of a copy [B/s], L2 cache [B], multiprocessors."""
    import torch  # pyright: ignore[reportMissingImports]

    source = torch.ones(COPIED_ON_GPU // 4, device="cuda")
    target, properties = torch.empty_like(source), torch.cuda.get_device_properties(0)
    time, _ = measure_median(gpu_timer(0), lambda: target.copy_(source), 10)
    return 2 * COPIED_ON_GPU / time, int(properties.L2_cache_size), int(properties.multi_processor_count)
