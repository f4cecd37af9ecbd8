"""`dse calibrate`: fit every measured kernel, of products and of fused attention, and write efficiencies.yaml."""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from dse.base import input_file, output_file
from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.progress import shows_progress
from dse.calibrate.attention.attention_set import MIN_LAUNCHES, AttentionSet, load_attention
from dse.calibrate.attention.export import fit_attention_record, format_attention_file, format_attention_section, predict_other_half
from dse.calibrate.attention.measurement import is_attention_table
from dse.calibrate.fit.calibration import Calibration, KernelsByFit, count_shapes
from dse.calibrate.fit.checkpoint import Checkpoint
from dse.calibrate.fit.export import format_efficiency_file
from dse.calibrate.fit.kernel import MIN_SHAPES
from dse.calibrate.fit.outliers import describe_outliers
from dse.calibrate.predictions import speed_of_light_time
from dse.calibrate.tables.exclusions import explain_unused, summarize_reasons
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement_set import MeasurementSet, load_measurements, pool
from dse.cli import few_shapes
from dse.cli.arguments.common import refuse_unused
from dse.model.efficiency.attention.record import AttentionRecord
from dse.model.efficiency.efficiency_file import load_efficiency_file, shipped_kernels
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.selection import POOR_FIT

DEFAULT_SAMPLES = 30  # of the bootstrap
LONGEST_LAUNCH, SLOW = 1e-4, 100  # overhead that any launch may have [s]; time over the speed of light above which a kernel is reported
NO_TABLE = (".md", ".yaml", ".yml")  # files that are written next to tables
MAX_ATTENTION_ERROR = 0.15  # mean error above which a fit of attention is reported


def execute(options: Namespace) -> str:
    """Fit every kernel with enough shapes; returns what was fitted and what was left out. With `--few`, only choose shapes to measure.

    Each kernel is written to a checkpoint as soon as it is fitted, so that an interrupted run resumes. Raises InputError.
    """
    if options.few is None and (not options.measurements or options.out is None):
        raise InputError("the measurements or the output file are missing", "write 'dse calibrate TABLE ... -o FILE', or see '--few'")
    others = _load_others(options.prior)
    if options.few is not None:
        return few_shapes.report(options, others)
    refuse_unused(options, ("device", "pattern", "dtype"), "without '--few'")
    options.samples = DEFAULT_SAMPLES if options.samples is None else options.samples
    options.seed = options.seed or 0
    options.measurements, no_tables = _list_tables(options.measurements)
    measurements, attention = _load_all(options)
    launches = group_launches(measurements)
    kernels = KernelsByFit.of(launches, others)
    unused = [*no_tables, *_list_unused(kernels, measurements, attention)]
    if not kernels.many and not kernels.few and not attention.fittable:
        what = f"no kernel has {MIN_SHAPES} shapes" + (f", or {MIN_LAUNCHES} launches of attention" if attention.launches else "")
        raise explain_unused(what, "measure more shapes: an efficiency is a function of the work", unused)
    checkpoint = Checkpoint(options.out, options.measurements, measurements.devices, options.samples, options.seed, options.prior)
    fitted = Calibration(measurements, others, checkpoint, options.samples, options.seed).fit(kernels)
    records = [fitted[key] for key in launches if key in fitted]
    of_attention = _fit_attention_records(attention, options.seed)
    _write(records, of_attention, options)
    checkpoint.remove()
    lines = [*_list_fits(records), *_list_attention_fits(of_attention), *(f"left out: {reason}" for reason in unused)]
    lines += [*_list_poor_fits(records), *_list_outliers(records, launches), *_list_slow(launches), *_list_unstated_processors(records)]
    return "\n".join([*lines, str(options.out)])


def _list_unused(kernels: KernelsByFit, measurements: MeasurementSet, attention: AttentionSet) -> list[str]:
    """Kernels with too few shapes or launches, and the reasons of rows that are left out."""
    too_few = [f"{key}, {count_shapes(each)} shapes, fewer than {MIN_SHAPES}" for key, each in kernels.unfitted.items()]
    reasons = summarize_reasons([*measurements.left_out, *attention.left_out])
    return [*too_few, *attention.kernels_with_few_launches, *reasons]


def _write(records: Sequence[KernelRecord], of_attention: Sequence[AttentionRecord], options: Namespace) -> None:
    if records:
        text = format_efficiency_file(records, options.measurements, _command(options)) + format_attention_section(of_attention)
    else:
        text = format_attention_file(of_attention, options.measurements, _command(options))
    output_file.replace_file(options.out, lambda path: path.write_text(text))


def _load_others(prior: str) -> tuple[KernelRecord, ...]:
    """The kernels whose populations are the prior of a fit: those that ship, none, or those of a file."""
    if prior == "none":
        return ()
    return shipped_kernels() if prior == "shipped" else load_efficiency_file(Path(prior)).kernels


