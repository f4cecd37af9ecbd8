"""NumPy files: `.npy` arrays, `.npz` archives of arrays, `.npz` files that scipy.sparse wrote. Nothing is ever unpickled."""

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

from dse.errors import BadInput, Problem
from dse.readers.source import Weights, rows_of, slabs_of

T = TypeVar("T")


def weights(path: Path) -> dict[str, Weights]:
    """The arrays of one file by name; a file that holds a single one lends it its own. Raises BadInput."""
    if path.suffix == ".npy":
        array = _attempt(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        return {path.stem: Weights(array.shape, _dtype(path, array), lambda: slabs_of(array))}
    with _attempt(path, lambda: np.load(path, allow_pickle=False)) as archive:
        if "indices" in archive.files or "row" in archive.files:
            return {path.stem: _sparse(path)}
        found = {name: _lazy(path, name, archive) for name in archive.files}
    return {path.stem: next(iter(found.values()))} if list(found) == ["arr_0"] else found


def _lazy(path: Path, name: str, archive: Any) -> Weights:
    array = _attempt(path, lambda: archive[name], name)
    return Weights(
        array.shape, _dtype(path, array), lambda: slabs_of(_attempt(path, lambda: np.load(path, allow_pickle=False)[name], name))
    )


def _sparse(path: Path) -> Weights:
    """A matrix of scipy.sparse; explicit zeros are zeros."""
    matrix: Any = _attempt(path, lambda: scipy.sparse.csr_array(scipy.sparse.load_npz(path)))
    _attempt(path, lambda: matrix.check_format(full_check=True))
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise BadInput([Problem("a value is not finite", "give finite weights: whether such a one is zero can't be said", path)])
    return Weights(matrix.shape, str(matrix.dtype), lambda: rows_of(matrix))


def _attempt(path: Path, step: Callable[[], T], name: str = "") -> T:
    """A step of reading; what NumPy or scipy object to becomes a BadInput."""
    try:
        return step()
    except (OSError, ValueError, EOFError, KeyError, IndexError, zipfile.BadZipFile, zlib.error) as error:
        reason = "it holds pickled objects" if "pickle" in str(error).lower() else "truncated, corrupt, or not a NumPy file"
        raise BadInput(
            [Problem(reason, "save numeric arrays with numpy.save, numpy.savez or scipy.sparse.save_npz", path, path=name)]
        ) from error


def _dtype(path: Path, array: Any) -> str:
    if array.dtype.kind not in "biuf":
        raise BadInput([Problem(f"an array of {array.dtype} is no weights", "save numbers or booleans", path)])
    return str(array.dtype)
