"""Which fitted kernel predicts an execution: its own, that of another device or dtype, or that of another pattern."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import InputError
from dse.model.efficiency import interval
from dse.model.efficiency.device_rates import memory_kind
from dse.model.efficiency.efficiency_file import FittedRecord
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches, PerLaunch, pattern_family, shared_rows
from dse.model.efficiency.kernels.parameters import PARAMETERS
from dse.model.efficiency.kernels.population import KernelPrediction
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.transfer import most_measured_library, predict_kernel
from dse.model.efficiency.kernels.unmeasured_patterns import assumed_ratio, shared_height
from dse.model.executions import Execution
from dse.schema.accelerator import Accelerator
from dse.sparsity.pattern import Pattern

SelectionKind = Literal["measured", "transferred", "assumed"]

# Standard deviations of the logarithm of a time that is predicted by kernels of something else, in addition to what is not known of these
# (root mean squares over all measurements): of units of another name (6 cases, with the MI210), of patterns with another number of rows
# that share their columns (6 cases: V:N:M, vectors), of the same library with values of another width (20 pairs of cuBLASLt kernels on
# three devices), and of fp16 by bf16 on the same device or the reverse (12 kernels of cuBLASLt and cuSPARSELt on these).
BETWEEN_UNITS, BETWEEN_HEIGHTS, BETWEEN_WIDTHS, BETWEEN_16_BIT_DTYPES = 0.48, 0.45, 0.15, 0.07
SAME_KERNELS = {"fp16": "bf16", "bf16": "fp16"}  # dtypes for which libraries have the same kernels
WIDE_BITS = 16  # of the dtypes that every library runs well
POOR_FIT = 0.5  # mean error of a fit above which a kernel predicts others only if there is no better one


@dataclass(frozen=True, eq=False)
class KernelSelection:
    """The kernels that predict an execution, the most representative first.

    `kind`: `measured` on this device, in this dtype and pattern; `transferred` from other devices or dtypes; `assumed`, from a pattern with
    blocks of another height, or (`is_dense_substitute`) from dense kernels, which then take `slowdown_over_dense` times as long for the
    same number of multiply-adds. `predictions`: of kernels that were not measured on the device, the parameters with their spread.
    `unit_deviation`, `pattern_deviation`, `dtype_deviation`: standard deviations of the logarithm of the times where kernels of another
    unit, for another pattern, or in another dtype predict. `dense_limit`: the dense kernel that was measured on the device, for sparse
    executions on the same unit, which a kernel that was not measured there does not exceed in efficiency, since the two may be of libraries
    that nobody compared. `wider`: a dense kernel that was measured on the device with 16-bit values, which runs convolutions that take
    longer with narrower values: no convolution was measured, and libraries of language models neglect their small k.
    """

    kind: SelectionKind
    kernels: tuple[KernelRecord, ...]
    unit_deviation: float = 0.0
    pattern_deviation: float = 0.0
    dtype_deviation: float = 0.0
    is_dense_substitute: bool = False
    slowdown_over_dense: float = 1.0
    predictions: tuple[KernelPrediction, ...] = ()
    dense_limit: KernelRecord | None = None
    wider: KernelRecord | None = None

    def label(self, index: int) -> str:
        """Name of a kernel with the kind of the selection; a predicted one is named before the devices that predict it."""
        kernel = self.kernels[index]
        name = f"{kernel.kernel} {kernel.family} {kernel.dtype} of {kernel.device}" if self.predictions else str(kernel)
        return f"{name} ({self.kind})"

    def nearest_index(self, density: PerLaunch, columns: PerLaunch) -> Int[np.ndarray, "launch"]:
        """Index of the kernel with the nearest measured density for each launch; of equal ones the most representative.

        Kernels that gather rows of B differ in the `columns` of B that they suit, which then count as well.
        """
        wanted = np.ones(len(density)) if self.is_dense_substitute else density
        distance = np.array([interval.log_distance(wanted, *kernel.density) for kernel in self.kernels])
        if shared_rows(self.kernels[0].family) and all(kernel.sizes for kernel in self.kernels):
            distance += [interval.log_distance(columns, *kernel.sizes[-1]) for kernel in self.kernels]
        return np.argmin(np.round(distance, 6), axis=0)

    def sample_time_factors(
        self, index: int, launches: KernelLaunches, moved_bytes: PerLaunch
    ) -> Float[np.ndarray, "component sample launch"]:
        """Samples of actual over predicted overhead, time of the unit and time of the memory of a kernel; the first sample is 1.

        What is unknown of a device is shared by its kernels. Samples depend on neither the name of the device nor the dtype.
        """
        kernel = self.kernels[index]
        if not self.predictions:
            half_width = np.hypot(kernel.interval_half_width(launches), interval.Z_SCORE * self.dtype_deviation)
            return np.repeat(interval.sample_factors(str(kernel), half_width)[None], 3, axis=0)
        gradients, prediction = kernel.model.log_component_gradients(launches, moved_bytes), self.predictions[index]
        own, every = f"{kernel.unit} {kernel.kernel} {kernel.family}", np.ones((3, len(launches)))
        errors = [
            (own, every * kernel.interval_half_width(launches) / interval.Z_SCORE),
            (f"unit {kernel.unit}", every * self.unit_deviation),
            (f"{own} for another pattern", every * self.pattern_deviation),
            (f"{own} in another dtype", every * self.dtype_deviation),
        ]
        for owner, deviations in (("device", prediction.device_deviation), (own, prediction.kernel_deviation)):
            errors += [(f"{owner} {p.name}", gradients[..., number] * deviations[number]) for number, p in enumerate(PARAMETERS)]
        logarithms = interval.combine_errors(errors)
        return np.exp(np.concatenate([np.zeros_like(logarithms[:, :1]), logarithms], axis=1))


def select_kernels(
    execution: Execution, pattern: Pattern, accelerator: Accelerator, dtype: str, fitted: Sequence[FittedRecord]
) -> KernelSelection:
    """Select the kernels that predict weights of `pattern` under `execution`; for one that was not measured, predict its parameters.

    Raises InputError if no kernel of the unit, nor one with values of this width, is available.
    """
    kernels = [record for record in fitted if isinstance(record, KernelRecord)]
    plain = [kernel for kernel in kernels if not kernel.has_scales]
    same_width = [kernel for kernel in plain if kernel.value_bits == BITS_PER_ELEMENT[storage_dtype(dtype)]]
    same_unit = [kernel for kernel in same_width if kernel.unit == execution.unit]
    same_pattern = [kernel for kernel in same_unit if _has_pattern(kernel, pattern)]
    if of_device := _of_device(same_pattern, accelerator, dtype):
        representative = _most_representative_first(_without_poor_fits(of_device), kernels)
        if of_device[0].compute_dtype == dtype:
            return KernelSelection(
                "measured", representative, wider=None if execution.is_sparse else _wider_kernel(representative[0], plain)
            )
        return KernelSelection("transferred", representative, dtype_deviation=BETWEEN_16_BIT_DTYPES)
    usable = same_pattern or _nearest_heights(pattern, same_unit)
    candidates = usable or _dense_substitutes(execution, plain, same_width)
    if not candidates:
        raise _no_kernel_error(execution, accelerator, dtype)
    selection = _predict(candidates, execution, accelerator, dtype, kernels)
    if execution.is_sparse and not usable:
        ratio = assumed_ratio(pattern)
        return replace(
            selection, kind="assumed", is_dense_substitute=True,
            slowdown_over_dense=1 / ratio.mean, pattern_deviation=ratio.log_deviation,
        )  # fmt: skip
    comparable = [kernel for kernel in (same_unit if execution.is_sparse else same_width) if kernel.family == "dense"]
    dense = _most_representative_first(_of_device(comparable, accelerator, dtype), kernels)
    selection = replace(selection, dense_limit=dense[0] if dense else None)
    return replace(selection, kind="assumed", pattern_deviation=BETWEEN_HEIGHTS) if execution.is_sparse and not same_pattern else selection


def _predict(
    candidates: Sequence[KernelRecord], execution: Execution, accelerator: Accelerator, dtype: str, kernels: Sequence[KernelRecord]
) -> KernelSelection:
    """Predict kernels of the device from the candidates: one, or one of each library where they gather rows of B."""
    libraries = _libraries(_without_poor_fits(candidates), kernels)
    keys = [KernelKey(accelerator.name, execution.unit, library, "", candidates[0].family, dtype) for library in libraries]
    memory, is_as_wide = memory_kind(accelerator), candidates[0].value_bits == BITS_PER_ELEMENT[storage_dtype(dtype)]
    predicted = [predict_kernel(similar, key, memory, kernels) for key, similar in zip(keys, libraries.values(), strict=True)]
    records, predictions = (tuple(each) for each in zip(*predicted, strict=True))
    return KernelSelection(
        "transferred", records, predictions=predictions,
        unit_deviation=0.0 if candidates[0].unit == execution.unit else BETWEEN_UNITS,
        dtype_deviation=0.0 if is_as_wide else BETWEEN_WIDTHS,
    )  # fmt: skip


def _of_device(kernels: Sequence[KernelRecord], device: Accelerator, dtype: str) -> list[KernelRecord]:
    """Kernels that were measured on a device in a dtype, or, if there are none, in one that has the same kernels."""
    of_device = [kernel for kernel in kernels if kernel.device == device.name]
    in_dtype = [kernel for kernel in of_device if kernel.compute_dtype == dtype]
    return in_dtype or [kernel for kernel in of_device if kernel.compute_dtype == SAME_KERNELS.get(dtype)]


def _wider_kernel(narrow: KernelRecord, kernels: Sequence[KernelRecord]) -> KernelRecord | None:
    """The dense kernel of the same unit of a device that computes with 16-bit values, for one with narrower values."""
    dense = [kernel for kernel in kernels if (kernel.device, kernel.unit, kernel.family) == (narrow.device, narrow.unit, "dense")]
    wider = [kernel for kernel in dense if kernel.value_bits == WIDE_BITS > narrow.value_bits]
    return _most_representative_first(wider, kernels)[0] if wider else None


def _dense_substitutes(execution: Execution, kernels: Sequence[KernelRecord], same_width: Sequence[KernelRecord]) -> list[KernelRecord]:
    """Dense kernels of the unit: with values of the same width if there are any, else of another, else of another unit.

    A unit of another name is of another vendor, with another library.
    """
    dense_of_width = [kernel for kernel in same_width if kernel.family == "dense"]
    dense_of_unit = [kernel for kernel in kernels if kernel.family == "dense" and kernel.unit == execution.unit]
    return [kernel for kernel in dense_of_width if kernel.unit == execution.unit] or dense_of_unit or dense_of_width


def _without_poor_fits(kernels: Sequence[KernelRecord]) -> list[KernelRecord]:
    """The kernels whose times the model explains; all of them, if it explains none."""
    return [kernel for kernel in kernels if kernel.error < POOR_FIT] or list(kernels)


def _libraries(candidates: Sequence[KernelRecord], kernels: Sequence[KernelRecord]) -> dict[str, list[KernelRecord]]:
    """The candidates that predict a kernel of the library that was measured on most devices, by the name of the library.

    Dense kernels of all libraries predict each other. Of kernels that gather rows of B all libraries are kept, each with its own numbers of
    columns.
    """
    ordered, library = _most_representative_first(candidates, kernels), most_measured_library(candidates)
    if candidates[0].family == "dense":
        return {library: list(ordered)}
    names = dict.fromkeys(kernel.kernel for kernel in ordered) if shared_rows(candidates[0].family) else [library]
    return {name: [kernel for kernel in ordered if kernel.kernel == name] for name in names}


def _no_kernel_error(execution: Execution, accelerator: Accelerator, dtype: str) -> InputError:
    what = f"no kernel was measured for '{execution.name}' of '{accelerator.name}', nor a dense one of its unit, or as wide as '{dtype}'"
    fix = "give 'efficiencies: FILE' with such a kernel (it replaces those that ship; see 'dse calibrate'), or use fidelity capacity or r3"
    return InputError(what, fix)


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


def _most_representative_first(candidates: Sequence[KernelRecord], kernels: Sequence[KernelRecord]) -> tuple[KernelRecord, ...]:
    """First kernels that share a source with kernels of other families, since sources time launches differently and a speedup compares
    kernels; then those measured at more shapes, then those with the smaller error. Of kernels that gather, whose speeds differ by factors,
    the faster one comes before the one with the smaller error."""

    def is_compared(kernel: KernelRecord) -> bool:
        others = [k for k in kernels if k.device == kernel.device and k.family != kernel.family]
        return any(set(k.sources) & set(kernel.sources) for k in others)

    return tuple(sorted(candidates, key=lambda k: (not is_compared(k), -k.shapes, -k.constant if shared_rows(k.family) else k.error)))
