"""Times of dense and sparse kernels on the machine at hand, as `dse calibrate` reads them; a killed run goes on where it was."""

import csv
import datetime
import platform
import re
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dse.base import lock
from dse.base.atomic_write import check_writable, replace_file
from dse.base.csv_table import read_rows
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.calibrate.measure import machine
from dse.calibrate.measure.libraries import Timed, has_cuda, kernels
from dse.calibrate.measure.timing import Each, measured
from dse.calibrate.measured_set import load
from dse.calibrate.measurement import Measurement
from dse.sparsity.grammar import parse
from dse.sparsity.pruning import random_mask

COLUMNS = (
    "device", "kernel", "release", "pattern", "dtype", "unit", "m", "k", "n", "density", "time_ms", "spread", "dense_kernel",
    "dense_release", "dense_ms", "source",
)  # fmt: skip
SHAPES = ("256x256x256", "512x512x128", "512x512x512", "1024x1024x256", "1024x1024x1024", "768x3072x512", "3072x768x512", "2048x2048x512")
WEIGHTS = ["768x3072", "3072x768", "1024x1024", "2048x2048", "2048x8192", "8192x2048", "4096x4096", "4096x11008", "11008x4096", "8192x8192"]
NOISY = 0.2
ON_GPU = tuple(f"{weights}x{n}" for weights in WEIGHTS for n in (64, 256, 512, 1024, 2048, 4096, 8192))
Row = dict[str, Any]
Shape = tuple[int, int, int]


def execute(options: Namespace) -> str:
    """Time every kernel at every shape, write measurements.csv and, for a device that has none, a description; returns the paths."""
    cuda = has_cuda() and not options.cpu
    asked = _checked(options, cuda)
    device, described = machine.name(cuda)
    written = options.out / "measurements.csv"
    paths = [*([] if described else [options.out / f"{device}.yaml"]), written]
    check_writable(*paths)
    with lock.hold_write_lock(written):
        rows = _filled(written, device, asked, machine.timer(cuda, options.warm), options)
        if not rows:
            raise InputError("no kernel could be timed", "see the reasons above")
        _write(written, _with_dense(rows))
    if not described:
        dense = [kernel for kernel in kernels(cuda) if kernel.pattern == "dense"]
        text = machine.description(device, _read(written), dense, cuda)
        replace_file(paths[0], lambda path: path.write_text(text))
    load(written)
    return "\n".join(map(str, paths))


def _checked(options: Namespace, cuda: bool) -> "list[_Asked]":
    """What is to be timed; raises InputError with every problem."""
    problems, chosen, shapes = ProblemCollector(), list[Timed](), list[Shape]()
    with problems.collect():
        chosen = _chosen(kernels(cuda), options.kernels)
    for text in options.shapes or (ON_GPU if cuda else SHAPES):
        with problems.collect():
            shapes.append(_shape(text))
    for density in options.densities:
        if not 0 < density < 1:
            problems.add(Problem(f"a density of {density:g} is out of range", "write a number above 0 and below 1"))
    if options.repeats < 1:
        problems.add(Problem(f"a median of {options.repeats} times says nothing", "give at least one repeat"))
    problems.raise_if_any()
    return _asked(chosen, shapes, options.densities)


def _chosen(known: list[Timed], names: Iterable[str]) -> list[Timed]:
    if unknown := set(names) - {kernel.name for kernel in known}:
        name = sorted(unknown)[0]
        raise InputError(f"no kernel '{name}' here", did_you_mean(name, {kernel.name for kernel in known}))
    wanted = [kernel for kernel in known if not names or kernel.name in names or kernel.pattern == "dense"]
    return sorted(wanted, key=lambda kernel: kernel.pattern != "dense")


def _shape(text: str) -> Shape:
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}x[1-9]\d{0,5}", text):
        raise InputError(f"'{text}' is no shape of a product", "write m x k x n, as in '1024x1024x256'")
    m, k, n = map(int, text.split("x"))
    return m, k, n


@dataclass(frozen=True)
class _Asked:
    """One matrix A, and what it is multiplied with."""

    kernel: Timed
    m: int
    k: int
    density: float | None
    columns: tuple[int, ...]


