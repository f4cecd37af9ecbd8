"""`dse sweep`: evaluate a sweep specification, write its results and draw its figures."""

import logging
import os
import shutil
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import xarray as xr

from dse import plot
from dse.base import catalog, output_file
from dse.base.available_memory import available_bytes
from dse.base.errors import InputError
from dse.base.output_file import check_not_overwritten
from dse.base.progress import announced_step, logger, shows_progress
from dse.base.yaml_document import YamlDocument
from dse.cli.destination import CONTINUE, FORMATS, check_modes, check_results_file, is_file
from dse.cli.show import print_summary
from dse.plot import pareto as pareto_figure
from dse.schema.stored_results import FrontReduction, TopReduction
from dse.schema.sweep import read_sweep
from dse.sweeping import netcdf_stream, run, store, table_file
from dse.sweeping.distributed.reduction_sink import ORIGIN, partials_folder
from dse.sweeping.distributed.run import run_distributed, worker_processes
from dse.sweeping.distributed.sink import is_zarr_path
from dse.sweeping.model_warnings import sweep_capacity_notes
from dse.sweeping.plan import Plan, describe_plan
from dse.sweeping.plan_builder import build_plan, check_result_size
from dse.sweeping.sweep import is_distributable, not_distributable
from dse.sweeping.table_file import is_table_path


def execute(options: Namespace) -> str:
    """Evaluate the sweep and return the files that were written, or the plan of a dry run; the best designs are printed to stderr.

    Raises FiguresNotDrawnError if a figure cannot be drawn, after all others are drawn and the files are printed.
    """
    check_modes(options)
    continued = options.resume or options.shard is not None
    check_results_file(options.out, FORMATS, options.force or options.dry_run, continued)
    spec, document = read_sweep(catalog.find_path("sweeps", options.spec))
    if spec.search is not None and options.out is None and not options.dry_run:
        raise _search_error(options.spec, spec.name, document)
    plan = build_plan(spec, document, progress=shows_progress())
    folder, prefix = _output_folder(options.out, plan.spec.name)
    results: Path = options.out if options.out is not None and is_file(options.out) else folder / "results.nc"
    is_chunked = is_distributable(plan, results) and not is_table_path(results)
    if not is_chunked and (options.resume or options.shard or options.dask is not None or options.workers):
        raise not_distributable(plan)
    if plan.spec.plots or not (is_zarr_path(results) or _is_streamed(plan, results)):
        check_result_size(plan)
    if options.dry_run:
        return describe_plan(plan)
    _report_default_inputs(plan)
    output_file.check_writable(*([] if is_zarr_path(results) else [results]), *_derived_files(plan, folder, prefix))
    if is_chunked and not continued:
        check_not_overwritten(partials_folder(results), force=options.force, fix=CONTINUE)
    try:
        with output_file.hold_write_lock(results, shared=options.shard is not None):
            if options.force:
                _remove_results(results)
            dataset = _evaluate_chunks(plan, results, options) if is_chunked else _evaluate_file(plan, results)
            if dataset is not None:
                with announced_step("ranking designs"):
                    print_summary(dataset, results)
                for note in sweep_capacity_notes(plan, dataset) if dataset.nbytes <= available_bytes() else ():
                    logger.info(f"note: {note}")
            with announced_step("writing figures"):
                derived = _write_derived_files(plan, dataset, folder, prefix) if dataset is not None else []
    except plot.FiguresNotDrawnError as error:
        print(results, *error.written, sep="\n")
        raise
    return "\n".join(map(str, [results, *derived]))


def _search_error(reference: str, name: str, document: YamlDocument) -> InputError:
    """A search has the same name and folder as a sweep of its grid, so the folder of that sweep has to be given."""
    fix = f"run 'dse search {reference}', or name the output of a sweep over its axes: '-o {name}_sweep'"
    return InputError.from_problems([document.make_problem(("search",), f"'{name}' is a search, not a sweep", fix)])


def _output_folder(out: Path | None, name: str) -> tuple[Path, str]:
    """The output folder, and what file names in it start with: nothing, or the name of a results file that the user chose."""
    if out is not None and is_file(out):
        return out.parent, f"{out.stem}."
    return out or Path(name), ""


def _report_default_inputs(plan: Plan) -> None:
    for workload in plan.workloads:
        if unstated := workload.unstated_inputs:
            logger.info(f"{workload.name}: {', '.join(unstated)} not given: run on {workload.run_on}")


