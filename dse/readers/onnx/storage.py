"""Where the numbers of an ONNX tensor lie, inside the file or beside it, and how to read a stretch of them."""

import posixpath
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import gcd, prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from dse.base.errors import InputError
from dse.readers.parsed_network import MAX_ELEMENTS

Stretch = Callable[[int, int], np.ndarray]  # elements from one to another, in the order in which they are stored

# number type of ONNX -> its name here, and its bits
_TYPES = {
    "FLOAT": ("fp32", 32), "DOUBLE": ("fp64", 64), "FLOAT16": ("fp16", 16), "BFLOAT16": ("bf16", 16),
    "FLOAT8E4M3FN": ("fp8", 8), "FLOAT8E4M3FNUZ": ("fp8", 8), "FLOAT8E5M2": ("fp8", 8), "FLOAT8E5M2FNUZ": ("fp8", 8),
    "FLOAT8E8M0": ("fp8", 8), "FLOAT6E2M3": ("fp6", 6), "FLOAT6E3M2": ("fp6", 6), "FLOAT4E2M1": ("fp4", 4),
    "INT64": ("int64", 64), "UINT64": ("uint64", 64), "INT32": ("int32", 32), "UINT32": ("uint32", 32),
    "INT16": ("int16", 16), "UINT16": ("uint16", 16), "INT8": ("int8", 8), "UINT8": ("uint8", 8),
    "INT4": ("int4", 4), "UINT4": ("uint4", 4), "INT2": ("int2", 2), "UINT2": ("uint2", 2), "BOOL": ("bool", 8),
}  # fmt: skip
_BITS = dict(_TYPES.values())
_NAMES = {number: _TYPES[name] for name, number in TensorProto.DataType.items() if name in _TYPES}