def _asked(chosen: list[Timed], shapes: list[Shape], densities: list[float]) -> list[_Asked]:
    """What is to be timed, A by A; tells which shapes a kernel can't take."""
    sizes = {(m, k): tuple(n for *weights, n in shapes if weights == [m, k]) for m, k, _ in shapes}
    cut = [(kernel.name, size) for kernel in chosen for size in sizes if not _divides(kernel, size)]
    if cut:
        listed = ", ".join(f"{name} {m}x{k}" for name, (m, k) in cut)
        warnings.warn(f"left out, blocks don't divide the shape: {listed}", stacklevel=2)
    return [
        _Asked(kernel, m, k, density, columns)
        for (m, k), columns in sizes.items()
        for kernel in chosen
        if _divides(kernel, (m, k))
        for density in _densities(kernel, densities)
    ]


def _filled(path: Path, device: str, asked: list[_Asked], each: Each, options: Namespace) -> list[Row]:
    """The rows at `path` and those that are missing, each written as soon as it is known; tells what could not be timed, and why."""
    rows, failed = _read(path), dict[str, str]()
    have = {_key(row) for row in rows}
    cold = "warm" if options.warm else "cold"
    source = f"dse measure, {datetime.date.today().isoformat()}, {platform.platform()}, median of {options.repeats}, {cold} caches"
    with tqdm(total=sum(len(one.columns) for one in asked), unit=" kernels", delay=2) as bar:
        for one in asked:
            try:
                for row in _timed(one, {"device": device, "source": source}, have, each, options.repeats):
                    rows.append(row)
                    _write(path, rows)
            except (RuntimeError, MemoryError) as error:  # what a library says of a device or a shape that it can't take
                failed[f"{one.kernel.name} {one.m}x{one.k}"] = str(error).strip().partition("\n")[0]
            bar.update(len(one.columns))
    if failed:
        warnings.warn("not timed: " + "; ".join(f"{what}: {why}" for what, why in failed.items()), stacklevel=2)
    _tell_noise(rows)
    return rows


def _tell_noise(rows: list[Row]) -> None:
    noisy = [row for row in rows if float(row.get("spread") or 0) > NOISY]
    if noisy:
        what = f"noise: {len(noisy)} of {len(rows)} times vary by more than {NOISY:.0%} (the middle half of the repeats)"
        warnings.warn(f"{what}; an idle machine says more", stacklevel=3)


def _timed(one: _Asked, row: Row, have: set[tuple[Any, ...]], each: Each, repeats: int) -> Iterator[Row]:
    """The rows of one A that are not known yet. With random numbers: a GPU may run faster on others, since it takes less power."""
    kernel, mask = one.kernel, _mask(one)
    if not mask.any():
        raise RuntimeError("no weight is kept at this density")
    row |= {"kernel": kernel.name, "release": kernel.release, "pattern": kernel.pattern, "dtype": kernel.dtype, "unit": kernel.unit or ""}
    row |= {"m": one.m, "k": one.k, "density": float(mask.mean())}
    wanted = [n for n in one.columns if _key(row | {"n": n}) not in have]
    if not wanted:
        return
    rng = np.random.default_rng(0)
    multiply = kernel.store(rng.standard_normal((one.m, one.k), np.float32) * mask)
    for n in wanted:
        time, spread = measured(each, multiply(rng.standard_normal((one.k, n), np.float32)), repeats)
        yield row | {"n": n, "time_ms": 1e3 * time, "spread": round(spread, 3)}


def _mask(one: _Asked) -> np.ndarray:
    return random_mask(one.kernel.pattern, one.m, one.k, None if one.density is None else 1 - one.density)


def _divides(kernel: Timed, size: tuple[int, int]) -> bool:
    grains = (kernel.grain, parse(kernel.pattern).granularity)
    return all(edge % grain == 0 for known in grains for edge, grain in zip(size, known, strict=True))


def _densities(kernel: Timed, densities: list[float]) -> list[float] | list[None]:
    return densities if parse(kernel.pattern).density is None else [None]


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
    problems = ProblemCollector()
    with problems.collect(path):
        read_rows(path, Measurement, problems)
    problems.raise_if_any()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not set(rows[0]) <= set(COLUMNS):
        raise InputError(f"'{path}' is no table of 'dse measure'", "give another folder")
    return rows


def _write(path: Path, rows: list[Row]) -> None:
    def write(target: Path) -> None:
        with target.open("w", newline="") as file:
            writer: csv.DictWriter[Any] = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows)

    replace_file(path, write)
