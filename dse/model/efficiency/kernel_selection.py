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
from dse.model.efficiency.kernel_file import SHIPPED, KernelRecord, load
from dse.model.efficiency.launches import DeviceRates, family
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
class KernelSelection:
    """Kernels of one device that stand for an execution, the likeliest first.

    `kind`: `measured`: on this device, in this dtype and pattern. `transferred`: on another device, or in another dtype of equal width.
    `assumed`: never; a kernel for blocks or vectors of another height is used, or (`is_dense_substitute`) a dense kernel, which then takes
    `slowdown_over_dense` times as long for the same number of multiply-adds. `log_deviation`: standard deviation of the logarithm of the
    times that follows from what was not measured.
    """

    kind: Kind
    kernels: tuple[KernelRecord, ...]
    log_deviation: float = 0.0
    is_dense_substitute: bool = False
    slowdown_over_dense: float = 1.0

    def label(self, number: int) -> str:
        return f"{self.kernels[number]} ({self.kind})"

    def nearest_index(self, density: np.ndarray) -> np.ndarray:
        """Number of the kernel for each density: measured nearest to it, of equals the likeliest."""
        ends = np.log([kernel.density for kernel in self.kernels])
        wanted = np.zeros(len(density)) if self.is_dense_substitute else np.log(density)
        apart = np.maximum(0.0, np.maximum(ends[:, :1] - wanted, wanted - ends[:, 1:]))
        return np.argmin(np.round(apart, 6), axis=0)


def available_kernels(accelerator: Accelerator, options: ModelOptions, beside: Path | None = None) -> tuple[KernelRecord, ...]:
    """The kernels that `options` name (relative to `beside`), else those that the description names, else those that ship."""
    if options.fidelity != "calibrated":
        return ()
    if options.efficiencies is not None:
        return load((beside or Path()) / options.efficiencies).kernels
    if accelerator.efficiencies is not None:
        return load(accelerator.document.path.parent / accelerator.efficiencies).kernels
    return shipped()


@cache
def shipped() -> tuple[KernelRecord, ...]:
    return load(SHIPPED).kernels


def select_kernels(
    execution: Execution, pattern: Pattern, accelerator: Accelerator, dtype: str, kernels: Sequence[KernelRecord]
) -> KernelSelection:
    """Choose the kernels that stand for weights of `pattern` under `execution`; raises InputError where no kernel has values as wide.

    Of several devices the one whose peak and bandwidth are nearest counts.
    """
    wide = [kernel for kernel in kernels if kernel.bits == BITS_PER_ELEMENT[storage_dtype(dtype)]]
    same = [kernel for kernel in wide if _same_pattern(kernel, pattern) and kernel.unit == execution.unit]
    own = [kernel for kernel in same if (kernel.device, kernel.compute) == (accelerator.name, dtype)]
    if own:
        return KernelSelection("measured", _ordered(own, kernels))
    dense = [kernel for kernel in wide if kernel.family == "dense"]
    related = same or _related(pattern, [kernel for kernel in wide if kernel.unit == execution.unit])
    if not related and not dense:
        what = f"no kernel was measured for '{execution.name}' of '{accelerator.name}', nor any dense one in values as wide as '{dtype}'"
        fix = "give 'efficiencies: FILE' (see 'dse measure', 'dse calibrate'), or take fidelity capacity or r3"
        raise InputError(what, fix)
    rates = DeviceRates.from_accelerator(accelerator, execution.unit, dtype)
    those = elsewhere(related or dense, kernels, accelerator.name, execution.unit, dtype, rates)
    apart = 0.0 if those[0].device == accelerator.name else BETWEEN_DEVICES if those[0].unit == execution.unit else BETWEEN_VENDORS
    if same or not execution.sparse:
        return KernelSelection("transferred", those, apart)
    if related:
        return KernelSelection("assumed", those, float(np.hypot(apart, BETWEEN_HEIGHTS)))
    share = assumed.share(pattern)
    return KernelSelection("assumed", those, float(np.hypot(apart, share.spread)), True, 1 / share.ratio)


def _same_pattern(kernel: KernelRecord, pattern: Pattern) -> bool:
    """Whether a kernel was measured with weights of a pattern; of N:4 and V:N:M, with as many rows that share their columns."""
    height = assumed.height(pattern)
    return kernel.family == family(pattern) and (not kernel.heights or height is None or height[1] in kernel.heights)


def _related(pattern: Pattern, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """Kernels of the pattern that differs from `pattern` least in the number of rows that share their columns."""
    height = assumed.height(pattern)
    shared = [kernel for kernel in kernels if height and kernel.shared == height[0]]
    if height is None or not shared:
        return []
    apart = [min(abs(np.log(rows / height[1])) for rows in kernel.heights) for kernel in shared]
    return [kernel for kernel, distance in zip(shared, apart, strict=True) if distance == min(apart)]


def elsewhere(
    alike: Sequence[KernelRecord], kernels: Sequence[KernelRecord], device: str, unit: str, dtype: str, rates: DeviceRates
) -> tuple[KernelRecord, ...]:
    """Those of `alike` that were measured where things are most like a unit of a device with these rates, the likeliest first."""
    nearest = min(alike, key=lambda kernel: _distance(kernel, device, unit, dtype, rates))
    return _ordered([k for k in alike if (k.device, k.unit, k.compute) == (nearest.device, nearest.unit, nearest.compute)], kernels)


def _ordered(those: Sequence[KernelRecord], kernels: Sequence[KernelRecord]) -> tuple[KernelRecord, ...]:
    """First what was measured together with kernels of other families, since each source times launches in its own way and a speedup is
    to compare kernels; then what was measured on more shapes, then what is predicted better."""

    def together(one: KernelRecord) -> bool:
        beside = [k for k in kernels if k.device == one.device and k.family != one.family]
        return any(set(k.sources) & set(one.sources) for k in beside)

    return tuple(sorted(those, key=lambda k: (not together(k), -k.shapes, k.error)))


def _distance(kernel: KernelRecord, device: str, unit: str, dtype: str, rates: DeviceRates) -> tuple[bool, bool, bool, float]:
    """What differs, what weighs most first; a narrower accumulator is another kernel, the format of the values as wide is not."""
    ratios = np.array([kernel.rates.peak / rates.peak, kernel.rates.bandwidth / rates.bandwidth])
    accumulator = accumulator_suffix(kernel.compute) != accumulator_suffix(dtype)
    return kernel.device != device, kernel.unit != unit, accumulator, float(np.abs(np.log(ratios)).sum())
