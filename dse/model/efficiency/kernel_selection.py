"""Which measured kernel speaks for an execution: its own, the same one elsewhere, or, where none was ever measured, a dense one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from dse.base.dtype import BITS_PER_ELEMENT, accumulator_suffix, storage_dtype
from dse.base.errors import InputError
from dse.model.efficiency import assumed
from dse.model.efficiency.kernel_file import SHIPPED, FittedKernel, load
from dse.model.efficiency.launches import Rates, family
from dse.model.peak import Execution
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.sparsity.pattern import Pattern

Kind = Literal["measured", "transferred", "assumed"]

# Deviations of the logarithm of a time that is predicted by the kernel of something else (root mean squares over what was measured):
# 14 times by the same kernel of another device with units of one name (A100, RTX 3090), 6 times without (and MI210); six times by the
# kernel of a pattern that differs in the rows that share their columns (V:N:M, vectors).
BETWEEN_DEVICES, BETWEEN_VENDORS, BETWEEN_HEIGHTS = 0.24, 0.54, 0.45


@dataclass(frozen=True, eq=False)
class Chosen:
    """Kernels of one device that stand for an execution, the likeliest first.

    `measured`: on this device, in this dtype and pattern; `transferred`: on another device, or in another dtype as wide; `assumed`: never,
    so that a kernel of blocks or vectors of another height stands for it, or (`dense_stands_in`) a dense one, which then takes `slowdown`
    times as long for as many multiply-adds. `spread`: deviation of the logarithm of the times for what is not measured.
    """

    kind: Kind
    kernels: tuple[FittedKernel, ...]
    spread: float = 0.0
    dense_stands_in: bool = False
    slowdown: float = 1.0

    def label(self, number: int) -> str:
        return f"{self.kernels[number]} ({self.kind})"

    def nearest(self, density: np.ndarray) -> np.ndarray:
        """Number of the kernel for each density: measured nearest to it, of equals the likeliest."""
        ends = np.log([kernel.density for kernel in self.kernels])
        wanted = np.zeros(len(density)) if self.dense_stands_in else np.log(density)
        apart = np.maximum(0.0, np.maximum(ends[:, :1] - wanted, wanted - ends[:, 1:]))
        return np.argmin(np.round(apart, 6), axis=0)


def kernels_of(accelerator: Accelerator, options: ModelOptions, beside: Path | None = None) -> tuple[FittedKernel, ...]:
    """The kernels that `options` name (relative to `beside`), else those that the description names, else those that ship."""
    if options.fidelity != "calibrated":
        return ()
    if options.efficiencies is not None:
        return load((beside or Path()) / options.efficiencies).kernels
    if accelerator.efficiencies is not None:
        return load(accelerator.document.path.parent / accelerator.efficiencies).kernels
    return shipped()


@cache
def shipped() -> tuple[FittedKernel, ...]:
    return load(SHIPPED).kernels


def choose(execution: Execution, pattern: Pattern, accelerator: Accelerator, dtype: str, kernels: Sequence[FittedKernel]) -> Chosen:
    """Choose the kernels that stand for weights of `pattern` under `execution`; raises InputError where no kernel has values as wide.

    Of several devices the one whose peak and bandwidth are nearest counts.
    """
    wide = [kernel for kernel in kernels if kernel.bits == BITS_PER_ELEMENT[storage_dtype(dtype)]]
    same = [kernel for kernel in wide if _same_pattern(kernel, pattern) and kernel.unit == execution.unit]
    own = [kernel for kernel in same if (kernel.device, kernel.compute) == (accelerator.name, dtype)]
    if own:
        return Chosen("measured", _ordered(own, kernels))
    dense = [kernel for kernel in wide if kernel.family == "dense"]
    related = same or _related(pattern, [kernel for kernel in wide if kernel.unit == execution.unit])
    if not related and not dense:
        what = f"no kernel was measured for '{execution.name}' of '{accelerator.name}', nor any dense one in values as wide as '{dtype}'"
        fix = "give 'efficiencies: FILE' (see 'dse measure', 'dse calibrate'), or take fidelity capacity or r3"
        raise InputError(what, fix)
    rates = Rates.of(accelerator, execution.unit, dtype)
    those = elsewhere(related or dense, kernels, accelerator.name, execution.unit, dtype, rates)
    apart = 0.0 if those[0].device == accelerator.name else BETWEEN_DEVICES if those[0].unit == execution.unit else BETWEEN_VENDORS
    if same or not execution.sparse:
        return Chosen("transferred", those, apart)
    if related:
        return Chosen("assumed", those, float(np.hypot(apart, BETWEEN_HEIGHTS)))
    share = assumed.share(pattern)
    return Chosen("assumed", those, float(np.hypot(apart, share.spread)), True, 1 / share.ratio)


def _same_pattern(kernel: FittedKernel, pattern: Pattern) -> bool:
    """Whether a kernel was measured with weights of a pattern; of N:4 and V:N:M, with as many rows that share their columns."""
    height = assumed.height(pattern)
    return kernel.family == family(pattern) and (not kernel.heights or height is None or height[1] in kernel.heights)


def _related(pattern: Pattern, kernels: Sequence[FittedKernel]) -> list[FittedKernel]:
    """Kernels of the pattern that differs from `pattern` least in the number of rows that share their columns."""
    height = assumed.height(pattern)
    shared = [kernel for kernel in kernels if height and kernel.shared == height[0]]
    if height is None or not shared:
        return []
    apart = [min(abs(np.log(rows / height[1])) for rows in kernel.heights) for kernel in shared]
    return [kernel for kernel, distance in zip(shared, apart, strict=True) if distance == min(apart)]


def elsewhere(
    alike: Sequence[FittedKernel], kernels: Sequence[FittedKernel], device: str, unit: str, dtype: str, rates: Rates
) -> tuple[FittedKernel, ...]:
    """Those of `alike` that were measured where things are most like a unit of a device with these rates, the likeliest first."""
    nearest = min(alike, key=lambda kernel: _distance(kernel, device, unit, dtype, rates))
    return _ordered([k for k in alike if (k.device, k.unit, k.compute) == (nearest.device, nearest.unit, nearest.compute)], kernels)


def _ordered(those: Sequence[FittedKernel], kernels: Sequence[FittedKernel]) -> tuple[FittedKernel, ...]:
    """First what was measured together with kernels of other families, since each source times launches in its own way and a speedup is
    to compare kernels; then what was measured on more shapes, then what is predicted better."""

    def together(one: FittedKernel) -> bool:
        beside = [k for k in kernels if k.device == one.device and k.family != one.family]
        return any(set(k.sources) & set(one.sources) for k in beside)

    return tuple(sorted(those, key=lambda k: (not together(k), -k.shapes, k.error)))


def _distance(kernel: FittedKernel, device: str, unit: str, dtype: str, rates: Rates) -> tuple[bool, bool, bool, float]:
    """What differs, what weighs most first; a narrower accumulator is another kernel, the format of the values as wide is not."""
    ratios = np.array([kernel.rates.peak / rates.peak, kernel.rates.bandwidth / rates.bandwidth])
    accumulator = accumulator_suffix(kernel.compute) != accumulator_suffix(dtype)
    return kernel.device != device, kernel.unit != unit, accumulator, float(np.abs(np.log(ratios)).sum())