@dataclass(frozen=True)
class Stored:
    """A tensor that no input can change. `open()` is a context in which stretches of it can be read; it raises InputError."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    open: Callable[[], Iterator[Stretch]]
    check: Callable[[], None] = lambda: None  # raises InputError where the file is broken, reading as little as possible

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element once it is read."""
        return max(1, _BITS.get(self.dtype, 8) // 8)

    def reading(self) -> AbstractContextManager[Stretch]:
        return contextmanager(self.open)()

    def whole(self) -> np.ndarray:
        with self.reading() as stretch:
            return stretch(0, self.elements).reshape(self.shape)


def is_number(tensor: TensorProto) -> bool:
    return tensor.data_type in _NAMES


def dtype_name(data_type: int) -> str:
    return _NAMES.get(data_type, ("unknown", 0))[0]


def of(tensor: TensorProto, path: Path) -> Stored:
    """A tensor of the model at `path`; raises InputError for sizes that no tensor has."""
    shape, dtype = _shape(tensor, path), dtype_name(tensor.data_type)
    if not is_number(tensor):
        return Stored(tensor.name, shape, dtype, lambda: _not_numbers(tensor, path))
    if tensor.data_location == TensorProto.EXTERNAL:
        beside = _Beside.of(tensor, path)
        return Stored(tensor.name, shape, dtype, beside.open, beside.check)
    return Stored(tensor.name, shape, dtype, lambda: _inside(tensor, path), lambda: _check_inside(tensor, path))


def _shape(tensor: TensorProto | SparseTensorProto, path: Path) -> tuple[int, ...]:
    """Its sizes, of which a damaged file may claim any."""
    shape = tuple(tensor.dims)
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        name = tensor.name if isinstance(tensor, TensorProto) else tensor.values.name
        raise _bad(path, name, f"has the sizes {list(shape)}", f"export the model again: a tensor has at most {MAX_ELEMENTS} numbers")
    return shape


def _not_numbers(tensor: TensorProto, path: Path) -> Iterator[Stretch]:
    kind = TensorProto.DataType.Name(tensor.data_type) if tensor.data_type in TensorProto.DataType.values() else tensor.data_type
    raise _bad(path, tensor.name, f"is of type {kind}, which is not a number", "export the model again, with weights that are numbers")


def scattered(tensor: SparseTensorProto, path: Path) -> Stored:
    """A tensor of which only the nonzeros are stored."""
    values, indices = of(tensor.values, path), of(tensor.indices, path)
    shape = _shape(tensor, path)

    def spread() -> Iterator[Stretch]:
        where, nonzeros = indices.whole(), values.whole()
        flat = where if where.ndim == 1 else np.ravel_multi_index(tuple(where.T), shape)
        if where.size and not 0 <= flat.min() <= flat.max() < prod(shape):
            raise _bad(path, values.name, f"has a nonzero outside of its sizes {list(shape)}", "export the model again")
        dense = np.zeros(prod(shape), nonzeros.dtype)
        dense[flat] = nonzeros
        yield lambda start, stop: dense[start:stop]

    return Stored(values.name, shape, values.dtype, lambda: _explained(spread(), values.name, path))


def computed(name: str, shape: tuple[int, ...], dtype: str, compute: Callable[[], np.ndarray], path: Path) -> Stored:
    """A tensor that the graph computes from others, evaluated when it is read."""

    def flat() -> Iterator[Stretch]:
        array = compute().reshape(shape).reshape(-1)
        yield lambda start, stop: array[start:stop]

    return Stored(name, shape, dtype, lambda: _explained(flat(), name, path))


def _explained(reading: Iterator[Stretch], name: str, path: Path) -> Iterator[Stretch]:
    """The errors of decoding are many and say little; a user needs the tensor and the file."""
    try:
        stretch = next(reading)
    except InputError:
        raise
    except Exception as error:
        raise _bad(path, name, f"cannot be read ({error})", "export the model again, with constants folded") from error
    yield stretch


def _inside(tensor: TensorProto, path: Path) -> Iterator[Stretch]:
    def flat() -> Iterator[Stretch]:
        array = numpy_helper.to_array(tensor).reshape(-1)
        yield lambda start, stop: array[start:stop]

    return _explained(flat(), tensor.name, path)


def _check_inside(tensor: TensorProto, path: Path) -> None:
    held, needed = len(tensor.raw_data), _bytes(prod(tensor.dims), tensor.data_type)
    if tensor.HasField("raw_data") and held != needed:
        raise _bad(path, tensor.name, f"holds {held} bytes instead of {needed}", "export the model again")
    if not tensor.HasField("raw_data"):
        _check_listed(tensor, path)


def _check_listed(tensor: TensorProto, path: Path) -> None:
    """Numbers that the file lists one by one: as many as the sizes say; narrow types share a 32 bit number, complex ones take two."""
    field = helper.tensor_dtype_to_field(tensor.data_type)
    listed, needed = len(getattr(tensor, field)), prod(tensor.dims)
    if listed not in (needed, _bytes(needed, tensor.data_type)):
        raise _bad(path, tensor.name, f"holds {listed} numbers instead of {needed}", "export the model again")


@dataclass(frozen=True)
class _Beside:
    """Tensor data in a file of its own."""

    model: Path
    name: str
    data_type: int
    elements: int
    location: str
    offset: int
    length: int | None

    @classmethod
    def of(cls, tensor: TensorProto, path: Path) -> "_Beside":
        keys = {item.key: item.value for item in tensor.external_data}
        try:
            offset, length = int(keys.get("offset") or 0), int(keys["length"]) if keys.get("length") else None
        except ValueError as error:
            raise _bad(path, tensor.name, f"has a bad offset or length in its external data ({error})", "export the model again") from error
        return cls(path, tensor.name, tensor.data_type, prod(tensor.dims), keys.get("location", ""), offset, length)

    @property
    def file(self) -> Path:
        """Links are followed (caches of models are made of them); a location that leaves the folder is not."""
        location = posixpath.normpath(self.location.replace("\\", "/"))
        if not self.location or location.startswith(("../", "/")) or location in (".", "..") or ":" in location:
            what = f"lies in '{self.location}', outside of the model's folder"
            raise _bad(self.model, self.name, what, "save the model again with its data beside it")
        return self.model.parent / location

    def check(self) -> None:
        file, needed = self.file, _bytes(self.elements, self.data_type)
        if not file.is_file():
            raise _bad(self.model, self.name, f"lies in '{file.name}', which is missing", f"put {file} there, it belongs to the model")
        if self.offset < 0 or (self.length is not None and self.length < needed):
            what = f"needs {needed} bytes, its external data claims {self.length} from {self.offset} on"
            raise _bad(self.model, self.name, what, "export the model again")
        if (size := file.stat().st_size) < self.offset + needed:
            what = f"ends at byte {self.offset + needed} of '{file.name}', which has {size}"
            raise _bad(self.model, self.name, what, f"copy the whole of {file} again")

    def open(self) -> Iterator[Stretch]:
        self.check()
        with self.file.open("rb") as file:
            yield lambda start, stop: self._read(file, start, stop)

    def _read(self, file: BinaryIO, start: int, stop: int) -> np.ndarray:
        """Read and not mapped: mapped pages would stay with the process. Narrow types are packed, so stretches begin at whole bytes."""
        bits = _NAMES[self.data_type][1]
        packed = 8 // gcd(8, bits)
        first = start // packed * packed
        count = min(-(-stop // packed) * packed, self.elements) - first
        file.seek(self.offset + first * bits // 8)
        raw = file.read(needed := _bytes(count, self.data_type))
        if len(raw) < needed:
            raise _bad(self.model, self.name, f"ends early in '{self.location}'", "copy the whole file again")
        return _decoded(raw, self.data_type, count)[start - first : stop - first]


def _decoded(raw: bytes, data_type: int, count: int) -> np.ndarray:
    """Whole bytes are numbers as they are; unpacking narrower ones takes a copy or two."""
    if _NAMES[data_type][1] >= 8:
        return np.frombuffer(raw, helper.tensor_dtype_to_np_dtype(data_type))
    return numpy_helper.to_array(TensorProto(data_type=data_type, dims=[count], raw_data=raw))


def _bytes(elements: int, data_type: int) -> int:
    return -(-elements * _NAMES[data_type][1] // 8)


def _bad(path: Path, tensor: str, what: str, fix: str) -> InputError:
    return InputError(f"tensor '{tensor}' {what}", fix, path)
