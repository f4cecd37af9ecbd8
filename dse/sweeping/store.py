"""Read and write results: netCDF files with a checksum, written atomically, and Zarr stores (see `zarr_store`)."""

import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import xarray as xr

from dse.base import checksum
from dse.base.errors import InputError, UnfinishedError
from dse.base.output_file import replace_file
from dse.model.efficiency.probability import probability_above_one
from dse.schema.stored_results import ATTRIBUTES

MAX_BUFFERED_BYTES = 2**30  # smaller datasets are serialised in memory first: HDF5 itself may not notice that a disk is full
HDF5_READ_ERRORS = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError)  # of damaged files


def is_plain_folder(path: Path) -> bool:
    """Whether a path is a folder of files, and not a Zarr store."""
    return path.is_dir() and path.suffix != ".zarr" and not (path / "zarr.json").exists()


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write a netCDF file atomically; raises UnfinishedError if it cannot be written."""
    replace_netcdf(path, partial(_write_netcdf, dataset))


def replace_netcdf(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a netCDF file atomically by one that `write` writes to a path; raises UnfinishedError if it cannot be written."""
    try:
        replace_file(path, write)
    except (OSError, RuntimeError) as error:  # HDF5 raises either
        raise UnfinishedError.cannot_write(path, error, "run it again") from error


def _write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    if dataset.nbytes > MAX_BUFFERED_BYTES:
        dataset.to_netcdf(path, engine="h5netcdf")
        checksum.append_trailer(path)
        return
    dask = sys.modules.get("dask")  # xarray would request a lock from a Dask cluster, which offers one for files only
    with dask.config.set(scheduler="synchronous") if dask else nullcontext():
        content = dataset.to_netcdf(engine="h5netcdf")
    with path.open("wb") as file:
        file.write(content)
        file.write(checksum.format_trailer(checksum.from_bytes(content)))


def read(path: str | Path) -> xr.Dataset:
    """Read the results of 'dse sweep' into memory, with the speedup where only latencies are stored; raises InputError."""
    dataset = _read_zarr(Path(path)) if Path(path).is_dir() else read_netcdf(path)
    lacks_speedup = "speedup" not in dataset and {"latency", "dense_latency"} <= set(dataset.data_vars)
    return with_speedup(dataset) if lacks_speedup else dataset


def _read_zarr(path: Path) -> xr.Dataset:
    from dse.sweeping import zarr_store  # Zarr takes 0.2 s to import

    return zarr_store.read(path)


def read_netcdf(path: str | Path) -> xr.Dataset:
    """Read a netCDF file as it is into memory; raises InputError, and warns if the file has no checksum."""
    path = Path(path)
    try:
        is_intact = checksum.is_intact(path)
        if is_intact is False:
            raise InputError("is damaged (its checksum does not match)", "run again what wrote it", path)
        dataset = xr.load_dataset(path, engine="h5netcdf")
    except FileNotFoundError as error:
        raise InputError(f"'{path}' does not exist", "give a dataset that 'dse sweep' wrote") from error
    except InputError:
        raise
    except HDF5_READ_ERRORS as error:
        message = f"'{path}' is not a dataset, or is damaged"
        raise InputError(message, "give a netCDF file or a Zarr store that 'dse sweep' wrote") from error
    if is_intact is None:
        warnings.warn(f"'{path}' has no checksum, so it is not known whether it is as 'dse sweep' wrote it", stacklevel=3)
    return dataset


def with_speedup(dataset: xr.Dataset) -> xr.Dataset:
    """Add the speedup, with bounds of it where the latencies have them, and its probability to exceed one where it has an interval."""
    latency, dense_latency = dataset.latency.variable, dataset.dense_latency.variable
    derived = {"speedup": dense_latency / latency}
    if "latency_bound" in dataset:
        bounds = {"low": dataset.dense_latency_bound.variable / latency, "high": dense_latency / dataset.latency_bound.variable}
        is_sparse = _is_sparse(dataset)
        derived |= {f"speedup_{end}": bound.where(is_sparse, derived["speedup"]) for end, bound in bounds.items()}
    elif "speedup_low" in dataset and "faster_probability" not in dataset:
        interval = derived["speedup"], dataset.speedup_low.variable, dataset.speedup_high.variable
        derived["faster_probability"] = xr.apply_ufunc(probability_above_one, *interval).astype(latency.dtype)
    for name, variable in derived.items():
        variable.attrs = dict(ATTRIBUTES[name])
    return dataset.assign(derived)


def _is_sparse(dataset: xr.Dataset) -> xr.Variable | bool:
    """False where a variant is the dense network itself: its traffic is the same above and below the fraction bar of the speedup."""
    latency, dense_latency = dataset.latency.variable, dataset.dense_latency.variable
    return (latency != dense_latency) | (dataset.method.variable != "dense") if "method" in dataset.coords else True
