"""Subcommands about the dataset of a sweep: `dse plot` for figures, `dse pareto` for Pareto fronts."""

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from dse import plot
from dse.base import output_file
from dse.base.errors import InputError, ProblemCollector
from dse.base.name_value import parse_pairs
from dse.base.progress import announced_step, logger
from dse.cli.destination import check_results_file, is_file
from dse.plot import pareto as pareto_figure
from dse.report.result_table import render
from dse.report.show_results import result_tables
from dse.schema.figures import EVALUATED_AGAIN, FigureKind
from dse.schema.stored_results import RESULT_FILES
from dse.sweeping import pareto, store
from dse.sweeping.select_values import limit_values, parse_number, select_values
from dse.sweeping.table_file import is_table_path, write_table


def draw_figures(options: Namespace) -> str:
    """Draw the figures and return their files.

    Raises InputError if none can be drawn, FiguresNotDrawnError (after the files of the others are printed) if some cannot.
    """
    path = results_path(options.dataset)
    with announced_step(f"reading {path}"):
        dataset = limit_values(select_values(store.read(path), parse_pairs(options.select)), options.where)
    plot.check_results(dataset)
    kinds = options.kind or _kinds_with_axes(dataset, options.x, options.y) or plot.default_kinds(dataset)
    if options.where:
        kinds = _kinds_with_limits(kinds, is_chosen=bool(options.kind))
    folder, axes = options.out or path.parent, {"x": options.x, "y": options.y}
    try:
        with announced_step("writing figures"):
            written = plot.save_figures(dataset, kinds, folder, file_prefix(path), image=options.format, **axes)
    except plot.FiguresNotDrawnError as error:
        if not error.written:
            raise InputError.from_problems(error.problems) from error
        print(*error.written, sep="\n")
        raise
    return "\n".join(map(str, written))


def results_path(path: Path) -> Path:
    """The results in the folder that 'dse sweep' or 'dse search' wrote; any other path as it is."""
    return next((path / name for name in RESULT_FILES if (path / name).exists()), path) if store.is_plain_folder(path) else path


def _kinds_with_axes(dataset: xr.Dataset, x: str | None, y: str | None) -> tuple[FigureKind, ...]:
    """The kind of figure for a choice of axes: results against a swept axis, or two results; empty without a choice."""
    if x is None and y is None:
        return ()
    return ("axis",) if x is None or x in dataset.coords else ("pareto",)


def _kinds_with_limits(kinds: Sequence[FigureKind], is_chosen: bool) -> list[FigureKind]:
    """The kinds of figures that show the results within limits; raises InputError if one that does not was chosen."""
    if is_chosen and (unlimited := [kind for kind in kinds if kind in EVALUATED_AGAIN]):
        message = f"limits do not apply to {', '.join(map(repr, unlimited))}, which evaluates one design again"
        raise InputError(message, "choose the design with --select instead of --where")
    return [kind for kind in kinds if kind not in EVALUATED_AGAIN]


def file_prefix(dataset: Path) -> str:
    """Prefix of the files derived from a dataset: empty for 'results.nc', else the name of the dataset."""
    return "" if dataset.stem == "results" else f"{dataset.stem}."


def find_fronts(options: Namespace) -> str:
    """Write the fronts and return them as CSV or as a table; the files are listed on stderr."""
    path = results_path(options.dataset)
    if options.out is not None and options.out.resolve() == path.resolve():
        raise InputError(f"'{options.out}' is also the input", "give another output file")
    check_results_file(options.out, (".nc", ".csv", ".parquet"), options.force)
    with announced_step(f"reading {path}"):
        dataset = limit_values(select_values(store.read(path), parse_pairs(options.at)), options.where)
    reference = parse_numbers(parse_pairs(options.reference), dataset)
    stem = _output_stem(path, options.out)
    written = stem.with_name(f"{stem.name}.nc") if options.out is None or not is_table_path(options.out) else options.out
    output_file.check_writable(written, *plot.figure_files(stem))
    with announced_step("finding the front"):
        front = pareto.pareto(dataset, options.maximize, options.minimize, reference, ties=not options.unique, pool=options.pool)
    with announced_step("writing the figure"):
        table, figure = pareto_figure.front_table(front), pareto_figure.draw_figure(dataset, front)
    logger.info("\n".join(map(str, _write_front(front, written, figure, table, stem))))
    if len(records := pareto.front_records(front)) > 1:
        lines = map(pareto_figure.summary_line, records)
        logger.info("\n".join(["a front for each of these (--pool: one over all):", *lines]))
    style = options.format or ("table" if sys.stdout.isatty() else "csv")
    return table.to_csv(index=False).removesuffix("\n") if style == "csv" else render(result_tables(front), style)


def _write_front(front: xr.Dataset, path: Path, figure: Figure, table: pd.DataFrame, stem: Path) -> list[Path]:
    """Write the front as a dataset or as a table with units, and its figure; returns the files."""
    if not is_table_path(path):
        store.write(front, path)
        return [path, *plot.save_figure(figure, table, stem)]
    image = plot.figure_files(stem)[0]
    plot.save_image(figure, image)
    knee = xr.DataArray(table.knee.to_numpy(), dims="point", attrs={"long_name": "whether the point is the knee of its front"})
    write_table(front.assign(knee=knee), path)
    return [path, image]


def _output_stem(dataset: Path, out: Path | None) -> Path:
    """Path of the output files without their endings: OUT if it is a file, else 'pareto' in the folder OUT or that of the dataset."""
    if out is not None and is_file(out):
        return out.with_suffix("")
    return (out or dataset.parent) / f"{file_prefix(dataset)}pareto"


def parse_numbers(values: Mapping[str, str], dataset: xr.Dataset) -> dict[str, float]:
    """The values as numbers in the units of a dataset, each written with a unit or without; raises InputError with every problem."""
    numbers, problems = dict[str, float](), ProblemCollector()
    for name, text in values.items():
        unit = str(dataset[name].attrs.get("units", "")) if name in dataset.variables else ""
        with problems.collect(key=f"--reference {name}"):
            number = parse_number(text, unit)
            if number is None:
                raise InputError(f"'{name}={text}' has no number", f"write a number{f', in {unit} or with its unit' if unit else ''}")
            numbers[name] = number
    problems.raise_if_any()
    return numbers
