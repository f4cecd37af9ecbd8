"""Results in a Zarr store, which pieces of a sweep are written to one by one, by as many processes as there are.

A piece covers whole chunks, and each file of a store is put in its place whole. After a piece is written, the file `progress/done/N.json`
notes the checksums of its chunks. So a process may be killed at any moment: what is not noted is evaluated and written again, to the same
bits. The file `progress/manifest` holds the checksums of all other files as JSON, so that damage anywhere is found before results are read.
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
from zarr.codecs import BloscCodec, Crc32cCodec

from dse.base import atomic_write, checksum
from dse.base.errors import InputError, Problem, UnfinishedError
from dse.sweeping.chunk import Chunk
from dse.sweeping.plan_checks import MAX_RESULT_BYTES

DONE = "progress/done"
MANIFEST = "progress/manifest"
TAIL = 4  # bytes of its CRC-32C at the end of each chunk
SHOWN = 10  # damaged files that are named
AGAIN = "remove the store, and run the sweep again"
RESUME = "evaluate what is damaged again: 'dse sweep SPEC -o STORE --resume'"


def create(path: Path, labels: xr.Dataset, sample: xr.Dataset, chunks: Mapping[str, int], most: int) -> bool:
    """Lay out a store for the variables of `sample` over all of `labels`, in chunks that pieces of at most `most` designs cover.

    It appears whole; False if there is something at `path` already, as when another process was faster.
    """
    try:
        with atomic_write.temporary_path(path) as fresh:
            labels.to_zarr(fresh, mode="w-", zarr_format=3, consolidated=False)
            _create_arrays(zarr.open_group(fresh, mode="r+"), labels, sample, chunks, most)
            (fresh / DONE).mkdir()
            write_manifest(fresh)
            os.rename(fresh, path)
    except OSError as error:
        if path.exists():
            return False
        raise UnfinishedError.cannot_write(path, error) from error
    return True


def _create_arrays(group: zarr.Group, labels: xr.Dataset, sample: xr.Dataset, chunks: Mapping[str, int], most: int) -> None:
    for name, variable in sample.data_vars.items():
        sizes = {dim: labels.sizes[dim] for dim in variable.dims}
        group.create_array(
            str(name),
            shape=tuple(sizes.values()),
            chunks=tuple(chunks.get(str(dim), size) for dim, size in sizes.items()),
            dtype=variable.dtype,
            fill_value=False if variable.dtype.kind == "b" else np.nan,
            compressors=[_codec(variable.dtype.itemsize), Crc32cCodec()],
            dimension_names=[str(dim) for dim in sizes],
            attributes=variable.attrs,
        )
    pieces = math.prod(math.ceil(labels.sizes[dim] / length) for dim, length in chunks.items())
    order = [*map(str, labels.variables), *map(str, sample.data_vars)]
    group.create_group("progress", attributes={"most_designs": most, "pieces": pieces, "order": order})


def write_manifest(path: Path) -> None:
    """Note the checksum of every file that is there before the first piece."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file != path / MANIFEST)
    checksums = {str(file.relative_to(path)): checksum.from_file(file) for file in files}
    (path / MANIFEST).write_text(json.dumps(checksums, indent=0))
    checksum.append_trailer(path / MANIFEST, MANIFEST)


def _codec(width: int) -> BloscCodec:
    """Of no compression, Zstandard and Blosc's LZ4 and Zstandard, with bytes or bits shuffled, the fastest one on latencies that left
    less than a third of them: 0.9 GB/s to write and 0.8 GB/s to read on one busy core."""
    return BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=width)


def is_store(path: Path) -> bool:
    return (path / "progress" / "zarr.json").is_file()


def most_designs(path: Path) -> int:
    """Of one piece, as the store was laid out."""
    return _progress(path)["most_designs"]


def _progress(path: Path) -> dict[str, Any]:
    return zarr.open_group(path, path="progress", mode="r").attrs.asdict()


def done(path: Path) -> np.ndarray:
    """Which pieces are written, [piece]."""
    found = np.zeros(_progress(path)["pieces"], bool)
    notes = [file for file in (path / DONE).glob("*.json") if re.fullmatch(r"\d+", file.stem) and file.is_file()]
    found[[int(note.stem) for note in notes if int(note.stem) < len(found)]] = True
    return found