def _list_tables(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The tables among files and in folders, and the files next to them that are not tables, each with the reason that it is left out.

    Raises InputError if there is no table.
    """
    problems, tables, others = ProblemCollector(), [], []
    for path in paths:
        with problems.collect():
            input_file.check_not_pipe(path)
            if path.is_dir():
                tables += input_file.list_tables(path)
            elif path.suffix in NO_TABLE:
                others.append(f"{path}: not a table of measurements")
            else:
                tables.append(path)
    problems.raise_if_any()
    if not tables:
        raise InputError(f"no table of measurements in '{paths[0]}'", "give CSV files of 'dse measure', or their folder")
    return tables, others


def _load_all(options: Namespace) -> tuple[MeasurementSet, AttentionSet]:
    """The rows of all tables; raises InputError with all errors of the request."""
    problems, sets, attention = ProblemCollector(), [], AttentionSet("pooled", {}, {})
    products, attention_tables = _separate_attention_tables(options.measurements)
    with problems.collect():
        attention = load_attention(attention_tables) if attention_tables else attention
    for path in options.measurements:
        with problems.collect():
            if path in products:
                sets.append(load_measurements(path))
    inputs = [path for path in options.measurements if path.exists() and options.out.exists() and path.samefile(options.out)]
    for path in inputs:
        problems.add(Problem(f"'{path}' would be overwritten", "write the efficiencies to another file"))
    with problems.collect():
        output_file.check_not_overwritten(options.out, force=options.force or bool(inputs))
    for name in ("samples", "seed"):
        if getattr(options, name) < 0:
            problems.add(Problem(f"{getattr(options, name)} is out of range", "write a number of at least 0", key=f"--{name}"))
    with problems.collect():
        output_file.check_writable(options.out)
    problems.raise_if_any()
    return pool(sets), attention


def _command(options: Namespace) -> str:
    names = " ".join(path.name for path in options.measurements)
    prior = "" if options.prior == "shipped" else f" --prior {Path(options.prior).name}"
    return f"dse calibrate {names} -o {options.out.name} --samples {options.samples} --seed {options.seed}" + prior


def _list_fits(records: Iterable[KernelRecord]) -> list[str]:
    return [f"{record}: {record.shapes} shapes, mean error {record.error:.1%}" for record in records]


def _list_poor_fits(records: Iterable[KernelRecord]) -> list[str]:
    """The kernels whose times the model does not explain."""
    return [f"poor fit: {record}, mean error {record.error:.0%}" for record in records if record.error > POOR_FIT]


def _list_outliers(records: Iterable[KernelRecord], launches: Mapping[KernelKey, KernelLaunches]) -> list[str]:
    described = (describe_outliers(record, launches[record.key]) for record in records)
    return [f"outliers: {text}" for text in described if text is not None]


def _list_slow(launches: Mapping[KernelKey, KernelLaunches]) -> list[str]:
    """The kernels of which no launch is anywhere near the speed of light: most likely in another unit of time."""
    ratios = {key: float((each.time / (speed_of_light_time(each) + LONGEST_LAUNCH)).min()) for key, each in launches.items()}
    doubt = "is 'time_ms' in milliseconds?"
    return [
        f"slow: {key}, every launch takes over {ratio:.0f} times the speed of light; {doubt}"
        for key, ratio in ratios.items()
        if ratio > SLOW
    ]


def _list_unstated_processors(records: Sequence[KernelRecord]) -> list[str]:
    """The units whose processors no description states, with the number that the waves of each kernel imply."""
    lines = []
    for device, unit in dict.fromkeys((record.device, record.unit) for record in records if record.rates.processors is None):
        counts = sorted({record.processors for record in records if (record.device, record.unit) == (device, unit) and record.processors})
        estimate = f"estimated from waves: {', '.join(f'{count:g}' for count in counts)}" if counts else "waves imply none"
        lines.append(f"'{device}' does not state units.{unit}.processors; {estimate}")
    return lines


def _separate_attention_tables(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Tables of products, and tables of fused attention by their columns; a file that cannot be read counts as the former."""
    attention = [path for path in paths if _is_readable_attention_table(path)]
    return [path for path in paths if path not in attention], attention


def _is_readable_attention_table(path: Path) -> bool:
    try:
        return is_attention_table(path)
    except InputError:  # which loading it reports
        return False


def _fit_attention_records(attention: AttentionSet, seed: int) -> list[AttentionRecord]:
    """Fit every kernel of fused attention with enough launches."""
    keys = attention.fittable
    return [
        fit_attention_record(predict_other_half(attention.launches[key], seed), attention.sources[key], seed)
        for key in tqdm(keys, unit=" kernels", delay=2, disable=not shows_progress())
    ]


def _list_attention_fits(records: Sequence[AttentionRecord]) -> list[str]:
    """What was fitted, then the kernels whose times the model does not explain."""
    fits = [
        f"{record}: {record.launches} launches, {record.tiling}, mean error {record.error:.1%} of launches that the fit did not see"
        for record in records
    ]
    return fits + [f"poor fit: {record}, mean error {record.error:.0%}" for record in records if record.error > MAX_ATTENTION_ERROR]
