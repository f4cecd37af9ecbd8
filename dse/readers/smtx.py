"""Read masks as compressed sparse rows in text (.smtx), the format of the Deep Learning Matrix Collection.

Three lines: "rows, columns, nonzeros"; the offset of each row, and the end of the last; the column of each nonzero. No values.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import read_text
from dse.readers.parsed_network import NamedTensors, WeightTensor, check_weight_size, csr_slabs


def read_smtx(path: Path) -> NamedTensors:
    """Read the mask in one file, named after the file; raises InputError with the line of each problem."""
    shape = _read_shape(path)
    return NamedTensors({path.stem: WeightTensor(shape, "bool", lambda: csr_slabs(_read_matrix(path), shape))})


def _read_shape(path: Path) -> tuple[int, int]:
    lines = read_text(path).splitlines()
    if len(lines) > 3 and any(line.strip() for line in lines[3:]):
        raise InputError("more than the 3 lines of a mask", "give sizes, row offsets and columns alone", path, 4)
    if len(lines) < 3:
        raise InputError(
            f"{len(lines)} lines, where a mask has 3", "give the whole file: sizes, row offsets, columns", path, len(lines) or 1
        )
    sizes = _parse_integers(path, 1, lines[0].replace(",", " "))
    if len(sizes) != 3 or min(sizes[:2]) < 1 or sizes[2] < 0:
        raise InputError("not the sizes of a matrix", "write 'rows, columns, nonzeros'", path, 1)
    shape, problems = (int(sizes[0]), int(sizes[1])), ProblemCollector()
    with problems.collect(path, 1):
        check_weight_size(shape)
    problems.raise_if_any()
    return shape


def _read_matrix(path: Path) -> csr_array:
    lines = read_text(path).splitlines()
    rows, columns, nnz = _parse_integers(path, 1, lines[0].replace(",", " "))
    offsets, indices = _parse_integers(path, 2, lines[1]), _parse_integers(path, 3, lines[2])
    _check_offsets_and_columns(path, (rows, columns), nnz, offsets, indices)
    matrix = csr_array((np.ones(len(indices), np.int8), indices, offsets), shape=(rows, columns))
    matrix.sum_duplicates()
    if matrix.nnz < nnz:
        raise InputError(f"{nnz - matrix.nnz} columns are repeated in their row", "write each nonzero once", path, 3)
    return matrix


def _parse_integers(path: Path, line: int, text: str) -> Int[np.ndarray, " n"]:
    try:
        return np.array(text.split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError("not whole numbers", "write numbers separated by spaces", path, line) from error


def _check_offsets_and_columns(
    path: Path, shape: tuple[int, int], nnz: int, offsets: Int[np.ndarray, " offset"], indices: Int[np.ndarray, " nonzero"]
) -> None:
    (rows, columns), problems = shape, []
    if len(offsets) != rows + 1:
        problems.append(Problem(f"{len(offsets)} row offsets for {rows} rows", f"write {rows + 1}", path, 2))
    elif offsets[0] != 0 or offsets[-1] != nnz or np.any(np.diff(offsets) < 0):
        fix = f"begin with 0, never fall, end with {nnz}"
        problems.append(Problem("the row offsets do not rise from 0 to the number of nonzeros", fix, path, 2))
    if len(indices) != nnz:
        problems.append(Problem(f"{len(indices)} columns for {nnz} nonzeros", "write one for each nonzero", path, 3))
    if np.any(wrong := (indices < 0) | (indices >= columns)):
        position = int(np.argmax(wrong))
        what = f"column {indices[position]} (nonzero {position}) is out of range"
        problems.append(Problem(what, f"write columns from 0 to {columns - 1}", path, 3))
    if problems:
        raise InputError.from_problems(problems)
