"""safetensors files: a header in JSON, then the bytes of each tensor.

The library checks the header; the bytes are read piece by piece, since a mapped file would count as memory once touched, and
since NumPy alone lacks bf16 and fp8.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np

from dse.base.errors import InputError
from dse.readers.parsed_network import SLAB_BYTES, WeightTensor

DTYPES = {
    "F64": ("fp64", np.float64), "F32": ("fp32", np.float32), "F16": ("fp16", np.float16), "BF16": ("bf16", ml_dtypes.bfloat16),
    "F8_E4M3": ("fp8", ml_dtypes.float8_e4m3fn), "F8_E5M2": ("fp8", ml_dtypes.float8_e5m2), "BOOL": ("bool", np.bool_),
    "I64": ("int64", np.int64), "I32": ("int32", np.int32), "I16": ("int16", np.int16), "I8": ("int8", np.int8), "U8": ("uint8", np.uint8),
}  # fmt: skip


@dataclass(frozen=True)
class _Slot:
    """Where a tensor lies in its file."""

    path: Path
    shape: tuple[int, ...]
    dtype: type
    offset: int

    def slabs(self) -> Iterator[np.ndarray]:
        width = prod(self.shape[1:])
        rows = max(1, SLAB_BYTES // max(width * np.dtype(self.dtype).itemsize, 1))
        with self.path.open("rb") as file:
            file.seek(self.offset)
            for start in range(0, self.shape[0], rows):
                height = min(rows, self.shape[0] - start)
                yield np.fromfile(file, self.dtype, height * width).reshape(height, *self.shape[1:])


def weights(path: Path) -> dict[str, WeightTensor]:
    """The tensors of one file by name; raises InputError."""
    header, start = _header(path)
    return {name: _weights(path, name, entry, start) for name, entry in header.items() if name != "__metadata__"}


def _weights(path: Path, name: str, entry: dict, start: int) -> WeightTensor:
    if entry["dtype"] not in DTYPES:
        return WeightTensor(tuple(entry["shape"]), entry["dtype"], partial(_unknown, path, name, entry["dtype"]))
    dtype, numpy_dtype = DTYPES[entry["dtype"]]
    slot = _Slot(path, tuple(entry["shape"]), numpy_dtype, start + entry["data_offsets"][0])
    return WeightTensor(slot.shape, dtype, slot.slabs)


def _unknown(path: Path, name: str, dtype: str) -> Iterator[np.ndarray]:
    raise InputError(f"{dtype} can't be read", f"convert it to one of {', '.join(DTYPES)}", path, key=name)


def _header(path: Path) -> tuple[dict, int]:
    """The header, as the library finds it valid, and where the tensors begin."""
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
        raise InputError(_reason(path, error), "give the whole file, as safetensors wrote it", path) from error


def _reason(path: Path, error: Exception) -> str:
    if not path.exists():
        return "no such file"
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"\x80\x02" or start == b"PK\x03\x04":
        return "a PyTorch pickle, not safetensors"
    return f"truncated, corrupt, or not safetensors ({error})"
