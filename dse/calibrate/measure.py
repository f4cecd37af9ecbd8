"""Times of dense and sparse kernels on the machine at hand, as `dse calibrate` reads them; a killed run goes on where it was."""

import csv
import datetime
import os
import platform
import re
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dse import catalog
from dse.calibrate.measurement import load
from dse.calibrate.timing import Timed, has_cuda, kernels, median
from dse.errors import BadInput, suggestion
from dse.explore.store import check_writable, replacing
from dse.sparsity.choose import random_mask
from dse.sparsity.grammar import parse

COLUMNS = (
    "device", "kernel", "release", "pattern", "dtype", "unit", "m", "k", "n", "density", "time_ms", "dense_kernel", "dense_release",
    "dense_ms", "source",
)  # fmt: skip
SHAPES = ("256x256x256", "512x512x128", "512x512x512", "1024x1024x256", "1024x1024x1024", "768x3072x512", "3072x768x512", "2048x2048x512")
STREAM = 64 * 2**20  # bytes copied to find the bandwidth: larger than most caches
Row = dict[str, Any]


def run(options: Namespace) -> str:
    """Time every kernel at every shape, write measurements.csv and, for a device that has none, a description; returns the paths."""
    cuda = has_cuda() and not options.cpu
    chosen = _chosen(kernels(cuda), options.kernels)
    shapes = [_shape(text) for text in options.shapes or SHAPES]
    if wrong := [density for density in options.densities if not 0 < density < 1]:
        raise BadInput.one(f"a density of {wrong[0]:g} is out of range", "write a number above 0 and below 1")
    if options.repeats < 1:
        raise BadInput.one(f"a median of {options.repeats} times says nothing", "give at least one repeat")
    device, described = device_name(cuda)
    written = options.out / "measurements.csv"
    paths = [*([] if described else [options.out / f"{device}.yaml"]), written]
    check_writable(*paths)
    rows = _read(written)
    _write(written, _filled(written, rows, device, chosen, shapes, options))
    if not described:
        text = description(device, _read(written), cuda)
        replacing(paths[0], lambda path: path.write_text(text))
    load(written)
    return "\n".join(map(str, paths))


def _chosen(known: list[Timed], names: Iterable[str]) -> list[Timed]:
    if unknown := set(names) - {kernel.name for kernel in known}:
        name = sorted(unknown)[0]
        raise BadInput.one(f"no kernel '{name}' here", suggestion(name, {kernel.name for kernel in known}))
    wanted = [kernel for kernel in known if not names or kernel.name in names or kernel.pattern == "dense"]
    return sorted(wanted, key=lambda kernel: kernel.pattern != "dense")


def _shape(text: str) -> tuple[int, int, int]:
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}x[1-9]\d{0,5}", text):
        raise BadInput.one(f"'{text}' is no shape of a product", "write m x k x n, as in '1024x1024x256'")
    m, k, n = map(int, text.split("x"))
    return m, k, n


def _filled(
    path: Path, rows: list[Row], device: str, chosen: list[Timed], shapes: list[tuple[int, int, int]], options: Namespace
) -> list[Row]:
    """`rows` and those that are missing, each written as soon as it is known."""
    cut = [(kernel.name, shape) for kernel in chosen for shape in shapes if not _divides(kernel, shape)]
    if cut:
        warnings.warn("left out, blocks don't divide the shape: " + ", ".join(f"{name} {m}x{k}" for name, (m, k, _) in cut), stacklevel=2)
    fitting = [(kernel, shape) for shape in shapes for kernel in chosen if _divides(kernel, shape)]
    asked = [(*pair, density) for pair in fitting for density in _densities(pair[0], options.densities)]
    have = {_key(row) for row in rows}
    source = f"dse measure, {datetime.date.today().isoformat()}, {platform.platform()}, median of {options.repeats}"
    for kernel, shape, density in tqdm(asked, unit=" kernels", delay=2):
        m, k, n = shape
        mask = random_mask(kernel.pattern, m, k, None if parse(kernel.pattern).density else 1 - density)
        row = {"device": device, "kernel": kernel.name, "release": kernel.release, "pattern": kernel.pattern, "dtype": kernel.dtype,
               "unit": kernel.unit or "", "m": m, "k": k, "n": n, "density": float(mask.mean()), "source": source}  # fmt: skip
        if _key(row) not in have:
            rng = np.random.default_rng(0)
            a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
            row["time_ms"] = 1e3 * median(kernel.prepare(a * mask, b), options.repeats)
            rows.append(row)
            _write(path, rows)
    return _with_dense(rows)