def _derived_files(plan: Plan, folder: Path, prefix: str) -> list[Path]:
    """The figures and tables that are written next to the results."""
    if isinstance(plan.spec.keep, TopReduction):
        return [folder / f"{prefix}top.csv"]
    kinds = ("front",) if isinstance(plan.spec.keep, FrontReduction) else plan.spec.plots
    return [file for kind in kinds for file in plot.figure_files(folder / f"{prefix}{kind}")]


def _write_derived_files(plan: Plan, dataset: xr.Dataset, folder: Path, prefix: str) -> list[Path]:
    """Write the figure of a front, the table of the best designs, or the figures of the specification; returns the paths."""
    if isinstance(plan.spec.keep, FrontReduction):
        figure, table = pareto_figure.draw_figure(dataset, dataset), pareto_figure.front_table(dataset)
        return plot.save_figure(figure, table, folder / f"{prefix}front")
    if isinstance(plan.spec.keep, TopReduction):
        path = folder / f"{prefix}top.csv"
        output_file.replace_file(path, lambda temporary: dataset.to_dataframe().to_csv(temporary, index=False))
        return [path]
    return plot.save_figures(dataset, plan.spec.plots, folder, prefix)


def _is_streamed(plan: Plan, path: Path) -> bool:
    """Whether a netCDF file is written chunk by chunk, so that the results may be larger than memory."""
    return netcdf_stream.is_large(plan) and not is_table_path(path)


def _evaluate_file(plan: Plan, path: Path) -> xr.Dataset:
    if _is_streamed(plan, path):
        return netcdf_stream.run_to_netcdf(plan, path, shows_progress())
    dataset = run.run_in_memory(plan, shows_progress())
    if is_table_path(path):
        table_file.write_table(dataset, path)
    else:
        store.write(dataset, path)
    return dataset


def _evaluate_chunks(plan: Plan, path: Path, options: Namespace) -> xr.Dataset | None:
    """Evaluate chunk by chunk; returns the results if they are complete and something is drawn or listed from them."""
    shard = None if options.shard is None else _parse_shard(options.shard)
    with _executor(options) as executor:
        sink = run_distributed(plan, path, executor=executor, resume=options.resume, shard=shard, progress=shows_progress())
    if not sink.completed_tasks().all():
        logger.info("this shard is complete; others are not")
        return None
    if plan.spec.keep != "all":
        return sink.to_dataset()
    return store.read(path) if plan.spec.plots else None


def _parse_shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal()):
        raise InputError(f"'{text}' is not a valid shard", "write its number and how many there are, as in '1/8'")
    return int(number), int(count)


def _executor(options: Namespace) -> AbstractContextManager[Executor | None]:
    """The executor of the chunks: processes of this machine, Dask workers, or None for this process."""
    if options.dask is not None and options.workers:
        raise InputError("--workers and --dask exclude each other", "leave one of them out")
    if options.workers:
        return worker_processes(options.workers)
    return nullcontext() if options.dask is None else _dask_executor(options.dask)


@contextmanager
def _dask_executor(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("Dask is not installed", "install it: pip install 'sparse-dse[dask]'") from error
    try:
        client = Client(address)
    except OSError as error:
        raise InputError(f"no Dask scheduler answers at '{address}'", "start one: dask scheduler") from error
    except (ValueError, TypeError, AssertionError, ImportError) as error:
        raise _address_error(address, str(error)) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it would log tracebacks of a lost scheduler
    with client:
        yield client.get_executor(pure=False)


def _address_error(address: str, reason: str) -> InputError:
    message = f"'{address}' cannot be used as the address of a Dask scheduler" + (f" ({reason.splitlines()[0]})" if reason else "")
    if address.startswith(("tls:", "wss:")):
        fix = "give certificates in the Dask configuration (distributed.comm.tls), or an address as in 'tcp://127.0.0.1:8786'"
        return InputError(message, fix)
    return InputError(message, "write one as in 'tcp://127.0.0.1:8786'")


def _remove_results(results: Path) -> None:
    """Remove the store or the partials of a reduction that a sweep is to replace; raises InputError if they are something else."""
    from dse.sweeping.zarr_store import is_store  # Zarr takes 0.2 s to import

    for path, belongs in ((results, is_store), (partials_folder(results), lambda folder: (folder / ORIGIN).is_file())):
        if not path.is_dir():
            continue
        if not belongs(path):
            raise InputError(f"'{path}' exists already, and is not a store of a sweep", "give another path")
        with output_file.temporary_path(path) as removed:
            os.rename(path, removed)
            shutil.rmtree(removed)
