"""Where the results of a sweep go: into memory, or in parts that many machines may do, to a Zarr store or what is kept of them."""

from concurrent.futures import Executor
from pathlib import Path

import xarray as xr

from dse.base import atomic_write, lock
from dse.base.catalog import Reference
from dse.base.errors import InputError
from dse.sweeping import run, store
from dse.sweeping.distributed.run import fill
from dse.sweeping.distributed.sink import to_store
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import load_plan
from dse.sweeping.plan_checks import check_result_size


def sweep(
    spec: Reference,
    out: str | Path | None = None,
    *,
    executor: Executor | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
) -> xr.Dataset:
    """Evaluate a sweep specification, by name, by path or as a mapping that says what such a file would.

    Writes netCDF to `out` if given, or to a Zarr store if that ends in .zarr.

    Returns a dataset with dims accelerator, one per axis, batch, dtype, variant (and resource, execution), in SI
    units; of a store, variables are read as they are used.

    A store is filled piece by piece, so results may be larger than memory; so is what a specification keeps of them (`keep`), whose
    parts stand in a folder beside `out` until it is complete. `resume`: go on with what is there. `executor`: evaluates the pieces
    and writes them, in processes that see the same files (as `Client(...).get_executor()` of Dask, or a ProcessPoolExecutor that
    spawns). `shard=(i, n)`: do the i-th of n parts, i from 1 on, beside others that do the same sweep; what they have not done yet
    reads as NaN, or is not among what is kept.

    Raises InputError with every problem of every file, and if another process writes to `out`; UnfinishedError if a disk is full or a
    worker fails.
    """
    plan = load_plan(spec)
    if out is not None and in_parts(plan, out):
        with lock.hold_write_lock(Path(out), shared=shard is not None):
            return fill(plan, Path(out), executor=executor, resume=resume, shard=shard).dataset()
    check_whole(plan, executor is not None or resume or shard is not None)
    check_result_size(plan)
    if out is None:
        return run.run_in_memory(plan)
    atomic_write.check_writable(Path(out))
    with lock.hold_write_lock(Path(out)):
        dataset = run.run_in_memory(plan)
        store.write(dataset, Path(out))
    return dataset


def in_parts(plan: Plan, out: str | Path) -> bool:
    return to_store(out) or plan.spec.keep != "all"


def check_whole(plan: Plan, parted: bool) -> None:
    """Refuse what is asked of a sweep in parts where it is none."""
    if parted and plan.spec.keep == "all":
        fix = "give a store to write to, as in 'results.zarr', or keep a part, as in 'keep: summary'"
        raise InputError("only a Zarr store and what is kept of a sweep are written piece by piece, by many or resumed", fix)
    if parted:
        raise InputError("what is kept of a sweep is only resumed or shared by many in a file", "give one to write to, as in 'results.nc'")
