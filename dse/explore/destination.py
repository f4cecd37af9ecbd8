"""Where the results of a sweep go: into memory, a netCDF file, or a Zarr store that many machines may fill."""

from concurrent.futures import Executor
from pathlib import Path

import xarray as xr

from dse.errors import BadInput
from dse.explore import plan as plans
from dse.explore import scatter, store, zarr_store
from dse.explore import sweep as sweeps


def sweep(
    spec: str | Path,
    out: str | Path | None = None,
    *,
    executor: Executor | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
) -> xr.Dataset:
    """Evaluate a sweep specification, by name or path; write netCDF to `out` if given, or to a Zarr store if that ends in .zarr.

    Returns a dataset with dims accelerator, one per axis, batch, dtype, variant (and resource, execution), in SI
    units; of a store, variables are read as they are used.

    A store is filled piece by piece, so results may be larger than memory. `resume`: go on with one that is there. `executor`:
    evaluates the pieces and writes them, in processes that see the same files (as `Client(...).get_executor()` of Dask, or a
    ProcessPoolExecutor that spawns). `shard=(i, n)`: do the i-th of n parts, i from 1 on, beside others that fill the same store; what
    they have not written yet reads as NaN.

    Raises BadInput with every problem of every file, and UnfinishedError if a disk is full or a worker fails.
    """
    plan = plans.load(spec)
    if out is not None and to_store(out):
        scatter.fill(plan, Path(out), executor=executor, resume=resume, shard=shard)
        return zarr_store.opened(Path(out))
    check_whole(executor is not None or resume or shard is not None)
    plans.check_memory(plan)
    if out is not None:
        store.check_writable(Path(out))
    dataset = sweeps.run(plan)
    if out is not None:
        store.write(dataset, Path(out))
    return dataset


def to_store(out: str | Path) -> bool:
    return Path(out).suffix == ".zarr"


def check_whole(parted: bool) -> None:
    """Only a store can be filled part by part."""
    if parted:
        raise BadInput.one("only a Zarr store is written piece by piece, by many or resumed", "give one to write to, as in 'results.zarr'")
