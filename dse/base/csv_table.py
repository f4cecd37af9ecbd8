"""CSV tables whose every error names a file, a line and a column."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.strict_model import explain_validation_error
from dse.base.yaml_document import read_text

Row = TypeVar("Row", bound=BaseModel)


def read_rows(path: Path, row: type[Row], problems: ProblemCollector | None = None) -> list[tuple[int, Row]]:
    """The rows of a CSV file with their line numbers; an empty cell is a value left out. Raises InputError; if `problems` are
    collected, those of single rows go there, and the other rows come back."""
    header, lines = read_cells(path, [name for name, field in row.model_fields.items() if field.is_required()])
    _check_header(path, header, row)
    rows, found = [], problems or ProblemCollector()
    for line, cells in lines:
        try:
            rows.append((line, row.model_validate(_named(header, cells))))
        except ValidationError as error:
            for loc, what, fix in explain_validation_error(row, error):
                found.add(Problem(what, fix, path, line, ".".join(map(str, loc))))
    if not lines:
        found.add(Problem("the table has no rows", "add at least one below the header", path, 1))
    if problems is None:
        found.raise_if_any()
    return rows


def read_cells(path: Path, needed: Sequence[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header of a CSV file, and the cells of its other lines with their numbers; raises InputError.

    `needed` are the columns that an empty file is told to have.
    """
    lines = _lines(path)
    if not lines:
        raise InputError("the file is empty", f"write a header with at least {','.join(needed)}, and rows below it", path)
    header = [name.strip() for name in lines[0][1]]
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise InputError(f"its cells are parted by {name}", "part them by commas", path, 1)
    return header, lines[1:]


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The cells of each line that has any, with its number."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        return [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise InputError(f"not a CSV table: {error}", "fix the quotes, or the cell on this line", path, reader.line_num) from error


def _check_header(path: Path, header: list[str], row: type[BaseModel]) -> None:
    known = row.model_fields
    problems = [Problem(f"unknown column '{name}'", did_you_mean(name, known), path, 1) for name in header if name not in known]
    needed = [name for name, field in known.items() if field.is_required() and name not in header]
    problems += [Problem(f"column '{name}' is missing", f"add it; columns are: {','.join(known)}", path, 1) for name in needed]
    if len(set(header)) < len(header):
        problems.append(Problem("a column is given twice", "keep one of each", path, 1))
    if problems:
        raise InputError.from_problems(problems)


def _named(header: list[str], cells: list[str]) -> dict[str, str]:
    named = {name: cell.strip() for name, cell in zip(header, cells, strict=False) if cell.strip()}
    extra = {f"cell {n + 1}": cell for n, cell in enumerate(cells) if n >= len(header)}
    return named | extra
