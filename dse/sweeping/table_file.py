"""Write results as one table, .csv or .parquet: a row for each result, in SI units, which the heads of the columns name."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from dse.base import output_file
from dse.base.available_memory import available_bytes
from dse.base.errors import InputError, UnfinishedError
from dse.schema.stored_results import EXTRA_DIMS

ENDINGS = (".csv", ".parquet")
EXTRA = {dim for dims in EXTRA_DIMS.values() for dim in dims}  # dims whose labels have a column each
BYTES_PER_CELL = 16  # of a table in memory while it is written
DIMENSIONLESS = ("", "1")


def is_table_path(path: str | Path) -> bool:
    return Path(path).suffix in ENDINGS


def check_table_path(path: Path) -> None:
    """Raise InputError if a Parquet file is wanted and cannot be written."""
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError("Parquet files need pyarrow", "install it: pip install 'sparse-dse[parquet]', or write a .csv file")


def results_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row for each cell of the dims of a sweep, or for each point of a front; a column for each coordinate and variable.

    A variable with a value for each resource or execution has a column for each, as in `bound_share.dram`. Heads have units, as in
    `latency [s]`. Raises InputError if the table does not fit in memory.
    """
    dims = {str(dim): size for dim, size in dataset.sizes.items() if dim not in EXTRA}
    columns = _split_shares(dataset)
    cells = int(np.prod(list(dims.values()))) * len(columns)
    if BYTES_PER_CELL * cells > available_bytes():
        raise InputError(f"a table of {cells:,} cells does not fit in memory", "write a .nc file or a .zarr store, or keep a front")
    return pd.DataFrame({_head(name, column): _values(column, dims) for name, column in columns.items()})


def _split_shares(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    """Every coordinate and variable by name; of those with an extra dim, one for each of its labels."""
    columns: dict[str, xr.DataArray] = {}
    for key in (*dataset.coords, *dataset.data_vars):
        name, variable = str(key), dataset[key]
        extra = [dim for dim in variable.dims if dim in EXTRA]
        if not extra:
            columns[name] = variable
        elif name not in EXTRA:
            labels = dataset[extra[0]].values
            columns |= {f"{name}.{label}": variable.isel({extra[0]: index}) for index, label in enumerate(labels.tolist())}
    return columns


def _head(name: str, column: xr.DataArray) -> str:
    unit = str(column.attrs.get("units", ""))
    return name if unit in DIMENSIONLESS else f"{name} [{unit}]"


def _values(column: xr.DataArray, dims: dict[str, int]) -> np.ndarray | pd.Categorical:
    """The values over all dims, flat; texts as categories, which take little memory."""
    shape = [size if dim in column.dims else 1 for dim, size in dims.items()]
    ordered = column.transpose(*(dim for dim in dims if dim in column.dims)).values
    if ordered.dtype.kind == "O":
        codes, labels = pd.factorize(ordered.ravel())
        return pd.Categorical.from_codes(np.broadcast_to(codes.reshape(shape), list(dims.values())).ravel(), labels)
    return np.broadcast_to(ordered.reshape(shape), list(dims.values())).ravel()


def write_table(dataset: xr.Dataset, path: Path) -> None:
    """Write the table of a dataset atomically; raises InputError and UnfinishedError."""
    check_table_path(path)
    table = results_table(dataset)
    try:
        if path.suffix == ".parquet":
            output_file.replace_file(path, lambda fresh: table.to_parquet(fresh, engine="pyarrow", index=False))
        else:
            output_file.replace_file(path, lambda fresh: table.to_csv(fresh, index=False))
    except OSError as error:
        raise UnfinishedError.cannot_write(path, error, "run it again") from error
