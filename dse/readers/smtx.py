"""Masks as compressed sparse rows in text (.smtx), the format of the Deep Learning Matrix Collection.

Three lines: "rows, columns, nonzeros"; the offset of each row, and the end of the last; the column of each nonzero. No values.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import read_text
from dse.readers.parsed_network import WeightTensor, check_sizes, rows_of


def weights(path: Path) -> WeightTensor:
    """The mask in one file; raises InputError with the line of what is wrong."""
    shape = _header(path)
    return WeightTensor(shape, "bool", lambda: rows_of(_matrix(path)))


def _header(path: Path) -> tuple[int, int]:
    lines = read_text(path).splitlines()
    if len(lines) > 3 and any(line.strip() for line in lines[3:]):
        raise InputError("more than the 3 lines of a mask", "give sizes, row offsets and columns alone", path, 4)
    if len(lines) < 3:
        raise InputError(
            f"{len(lines)} lines, where a mask has 3", "give the whole file: sizes, row offsets, columns", path, len(lines) or 1
        )
    sizes = _numbers(path, 1, lines[0].replace(",", " "))
    if len(sizes) != 3 or min(sizes[:2]) < 1 or sizes[2] < 0:
        raise InputError("not the sizes of a matrix", "write 'rows, columns, nonzeros'", path, 1)
    problems = ProblemCollector()
    with problems.collect(path, 1):
        check_sizes(shape := (int(sizes[0]), int(sizes[1])))
        return shape
    raise InputError.from_problems(problems.problems)


def _matrix(path: Path) -> Any:
    lines = read_text(path).splitlines()
    rows, columns, nnz = _numbers(path, 1, lines[0].replace(",", " "))
    offsets, indices = _numbers(path, 2, lines[1]), _numbers(path, 3, lines[2])
    _check(path, rows, columns, nnz, offsets, indices)
    matrix = csr_array((np.ones(len(indices), np.int8), indices, offsets), shape=(rows, columns))
    matrix.sum_duplicates()
    if matrix.nnz < nnz:
        raise InputError(f"{nnz - matrix.nnz} columns stand twice in their row", "write each nonzero once", path, 3)
    return matrix


def _numbers(path: Path, line: int, text: str) -> np.ndarray:
    try:
        return np.array(text.split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError("not whole numbers", "write numbers separated by spaces", path, line) from error


def _check(path: Path, rows: int, columns: int, nnz: int, offsets: np.ndarray, indices: np.ndarray) -> None:
    problems = []
    if len(offsets) != rows + 1:
        problems.append(Problem(f"{len(offsets)} row offsets for {rows} rows", f"write {rows + 1}", path, 2))
    elif offsets[0] != 0 or offsets[-1] != nnz or np.any(np.diff(offsets) < 0):
        problems.append(Problem("the row offsets don't rise from 0 to the nonzeros", f"begin with 0, never fall, end with {nnz}", path, 2))
    if len(indices) != nnz:
        problems.append(Problem(f"{len(indices)} columns for {nnz} nonzeros", "write one for each nonzero", path, 3))
    if np.any(wrong := (indices < 0) | (indices >= columns)):
        position = int(np.argmax(wrong))
        what = f"column {indices[position]} (nonzero {position}) is out of range"
        problems.append(Problem(what, f"write columns from 0 to {columns - 1}", path, 3))
    if problems:
        raise InputError.from_problems(problems)
