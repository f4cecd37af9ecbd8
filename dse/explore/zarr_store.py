"""Results in a Zarr store, which pieces of a sweep are written to one by one, by as many processes as there are.

A piece covers whole chunks, and each file of a store is put in its place whole. That a piece is written is noted after all of it is, in the
array `progress/done`, so a process may be killed at any moment: what is not noted is evaluated and written again, to the same bits.
"""

import math
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import BloscCodec

from dse.errors import BadInput, UnfinishedError
from dse.explore.piece import Piece
from dse.explore.plan import MOST_BYTES

DONE = "progress/done"


def create(path: Path, labels: xr.Dataset, sample: xr.Dataset, chunks: Mapping[str, int], most: int) -> bool:
    """Lay out a store for the variables of `sample` over all of `labels`, in chunks that pieces of at most `most` designs cover.

    It appears whole; False if there is something at `path` already, as when another process was faster.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        labels.to_zarr(partial, mode="w-", zarr_format=3, consolidated=False)
        group = zarr.open_group(partial, mode="r+")
        for name, variable in sample.data_vars.items():
            sizes = {dim: labels.sizes[dim] for dim in variable.dims}
            group.create_array(
                str(name),
                shape=tuple(sizes.values()),
                chunks=tuple(chunks.get(str(dim), size) for dim, size in sizes.items()),
                dtype=variable.dtype,
                fill_value=False if variable.dtype.kind == "b" else np.nan,
                compressors=_codec(variable.dtype.itemsize),
                dimension_names=[str(dim) for dim in sizes],
                attributes=variable.attrs,
            )
        pieces = math.prod(math.ceil(labels.sizes[dim] / length) for dim, length in chunks.items())
        order = [*map(str, labels.variables), *map(str, sample.data_vars)]
        progress = group.create_group("progress", attributes={"most_designs": most, "order": order})
        progress.create_array("done", shape=(pieces,), chunks=(1,), dtype="uint8", fill_value=0)
        os.rename(partial, path)
    except OSError as error:
        if path.exists():
            return False
        raise UnfinishedError.unwritten(path, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return True


def _codec(width: int) -> BloscCodec:
    """Of no compression, Zstandard and Blosc's LZ4 and Zstandard, with bytes or bits shuffled, the fastest one on latencies that left
    less than a third of them: 0.9 GB/s to write and 0.8 GB/s to read on one busy core."""
    return BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=width)


def is_store(path: Path) -> bool:
    return (path / "progress" / "done" / "zarr.json").is_file()


def most_designs(path: Path) -> int:
    """Of one piece, as the store was laid out."""
    return _progress(path)["most_designs"]


def _progress(path: Path) -> dict[str, Any]:
    return zarr.open_group(path, path="progress", mode="r").attrs.asdict()


def done(path: Path) -> np.ndarray:
    """Which pieces are written, [piece]."""
    chunks = path / DONE / "c"
    found = np.zeros(zarr.open_array(path, path=DONE, mode="r").shape, bool)
    written = [int(entry.name) for entry in os.scandir(chunks) if entry.name.isdigit()] if chunks.is_dir() else []
    found[written] = True
    return found


def write(path: Path, piece: Piece, results: xr.Dataset) -> None:
    """Write the results of a piece, then note that they are; raises UnfinishedError if they cannot be, as when a disk is full."""
    try:
        for name, variable in results.data_vars.items():
            if any(place and dim not in variable.dims for dim, place in piece.setting.items()):
                continue  # as area at another batch, which is the same
            region = tuple(piece.region.get(str(dim), slice(None)) for dim in variable.dims)
            zarr.open_array(path, path=str(name), mode="r+")[region] = variable.values
        zarr.open_array(path, path=DONE, mode="r+")[piece.number] = 1
    except OSError as error:
        raise UnfinishedError.unwritten(path, error) from error


def tidy(path: Path) -> None:
    """Remove what was half written when a process was killed."""
    for partial in path.rglob("*.partial"):
        partial.unlink(missing_ok=True)


def opened(path: Path) -> xr.Dataset:
    """The dataset as far as it is written, its variables read as they are used."""
    found = xr.open_zarr(path, consolidated=False, chunks=None)
    texts = {name: variable.astype(object) for name, variable in found.coords.items() if variable.dtype.kind == "T"}
    return found.assign_coords(texts)[_progress(path)["order"]]


def whole(path: Path) -> xr.Dataset:
    """The same; raises BadInput if it is not complete."""
    if not is_store(path):
        raise BadInput.one(f"'{path}' is not a dataset", "give one that 'dse sweep' wrote")
    if left := int((~done(path)).sum()):
        raise BadInput.one(f"'{path}' is not complete, {left} pieces are left", "go on with it: 'dse sweep SPEC -o STORE --resume'")
    return opened(path)


def read(path: Path) -> xr.Dataset:
    """A complete store in memory; raises BadInput."""
    found = whole(path)
    if found.nbytes > MOST_BYTES:
        what = f"'{path}' takes {found.nbytes / 1e9:.3g} GB, and is read into memory"
        raise BadInput.one(what, f"take a part of it with xarray.open_zarr, of at most {MOST_BYTES / 1e9:g} GB")
    return found.load()
