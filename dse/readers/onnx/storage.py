"""Read the numbers of an ONNX tensor, from inside the model file or from a file of external data, a range at a time."""

import posixpath
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np
from jaxtyping import Shaped
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from dse.base.errors import InputError
from dse.readers.dtypes import ONNX_DTYPES
from dse.readers.parsed_network import MAX_ELEMENTS, Shape

ReadRange = Callable[[int, int], Shaped[np.ndarray, " element"]]  # elements from one to another, in the order in which they are stored
UNKNOWN_DTYPE = "unknown"
FIX = "export the model again"

_DTYPES = {number: ONNX_DTYPES[name] for name, number in TensorProto.DataType.items() if name in ONNX_DTYPES}
_BITS = dict(ONNX_DTYPES.values())


@dataclass(frozen=True)
class StoredTensor:
    """A tensor that no input of the network changes.

    `open()` is a context in which ranges of its elements can be read. It raises InputError if the file is broken; so does
    `check()`, which reads as little as possible.
    """

    name: str
    shape: Shape
    dtype: str
    open: Callable[[], AbstractContextManager[ReadRange]]
    check: Callable[[], None] = lambda: None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return max(1, _BITS.get(self.dtype, 8) // 8)

    def read(self) -> Shaped[np.ndarray, "..."]:
        """The whole tensor."""
        with self.open() as read_range:
            return read_range(0, self.elements).reshape(self.shape)


def has_numbers(tensor: TensorProto) -> bool:
    return tensor.data_type in _DTYPES


def dtype_name(data_type: int) -> str:
    return _DTYPES.get(data_type, (UNKNOWN_DTYPE, 0))[0]


def stored_tensor(tensor: TensorProto, path: Path) -> StoredTensor:
    """A tensor of the model at `path`; raises InputError for a size that no tensor has."""
    shape, dtype = _checked_shape(tensor, path), dtype_name(tensor.data_type)
    if not has_numbers(tensor):
        return StoredTensor(tensor.name, shape, dtype, partial(_refuse_data_type, tensor, path))
    if tensor.data_location == TensorProto.EXTERNAL:
        external = _ExternalData.from_proto(tensor, path)
        return StoredTensor(tensor.name, shape, dtype, external.open, external.check)
    open_data = partial(_open_array, partial(numpy_helper.to_array, tensor), tensor.name, path)
    return StoredTensor(tensor.name, shape, dtype, open_data, partial(_check_inner_data, tensor, path))


def sparse_tensor(tensor: SparseTensorProto, path: Path) -> StoredTensor:
    """A tensor of which only the nonzeros are stored; it is read as a whole."""
    values, indices = stored_tensor(tensor.values, path), stored_tensor(tensor.indices, path)
    shape = _checked_shape(tensor, path)

    def to_dense() -> Shaped[np.ndarray, " element"]:
        index, nonzeros = indices.read(), values.read()
        flat_index = index if index.ndim == 1 else np.ravel_multi_index(tuple(index.T), shape)
        if index.size and not 0 <= flat_index.min() <= flat_index.max() < prod(shape):
            raise _tensor_error(path, values.name, f"has a nonzero outside of its sizes {list(shape)}")
        dense = np.zeros(prod(shape), nonzeros.dtype)
        dense[flat_index] = nonzeros
        return dense

    return StoredTensor(values.name, shape, values.dtype, partial(_open_array, to_dense, values.name, path))


def computed_tensor(name: str, shape: Shape, dtype: str, compute: Callable[[], np.ndarray], path: Path) -> StoredTensor:
    """A tensor that the graph computes from others; it is computed when it is read."""
    return StoredTensor(name, shape, dtype, partial(_open_array, lambda: compute().reshape(shape), name, path))


@contextmanager
def _open_array(load: Callable[[], np.ndarray], name: str, path: Path) -> Iterator[ReadRange]:
    """Load an array and read ranges of it; errors of loading are converted, since a user needs the tensor and the file."""
    try:
        array = load().reshape(-1)
    except InputError:
        raise
    except Exception as error:  # a damaged tensor makes the decoders raise errors of almost any type
        raise _tensor_error(path, name, f"cannot be read ({error})", f"{FIX}, with constants folded") from error
    yield lambda start, stop: array[start:stop]


def _checked_shape(tensor: TensorProto | SparseTensorProto, path: Path) -> Shape:
    """The shape of a tensor; a damaged file may claim any."""
    shape = tuple(tensor.dims)
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        name = tensor.name if isinstance(tensor, TensorProto) else tensor.values.name
        raise _tensor_error(path, name, f"has the sizes {list(shape)}", f"{FIX}: a tensor has at most {MAX_ELEMENTS} numbers")
    return shape


def _refuse_data_type(tensor: TensorProto, path: Path) -> NoReturn:
    kind = TensorProto.DataType.Name(tensor.data_type) if tensor.data_type in TensorProto.DataType.values() else tensor.data_type
    raise _tensor_error(path, tensor.name, f"is of type {kind}, which is not a number", f"{FIX}, with weights that are numbers")


def _check_inner_data(tensor: TensorProto, path: Path) -> None:
    """Raise InputError if the model file holds more or fewer numbers than the tensor has."""
    elements, needed_bytes = prod(tensor.dims), _size_in_bytes(prod(tensor.dims), tensor.data_type)
    if tensor.HasField("raw_data"):
        if (held := len(tensor.raw_data)) != needed_bytes:
            raise _tensor_error(path, tensor.name, f"holds {held} bytes instead of {needed_bytes}")
        return
    listed = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
    if listed not in (elements, needed_bytes):  # narrow types share a number of 32 bits, complex ones take two
        raise _tensor_error(path, tensor.name, f"holds {listed} numbers instead of {elements}")


@dataclass(frozen=True)
class _ExternalData:
    """The data of a tensor in a file next to the model."""

    model: Path
    name: str
    data_type: int
    elements: int
    location: str
    offset: int
    length: int | None

    @classmethod
    def from_proto(cls, tensor: TensorProto, path: Path) -> "_ExternalData":
        entries = {item.key: item.value for item in tensor.external_data}
        try:
            offset, length = int(entries.get("offset") or 0), int(entries["length"]) if entries.get("length") else None
        except ValueError as error:
            raise _tensor_error(path, tensor.name, f"has a bad offset or length in its external data ({error})") from error
        return cls(path, tensor.name, tensor.data_type, prod(tensor.dims), entries.get("location", ""), offset, length)

    @property
    def file(self) -> Path:
        """The file of the data. Links are followed (model caches consist of them), but a location outside of the folder is refused."""
        location = posixpath.normpath(self.location.replace("\\", "/"))
        if not self.location or location.startswith(("../", "/")) or location in (".", "..") or ":" in location:
            what = f"is in '{self.location}', outside of the model's folder"
            raise _tensor_error(self.model, self.name, what, "save the model again with its data in the same folder")
        return self.model.parent / location

    def check(self) -> None:
        file, needed = self.file, _size_in_bytes(self.elements, self.data_type)
        if not file.is_file():
            raise _tensor_error(
                self.model, self.name, f"is in '{file.name}', which is missing", f"put {file} there, it belongs to the model"
            )
        if self.offset < 0 or (self.length is not None and self.length < needed):
            raise _tensor_error(
                self.model, self.name, f"needs {needed} bytes, its external data claims {self.length} from {self.offset} on"
            )
        if (size := file.stat().st_size) < self.offset + needed:
            what = f"ends at byte {self.offset + needed} of '{file.name}', which has {size}"
            raise _tensor_error(self.model, self.name, what, f"copy the whole of {file} again")

    @contextmanager
    def open(self) -> Iterator[ReadRange]:
        self.check()
        with self.file.open("rb") as file:
            yield lambda start, stop: self._read_range(file, start, stop)

    def _read_range(self, file: BinaryIO, start: int, stop: int) -> Shaped[np.ndarray, " element"]:
        """Read, not map: mapped pages would stay in memory. Narrow types are packed, so what is read begins at a whole byte."""
        bits = _DTYPES[self.data_type][1]
        packed = 8 // gcd(8, bits)
        first = start // packed * packed
        count = min(-(-stop // packed) * packed, self.elements) - first
        file.seek(self.offset + first * bits // 8)
        raw = file.read(needed := _size_in_bytes(count, self.data_type))
        if len(raw) < needed:
            raise _tensor_error(self.model, self.name, f"ends early in '{self.location}'", "copy the whole file again")
        return _decode(raw, self.data_type, count)[start - first : stop - first]


def _decode(raw: bytes, data_type: int, count: int) -> Shaped[np.ndarray, " element"]:
    """Decode numbers; those of whole bytes without a copy."""
    if _DTYPES[data_type][1] >= 8:
        return np.frombuffer(raw, helper.tensor_dtype_to_np_dtype(data_type))
    return numpy_helper.to_array(TensorProto(data_type=data_type, dims=[count], raw_data=raw))


def _size_in_bytes(elements: int, data_type: int) -> int:
    return -(-elements * _DTYPES[data_type][1] // 8)


def _tensor_error(path: Path, tensor: str, what: str, fix: str = FIX) -> InputError:
    return InputError(f"tensor '{tensor}' {what}", fix, path)
