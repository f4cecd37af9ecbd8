"""`dse calibrate --few N`: the shapes whose measurement on a new device narrows the intervals of all others the most."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, ProblemCollector
from dse.base.strict_model import validate_mapping
from dse.base.table_format import Row, format_table
from dse.calibrate.fit.shape_selection import choose_launches, measurement_noise, remaining_deviation
from dse.calibrate.measure.libraries import GPU_DTYPES
from dse.calibrate.tables.launches import build_launches
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import load_device
from dse.cli.arguments.common import refuse_unused
from dse.model.efficiency.interval import Z_SCORE
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.selection import select_kernels
from dse.model.efficiency.parameter import Distribution
from dse.model.executions import list_executions
from dse.schema.accelerator import Accelerator
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE
from dse.sparsity.pattern import Pattern

DENSITY = 0.25  # of patterns that do not set it
# Sizes of linear layers of networks, by tokens of one sequence, of a batch of sequences and of a prompt.
OUTPUTS, INPUTS, TOKENS = (1024, 2048, 4096, 8192, 14336), (1024, 2048, 4096, 8192, 14336), (1, 16, 128, 1024, 4096, 16384)


def report(options: Namespace, kernels: Sequence[KernelRecord]) -> str:
    """The chosen shapes, the 90% interval of a time before and after they are measured, and the command that measures them.

    Raises InputError.
    """
    if options.device is None:
        raise InputError("'--few' needs a device", "add '--device NAME', a name of the catalogue or a path")
    if options.measurements:
        raise InputError(f"'{options.measurements[0]}' has no effect with '--few'", "leave it out")
    refuse_unused(options, ("out", "force", "samples", "seed"), "with '--few'")
    problems, device, pattern, dtype = ProblemCollector(), None, DENSE, None
    with problems.collect(key="--few"):
        if options.few < 1:
            raise InputError(f"{options.few} shapes are out of range", "write a number of at least 1")
    with problems.collect(key="--device"):
        device = load_device(options.device, Path())
    with problems.collect(key="--pattern"):
        pattern = parse(options.pattern or "dense")
    with problems.collect(key="--dtype"):
        dtype = validate_mapping(OperandDtypes, options.dtype or "fp16")
    problems.raise_if_any()
    assert device is not None
    assert dtype is not None
    return _choose(device, pattern, dtype, options.few, kernels)


def _choose(device: Accelerator, pattern: Pattern, dtype: OperandDtypes, count: int, kernels: Sequence[KernelRecord]) -> str:
    able = [each for each in list_executions(device, dtype, "calibrated") if each.pattern.allows_masks_of(pattern)]
    execution = next((each for each in able if each.pattern == pattern), next((each for each in able if each.is_sparse), None))
    if execution is None:
        raise InputError(f"no run of '{device.name}' computes '{pattern}' in '{dtype.text}'", "see 'dse list accelerators'")
    selection = select_kernels(execution, pattern, device, dtype.compute, kernels)
    if not selection.predictions:
        of_dtype = "" if selection.kind == "measured" else ", in a dtype that has the same kernels"
        return f"'{device.name}', {execution.name}: measured already, by {selection.label(0)}{of_dtype}"
    prior, record = selection.predictions[0].distribution, selection.kernels[0]
    key = replace(record.key, device=device.name, unit=execution.unit, dtype=dtype.text)
    model, launches = replace(record.model, key=key), _candidates(key, device, pattern, dtype)
    chosen = choose_launches(model, launches, prior, count, measurement_noise(record.half_width_or_estimate))
    widths = [_mean_interval(model, launches, record, prior, chosen[:number]) for number in range(len(chosen) + 1)]
    times, shapes = model.predict_times(launches), [launches.shapes[index] for index in chosen]
    rows: list[Row] = [
        {"m": m, "k": k, "n": n, "expected ms": f"{times[index] * 1e3:.3g}", "interval of all times afterwards": width}
        for (m, k, n), index, width in zip(shapes, chosen, widths[1:], strict=True)
    ]
    of_density = "" if pattern.density else f" at a density of {DENSITY:g}"
    heading = f"'{device.name}', {execution.name}, {dtype.text}{of_density}: by {selection.label(0)}, 90% interval of a time {widths[0]}"
    return "\n".join([heading, format_table(rows), _how_to_measure(pattern, dtype, shapes)])


def _candidates(key: KernelKey, device: Accelerator, pattern: Pattern, dtype: OperandDtypes) -> KernelLaunches:
    about = {"device": device.name, "kernel": "", "pattern": pattern, "dtype": dtype, "density": pattern.density or DENSITY}
    sizes = product(OUTPUTS, INPUTS, TOKENS)
    return build_launches(key, device, [[Measurement.model_construct(**about, m=m, k=k, n=n, time_ms=np.nan)] for m, k, n in sizes])


def _mean_interval(model: KernelModel, launches: KernelLaunches, record: KernelRecord, prior: Distribution, measured: list[int]) -> str:
    """Mean 90% interval of the times after some are measured, as a relative error; it contains what the parameters leave unexplained."""
    noise = measurement_noise(record.half_width_or_estimate)
    of_parameters = remaining_deviation(model, launches, prior, measured, noise)
    half_widths = np.hypot(Z_SCORE * of_parameters, record.half_width_or_estimate)
    return f"+-{np.expm1(float(half_widths.mean())):.0%}"


def _how_to_measure(pattern: Pattern, dtype: OperandDtypes, shapes: Sequence[tuple[int, int, int]]) -> str:
    """The command that measures shapes, if `dse measure` has kernels for the pattern and the dtype."""
    if dtype.text not in GPU_DTYPES.get(str(pattern), ()):
        return f"'dse measure' has no kernel for '{pattern}' in '{dtype.text}': measure the shapes with a library that has one"
    densities = "" if pattern.density else f" --densities {DENSITY:g}"
    return f"dse measure -o measured --warm{densities} --shapes " + " ".join("x".join(map(str, shape)) for shape in shapes)