def write(path: Path, piece: Chunk, results: xr.Dataset) -> None:
    """Write the results of a piece, then note that they are; raises UnfinishedError if they cannot be, as when a disk is full."""
    chunks = {}
    try:
        for name, variable in results.data_vars.items():
            if any(place and dim not in variable.dims for dim, place in piece.setting.items()):
                continue  # as area at another batch, which is the same
            region = tuple(piece.region.get(str(dim), slice(None)) for dim in variable.dims)
            # every chunk is written, so that a missing one is a lost one
            array = zarr.open_array(path, path=str(name), mode="r+").with_config({"write_empty_chunks": True})
            array[region] = variable.values
            place = tuple((part.start or 0) // length for part, length in zip(region, array.chunks, strict=True))
            chunk = f"{name}/{array.metadata.encode_chunk_key(place)}"
            chunks[chunk] = _tail(path / chunk)
        _note(path, piece.number, chunks)
    except OSError as error:
        raise UnfinishedError.cannot_write(path, error) from error


def _tail(chunk: Path) -> str:
    """The checksum at the end of a chunk."""
    with chunk.open("rb") as file:
        file.seek(-TAIL, os.SEEK_END)
        return f"{int.from_bytes(file.read(), 'little'):08x}"


def _note(path: Path, number: int, chunks: Mapping[str, str]) -> None:
    note = _note_file(path, number)
    note.parent.mkdir(exist_ok=True)
    fresh = note.with_name(f"{note.name}.{uuid.uuid4().hex}.partial")
    fresh.write_text(json.dumps({"piece": number, "chunks": chunks}))
    os.replace(fresh, note)


def _note_file(path: Path, number: int) -> Path:
    return path / DONE / f"{number}.json"


def tidy(path: Path) -> None:
    """Remove what was half written when a process was killed."""
    for partial in path.rglob("*.partial"):
        partial.unlink(missing_ok=True)


def forget_damaged(path: Path, pieces: Iterable[int]) -> list[Problem]:
    """Take back that pieces are written whose files are missing or damaged; returns what is wrong with them."""
    problems = []
    for number in pieces:
        if found := list(_damage(path, number)):
            _note_file(path, number).unlink()
            problems += found
    return problems


def _damage(path: Path, number: int) -> Iterator[Problem]:
    """What is wrong with the files of a piece that is noted as written."""
    note = _note_file(path, number)
    try:
        noted = json.loads(note.read_bytes())
        chunks = {path / chunk: str(expected) for chunk, expected in noted["chunks"].items()}
        readable = noted["piece"] == number
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        chunks, readable = {}, False
    if not readable:
        yield Problem("is damaged", RESUME, note)
        return
    for chunk, expected in chunks.items():
        if reason := _file_damage(chunk, expected, TAIL):
            yield Problem(reason, RESUME, chunk)


def check_layout(path: Path) -> None:
    """Raises InputError if a file that describes the results is missing or damaged."""
    manifest = path / MANIFEST
    if not manifest.exists():
        what = "is missing: the store is damaged, or was written by an older version without checksums"
        raise InputError(what, AGAIN, manifest)
    checksums = json.loads(checksum.read_verified(manifest, AGAIN, MANIFEST))
    damages = ((path / name, _file_damage(path / name, expected)) for name, expected in checksums.items())
    problems = [Problem(reason, AGAIN, file) for file, reason in damages if reason]
    if problems:
        raise InputError.from_problems(problems)


def _file_damage(file: Path, expected: str, tail: int = 0) -> str:
    """What is wrong with a file, of which all but the last `tail` bytes should have a checksum, which those bytes repeat; else nothing."""
    try:
        intact = checksum.from_file(file, file.stat().st_size - tail) == expected and (not tail or _tail(file) == expected)
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"
    return "" if intact else "is damaged (its checksum does not match)"


def opened(path: Path) -> xr.Dataset:
    """The dataset as far as it is written, its variables read as they are used; raises InputError if the store is damaged."""
    check_layout(path)
    found = xr.open_zarr(path, consolidated=False, chunks=None)
    texts = {name: variable.astype(object) for name, variable in found.coords.items() if variable.dtype.kind == "T"}
    return found.assign_coords(texts)[_progress(path)["order"]]


def whole(path: Path) -> xr.Dataset:
    """The same; raises InputError if it is not complete, or damaged."""
    if not is_store(path):
        raise InputError(f"'{path}' is not a dataset", "give one that 'dse sweep' wrote")
    found, written = opened(path), done(path)
    if left := int((~written).sum()):
        raise InputError(f"'{path}' is not complete, {left} pieces are left", "go on with it: 'dse sweep SPEC -o STORE --resume'")
    problems = [problem for number in range(len(written)) for problem in _damage(path, number)]
    if problems:
        raise InputError.from_problems(shortened(problems, path))
    return found


def shortened(problems: list[Problem], path: Path) -> list[Problem]:
    """The first of many problems of a store, and how many there are more."""
    more = len(problems) - SHOWN
    return problems if more <= 0 else [*problems[:SHOWN], Problem(f"and {more} other files are missing or damaged", RESUME, path)]


def read(path: Path) -> xr.Dataset:
    """A complete store in memory; raises InputError."""
    found = whole(path)
    if found.nbytes > MAX_RESULT_BYTES:
        what = f"'{path}' takes {found.nbytes / 1e9:.3g} GB, and is read into memory"
        raise InputError(what, f"take a part of it with xarray.open_zarr, of at most {MAX_RESULT_BYTES / 1e9:g} GB")
    return found.load()
