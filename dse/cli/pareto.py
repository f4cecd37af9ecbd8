"""`dse pareto`: find Pareto fronts and write them as dataset, CSV and figure."""

import sys
from argparse import Namespace
from pathlib import Path

from dse import plot
from dse.base import atomic_write
from dse.base.errors import InputError
from dse.cli.plot import file_prefix
from dse.plot import pareto as pareto_figure
from dse.sweeping import pareto, select, store


def execute(options: Namespace) -> str:
    """Write the fronts and return them as CSV; the files are listed on stderr."""
    dataset = select.select_values(store.read(options.dataset), select.parse_pairs(options.at))
    reference = select.parse_numbers(select.parse_pairs(options.reference))
    stem = _output_stem(options.dataset, options.out)
    written = stem.with_name(f"{stem.name}.nc")
    atomic_write.check_writable(written, *plot.figure_files(stem))
    front = pareto.pareto(dataset, options.maximize, options.minimize, reference, ties=not options.unique, pool=options.pool)
    table, figure = pareto_figure.front_table(front), pareto_figure.draw_figure(dataset, front)
    store.write(front, written)
    print(written, *plot.save_figure(figure, table, stem), sep="\n", file=sys.stderr)
    if len(records := pareto.front_records(front)) > 1:
        print("a front for each of these (--pool: one over all):", *map(pareto_figure.summary_line, records), sep="\n", file=sys.stderr)
    return table.to_csv(index=False).removesuffix("\n")


def _output_stem(dataset: Path, out: Path | None) -> Path:
    """Path of the output files without their endings: OUT if it is a .nc file, else 'pareto' in the folder OUT or that of the dataset."""
    if out is not None and out.suffix == ".nc":
        if out.resolve() == dataset.resolve():
            raise InputError(f"'{out}' is also the input", "give another output file")
        return out.with_suffix("")
    return (out or dataset.parent) / f"{file_prefix(dataset)}pareto"
