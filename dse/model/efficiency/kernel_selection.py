"""Which fitted kernel predicts an execution: its own, that of another device or dtype, or that of another pattern."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int

from dse.base.dtype import BITS_PER_ELEMENT, accumulator_suffix, storage_dtype
from dse.base.errors import InputError
from dse.model.efficiency.attention_selection import shipped_attention
from dse.model.efficiency.kernel_file import SHIPPED, FittedRecord, KernelRecord, load_efficiency_file
from dse.model.efficiency.launches import DeviceRates, PerLaunch, pattern_family
from dse.model.efficiency.unmeasured_patterns import assumed_ratio, shared_height
from dse.model.executions import Execution
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.sparsity.pattern import Pattern

SelectionKind = Literal["measured", "transferred", "assumed"]

# Standard deviations of the logarithm of a time that the kernel of something else predicts (root mean squares over all measurements):
# the same kernel of another device with units of the same name (14 cases: A100, RTX 3090) or of another name (6 cases, with the MI210), and
# the kernel of a pattern with another number of rows that share their columns (6 cases: V:N:M, vectors).
BETWEEN_DEVICES, BETWEEN_VENDORS, BETWEEN_HEIGHTS = 0.24, 0.54, 0.45


@dataclass(frozen=True, eq=False)
class KernelSelection:
    """The kernels of one device that predict an execution, the most representative first.

    `kind`: `measured` on this device, in this dtype and pattern; `transferred` from another device, or from another dtype of equal width;
    `assumed`, from a pattern with blocks of another height, or (`is_dense_substitute`) from a dense kernel, which then takes
    `slowdown_over_dense` times as long for the same number of multiply-adds. `log_deviation`: standard deviation of the logarithm of the
    times that the difference between the kernels adds.
    """

    kind: SelectionKind
    kernels: tuple[KernelRecord, ...]
    log_deviation: float = 0.0
    is_dense_substitute: bool = False
    slowdown_over_dense: float = 1.0

    def label(self, index: int) -> str:
        """Name of a kernel with the kind of the selection."""
        return f"{self.kernels[index]} ({self.kind})"

    def nearest_index(self, density: PerLaunch) -> Int[np.ndarray, "launch"]:
        """Index of the kernel with the nearest measured density for each launch; of equal ones the most representative."""
        ends = np.log([kernel.density for kernel in self.kernels])
        wanted = np.zeros(len(density)) if self.is_dense_substitute else np.log(density)
        distance = np.maximum(0.0, np.maximum(ends[:, :1] - wanted, wanted - ends[:, 1:]))
        return np.argmin(np.round(distance, 6), axis=0)


def available_kernels(accelerator: Accelerator, options: ModelOptions, folder: Path | None = None) -> tuple[FittedRecord, ...]:
    """The fitted kernels, of products and of fused attention, that `options` name, else those of the description, else the shipped ones.

    The path in `options` is relative to `folder`. Empty unless the fidelity is `calibrated`. Raises InputError.
    """
    if options.fidelity != "calibrated":
        return ()
    if options.efficiencies is not None:
        return load_efficiency_file((folder or Path()) / options.efficiencies).records
    if accelerator.efficiencies is not None:
        return load_efficiency_file(accelerator.document.path.parent / accelerator.efficiencies).records
    return *shipped_kernels(), *shipped_attention()


@cache
def shipped_kernels() -> tuple[KernelRecord, ...]:
    """The kernels of the package."""
    return load_efficiency_file(SHIPPED).kernels


def select_kernels(
    execution: Execution, pattern: Pattern, accelerator: Accelerator, dtype: str, fitted: Sequence[FittedRecord]
) -> KernelSelection:
    """Select the kernels that predict weights of `pattern` under `execution`; of several devices the one with the nearest rates.

    Raises InputError if no kernel with values of this width is available.
    """
    kernels = [record for record in fitted if isinstance(record, KernelRecord)]
    same_width = [kernel for kernel in kernels if kernel.value_bits == BITS_PER_ELEMENT[storage_dtype(dtype)]]
    same_unit = [kernel for kernel in same_width if kernel.unit == execution.unit]
    same_pattern = [kernel for kernel in same_unit if _has_pattern(kernel, pattern)]
    measured = [kernel for kernel in same_pattern if (kernel.device, kernel.compute_dtype) == (accelerator.name, dtype)]
    if measured:
        return KernelSelection("measured", _most_representative_first(measured, kernels))
    usable = same_pattern or _nearest_heights(pattern, same_unit)
    candidates = usable or [kernel for kernel in same_width if kernel.family == "dense"]
    if not candidates:
        raise _no_kernel_error(execution, accelerator, dtype)
    rates = DeviceRates.from_accelerator(accelerator, execution.unit, dtype)
    chosen = most_similar_device(candidates, kernels, accelerator.name, execution.unit, dtype, rates)
    deviation = _device_deviation(chosen[0], accelerator, execution)
    if same_pattern or not execution.is_sparse:
        return KernelSelection("transferred", chosen, deviation)
    if usable:
        return KernelSelection("assumed", chosen, float(np.hypot(deviation, BETWEEN_HEIGHTS)))
    ratio = assumed_ratio(pattern)
    return KernelSelection("assumed", chosen, float(np.hypot(deviation, ratio.log_deviation)), True, 1 / ratio.mean)


def _no_kernel_error(execution: Execution, accelerator: Accelerator, dtype: str) -> InputError:
    what = f"no kernel was measured for '{execution.name}' of '{accelerator.name}', nor any dense kernel with values as wide as '{dtype}'"
    return InputError(what, "give 'efficiencies: FILE' (see 'dse measure', 'dse calibrate'), or use fidelity capacity or r3")


def _device_deviation(kernel: KernelRecord, accelerator: Accelerator, execution: Execution) -> float:
    """Standard deviation of the logarithm of a time that is predicted by a kernel of another device."""
    if kernel.device == accelerator.name:
        return 0.0
    return BETWEEN_DEVICES if kernel.unit == execution.unit else BETWEEN_VENDORS


def _has_pattern(kernel: KernelRecord, pattern: Pattern) -> bool:
    """Whether a kernel was measured with weights of a pattern; for N:4 and V:N:M, with the same number of rows that share their columns."""
    height = shared_height(pattern)
    return kernel.family == pattern_family(pattern) and (not kernel.heights or height is None or height[1] in kernel.heights)


def _nearest_heights(pattern: Pattern, kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """Kernels for patterns that differ only in the number of rows that share their columns, those with the nearest number."""
    height = shared_height(pattern)
    related = [kernel for kernel in kernels if height and kernel.shared == height[0]]
    if height is None or not related:
        return []
    distances = [min(abs(np.log(rows / height[1])) for rows in kernel.heights) for kernel in related]
    return [kernel for kernel, distance in zip(related, distances, strict=True) if distance == min(distances)]


def most_similar_device(
    candidates: Sequence[KernelRecord], kernels: Sequence[KernelRecord], device: str, unit: str, dtype: str, rates: DeviceRates
) -> tuple[KernelRecord, ...]:
    """The candidates of the device, unit and dtype that are most similar to a unit with these rates, the most representative first."""
    nearest = min(candidates, key=lambda kernel: _device_distance(kernel, device, unit, dtype, rates))
    place = nearest.device, nearest.unit, nearest.compute_dtype
    return _most_representative_first([k for k in candidates if (k.device, k.unit, k.compute_dtype) == place], kernels)


def _most_representative_first(candidates: Sequence[KernelRecord], kernels: Sequence[KernelRecord]) -> tuple[KernelRecord, ...]:
    """First kernels that share a source with kernels of other families, since sources time launches differently and a speedup compares
    kernels; then those measured at more shapes, then those with the smaller error."""

    def is_compared(kernel: KernelRecord) -> bool:
        others = [k for k in kernels if k.device == kernel.device and k.family != kernel.family]
        return any(set(k.sources) & set(kernel.sources) for k in others)

    return tuple(sorted(candidates, key=lambda k: (not is_compared(k), -k.shapes, k.error)))


def _device_distance(kernel: KernelRecord, device: str, unit: str, dtype: str, rates: DeviceRates) -> tuple[bool, bool, bool, float]:
    """Differences in order of importance: device, unit, width of the accumulator, rates; other formats of the same width are equal."""
    ratios = np.array([kernel.rates.peak / rates.peak, kernel.rates.bandwidth / rates.bandwidth])
    other_accumulator = accumulator_suffix(kernel.compute_dtype) != accumulator_suffix(dtype)
    return kernel.device != device, kernel.unit != unit, other_accumulator, float(np.abs(np.log(ratios)).sum())
