"""Datasets on disk: netCDF files with a checksum, written whole or not at all, and Zarr stores (`zarr_store`)."""

import sys
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import xarray as xr

from dse.base import checksum
from dse.base.atomic_write import replace_file
from dse.base.errors import InputError, UnfinishedError
from dse.sweeping import zarr_store
from dse.sweeping.variables import with_speedup

IN_MEMORY = 2**30  # bytes of a dataset that is made a file in memory first: HDF5 itself may not notice a full disk


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write netCDF, whole or not at all; raises UnfinishedError if it can't be written."""
    try:
        replace_file(path, partial(_save, dataset))
    except (OSError, RuntimeError) as error:  # HDF5 raises either
        raise UnfinishedError.cannot_write(path, error, "run it again") from error


def _save(dataset: xr.Dataset, path: Path) -> None:
    if dataset.nbytes > IN_MEMORY:
        dataset.to_netcdf(path, engine="h5netcdf")
        checksum.append_trailer(path)
        return
    dask = sys.modules.get("dask")
    with (
        dask.config.set(scheduler="synchronous") if dask else nullcontext()
    ):  # whose cluster is asked for a lock that it has for files alone
        content = dataset.to_netcdf(engine="h5netcdf")
    with path.open("wb") as file:
        file.write(content)
        file.write(checksum.format_trailer(checksum.from_bytes(content)))


def read(path: str | Path) -> xr.Dataset:
    """Read a dataset that 'dse sweep' wrote into memory, the speedup derived where only latencies are stored; raises InputError."""
    found = zarr_store.read(Path(path)) if Path(path).is_dir() else read_netcdf(path)
    return with_speedup(found) if "speedup" not in found and {"latency", "dense_latency"} <= set(found.data_vars) else found


AGAIN = "run again what wrote it"
UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError)  # what a broken HDF5 file may raise


def read_netcdf(path: str | Path) -> xr.Dataset:
    """Read a netCDF file as it is into memory; raises InputError, and warns if it has no checksum."""
    path = Path(path)
    try:
        intact = checksum.is_intact(path)
        if intact is False:
            raise InputError("is damaged (its checksum does not match)", AGAIN, path)
        found = xr.load_dataset(path, engine="h5netcdf")
    except FileNotFoundError as error:
        raise InputError(f"'{path}' does not exist", "give a dataset that 'dse sweep' wrote") from error
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"'{path}' is not a dataset, or is damaged", "give a netCDF file or a Zarr store that 'dse sweep' wrote"
        ) from error
    if intact is None:
        warnings.warn(f"'{path}' has no checksum, so it is not known whether it is as 'dse sweep' wrote it", stacklevel=3)
    return found
