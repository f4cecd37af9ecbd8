"""Run a sweep and write its results: the function `dse.sweep`."""

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path

import xarray as xr

from dse.base import output_file
from dse.base.errors import InputError
from dse.sweeping import netcdf_stream, run, store
from dse.sweeping.distributed.run import run_distributed
from dse.sweeping.distributed.sink import is_zarr_path
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import load_plan


def sweep(
    spec: str | Path | Mapping[str, object],
    out: str | Path | None = None,
    *,
    executor: Executor | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
) -> xr.Dataset:
    """Evaluate every design of a sweep specification on every network.

    The results are written to `out` if that is given: to a Zarr store if the path ends in .zarr, otherwise as netCDF. A Zarr store is
    filled chunk by chunk, so results may be larger than memory. A reduction (`keep` in the specification) is merged from partials, which
    are in a folder next to `out` until it is complete.

    Args:
        spec: a name of the catalogue, the path of a YAML file, or a mapping with the keys of such a file, in which accelerators and
            workloads may be objects.
        out: where to write the results, if anywhere.
        executor: evaluates and writes the chunks, in processes that see the same files, for example `Client(...).get_executor()` of
            Dask, or a ProcessPoolExecutor that spawns processes.
        resume: continue the sweep whose results are at `out`.
        shard: (i, n): evaluate the i-th of n parts, i from 1 on, while other processes evaluate the others. Results that are missing
            read as NaN in a store, and are left out of a reduction.

    Returns:
        A dataset in SI units with the dims accelerator, one per axis (named by its dotted path), batch, dtype and variant. Variables:
        `latency` [s], `dense_latency` [s], `speedup` [1], `bound_share` [1] (dim resource), `execution_share` [1] (dim execution) and
        `fits`, and those that `store` in the specification adds, such as `energy` [J], `area` [m^2] and `power` [W]. A reduction has
        the dim `point` instead. The variables of a Zarr store, and of a netCDF file above 1 GB, are read when they are used.

    Raises:
        InputError: the specification, or a file that it names, has problems (all of them are reported), or another process writes to
            `out`.
        UnfinishedError: a disk is full, or a worker failed.

    Examples:
        >>> import dse
        >>> results = dse.sweep({
        ...     "name": "bandwidth",
        ...     "accelerators": ["a100-sxm4-80gb"],
        ...     "workloads": {"resnet50": {"methods": ["magnitude_pruning"], "sparsities": [0.9]}},
        ...     "batch": [1, 32],
        ...     "dtype": "fp16",
        ...     "axes": {"memory.dram.bandwidth": ["1 TB/s", "2 TB/s", "4 TB/s"]},
        ... })
        >>> results.speedup.dims
        ('accelerator', 'memory.dram.bandwidth', 'batch', 'dtype', 'variant')
        >>> results.speedup.sel(batch=1).squeeze().values.round(2)
        array([1.61, 1.67, 1.93])
    """
    plan = load_plan(spec)
    if out is not None and is_distributable(plan, out):
        with output_file.hold_write_lock(Path(out), shared=shard is not None):
            return run_distributed(plan, Path(out), executor=executor, resume=resume, shard=shard).to_dataset()
    if executor is not None or resume or shard is not None:
        raise not_distributable(plan)
    if out is None:
        return run.run_in_memory(plan)
    output_file.check_writable(Path(out))
    with output_file.hold_write_lock(Path(out)):
        if netcdf_stream.is_large(plan):
            return netcdf_stream.run_to_netcdf(plan, Path(out))
        dataset = run.run_in_memory(plan)
        store.write(dataset, Path(out))
    return dataset


def is_distributable(plan: Plan, out: str | Path) -> bool:
    """Whether the results are written chunk by chunk, so that they can be resumed, and evaluated by several processes."""
    return is_zarr_path(out) or plan.spec.keep != "all"


def not_distributable(plan: Plan) -> InputError:
    """The error where results that are not written chunk by chunk are to be resumed or distributed."""
    if plan.spec.keep == "all":
        fix = "give a store to write to, as in 'results.zarr', or reduce the results, as in 'keep: summary'"
        return InputError("only Zarr stores and reductions ('keep') can be resumed, or written by several processes", fix)
    return InputError("a reduction can only be resumed, or written by several processes, in a file", "give one, as in 'results.nc'")
