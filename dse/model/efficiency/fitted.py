"""The fidelity `calibrated` of a whole network: each layer under each execution as a launch of a measured kernel.

    time = launch + (unit^4 + max(memories, decoder)^4)^(1/4)    unit: FLOPs at the peak, `slowed` by what the kernel makes of them

What slows a layer (padding, waves, prologues, gathers) does not depend on the peak or the bandwidth of a design, so that these are
swept as ever. What slows the unit depends on its processors and its issue rate, what slows the memory on the cache, and a stated launch
comes beside: axes of a sweep that are taken in turn, and that a search tabulates.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dse.base.dtype import OperandDtypes
from dse.model.efficiency import assertions
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_selection import KernelSelection, select_kernels
from dse.model.efficiency.launches import DeviceRates, KernelLaunches, random_row_spread
from dse.model.peak import Execution
from dse.model.reuse import Reuse
from dse.model.terms import BYTES, Case, compulsory_case, with_capacity
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS
from dse.workload import Variant

LAUNCH = "overhead.launch"


def case(
    accelerator: Accelerator,
    variant: Variant,
    batch: int,
    dtype: OperandDtypes,
    options: ModelOptions,
    kernels: Sequence[KernelRecord] = (),
    described: Accelerator | None = None,
) -> Case:
    """The work of `variant`, by measured kernels where the options name them (see `finished`).

    Raises InputError, and ImplausibleResultError for a prediction that can't be true.
    """
    return finished(compulsory_case(accelerator, variant, batch, dtype, options), accelerator, variant, dtype, options, kernels, described)


def drivers(accelerator: Accelerator, dtypes: Iterable[OperandDtypes], varied: Container[str]) -> list[str]:
    """Paths of the numbers that what slows a unit depends on, where those at `varied` may change."""
    shared = [name for name, unit in accelerator.units.items() if unit.issue is not None or f"units.{name}.issue" in varied]
    peaks = shared if any(dtype.compute == "fp32" for dtype in dtypes) else []  # whose share of what is issued changes with them
    return [f"units.{name}.{number}" for name in accelerator.units for number in ("processors", "scratchpad", "issue")] + [
        f"units.{name}.peak.fp32" for name in peaks
    ]


def finished(
    found: Case,
    accelerator: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    options: ModelOptions,
    kernels: Sequence[KernelRecord],
    described: Accelerator | None = None,
    sampled: bool = True,
) -> Case:
    """A case of compulsory work with what follows from the capacities of `accelerator`, and from its kernels, which are chosen for the
    device as `described` (default: `accelerator`), whatever a sweep makes of its rates.

    `sampled`: with samples of how far off the times may be.
    """
    sized = with_capacity(found, accelerator, options)
    if options.fidelity != "calibrated" or found.reuse is None:
        return sized
    choices = [kernels_for(execution, variant, described or accelerator, dtype, kernels) for execution in found.executions]
    columns = [_column(found.reuse, sized, number, accelerator, variant, dtype, chosen, sampled) for number, chosen in enumerate(choices)]
    columns = _no_better_than_measured(columns, choices, sized)
    count = max(len(column.slowed) for column in columns)
    slowed, fixed = (np.stack([np.resize(part, (count, *part.shape[1:])) for part in parts], axis=2) for parts in _turned(columns))
    names = np.stack([column.kernels for column in columns], axis=1)
    sized = replace(sized, least=None, kernels=names)
    own, *draws = (replace(sized, slowed=slow, fixed=more) for slow, more in zip(slowed, fixed, strict=True))
    return replace(own, draws=tuple(draws))


def kernels_used(found: Case) -> dict[str, list[str]]:
    """The kernels that stand for each execution that some layer may take; none where no kernels count."""
    if found.kernels is None:
        return {}
    legal = np.isfinite(found.work[:, :, 1]) & (found.work[:, :, 1] > 0)
    columns = zip(found.executions, found.kernels.T, legal.T, strict=True)
    return {execution.name: sorted(set(column[may])) for execution, column, may in columns}


def remarks(found: Case, name: str) -> list[str]:
    """What of a case rests on no measurement of its own device, in words."""
    used = [(run, text) for run, texts in kernels_used(found).items() for text in texts]
    return [f"'{name}', {run}: by a kernel that was not measured there, {text}" for run, text in used if not text.endswith("(measured)")]


@dataclass(frozen=True, eq=False)
class _Column:
    """One execution: what slows its terms [draw, layer, term], what it takes beside [draw, layer] in seconds, by which kernel [layer]."""

    slowed: np.ndarray
    fixed: np.ndarray
    kernels: np.ndarray


def _no_better_than_measured(columns: Sequence[_Column], choices: Sequence[KernelSelection], sized: Case) -> list[_Column]:
    """Slow the executions for which another kernel is assumed, until none is better made than every measured sparse one of its unit that
    may run the same layer: an execution that nobody measured wins by its work and its rates only."""
    legal = np.isfinite(sized.work[:, :, 1])
    found = []
    for column, chosen, execution in zip(columns, choices, sized.executions, strict=True):
        beside = [
            (other, legal[:, number])
            for number, (other, known) in enumerate(zip(columns, choices, strict=True))
            if chosen.kind == "assumed" and known.kind != "assumed"
            and sized.executions[number].sparse and sized.executions[number].unit == execution.unit
        ]  # fmt: skip
        if beside:
            slowed = np.min([np.where(may[:, None], other.slowed, np.inf) for other, may in beside], axis=0)
            fixed = np.min([np.where(may, other.fixed, np.inf) for other, may in beside], axis=0)
            column = replace(
                column,
                slowed=np.maximum(column.slowed, np.where(np.isinf(slowed), 1.0, slowed)),
                fixed=np.maximum(column.fixed, np.where(np.isinf(fixed), 0.0, fixed)),
            )
        found.append(column)
    return found


def _turned(columns: Sequence[_Column]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [column.slowed for column in columns], [column.fixed for column in columns]


def kernels_for(
    execution: Execution, variant: Variant, described: Accelerator, dtype: OperandDtypes, kernels: Sequence[KernelRecord]
) -> KernelSelection:
    """The kernels that stand for the weights of `variant` under `execution`; raises InputError where none has values as wide."""
    pattern = execution.pattern.storage_pattern_for(variant.pattern) or execution.pattern
    if isinstance(variant.pattern, VNM) and isinstance(pattern, NM) and pattern.m == VNM_COLUMNS:
        pattern = variant.pattern  # whose columns are gathered for an N:4 unit
    return select_kernels(execution, pattern, described, dtype.compute, kernels)


def _column(
    reuse: Reuse,
    sized: Case,
    number: int,
    accelerator: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    chosen: KernelSelection,
    sampled: bool,
) -> _Column:
    execution, layers = sized.executions[number], sized.layers
    launches = _launches(reuse, sized, number, accelerator, variant, dtype, chosen)
    repeats = np.where(layers.kind == "matmul", layers.count, 1.0)  # the heads of an attention are one launch
    moved, rates, which = sized.work[:, number, BYTES] * repeats, launches.rates, chosen.nearest_index(launches.density)
    likely = chosen.kernels[: which.max() + 1]
    launch, unit, memory = np.choose(which, [kernel.model.time_components(launches, moved) for kernel in likely])
    off = np.choose(which, [kernel.sample_time_factors(launches, chosen.log_deviation) for kernel in likely])[: None if sampled else 1]
    slowed = np.ones((len(layers), sized.work.shape[2]))
    slowed[:, :2] = np.where(layers.has_flops, unit * rates.peak / launches.flops, 1.0)[:, None]
    slowed[:, BYTES] = np.where(moved > 0, memory * rates.bandwidth / np.where(moved > 0, moved, 1.0), 1.0)
    assertions.check_slowdown(slowed, f"'{accelerator.name}', {execution.name}")
    slowed = slowed * np.where(slowed > 1, chosen.slowdown_over_dense * off[:, :, None], 1.0)
    slowed = np.maximum(slowed, 1.0)  # no kernel beats the speed of light
    idle = ~np.any(sized.work[:, number] > 0, axis=1)  # a row of parameters
    names = np.array([chosen.label(n) for n in range(len(chosen.kernels))], object)[which]
    return _Column(slowed, np.where(idle, 0.0, launch * off / repeats), names)


def _launches(
    reuse: Reuse, sized: Case, number: int, accelerator: Accelerator, variant: Variant, dtype: OperandDtypes, chosen: KernelSelection
) -> KernelLaunches:
    """The layers as launches under one execution; where a dense kernel stands for a sparse one, as narrower dense products."""
    execution, layers = sized.executions[number], sized.layers
    product = replace(reuse.product, **{name: value[:, number] for name, value in vars(reuse.product).items()})
    k = layers.k if execution.sparse else product.k * product.density  # of columns that are gone, a dense kernel has none
    density = np.clip(product.density * product.k / k, 1e-12, 1.0)
    known = np.full(len(layers), np.nan) if variant.row_spread is None else variant.row_spread
    free = execution.sparse and execution.pattern.density is None
    spread = np.where(np.isnan(known), random_row_spread(density, k), known) if free else np.zeros(len(layers))
    if chosen.is_dense_substitute:
        k, density = np.maximum(k * density, 1e-12), np.ones(len(layers))
    slots = np.full(len(layers), execution.pattern.m if isinstance(execution.pattern, NM) else 0, float)
    products = product.groups * np.where(layers.kind == "matmul", layers.count, 1.0)
    rates = DeviceRates.from_accelerator(accelerator, execution.unit, dtype.compute)
    return KernelLaunches(
        chosen.kernels[0].key, rates, product.m / product.groups, k, product.n,
        density, slots, spread, product.a, dtype.bytes_per_element("activations"), dtype.bytes_per_element("outputs"),
        np.full(len(layers), np.nan), products,
    )  # fmt: skip