def _divides(kernel: Timed, shape: tuple[int, int, int]) -> bool:
    rows, columns = parse(kernel.pattern).grain
    return shape[0] % rows == 0 and shape[1] % columns == 0


def _densities(kernel: Timed, densities: Iterable[float]) -> Iterator[float]:
    known = parse(kernel.pattern).density
    yield from densities if known is None else [known]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(str(row[name]) for name in ("device", "kernel", "release", "dtype", "m", "k", "n", "density"))


def _with_dense(rows: list[Row]) -> list[Row]:
    """Each sparse row with a dense kernel of its shape and dtype beside it: the one that takes least over all shapes."""
    dense = [row for row in rows if row["pattern"] == "dense"]
    names = {row["dtype"]: sorted({one["kernel"] for one in dense if one["dtype"] == row["dtype"]}) for row in dense}
    best = {
        dtype: min(known, key=lambda name: sum(float(row["time_ms"]) for row in dense if row["kernel"] == name))
        for dtype, known in names.items()
    }
    found = {_shape_of(row): row for row in dense if row["kernel"] == best[row["dtype"]]}
    for row in rows:
        if row["pattern"] != "dense" and (beside := found.get(_shape_of(row))):
            row |= {"dense_kernel": beside["kernel"], "dense_release": beside["release"], "dense_ms": beside["time_ms"]}
    return rows


def _shape_of(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("dtype", "m", "k", "n"))


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if rows and tuple(rows[0]) != COLUMNS:
        raise BadInput.one(f"'{path}' is no table of 'dse measure'", "give another folder")
    return rows


def _write(path: Path, rows: list[Row]) -> None:
    def write(target: Path) -> None:
        with target.open("w", newline="") as file:
            writer: csv.DictWriter[Any] = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows)

    replacing(path, write)


def device_name(cuda: bool) -> tuple[str, bool]:
    """A name for the machine, and whether the catalogue describes it."""
    if not cuda:
        return "cpu-" + _slug(_processor()), False
    import torch  # pyright: ignore[reportMissingImports]

    name = _slug(torch.cuda.get_device_name())
    short = name.removeprefix("nvidia-").removeprefix("geforce-").replace("-", "")
    known = [shipped for shipped in catalog.names("accel_models") if shipped.replace("-", "") == short]
    return (known[0], True) if known else (name, False)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor() or platform.machine())


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def description(name: str, rows: list[Row], cuda: bool) -> str:
    """A device of which nothing is known but these measurements: its peaks are the best that any kernel reached."""
    peaks: dict[str, float] = {}
    for row in rows:
        rate = 2 * int(row["m"]) * int(row["k"]) * int(row["n"]) * float(row["density"]) / (float(row["time_ms"]) / 1e3)
        peaks[row["dtype"]] = max(peaks.get(row["dtype"], 0.0), rate)
    bandwidth, cache, processors = _gpu_memory() if cuda else _cpu_memory()
    listed = ", ".join(f"{dtype}: {{value: {rate / 1e9:.6g} GFLOP/s, kind: measured}}" for dtype, rate in peaks.items())
    unit = "cuda_core" if cuda else "core"
    level = f"\n  cache: {{capacity: {cache} B}}" if cache else ""
    return f"""# Written by 'dse measure': a peak is the highest rate measured, the bandwidth that of a copy.
name: {name}
description: the machine that measurements.csv was taken on
source: "{rows[-1]["source"] if rows else "dse measure"}"
units:
  {unit}:
    processors: {processors}
    peak: {{{listed}}}
memory:
  dram: {{bandwidth: {{value: {bandwidth / 1e9:.6g} GB/s, kind: measured}}}}{level}
"""


def _cpu_memory() -> tuple[float, int, int]:
    """Bandwidth of a copy [B/s], the largest cache [B], cores."""
    a, b = np.ones(STREAM // 8), np.zeros(STREAM // 8)
    time = median(lambda: np.copyto(b, a), 5)
    sizes = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * STREAM / time, max((int(size[:-1]) * 1024 for size in sizes if size.endswith("K")), default=0), cores


def _gpu_memory() -> tuple[float, int, int]:
    import torch  # pyright: ignore[reportMissingImports]

    a = torch.ones(8 * STREAM // 4, device="cuda")
    b = torch.empty_like(a)

    def copy() -> None:
        b.copy_(a)
        torch.cuda.synchronize()

    properties = torch.cuda.get_device_properties(0)
    return 2 * 8 * STREAM / median(copy, 10), int(properties.L2_cache_size), int(properties.multi_processor_count)
