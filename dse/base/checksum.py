"""Checksums (CRC-32C) of the files that hold results, so that damage is reported and damaged data never read.

A file ends in the checksum of all bytes before it. NetCDF, HDF5 and zip readers ignore bytes after their data, so other tools read such
files as usual. Where files are looked up by name, the checksum covers the name too, so that a renamed file is not taken for another.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path

import google_crc32c
import numpy as np

from dse.base.errors import InputError

BLOCK_BYTES = 2**20  # read at once: it stays in the cache
TRAILER_BYTES = len("\ndse-crc32c:01234567\n")
TRAILER = re.compile(rb"\ndse-crc32c:([0-9a-f]{8})\n")


def from_bytes(data: bytes | memoryview) -> str:
    """The checksum of bytes, as eight hexadecimal digits."""
    return f"{google_crc32c.value(np.frombuffer(data, np.uint8)):08x}"  # an array, because google_crc32c takes no memoryview


def from_file(path: Path, length: int | None = None, name: str = "") -> str:
    """The checksum of `name` and of a file, or of its first `length` bytes."""
    checksum, left = google_crc32c.value(name.encode()), path.stat().st_size if length is None else length
    with path.open("rb") as file:
        while left and (block := file.read(min(left, BLOCK_BYTES))):
            checksum, left = google_crc32c.extend(checksum, block), left - len(block)
    return f"{checksum:08x}"


def format_trailer(checksum: str) -> bytes:
    """The bytes that end a file with this checksum."""
    return f"\ndse-crc32c:{checksum}\n".encode()


def append_trailer(path: Path, name: str = "") -> None:
    """Append its checksum to a file."""
    trailer = format_trailer(from_file(path, name=name))
    with path.open("ab") as file:
        file.write(trailer)


def is_intact(path: Path) -> bool | None:
    """Whether a file matches the checksum at its end; None if it has no checksum. Raises OSError."""
    length = path.stat().st_size - TRAILER_BYTES
    if length < 0:
        return None
    with path.open("rb") as file:
        file.seek(length)
        trailer = TRAILER.fullmatch(file.read())
    return None if trailer is None else trailer[1].decode() == from_file(path, length)


def read_verified(path: Path, fix: str, name: str) -> bytes:
    """Read a file without its trailer; raises InputError, with `fix`, if the file is missing or does not match its checksum."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", fix, path) from error
    trailer = TRAILER.fullmatch(data[-TRAILER_BYTES:])
    if trailer is None or trailer[1].decode() != from_bytes(name.encode() + data[:-TRAILER_BYTES]):
        raise InputError("is damaged (its checksum does not match)", fix, path)
    return data[:-TRAILER_BYTES]


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], name: str) -> None:
    """Write arrays in the format of `numpy.savez`, followed by the checksum."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    append_trailer(path, name)


def load_arrays(path: Path, fix: str, name: str) -> dict[str, np.ndarray]:
    """Read arrays that `save_arrays` wrote; raises InputError as `read_verified` does."""
    with np.load(io.BytesIO(read_verified(path, fix, name))) as file:
        return dict(file)
