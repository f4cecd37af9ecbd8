"""Checksums (CRC-32C) of the files that hold results, so that damage is reported instead of read.

A single file ends in the checksum of all before it. NetCDF, HDF5 and zip readers ignore what follows their data, so other tools read such
files as usual. Where files are found by their names, the checksum covers a name too, so that one is not taken for another.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path

import google_crc32c
import numpy as np

from dse.base.errors import InputError

BLOCK_BYTES = 2**24  # bytes read at once
TRAILER_BYTES = len("\ndse-crc32c:01234567\n")
TRAILER = re.compile(rb"\ndse-crc32c:([0-9a-f]{8})\n")


def from_bytes(data: bytes | memoryview) -> str:
    """The checksum of some bytes, as eight hexadecimal digits."""
    return f"{google_crc32c.value(np.frombuffer(data, np.uint8)):08x}"  # which takes no memoryview


def from_file(path: Path, length: int | None = None, name: str = "") -> str:
    """The checksum of a name and of a file, or of its first `length` bytes."""
    found, left = google_crc32c.value(name.encode()), path.stat().st_size if length is None else length
    with path.open("rb") as file:
        while left and (block := file.read(min(left, BLOCK_BYTES))):
            found, left = google_crc32c.extend(found, block), left - len(block)
    return f"{found:08x}"


def format_trailer(checksum: str) -> bytes:
    """What is appended to a file that has a checksum."""
    return f"\ndse-crc32c:{checksum}\n".encode()


def append_trailer(path: Path, name: str = "") -> None:
    """Append the checksum of a file to it."""
    text = format_trailer(from_file(path, name=name))
    with path.open("ab") as file:
        file.write(text)


def is_intact(path: Path) -> bool | None:
    """Whether a file is as it was written, by the checksum at its end; None if it has no checksum. Raises OSError."""
    length = path.stat().st_size - TRAILER_BYTES
    if length < 0:
        return None
    with path.open("rb") as file:
        file.seek(length)
        found = TRAILER.fullmatch(file.read())
    return None if found is None else found[1].decode() == from_file(path, length)


def read_verified(path: Path, fix: str, name: str) -> bytes:
    """What a file holds before its checksum; raises InputError with this fix if the file is missing or not as it was written."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", fix, path) from error
    found = TRAILER.fullmatch(data[-TRAILER_BYTES:])
    if found is None or found[1].decode() != from_bytes(name.encode() + data[:-TRAILER_BYTES]):
        raise InputError("is damaged (its checksum does not match)", fix, path)
    return data[:-TRAILER_BYTES]


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], name: str) -> None:
    """Write arrays as `numpy.savez` does, and the checksum."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    append_trailer(path, name)


def load_arrays(path: Path, fix: str, name: str) -> dict[str, np.ndarray]:
    """Read what `save_arrays` wrote; raises InputError with this fix as `content` does."""
    with np.load(io.BytesIO(read_verified(path, fix, name))) as file:
        return dict(file)
