"""Evaluate a sweep into a netCDF file; large results are written chunk by chunk, so that they are never in memory all at once."""

import io
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5netcdf
import numpy as np
import xarray as xr
from tqdm import tqdm

from dse.base import checksum
from dse.sweeping import run, store
from dse.sweeping.chunk import Chunk, ChunkGrid, chunk_lengths, max_chunk_designs, region_in_chunk
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.plan import Plan
from dse.sweeping.results import label_dataset

METADATA_BYTES = 2**24  # of a file, more than the labels and the addresses of chunks take


def is_large(plan: Plan) -> bool:
    """Whether results are written chunk by chunk; smaller ones and reductions are written from memory."""
    return plan.spec.keep == "all" and plan.result_bytes > store.MAX_BUFFERED_BYTES


def run_to_netcdf(plan: Plan, path: Path, progress: bool = False) -> xr.Dataset:
    """Write all results of a sweep to a file; returns a dataset whose variables are read when they are used.

    Raises:
        InputError: the jobs would take more memory than there is.
        UnfinishedError: the file cannot be written.
    """
    compiled = run.compile_sweep(plan, progress)
    with tqdm(total=plan.design_count * len(plan.spec.batch) * len(plan.spec.dtype), unit=" designs", delay=2, disable=not progress) as bar:
        store.replace_netcdf(path, partial(_write_chunks, compiled, bar.update))
    return xr.open_dataset(path, engine="h5netcdf")


def _write_chunks(compiled: CompiledSweep, advance: Callable[[int], object], path: Path) -> None:
    plan = compiled.plan
    chunks = ChunkGrid(plan, max_chunk_designs(plan))
    sample = run.evaluate(compiled.restrict(ChunkGrid(plan, 1)[0]))
    labels = label_dataset(compiled)[[*sample.coords]]
    labels.to_netcdf(path, engine="h5netcdf")
    _reserve_disk_space(path, sum(math.prod(labels.sizes[dim] for dim in each.dims) * each.dtype.itemsize for each in sample.values()))
    with h5netcdf.File(path, "a") as file:
        _create_variables(file, sample, chunk_lengths(plan, chunks.max_designs))
        for designs in run.evaluate_chunks(compiled, chunks, partial(_write_chunk, file)):
            advance(designs)
    checksum.append_trailer(path)


def _reserve_disk_space(path: Path, result_bytes: int) -> None:
    """Raise OSError if a disk is too full: HDF5 does not recover from that. What a file does not need is freed when it is closed."""
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, result_bytes + METADATA_BYTES)


def _create_variables(file: h5netcdf.File, sample: xr.Dataset, lengths: dict[str, int]) -> None:
    """Create the variables of `sample` over all labels, with the types and attributes that xarray gives them in a file."""
    with h5netcdf.File(io.BytesIO(sample.to_netcdf(engine="h5netcdf")), "r") as encoded:
        for name in sample.data_vars:
            source = encoded.variables[str(name)]
            attributes = dict(source.attrs)
            shape = tuple(lengths.get(dim, file.dimensions[dim].size) for dim in source.dimensions)
            fill = attributes.pop("_FillValue", None)
            variable = file.create_variable(str(name), source.dimensions, source.dtype, chunks=shape, fillvalue=fill)
            variable.attrs.update(attributes)
    file.attrs.pop("coordinates", None)  # xarray lists there what no variable has; every variable lists its own


def _write_chunk(file: h5netcdf.File, chunk: Chunk, results: xr.Dataset) -> None:
    for name, values in results.data_vars.items():
        if region := region_in_chunk(values.dims, chunk):
            variable = file.variables[str(name)]
            variable[region] = np.asarray(values.values, variable.dtype, order="C")
