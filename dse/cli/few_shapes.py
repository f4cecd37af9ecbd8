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
from dse.calibrate.tables.launches import build_launches
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import load_device
from dse.cli.arguments.common import refuse_unused
from dse.model.efficiency.interval import Z_SCORE
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.selection import select_kernels
from dse.model.executions import list_executions
from dse.schema.accelerator import Accelerator
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE
from dse.sparsity.pattern import Pattern

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
    refuse_unused(options, ("out", "force"), "with '--few'")
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
        return f"'{device.name}', {execution.name}: measured already, by {selection.label(0)}"
    prior, record = selection.predictions[0].distribution, selection.kernels[0]
    key = replace(record.key, device=device.name, unit=execution.unit, dtype=dtype.compute)
    noise = measurement_noise(record.half_width_or_error)
    density = pattern.density or 0.25
    about = {"device": device.name, "kernel": "", "pattern": pattern, "dtype": dtype, "density": density, "time_ms": np.nan}
    sizes = product(OUTPUTS, INPUTS, TOKENS)
    launches = build_launches(key, device, [[Measurement.model_construct(**about, m=m, k=k, n=n)] for m, k, n in sizes])
    model = KernelModel(key, prior.mean)
    chosen = choose_launches(model, launches, prior, count, noise)
    rows, times = list[Row](), model.predict_times(launches)
    for number, index in enumerate(chosen, 1):
        m, k, n = launches.shapes[index]
        width = _mean_interval(remaining_deviation(model, launches, prior, chosen[:number], noise))
        rows.append({"m": m, "k": k, "n": n, "expected ms": f"{times[index] * 1e3:.3g}", "interval of all times afterwards": width})
    before = _mean_interval(remaining_deviation(model, launches, prior, [], noise))
    shapes = " ".join("x".join(map(str, launches.shapes[index])) for index in chosen)
    return "\n".join(
        [
            f"'{device.name}', {execution.name}, {dtype.text}: by {selection.label(0)}, 90% interval of a time {before}",
            format_table(rows),
            f"dse measure -o measured --warm --shapes {shapes}",
        ]
    )


def _mean_interval(deviation: np.ndarray) -> str:
    """Mean 90% interval of times with these standard deviations of their logarithms, as a relative error."""
    return f"+-{np.expm1(Z_SCORE * float(deviation.mean())):.0%}"
