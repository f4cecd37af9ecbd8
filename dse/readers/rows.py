"""CSV tables whose every error names a file, a line and a column."""

import csv
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dse.document import read_text
from dse.errors import BadInput, Problem, suggestion

Row = TypeVar("Row", bound=BaseModel)


def read_rows(path: Path, row: type[Row]) -> list[tuple[int, Row]]:
    """The rows of a CSV file with their line numbers; an empty cell is a value left out. Raises BadInput."""
    reader = csv.reader(read_text(path).splitlines())
    header = next(reader, [])
    _check_header(path, header, row)
    rows, problems = [], []
    for cells in reader:
        if not cells:
            continue
        try:
            rows.append((reader.line_num, row.model_validate(_named(header, cells))))
        except ValidationError as error:
            problems += [_problem(path, reader.line_num, item) for item in error.errors()]
    if problems:
        raise BadInput(problems)
    if not rows:
        raise BadInput([Problem("the table has no rows", "add at least one below the header", path, 1)])
    return rows


def _check_header(path: Path, header: list[str], row: type[BaseModel]) -> None:
    known = row.model_fields
    problems = [Problem(f"unknown column '{name}'", suggestion(name, known), path, 1) for name in header if name not in known]
    needed = [name for name, field in known.items() if field.is_required() and name not in header]
    problems += [Problem(f"column '{name}' is missing", f"add it; columns are: {','.join(known)}", path, 1) for name in needed]
    if len(set(header)) < len(header):
        problems.append(Problem("a column is given twice", "keep one of each", path, 1))
    if problems:
        raise BadInput(problems)


def _named(header: list[str], cells: list[str]) -> dict[str, str]:
    named = {name: cell.strip() for name, cell in zip(header, cells, strict=False) if cell.strip()}
    extra = {f"cell {n + 1}": cell for n, cell in enumerate(cells) if n >= len(header)}
    return named | extra


def _problem(path: Path, line: int, error: object) -> Problem:
    assert isinstance(error, dict)
    column = ".".join(map(str, error["loc"]))
    if error["type"] == "dse":
        return Problem(error["ctx"]["what"], error["ctx"]["fix"], path, line, column)
    if error["type"] == "missing":
        return Problem("the cell is empty", "write a value", path, line, column)
    if error["type"] == "extra_forbidden":
        return Problem("the row is longer than the header", "remove the cell, or quote text with commas", path, line, column)
    return Problem(f"'{error['input']}' cannot stand here ({error['msg']})", "see the README's section on workloads", path, line, column)
