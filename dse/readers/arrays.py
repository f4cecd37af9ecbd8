"""NumPy files: `.npy` arrays, `.npz` archives of arrays, `.npz` files that scipy.sparse wrote. Nothing is ever unpickled."""

import re
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
    if path.suffix.lower() == ".npy":
        array = _attempt(path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        if not isinstance(array, np.ndarray):
            raise BadInput([Problem("an archive, not one array", f"name it {path.stem}.npz", path)])
        return {path.stem: Weights(array.shape, _dtype(path, array), lambda: slabs_of(array))}
    names = _attempt(path, lambda: _opened(path, lambda archive: archive.files))
    if "indices" in names or "row" in names:
        return {path.stem: _sparse(path)}
    found = {name: _lazy(path, name) for name in names}
    return {path.stem: next(iter(found.values()))} if names == ["arr_0"] else found


def _opened(path: Path, step: Callable[[Any], T]) -> T:
    """A step on an open archive, which is closed whatever happens."""
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise BadInput([Problem("one array, not an archive of them", f"name it {path.stem}.npy", path)])
        with archive:
            return step(archive)


def _lazy(path: Path, name: str) -> Weights:
    """An array that is read again for each count, so that an archive is never held whole."""

    def read() -> np.ndarray:
        return _attempt(path, lambda: _opened(path, lambda archive: archive[name]), name)

    array = read()
    return Weights(array.shape, _dtype(path, array), lambda: slabs_of(read()))


def _sparse(path: Path) -> Weights:
    """A matrix of scipy.sparse; explicit zeros are zeros."""
    with path.open("rb") as file:
        matrix: Any = _attempt(path, lambda: scipy.sparse.csr_array(scipy.sparse.load_npz(file)))
    _attempt(path, lambda: matrix.check_format(full_check=True))
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise BadInput([Problem("a value is not finite", "give finite weights: whether such a one is zero can't be said", path)])
    return Weights(matrix.shape, str(matrix.dtype), lambda: rows_of(matrix))


def _attempt(path: Path, step: Callable[[], T], name: str = "") -> T:
    """A step of reading; what NumPy or scipy object to becomes a BadInput."""
    try:
        return step()
    except BadInput:
        raise
    except Exception as error:  # a damaged header ends in whatever the parser that meets it raises
        reason = "it holds pickled objects" if re.search("pickle|object", str(error), re.I) else "truncated, corrupt, or not a NumPy file"
        raise BadInput(
            [Problem(reason, "save numeric arrays with numpy.save, numpy.savez or scipy.sparse.save_npz", path, path=name)]
        ) from error


def _dtype(path: Path, array: Any) -> str:
    if array.dtype.kind not in "biuf":
        raise BadInput([Problem(f"an array of {array.dtype} is no weights", "save numbers or booleans", path)])
    return str(array.dtype)
