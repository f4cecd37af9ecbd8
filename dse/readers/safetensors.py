"""Read safetensors files: a header in JSON, then the bytes of each tensor.

The library checks the header. The bytes are read here, slab by slab: pages of a mapped file would count as memory of the
process once they are touched, and the NumPy interface of the library has neither bf16 nor fp8.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TypedDict

import numpy as np
from jaxtyping import Shaped

from dse.base.errors import InputError
from dse.readers.dtypes import SAFETENSORS_DTYPES
from dse.readers.parsed_network import NamedTensors, Shape, WeightTensor, flat_shape, rows_per_slab


class HeaderEntry(TypedDict):
    """One tensor in the header; `data_offsets` [byte] count from the end of the header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class _SafetensorsTensor:
    """Position of a tensor in its file."""

    path: Path
    shape: Shape
    dtype: type
    offset: int

    def read_slabs(self) -> Iterator[Shaped[np.ndarray, "row ..."]]:
        row_elements = prod(self.shape[1:])
        rows = rows_per_slab(row_elements * np.dtype(self.dtype).itemsize)
        with self.path.open("rb") as file:
            file.seek(self.offset)
            for start in range(0, self.shape[0], rows):
                count = min(rows, self.shape[0] - start)
                yield np.fromfile(file, self.dtype, count * row_elements).reshape(count, *self.shape[1:])


def read_safetensors(path: Path) -> NamedTensors:
    """Read the tensors of one file; raises InputError."""
    header, start = _read_header(path)
    return NamedTensors({name: _weight_tensor(path, name, entry, start) for name, entry in header.items() if name != "__metadata__"})


def _weight_tensor(path: Path, name: str, entry: HeaderEntry, start: int) -> WeightTensor:
    """The tensor of a header's entry; `start`: byte at which the data begins."""
    shape = tuple(entry["shape"])
    if entry["dtype"] not in SAFETENSORS_DTYPES:
        return WeightTensor(shape, entry["dtype"], partial(_refuse_dtype, path, name, entry["dtype"]))
    dtype, numpy_dtype = SAFETENSORS_DTYPES[entry["dtype"]]
    tensor = _SafetensorsTensor(path, shape, numpy_dtype, start + entry["data_offsets"][0])
    flat_slabs = replace(tensor, shape=flat_shape(shape)).read_slabs if shape else None
    return WeightTensor(shape, dtype, tensor.read_slabs, flat_slabs)


def _refuse_dtype(path: Path, name: str, dtype: str) -> Iterator[np.ndarray]:
    raise InputError(f"{dtype} cannot be read", f"convert it to one of {', '.join(SAFETENSORS_DTYPES)}", path, key=name)


def _read_header(path: Path) -> tuple[dict[str, HeaderEntry], int]:
    """The header, checked by the library, and the byte at which the data begins."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InputError("reading safetensors needs the package 'safetensors'", "pip install 'sparse-dse[safetensors]'") from error
    try:
        with safe_open(path, framework="np"):
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(length)), 8 + length
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(_why_unreadable(path, error), "give the whole file, as safetensors wrote it", path) from error


def _why_unreadable(path: Path, error: Exception) -> str:
    if not path.exists():
        return "no such file"
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"\x80\x02" or start == b"PK\x03\x04":
        return "a PyTorch pickle, not safetensors"
    return f"truncated, corrupt, or not safetensors ({error})"
