"""NumPy files: `.npy` arrays, `.npz` archives of arrays, `.npz` files that scipy.sparse wrote. Nothing is ever unpickled.

What a header claims is compared with the bytes that follow it before anything is allocated.
"""

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import scipy.sparse

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.readers.parsed_network import SLAB_BYTES, WeightTensor, check_sizes, rows_of, slabs_of

T = TypeVar("T")
SAVE = "save numeric arrays with numpy.save, numpy.savez or scipy.sparse.save_npz"
SPARSE = {"format", "shape", "data"}  # what every archive of scipy.sparse has


def weights(path: Path) -> dict[str, WeightTensor]:
    """The arrays of one file by name; a file that holds a single one lends it its own. Raises InputError."""
    if path.suffix.lower() == ".npy":
        array = _attempt(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        if not isinstance(array, np.ndarray):
            raise InputError("an archive, not one array", f"name it {path.stem}.npz", path)
        return {path.stem: WeightTensor(array.shape, _dtype(array.dtype), lambda: slabs_of(array))}
    members = _members(path)
    if members.keys() >= SPARSE:
        return {path.stem: _sparse(path)}
    problems, found = ProblemCollector(), {}
    for name, member in members.items():
        with problems.collect(path, key=name):
            found[name] = WeightTensor(member.shape, _dtype(member.dtype), member.slabs)
    problems.raise_if_any()
    return {path.stem: next(iter(found.values()))} if list(found) == ["arr_0"] else found


@dataclass(frozen=True)
class _Member:
    """An array of an archive, read from its start for each count, so that an archive is never held whole."""

    path: Path
    member: str
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype

    def slabs(self) -> Iterator[np.ndarray]:
        """Pieces along the first dimension. An array in Fortran order is read whole."""
        pieces = self._pieces()
        while (piece := _attempt(self.path, lambda: next(pieces, None), self.member)) is not None:
            yield piece

    def _pieces(self) -> Iterator[np.ndarray]:
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            _header(file)
            if self.fortran_order:
                yield from slabs_of(_numbers(file, self.dtype, self.shape[::-1]).T)
                return
            rows = max(1, SLAB_BYTES // max(prod(self.shape[1:]) * self.dtype.itemsize, 1))
            for start in range(0, self.shape[0], rows):
                yield _numbers(file, self.dtype, (min(rows, self.shape[0] - start), *self.shape[1:]))


def _members(path: Path) -> dict[str, _Member]:
    """The arrays of an archive by name, none of them read; raises InputError."""
    with path.open("rb") as file:
        if file.read(6) == np.lib.format.MAGIC_PREFIX:
            raise InputError("one array, not an archive of them", f"name it {path.stem}.npy", path)
    infos = _attempt(path, lambda: _contents(path))
    problems, found = ProblemCollector(), {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name in found:
            problems.add(Problem("two arrays have this name", "save each array once", path, key=name))
        with problems.collect(path, key=name):
            found[name] = _attempt(path, lambda info=info: _member(path, info), name)
    problems.raise_if_any()
    return found


def _contents(path: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(path) as archive:
        return archive.infolist()


def _member(path: Path, info: zipfile.ZipInfo) -> _Member:
    with zipfile.ZipFile(path) as archive, archive.open(info) as file:
        shape, fortran_order, dtype = _header(file)
        if dtype.hasobject:
            raise InputError("it holds pickled objects", SAVE, path, key=info.filename)
        if min(shape, default=0) < 0 or info.file_size - file.tell() < prod(shape) * dtype.itemsize:
            what = f"the array is shorter than its shape {shape} says"
            raise InputError(what, "save it again, or copy the whole file again", path, key=info.filename)
        return _Member(path, info.filename, shape, fortran_order, dtype)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and number type of the array that follows; raises ValueError."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def _numbers(file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """The next numbers of a stream; raises ValueError where it ends early."""
    return np.frombuffer(file.read(prod(shape) * dtype.itemsize), dtype).reshape(shape)


def _sparse(path: Path) -> WeightTensor:
    """A matrix of scipy.sparse; explicit zeros are zeros."""
    return _attempt(path, lambda: _checked_sparse(path))


def _checked_sparse(path: Path) -> WeightTensor:
    """Indices are checked before the matrix is converted: the conversion trusts them."""
    with path.open("rb") as file:
        given: Any = scipy.sparse.load_npz(file)
    _dtype(given.dtype)
    if len(given.shape) != 2:
        raise InputError(f"a sparse array of shape {given.shape} is not a matrix", "save a matrix", path)
    check_sizes(given.shape)
    if hasattr(given, "check_format"):
        given.check_format(full_check=True)
    matrix: Any = scipy.sparse.csr_array(given)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise InputError("a value is not finite", "give finite weights: whether such a one is zero can't be said", path)
    return WeightTensor(matrix.shape, str(matrix.dtype), lambda: rows_of(matrix))


def _attempt(path: Path, step: Callable[[], T], name: str = "") -> T:
    """A step of reading; what NumPy or scipy object to becomes a InputError."""
    try:
        return step()
    except InputError:
        raise
    except Exception as error:  # a damaged header ends in whatever the parser that meets it raises
        reason = "it holds pickled objects" if re.search("pickle|object", str(error), re.I) else "truncated, corrupt, or not a NumPy file"
        raise InputError(reason, SAVE, path, key=name) from error


def _dtype(dtype: np.dtype) -> str:
    """The name of a number type; raises InputError for one that weights cannot have."""
    if dtype.kind not in "biuf":
        raise InputError(f"an array of {dtype} is no weights", "save numbers or booleans")
    return str(dtype)
