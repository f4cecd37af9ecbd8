"""The fidelity `calibrated`: each layer under each execution is a launch of a kernel that was fitted to measurements.

    time = overhead + (unit^4 + max(memories, decoder)^4)^(1/4)    unit and outermost memory multiplied by the kernel's slowdown

The slowdown (padding, waves, prologues, gathers) does not depend on the peak or the bandwidth of a design, so these are swept as with
any other fidelity. It does depend on the processors, the scratchpad, the issue rate and the highest clock of a unit and on the cache, and
the overhead on a stated launch latency: such axes are outer loops of a sweep, and tabulated axes of a search.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes, storage_dtype
from dse.model.device_warning import DeviceWarning
from dse.model.efficiency import assertions, interval
from dse.model.efficiency.attention.layers import predict_fused_attention
from dse.model.efficiency.attention.record import AttentionRecord
from dse.model.efficiency.device_rates import UNIT_NUMBERS, DeviceRates
from dse.model.efficiency.efficiency_file import FittedRecord
from dse.model.efficiency.kernels.launches import KernelLaunches, PerLaunch, random_row_spread
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.selection import KernelSelection, select_kernels
from dse.model.efficiency.launch_times import LaunchTimes
from dse.model.executions import Execution
from dse.model.rates import DENSE_FLOPS, STORED_FLOPS, TRAFFIC
from dse.model.terms import LayerTerms
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS
from dse.sparsity.pattern import Pattern
from dse.workload import Variant

LAUNCH_LATENCY, POWER_LIMIT = "overhead.launch", "cost.power"  # paths of a description
FLOP_TERMS = [DENSE_FLOPS, STORED_FLOPS]
# Standard deviation of the logarithm of the time of experts that kernels of plain products predict: 86% of 4,194 times of 19 kernels
# on three GPUs lie in their intervals then ('dse validate experts'; ai-dynamo/aiconfigurator).
EXPERTS_DEVIATION = 0.7


@dataclass(frozen=True)
class FittedEfficiency:
    """The efficiency of fitted `kernels`, selected for the device as `described` (default: the accelerator itself), whatever a sweep
    makes of its rates; `with_samples`: with the samples that intervals are made of.

    The kernels of an execution and a pattern are selected once for all designs of a device that is `described`.
    """

    kernels: Sequence[FittedRecord]
    described: Accelerator | None = None
    with_samples: bool = True
    _selections: dict[tuple[Execution, Pattern, OperandDtypes], KernelSelection] = field(default_factory=dict, repr=False, compare=False)

    def apply(self, terms: LayerTerms, accelerator: Accelerator, variant: Variant, dtype: OperandDtypes) -> LayerTerms:
        """The terms with the slowdown, the overhead and the names of the fitted kernels.

        Raises InputError where no kernel has values as wide, and ImplausibleResultError for a prediction that cannot be true.
        """
        described = self.described or accelerator.base
        selections = [self._select(execution, variant, described, dtype) for execution in terms.executions]
        columns = [
            _execution_efficiency(terms, number, accelerator, described, variant, dtype, selection, self.with_samples)
            for number, selection in enumerate(selections)
        ]
        columns = _limit_assumed(_limit_launches(columns, selections, terms), selections, terms)
        samples = max(len(column.slowdown) for column in columns)
        slowdown = np.stack([np.resize(column.slowdown, (samples, *column.slowdown.shape[1:])) for column in columns], axis=2)
        overhead = np.stack([np.resize(column.overhead, (samples, *column.overhead.shape[1:])) for column in columns], axis=2)
        kernels = np.stack([column.kernels for column in columns], axis=1)
        of_products = replace(terms, slowdown=slowdown, overhead=overhead, kernels=kernels, traffic_bound=None)
        attention = [record for record in self.kernels if isinstance(record, AttentionRecord)]
        return predict_fused_attention(of_products, accelerator, described, dtype, attention)

    def _select(self, execution: Execution, variant: Variant, described: Accelerator, dtype: OperandDtypes) -> KernelSelection:
        if self.described is None:
            return select_for_variant(execution, variant, described, dtype, self.kernels)
        key = execution, variant.pattern, dtype
        if key not in self._selections:
            self._selections[key] = select_for_variant(execution, variant, described, dtype, self.kernels)
        return self._selections[key]


def slowdown_paths(accelerator: Accelerator, dtypes: Iterable[OperandDtypes], varied: Container[str]) -> list[str]:
    """Paths of the numbers that the slowdown of a unit depends on, where those at `varied` may change."""
    shared = [name for name, unit in accelerator.units.items() if unit.issue is not None or f"units.{name}.issue" in varied]
    peaks = shared if any(dtype.compute == "fp32" for dtype in dtypes) else []  # whose share of what is issued changes with them
    of_units = [f"units.{name}.{number}" for name in accelerator.units for number in UNIT_NUMBERS]
    return [*of_units, *(f"units.{name}.peak.fp32" for name in peaks), POWER_LIMIT]


def kernels_by_execution(terms: LayerTerms) -> dict[str, list[str]]:
    """Names of the kernels behind each execution that some layer with work may take; empty without fitted kernels."""
    if terms.kernels is None:
        return {}
    used = terms.legal & (terms.stored_flops > 0)
    columns = zip(terms.executions, terms.kernels.T, used.T, strict=True)
    return {execution.name: sorted(set(names[mask])) for execution, names, mask in columns}


def transfer_warnings(terms: LayerTerms, accelerator: str) -> list[DeviceWarning]:
    """A warning for every kernel that was not measured on the accelerator itself."""
    used = [(run, text) for run, texts in kernels_by_execution(terms).items() for text in texts]
    return [
        DeviceWarning(accelerator, f"by a kernel that was not measured there, {text}", run)
        for run, text in used
        if not text.endswith("(measured)")
    ]


@dataclass(frozen=True, eq=False)
class _ExecutionEfficiency:
    """Slowdown, overhead [s] and kernel names of the layers under one execution; sample 0 is the best estimate."""

    slowdown: Float[np.ndarray, "sample layer term"]
    overhead: Float[np.ndarray, "sample layer"]
    kernels: np.ndarray


def _limit_launches(
    columns: Sequence[_ExecutionEfficiency], selections: Sequence[KernelSelection], terms: LayerTerms
) -> list[_ExecutionEfficiency]:
    """Raise the overhead of kernels that were not measured on the device to the smallest measured overhead of the same layer."""
    measured = [
        np.where(terms.legal[:, number], column.overhead, np.inf)
        for number, (column, selection) in enumerate(zip(columns, selections, strict=True))
        if selection.kind == "measured"
    ]
    if not measured:
        return list(columns)
    least = np.min([overhead[:1] for overhead in measured], axis=0)  # without samples, whose errors are independent
    least = np.where(np.isinf(least), 0.0, least)
    return [
        column if selection.kind == "measured" else replace(column, overhead=np.maximum(column.overhead, least))
        for column, selection in zip(columns, selections, strict=True)
    ]


def _limit_assumed(
    columns: Sequence[_ExecutionEfficiency], selections: Sequence[KernelSelection], terms: LayerTerms
) -> list[_ExecutionEfficiency]:
    """Slow down the executions whose kernel is assumed, until none is more efficient than every measured sparse kernel of its unit that
    may run the same layer: an execution that nobody measured wins by its work and its rates only."""
    limited = []
    for column, selection, execution in zip(columns, selections, terms.executions, strict=True):
        measured = [
            (columns[number], terms.legal[:, number])
            for number, other in enumerate(selections)
            if selection.kind == "assumed" and other.kind != "assumed"
            and terms.executions[number].is_sparse and terms.executions[number].unit == execution.unit
        ]  # fmt: skip
        if measured:
            slowdown = np.min([np.where(legal[:, None], other.slowdown, np.inf) for other, legal in measured], axis=0)
            overhead = np.min([np.where(legal, other.overhead, np.inf) for other, legal in measured], axis=0)
            column = replace(
                column,
                slowdown=np.maximum(column.slowdown, np.where(np.isinf(slowdown), 0.0, slowdown)),
                overhead=np.maximum(column.overhead, np.where(np.isinf(overhead), 0.0, overhead)),
            )
        limited.append(column)
    return limited


def select_for_variant(
    execution: Execution, variant: Variant, described: Accelerator, dtype: OperandDtypes, kernels: Sequence[FittedRecord]
) -> KernelSelection:
    """Select the kernels for the weights of `variant` under `execution`; raises InputError where none has values as wide.

    An expanded execution takes the kernel of the run's own pattern. That it runs as well after an activation pass is assumed.
    """
    if execution.is_expanded:
        return replace(select_kernels(execution, execution.pattern, described, dtype.compute, kernels), kind="assumed")
    pattern = execution.pattern.storage_pattern_for(variant.pattern) or execution.pattern
    if isinstance(variant.pattern, VNM) and isinstance(pattern, NM) and pattern.m == VNM_COLUMNS:
        pattern = variant.pattern  # whose columns are gathered for an N:4 unit
    return select_kernels(execution, pattern, described, dtype.compute, kernels)


def _execution_efficiency(
    terms: LayerTerms,
    number: int,
    accelerator: Accelerator,
    described: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    selection: KernelSelection,
    with_samples: bool,
) -> _ExecutionEfficiency:
    execution, layers = terms.executions[number], terms.layers
    launches = _launches(terms, number, accelerator, described, variant, dtype, selection)
    products = _products_of_launch(layers, variant)
    passes = 2 if execution.expansion == "in_memory" else 1  # launches: that of the activation pass, and that of the kernel
    moved, rates = terms.traffic[:, number, 0] * products, launches.rates
    times = _launch_times(layers, launches, moved, selection, with_samples)
    if selection.wider is not None:
        wider = _wider_times(selection.wider, launches, moved, accelerator, described, execution, with_samples)
        times = times.or_faster(wider, layers.kind == "conv")
    launch, unit, memory = times.components
    slowdown = np.ones((len(layers), TRAFFIC + terms.traffic.shape[2]))
    slowdown[:, FLOP_TERMS] = _slowdown(unit, rates.peak, launches.flops)[:, None]
    slowdown[:, TRAFFIC] = _slowdown(memory, rates.bandwidth, moved)
    if selection.dense_limit is not None:
        of_launch, of_unit, of_memory = _dense_times(selection.dense_limit, launches, moved, dtype)
        launch = np.maximum(launch, of_launch)
        slowdown[:, FLOP_TERMS] = np.maximum(slowdown[:, FLOP_TERMS], of_unit[:, None])
        slowdown[:, TRAFFIC] = np.maximum(slowdown[:, TRAFFIC], of_memory)
    assertions.check_slowdown(slowdown, rates.max_clock, f"'{accelerator.name}', {execution.name}")
    of_launch, of_unit, of_memory = times.factors
    by_term = np.ones((len(of_unit), *slowdown.shape))  # traffic of inner memories is that of the model
    by_term[:, :, FLOP_TERMS] = selection.slowdown_over_dense * of_unit[:, :, None]
    by_term[:, :, TRAFFIC] = selection.slowdown_over_dense * of_memory
    has_work = (terms.work[:, number] > 0).any(axis=1)  # a row of parameters has none
    samples = np.maximum(slowdown * by_term, 1 / rates.max_clock)  # none is faster than at the highest clock
    return _ExecutionEfficiency(samples, np.where(has_work, passes * launch * of_launch / products, 0.0), times.names)


def _launch_times(
    layers: LayerArrays, launches: KernelLaunches, moved_bytes: PerLaunch, selection: KernelSelection, with_samples: bool
) -> LaunchTimes:
    """The times of each layer by the selected kernel of the nearest density."""
    nearest = selection.nearest_index(launches.density, launches.n)
    kernels = selection.kernels[: nearest.max() + 1]
    components = np.choose(nearest, [kernel.model.time_components(launches, moved_bytes) for kernel in kernels])
    factors = np.ones((3, 1, len(layers)))
    if with_samples:
        factors = np.choose(nearest, [selection.sample_time_factors(n, launches, moved_bytes) for n in range(len(kernels))])
    names = np.array([selection.label(n) for n in range(len(selection.kernels))], object)[nearest]
    return LaunchTimes(components, factors, names).with_deviation("experts", np.where(layers.experts > 1, EXPERTS_DEVIATION, 0.0))


def _wider_times(
    kernel: KernelRecord, launches: KernelLaunches, moved_bytes: PerLaunch, accelerator: Accelerator, described: Accelerator,
    execution: Execution, with_samples: bool,
) -> LaunchTimes:  # fmt: skip
    """The times of the same products by a kernel that computes with wider values, which it reads and writes."""
    growth = kernel.value_bits / BITS_PER_ELEMENT[storage_dtype(execution.dtype)]
    wider = replace(
        launches, key=kernel.key, rates=_rates_of_design(accelerator, described, execution.unit, kernel.compute_dtype),
        weight_bytes=growth * launches.weight_bytes, activation_bytes=growth * launches.activation_bytes,
    )  # fmt: skip
    components = kernel.model.time_components(wider, growth * moved_bytes)
    half_width = kernel.interval_half_width(wider) if with_samples else np.zeros(len(launches))
    factors = interval.sample_factors(str(kernel), half_width) if with_samples else np.ones((1, len(launches)))
    names = np.full(len(launches), f"{kernel} (measured)", object)
    return LaunchTimes(components, np.repeat(factors[None], 3, axis=0), names)


def _products_of_launch(layers: LayerArrays, variant: Variant) -> PerLaunch:
    """Instances of each layer that one launch computes: the heads of an attention, and the experts that a batch uses."""
    return np.where(layers.kind == "matmul", layers.count, layers.count / variant.layers.count)


def _slowdown(time: PerLaunch, rate: float, work: PerLaunch) -> PerLaunch:
    """Time over that of the work at the rate; 1 of launches without work."""
    return np.where(work > 0, time * rate / np.where(work > 0, work, 1.0), 1.0)


def _dense_times(
    kernel: KernelRecord, launches: KernelLaunches, moved_bytes: PerLaunch, dtype: OperandDtypes
) -> tuple[PerLaunch, PerLaunch, PerLaunch]:
    """Overhead [s], slowdown of the unit and slowdown of the memory in dense launches of the same sizes, by a dense kernel."""
    ones, weight_bytes = np.ones(len(launches)), launches.m * launches.k * launches.products * dtype.bytes_per_element("weights")
    dense = replace(launches, key=kernel.key, density=ones, slots=0 * ones, weight_bytes=weight_bytes)
    launch, unit, memory = kernel.model.time_components(dense, moved_bytes)
    return launch, _slowdown(unit, dense.rates.peak, dense.flops), _slowdown(memory, dense.rates.bandwidth, moved_bytes)


def _launches(
    terms: LayerTerms,
    number: int,
    accelerator: Accelerator,
    described: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    selection: KernelSelection,
) -> KernelLaunches:
    """The layers as launches under one execution; where a dense kernel substitutes for a sparse one, as narrower dense products."""
    assert terms.reuse is not None, "fitted kernels count bytes by capacity"
    execution, layers = terms.executions[number], terms.layers
    product = replace(terms.reuse.product, **{name: value[:, number] for name, value in vars(terms.reuse.product).items()})
    k = terms.reuse.kernel_k[:, number] if execution.is_sparse else product.k * product.density  # a dense kernel has no removed columns
    density = np.clip(product.density * product.k / k, 1e-12, 1.0)
    measured_spread = np.full(len(layers), np.nan) if variant.row_spread is None else variant.row_spread
    is_random = execution.is_sparse and execution.pattern.density is None
    spread = np.where(np.isnan(measured_spread), random_row_spread(density, k), measured_spread) if is_random else np.zeros(len(layers))
    if selection.is_dense_substitute:
        k, density = np.maximum(k * density, 1e-12), np.ones(len(layers))
    slots = np.full(len(layers), execution.pattern.m if isinstance(execution.pattern, NM) else 0, float)
    products = product.groups * _products_of_launch(layers, variant)
    rates = _rates_of_design(accelerator, described, execution.unit, dtype.compute)
    return KernelLaunches(
        selection.kernels[0].key, rates, product.m / product.groups, k, product.n,
        density, slots, spread, product.a_bytes, dtype.bytes_per_element("activations"), dtype.bytes_per_element("outputs"),
        np.full(len(layers), np.nan), products,
    )  # fmt: skip


def _ratio(value: float | None, base: float | None) -> float:
    """The ratio of two numbers; 1 if one is not described."""
    return value / base if value and base else 1.0


def _rates_of_design(accelerator: Accelerator, described: Accelerator, unit: str, dtype: str) -> DeviceRates:
    """Rates of a design that is varied from a described device.

    It gets as much power per FLOP/s and as many instructions per FLOP, and instructions are as much faster as the peak is higher, so that
    the slowdown does not depend on the peak. Another power limit changes the power per FLOP/s.
    """
    rates, base = (DeviceRates.from_accelerator(each, unit, dtype) for each in (accelerator, described))
    issue = rates.issue if dtype == "fp32" else rates.peak * base.issue / base.peak
    return replace(
        rates,
        issue=issue,
        energy_budget=base.energy_budget * _ratio(accelerator.value(POWER_LIMIT), described.value(POWER_LIMIT)),
        max_clock=accelerator.units[unit].clock_headroom(described.units[unit]),
        latency_scale=base.peak / rates.peak,
        slots=rates.peak * base.slots / base.peak,
    )
