"""Datasets on disk: netCDF, written whole or not at all."""

import os
from pathlib import Path

import xarray as xr

from dse.errors import BadInput


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write netCDF; a reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        dataset.to_netcdf(partial, engine="h5netcdf")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: str | Path) -> xr.Dataset:
    """Read a dataset that `write` made; raises BadInput."""
    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except FileNotFoundError as error:
        raise BadInput.one(f"'{path}' does not exist", "give a dataset that 'dse sweep' wrote") from error
    except (OSError, ValueError) as error:
        raise BadInput.one(f"'{path}' is not a dataset", "give a netCDF file that 'dse sweep' wrote") from error
