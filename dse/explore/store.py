"""Datasets on disk: netCDF files with a checksum, written whole or not at all, and Zarr stores (`zarr_store`)."""

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import xarray as xr

from dse.errors import BadInput, Collector, Problem, UnfinishedError
from dse.explore import checksum, temporary, zarr_store
from dse.explore.results import with_speedup

IN_MEMORY = 2**30  # bytes of a dataset that is made a file in memory first: HDF5 itself may not notice a full disk


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write netCDF, whole or not at all; raises UnfinishedError if it can't be written."""
    try:
        replacing(path, partial(_save, dataset))
    except (OSError, RuntimeError) as error:  # HDF5 raises either
        raise UnfinishedError.unwritten(path, error, "run it again") from error


def _save(dataset: xr.Dataset, path: Path) -> None:
    if dataset.nbytes > IN_MEMORY:
        dataset.to_netcdf(path, engine="h5netcdf")
        checksum.append(path)
        return
    dask = sys.modules.get("dask")
    with (
        dask.config.set(scheduler="synchronous") if dask else nullcontext()
    ):  # whose cluster is asked for a lock that it has for files alone
        content = dataset.to_netcdf(engine="h5netcdf")
    with path.open("wb") as file:
        file.write(content)
        file.write(checksum.ending(checksum.of_bytes(content)))


def replacing(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` fill a temporary file, then put it in the place of `path`: a reader sees the old file or the new one."""
    with temporary.beside(path) as fresh:
        write(fresh)
        os.replace(fresh, path)


def check_writable(*files: Path) -> None:
    """Whether files may be written there, before work is done for them; raises BadInput with every one that may not."""
    problems = Collector()
    for file in files:
        with problems.at():
            _check_writable(file)
    problems.raise_all()


def _check_writable(path: Path) -> None:
    try:
        there = next(folder for folder in path.absolute().parents if folder.exists())
        taken = path.is_dir()
    except OSError as error:
        raise BadInput.one(f"'{path}' cannot be written ({error.strerror})", "give another place") from error
    if taken:
        raise BadInput.one(f"'{path}' is a folder", "give a file, or another place")
    if not there.is_dir():
        raise BadInput.one(f"'{path.parent}' cannot be made a folder: '{there}' is a file", "give another place")
    if not os.access(there, os.W_OK):
        raise BadInput.one(f"'{there}' cannot be written to", "give another place")


def read(path: str | Path) -> xr.Dataset:
    """Read a dataset that 'dse sweep' wrote into memory, the speedup derived where only latencies are stored; raises BadInput."""
    found = zarr_store.read(Path(path)) if Path(path).is_dir() else read_netcdf(path)
    return with_speedup(found) if "speedup" not in found and {"latency", "dense_latency"} <= set(found.data_vars) else found


AGAIN = "run again what wrote it"
UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError)  # what a broken HDF5 file may raise


def read_netcdf(path: str | Path) -> xr.Dataset:
    """Read a netCDF file as it is into memory; raises BadInput, and warns if it has no checksum."""
    path = Path(path)
    try:
        intact = checksum.is_intact(path)
        if intact is False:
            raise BadInput([Problem("is damaged (its checksum does not match)", AGAIN, path)])
        found = xr.load_dataset(path, engine="h5netcdf")
    except FileNotFoundError as error:
        raise BadInput.one(f"'{path}' does not exist", "give a dataset that 'dse sweep' wrote") from error
    except BadInput:
        raise
    except UNREADABLE as error:
        raise BadInput.one(
            f"'{path}' is not a dataset, or is damaged", "give a netCDF file or a Zarr store that 'dse sweep' wrote"
        ) from error
    if intact is None:
        warnings.warn(f"'{path}' has no checksum, so it is not known whether it is as 'dse sweep' wrote it", stacklevel=3)
    return found
