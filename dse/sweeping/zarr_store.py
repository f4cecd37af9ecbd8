"""Results in a Zarr store, which any number of processes fill chunk by chunk.

A chunk of the sweep covers complete chunks of the arrays, one file each, and every file is written atomically. After a chunk is written,
its record `progress/done/N.json` lists the checksums of its files. So a process may be killed at any moment: a chunk without a record is
evaluated and written again, to the same bits. The file `progress/manifest` holds the checksums of all other files as JSON, so that damage
is detected before results are read.
"""

import json
import math
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from jaxtyping import Bool
from zarr.codecs import BloscCodec, Crc32cCodec

from dse.base import checksum, output_file
from dse.base.errors import InputError, Problem, UnfinishedError
from dse.sweeping.chunk import Chunk, region_in_chunk
from dse.sweeping.plan_builder import MAX_RESULT_BYTES

RECORDS = "progress/done"
MANIFEST = "progress/manifest"
CHECKSUM_BYTES = 4  # of the CRC-32C at the end of the file of each array chunk
MAX_PROBLEMS_SHOWN = 10
REMOVE = "remove the store, and run the sweep again"
RESUME = "evaluate damaged chunks again: 'dse sweep SPEC -o STORE --resume'"


def create(path: Path, labels: xr.Dataset, sample: xr.Dataset, lengths: Mapping[str, int], max_chunk_designs: int) -> bool:
    """Create a store, atomically, for the variables of `sample` over all `labels`.

    `lengths`: of a chunk along each dimension; `max_chunk_designs`: of the chunk grid. Returns False if `path` exists already, for
    example because another process was faster.
    """
    try:
        with output_file.temporary_path(path) as fresh:
            labels.to_zarr(fresh, mode="w-", zarr_format=3, consolidated=False)
            _create_arrays(zarr.open_group(fresh, mode="r+"), labels, sample, lengths, max_chunk_designs)
            (fresh / RECORDS).mkdir()
            write_manifest(fresh)
            os.rename(fresh, path)
    except OSError as error:
        if path.exists():
            return False
        raise UnfinishedError.cannot_write(path, error) from error
    return True


def _create_arrays(group: zarr.Group, labels: xr.Dataset, sample: xr.Dataset, lengths: Mapping[str, int], max_chunk_designs: int) -> None:
    for name, variable in sample.data_vars.items():
        sizes = {dim: labels.sizes[dim] for dim in variable.dims}
        group.create_array(
            str(name),
            shape=tuple(sizes.values()),
            chunks=tuple(lengths.get(str(dim), size) for dim, size in sizes.items()),
            dtype=variable.dtype,
            fill_value=False if variable.dtype.kind == "b" else np.nan,
            compressors=[_codec(variable.dtype.itemsize), Crc32cCodec()],
            dimension_names=[str(dim) for dim in sizes],
            attributes=variable.attrs,
        )
    chunks = math.prod(math.ceil(labels.sizes[dim] / length) for dim, length in lengths.items())
    order = [*map(str, labels.variables), *map(str, sample.data_vars)]
    group.create_group("progress", attributes={"most_designs": max_chunk_designs, "pieces": chunks, "order": order})


