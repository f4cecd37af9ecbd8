"""The command `dse sweep`: evaluate, write, draw."""

import argparse
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import xarray as xr

from dse import plot
from dse.base import atomic_write, catalog, lock
from dse.base.errors import InputError
from dse.plot import pareto
from dse.report import listing
from dse.schema.reduction import FrontReduction, TopReduction
from dse.schema.sweep import read_sweep
from dse.sweeping import run, store
from dse.sweeping.destination import check_whole, in_parts
from dse.sweeping.distributed.processes import processes
from dse.sweeping.distributed.run import fill
from dse.sweeping.distributed.sink import to_store
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import build_plan
from dse.sweeping.plan_checks import check_result_size


def execute(options: argparse.Namespace) -> str:
    """What is printed: the plan of a dry run, else the files that were written. Raises UnfinishedError if a figure cannot be drawn, after
    all others are and the files are printed.
    """
    plan = build_plan(*read_sweep(catalog.find_path("sweeps", options.spec)), progress=True)
    folder, prefix = _destination(options.out, plan.spec.name)
    written: Path = folder / f"{prefix or 'results.'}nc" if options.out is None or not to_store(options.out) else options.out
    parted = in_parts(plan, written)
    if not parted:
        check_whole(plan, bool(options.resume or options.shard or options.dask is not None or options.workers))
    if not to_store(written) or plan.spec.plots:
        check_result_size(plan)
    if options.dry_run:
        return listing.describe(plan)
    for workload in plan.workloads:
        if unstated := workload.unstated_inputs:
            print(f"{workload.name}: {', '.join(unstated)} not given: run on {workload.run_on}", file=sys.stderr)
    atomic_write.check_writable(*([] if to_store(written) else [written]), *_drawings(plan, folder, prefix))
    try:
        with lock.hold_write_lock(written, shared=options.shard is not None):
            dataset = _filled(plan, written, options) if parted else _whole(plan, written)
            figures = _drawn(plan, dataset, folder, prefix) if dataset is not None else []
    except plot.FiguresNotDrawnError as error:
        print(written, *error.written, sep="\n")
        raise
    return "\n".join(map(str, [written, *figures]))


def _destination(out: Path | None, name: str) -> tuple[Path, str]:
    """The folder, and what the names of the files in it begin with: nothing, or the stem of a chosen file."""
    if out is not None and out.suffix in (".nc", ".zarr"):
        return out.parent, f"{out.stem}."
    return out or Path(name), ""


def _drawings(plan: Plan, folder: Path, prefix: str) -> list[Path]:
    """The figures and tables that come to stand beside the results."""
    if isinstance(plan.spec.keep, TopReduction):
        return [folder / f"{prefix}top.csv"]
    kinds = ("front",) if isinstance(plan.spec.keep, FrontReduction) else plan.spec.plots
    return [file for kind in kinds for file in plot.figure_files(folder / f"{prefix}{kind}")]


def _whole(plan: Plan, path: Path) -> xr.Dataset:
    dataset = run.run_in_memory(plan, progress=True)
    store.write(dataset, path)
    return dataset


def _drawn(plan: Plan, dataset: xr.Dataset, folder: Path, prefix: str) -> list[Path]:
    """The figures that are asked for; of a front, what it looks like; of the best, their table."""
    if isinstance(plan.spec.keep, FrontReduction):
        return plot.save_figure(pareto.draw_figure(dataset, dataset), pareto.front_table(dataset), folder / f"{prefix}front")
    if isinstance(plan.spec.keep, TopReduction):
        path = folder / f"{prefix}top.csv"
        atomic_write.replace_file(path, lambda partial: dataset.to_dataframe().to_csv(partial, index=False))
        return [path]
    return plot.save_figures(dataset, plan.spec.plots, folder, prefix)


def _filled(plan: Plan, path: Path, options: argparse.Namespace) -> xr.Dataset | None:
    """The results to draw figures of, if any are asked for and all of them are there."""
    shard = None if options.shard is None else _shard(options.shard)
    with _executor(options) as executor:
        sink = fill(plan, path, executor=executor, resume=options.resume, shard=shard, progress=True)
    if not sink.done().all():
        print("this shard is done, others are not yet", file=sys.stderr)
        return None
    if plan.spec.keep != "all":
        return sink.dataset()
    return store.read(path) if plan.spec.plots else None


def _shard(written: str) -> tuple[int, int]:
    number, _, of = written.partition("/")
    if not (number.isdecimal() and of.isdecimal()):
        raise InputError(f"'{written}' is no shard", "write which of how many, as in '1/8'")
    return int(number), int(of)


def _executor(options: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    if options.dask is not None and options.workers:
        raise InputError("the workers are Dask's, or processes of this machine", "leave out --workers or --dask")
    if options.workers:
        return processes(options.workers)
    return nullcontext() if options.dask is None else _cluster(options.dask)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("Dask is not installed", "install it: pip install 'sparse-dse[dask]'") from error
    try:
        client = Client(address)
    except OSError as error:
        raise InputError(f"no Dask scheduler answers at '{address}'", "start one: dask scheduler") from error
    except (ValueError, TypeError, AssertionError, ImportError) as error:
        raise InputError(*_unusable(address, str(error))) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it would log tracebacks of a lost scheduler
    with client:
        yield client.get_executor(pure=False)


def _unusable(address: str, reason: str) -> tuple[str, str]:
    """What is wrong with an address that no client can be made for, and its fix."""
    what = f"'{address}' cannot be used as the address of a Dask scheduler" + (f" ({reason.splitlines()[0]})" if reason else "")
    if address.startswith(("tls:", "wss:")):
        return what, "give certificates in the Dask configuration (distributed.comm.tls), or an address as in 'tcp://127.0.0.1:8786'"
    return what, "write one as in 'tcp://127.0.0.1:8786'"
