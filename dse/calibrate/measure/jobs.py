"""Timing jobs of `dse measure`: each a kernel and a matrix A, with the numbers of columns of B that it is multiplied by."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from dse.base.errors import InputError, did_you_mean
from dse.calibrate.measure.libraries import LibraryKernel
from dse.model.efficiency.kernels.launches import Shape
from dse.sparsity.grammar import parse
from dse.sparsity.pruning import random_mask

CPU_SHAPES = (
    "256x256x256", "512x512x128", "512x512x512", "1024x1024x256", "1024x1024x1024", "768x3072x512", "3072x768x512", "2048x2048x512",
)  # fmt: skip
GPU_WEIGHTS = (
    "768x3072", "3072x768", "1024x1024", "2048x2048", "2048x8192", "8192x2048", "4096x4096", "4096x11008", "11008x4096", "8192x8192",
)  # fmt: skip
GPU_SHAPES = tuple(f"{weights}x{n}" for weights in GPU_WEIGHTS for n in (64, 256, 512, 1024, 2048, 4096, 8192))


@dataclass(frozen=True)
class TimingJob:
    """One kernel with one matrix A of m x k, to be multiplied by matrices B of k x n for each n of `columns`."""

    kernel: LibraryKernel
    m: int
    k: int
    density: float | None  # None: that of the pattern
    columns: tuple[int, ...]

    def random_mask(self) -> Bool[np.ndarray, "m k"]:
        """A random mask of the pattern."""
        return random_mask(self.kernel.pattern, self.m, self.k, None if self.density is None else 1 - self.density)

    def __str__(self) -> str:
        return f"{self.kernel.name} {self.m}x{self.k}"


def choose_library_kernels(installed: Sequence[LibraryKernel], names: Sequence[str]) -> list[LibraryKernel]:
    """The dense kernels and those of these names (default: all), dense ones first; raises InputError for an unknown name."""
    known_names = {kernel.name for kernel in installed}
    if unknown := set(names) - known_names:
        name = sorted(unknown)[0]
        raise InputError(f"kernel '{name}' is not installed", did_you_mean(name, known_names))
    selected = [kernel for kernel in installed if not names or kernel.name in names or kernel.pattern == "dense"]
    return sorted(selected, key=lambda kernel: kernel.pattern != "dense")


def parse_shape(text: str) -> Shape:
    """The (m, k, n) of a text such as `1024x1024x256`; raises InputError."""
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}x[1-9]\d{0,5}", text):
        raise InputError(f"'{text}' is not a shape of a product", "write m x k x n, as in '1024x1024x256'")
    m, k, n = map(int, text.split("x"))
    return m, k, n


def plan_jobs(kernels: Sequence[LibraryKernel], shapes: Sequence[Shape], densities: Sequence[float]) -> list[TimingJob]:
    """The jobs in the order of their matrices; warns about shapes that the blocks of a kernel do not divide."""
    columns_by_size = {(m, k): tuple(n for *size, n in shapes if size == [m, k]) for m, k, _ in shapes}
    indivisible = [(kernel.name, size) for kernel in kernels for size in columns_by_size if not _divides(kernel, size)]
    if indivisible:
        listed = ", ".join(f"{name} {m}x{k}" for name, (m, k) in indivisible)
        warnings.warn(f"left out, since the blocks of the kernel do not divide the shape: {listed}", stacklevel=2)
    return [
        TimingJob(kernel, m, k, density, columns)
        for (m, k), columns in columns_by_size.items()
        for kernel in kernels
        if _divides(kernel, (m, k))
        for density in (densities if parse(kernel.pattern).density is None else [None])
    ]


def _divides(kernel: LibraryKernel, size: tuple[int, int]) -> bool:
    granularities = (kernel.granularity, parse(kernel.pattern).granularity)
    return all(edge % step == 0 for granularity in granularities for edge, step in zip(size, granularity, strict=True))