def write_manifest(path: Path) -> None:
    """Write the checksum of every file that exists before the first chunk."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file != path / MANIFEST)
    checksums = {str(file.relative_to(path)): checksum.from_file(file) for file in files}
    (path / MANIFEST).write_text(json.dumps(checksums, indent=0))
    checksum.append_trailer(path / MANIFEST, MANIFEST)


def _codec(width: int) -> BloscCodec:
    """The fastest codec among those that compressed latencies to less than a third: it writes 0.9 GB/s and reads 0.8 GB/s on one core.

    Compared were no compression, Zstandard, and Blosc's LZ4 and Zstandard, with bytes or bits shuffled.
    """
    return BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=width)


def is_store(path: Path) -> bool:
    return (path / "progress" / "zarr.json").is_file()


def read_max_chunk_designs(path: Path) -> int:
    """Maximum number of designs of a chunk, as the store was created."""
    return _progress(path)["most_designs"]


def _progress(path: Path) -> dict[str, Any]:
    return zarr.open_group(path, path="progress", mode="r").attrs.asdict()


def completed_chunks(path: Path) -> Bool[np.ndarray, "chunk"]:
    """Which chunks have a record."""
    completed = np.zeros(_progress(path)["pieces"], bool)
    records = [file for file in (path / RECORDS).glob("*.json") if re.fullmatch(r"\d+", file.stem) and file.is_file()]
    completed[[int(record.stem) for record in records if int(record.stem) < len(completed)]] = True
    return completed


def write(path: Path, chunk: Chunk, results: xr.Dataset) -> None:
    """Write the results of a chunk, then its record; raises UnfinishedError if that fails, for example because a disk is full."""
    checksums = {}
    try:
        for name, variable in results.data_vars.items():
            region = region_in_chunk(variable.dims, chunk)
            if region is None:
                continue
            # empty files are written too, so that a missing file is a lost one
            array = zarr.open_array(path, path=str(name), mode="r+").with_config({"write_empty_chunks": True})
            array[region] = variable.values
            indices = tuple((covered.start or 0) // length for covered, length in zip(region, array.chunks, strict=True))
            file = f"{name}/{array.metadata.encode_chunk_key(indices)}"
            checksums[file] = _stored_checksum(path / file)
        _write_record(path, chunk.number, checksums)
    except OSError as error:
        raise UnfinishedError.cannot_write(path, error) from error


def _stored_checksum(file: Path) -> str:
    """The checksum at the end of the file of an array chunk."""
    with file.open("rb") as stream:
        stream.seek(-CHECKSUM_BYTES, os.SEEK_END)
        return f"{int.from_bytes(stream.read(), 'little'):08x}"


def _write_record(path: Path, number: int, checksums: Mapping[str, str]) -> None:
    record = _record_file(path, number)
    record.parent.mkdir(exist_ok=True)
    fresh = record.with_name(f"{record.name}.{uuid.uuid4().hex}.partial")
    fresh.write_text(json.dumps({"piece": number, "chunks": checksums}))
    os.replace(fresh, record)


def _record_file(path: Path, number: int) -> Path:
    return path / RECORDS / f"{number}.json"


def remove_partial_files(path: Path) -> None:
    """Remove files that were partly written when a process was killed."""
    for partial in path.rglob("*.partial"):
        partial.unlink(missing_ok=True)


def discard_damaged_chunks(path: Path, chunks: Iterable[int]) -> list[Problem]:
    """Remove the records of chunks whose files are missing or damaged, so that they are evaluated again; returns the problems."""
    problems = []
    for number in chunks:
        if chunk_problems := list(_chunk_problems(path, number)):
            _record_file(path, number).unlink()
            problems += chunk_problems
    return problems


def _chunk_problems(path: Path, number: int) -> Iterator[Problem]:
    """Problems of the files of a chunk that has a record."""
    file = _record_file(path, number)
    try:
        record = json.loads(file.read_bytes())
        checksums = {path / name: str(expected) for name, expected in record["chunks"].items()}
        is_readable = record["piece"] == number
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        checksums, is_readable = {}, False
    if not is_readable:
        yield Problem("is damaged", RESUME, file)
        return
    for name, expected in checksums.items():
        if message := _file_problem(name, expected, CHECKSUM_BYTES):
            yield Problem(message, RESUME, name)


def check_layout(path: Path) -> None:
    """Raise InputError if a file that describes the results is missing or damaged."""
    manifest = path / MANIFEST
    if not manifest.exists():
        message = "is missing: the store is damaged, or was written by an older version without checksums"
        raise InputError(message, REMOVE, manifest)
    checksums = json.loads(checksum.read_verified(manifest, REMOVE, MANIFEST))
    messages = ((path / name, _file_problem(path / name, expected)) for name, expected in checksums.items())
    problems = [Problem(message, REMOVE, file) for file, message in messages if message]
    if problems:
        raise InputError.from_problems(problems)


def _file_problem(file: Path, expected: str, stored_bytes: int = 0) -> str:
    """The problem of a file, "" if it is intact: whether the checksum of its content is as expected.

    `stored_bytes`: size of a copy of the checksum at the end of the file, which is not part of the content.
    """
    try:
        intact = checksum.from_file(file, file.stat().st_size - stored_bytes) == expected and (
            not stored_bytes or _stored_checksum(file) == expected
        )
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"
    return "" if intact else "is damaged (its checksum does not match)"


def open_partial(path: Path) -> xr.Dataset:
    """Open a store lazily, complete or not; missing chunks read as NaN. Raises InputError if its description is damaged."""
    check_layout(path)
    dataset = xr.open_zarr(path, consolidated=False, chunks=None)
    texts = {name: coord.astype(object) for name, coord in dataset.coords.items() if coord.dtype.kind == "T"}
    return dataset.assign_coords(texts)[_progress(path)["order"]]


def open_complete(path: Path) -> xr.Dataset:
    """Open a store lazily; raises InputError if it is not complete, or damaged."""
    if not is_store(path):
        raise InputError(f"'{path}' is not a dataset", "give one that 'dse sweep' wrote")
    dataset, completed = open_partial(path), completed_chunks(path)
    if missing := int((~completed).sum()):
        raise InputError(f"'{path}' is not complete, {missing} chunks are missing", "resume it: 'dse sweep SPEC -o STORE --resume'")
    problems = [problem for number in range(len(completed)) for problem in _chunk_problems(path, number)]
    if problems:
        raise InputError.from_problems(_shorten(problems, path))
    return dataset


def _shorten(problems: list[Problem], path: Path) -> list[Problem]:
    """The first problems of a store, and the number of the others."""
    hidden = len(problems) - MAX_PROBLEMS_SHOWN
    shown = problems[:MAX_PROBLEMS_SHOWN]
    return shown if hidden <= 0 else [*shown, Problem(f"and {hidden} other files are missing or damaged", RESUME, path)]


def read(path: Path) -> xr.Dataset:
    """Read a complete store into memory; raises InputError if it is not complete, damaged, or too large."""
    dataset = open_complete(path)
    if dataset.nbytes > MAX_RESULT_BYTES:
        message = f"'{path}' takes {dataset.nbytes / 1e9:.3g} GB, and is read into memory"
        raise InputError(message, f"select a part of it with xarray.open_zarr, of at most {MAX_RESULT_BYTES / 1e9:g} GB")
    return dataset.load()
