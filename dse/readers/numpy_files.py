"""Read NumPy files: `.npy` arrays, `.npz` archives of arrays, `.npz` files written by scipy.sparse. Nothing is ever unpickled.

What a header claims is compared with the bytes that follow it before any memory is allocated.
"""

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import scipy.sparse
from jaxtyping import Shaped

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.readers.dtypes import dtype_name
from dse.readers.parsed_network import (
    NamedTensors,
    Shape,
    WeightTensor,
    array_slabs,
    check_weight_size,
    csr_slabs,
    flat_shape,
    rows_per_slab,
)

Result = TypeVar("Result")
FIX = "save numeric arrays with numpy.save, numpy.savez or scipy.sparse.save_npz"
SCIPY_MEMBERS = {"format", "shape", "data"}  # of every archive that scipy.sparse writes


def read_numpy(path: Path) -> NamedTensors:
    """Read the arrays of one file by name; a single array without a name is named after the file. Raises InputError."""
    if path.suffix.lower() == ".npy":
        return NamedTensors({path.stem: _read_npy(path)})
    members = _list_members(path)
    if members.keys() >= SCIPY_MEMBERS:
        return NamedTensors({path.stem: _convert_errors(path, lambda: _read_scipy_matrix(path))})
    problems, tensors = ProblemCollector(), {}
    for name, member in members.items():
        with problems.collect(path, key=name):
            tensors[name] = WeightTensor(member.shape, _dtype_name(member.dtype), member.read_slabs, member.flat_slabs)
    problems.raise_if_any()
    return NamedTensors({path.stem: tensors["arr_0"]} if list(tensors) == ["arr_0"] else tensors, ordered=True)


def _read_npy(path: Path) -> WeightTensor:
    array = _convert_errors(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError("an archive, not one array", f"name it {path.stem}.npz", path)
    flat = array.reshape(flat_shape(array.shape)) if array.ndim and array.flags.c_contiguous else None
    flat_slabs = None if flat is None else lambda: array_slabs(flat)
    return WeightTensor(array.shape, _dtype_name(array.dtype), lambda: array_slabs(array), flat_slabs)


@dataclass(frozen=True)
class _Member:
    """An array of an archive. It is read from its start for each count, so that an archive is never in memory as a whole."""

    path: Path
    filename: str
    shape: Shape
    fortran_order: bool
    dtype: np.dtype

    def read_slabs(self) -> Iterator[Shaped[np.ndarray, "row ..."]]:
        slabs = self._slabs()
        while (slab := _convert_errors(self.path, lambda: next(slabs, None), self.filename)) is not None:
            yield slab

    @property
    def flat_slabs(self) -> Callable[[], Iterator[Shaped[np.ndarray, "flat_row column"]]] | None:
        """Reads slabs of the matrix with rows along the last axis; None if these are not in order."""
        if self.fortran_order or not self.shape:
            return None
        return replace(self, shape=flat_shape(self.shape)).read_slabs

    def _slabs(self) -> Iterator[Shaped[np.ndarray, "row ..."]]:
        """Slabs of the array; one in Fortran order is read as a whole first."""
        with zipfile.ZipFile(self.path) as archive, archive.open(self.filename) as file:
            _read_header(file)
            if self.fortran_order:
                yield from array_slabs(_read_numbers(file, self.dtype, self.shape[::-1]).T)
                return
            rows = rows_per_slab(prod(self.shape[1:]) * self.dtype.itemsize)
            for start in range(0, self.shape[0], rows):
                yield _read_numbers(file, self.dtype, (min(rows, self.shape[0] - start), *self.shape[1:]))


def _list_members(path: Path) -> dict[str, _Member]:
    """The arrays of an archive by name, without reading them; raises InputError."""
    with path.open("rb") as file:
        if file.read(6) == np.lib.format.MAGIC_PREFIX:
            raise InputError("one array, not an archive of them", f"name it {path.stem}.npy", path)
    infos = _convert_errors(path, lambda: _list_files(path))
    problems, members = ProblemCollector(), {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name in members:
            problems.add(Problem("two arrays have this name", "save each array once", path, key=name))
        with problems.collect(path, key=name):
            members[name] = _convert_errors(path, lambda info=info: _read_member(path, info), name)
    problems.raise_if_any()
    return members


def _list_files(path: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(path) as archive:
        return archive.infolist()


def _read_member(path: Path, info: zipfile.ZipInfo) -> _Member:
    """The header of one array of an archive, compared with the size of its data."""
    with zipfile.ZipFile(path) as archive, archive.open(info) as file:
        shape, fortran_order, dtype = _read_header(file)
        if dtype.hasobject:
            raise InputError("it holds pickled objects", FIX, path, key=info.filename)
        if min(shape, default=0) < 0 or info.file_size - file.tell() < prod(shape) * dtype.itemsize:
            what = f"the data of the array ends before its shape {shape} is filled"
            raise InputError(what, "save it again, or copy the whole file again", path, key=info.filename)
        return _Member(path, info.filename, shape, fortran_order, dtype)


def _read_header(file: IO[bytes]) -> tuple[Shape, bool, np.dtype]:
    """Shape, whether in Fortran order, and number type of the array that follows; raises ValueError."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def _read_numbers(file: IO[bytes], dtype: np.dtype, shape: Shape) -> Shaped[np.ndarray, "..."]:
    """The next numbers of a stream; raises ValueError if it ends early."""
    return np.frombuffer(file.read(prod(shape) * dtype.itemsize), dtype).reshape(shape)


def _read_scipy_matrix(path: Path) -> WeightTensor:
    """A matrix of scipy.sparse; explicit zeros are zeros. Indices are checked before the conversion, which does not check them."""
    with path.open("rb") as file:
        stored: Any = scipy.sparse.load_npz(file)  # any sparse format
    _dtype_name(stored.dtype)
    if len(stored.shape) != 2:
        raise InputError(f"a sparse array of shape {stored.shape} is not a matrix", "save a matrix", path)
    check_weight_size(stored.shape)
    if hasattr(stored, "check_format"):
        stored.check_format(full_check=True)
    matrix = scipy.sparse.csr_array(stored)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise InputError("a value is not finite, so it may or may not be zero", "give finite weights", path)
    return WeightTensor(stored.shape, dtype_name(str(matrix.dtype)), lambda: csr_slabs(matrix, stored.shape))


def _convert_errors(path: Path, step: Callable[[], Result], name: str = "") -> Result:
    """Run a step of reading; anything that NumPy or SciPy raise becomes an InputError."""
    try:
        return step()
    except InputError:
        raise
    except Exception as error:  # a damaged file makes the parsers raise errors of almost any type
        reason = "it holds pickled objects" if re.search("pickle|object", str(error), re.I) else "truncated, corrupt, or not a NumPy file"
        raise InputError(reason, FIX, path, key=name) from error


def _dtype_name(dtype: np.dtype) -> str:
    """The name of a number type; raises InputError for a type that weights cannot have."""
    if dtype.kind not in "biuf":
        raise InputError(f"an array of {dtype} cannot be weights", "save numbers or booleans")
    return dtype_name(str(dtype))
