"""Read input files safely: only regular files and the pipes of a shell, text up to a size limit, and CSV tables.

Files may be compressed by gzip. Every error of a table names its file, line and column.
"""

import csv
import gzip
import io
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.progress import logger
from dse.base.strict_model import explain_validation_error

MAX_BYTES = 100_000_000  # of a text file, compressed and decompressed
_GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952, section 2.3.1
_SHELL_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
Row = TypeVar("Row", bound=BaseModel)
Lines = list[tuple[int, list[str]]]  # line number and cells
TABLE_ENDINGS = (".csv", ".csv.gz")
TIME_UNITS = ("s", "sec", "seconds", "us", "ns")  # in which other people's columns are named


def table_name(path: Path) -> str:
    """Name of a table: that of its file without `.csv` or `.csv.gz`, in capitals or not."""
    ending = next((ending for ending in TABLE_ENDINGS if path.name.lower().endswith(ending)), path.suffix)
    return path.name[: len(path.name) - len(ending)]


def list_tables(folder: Path) -> list[Path]:
    """The files of a folder that end in `.csv` or `.csv.gz`, in capitals or not, sorted; raises InputError if two have the same name."""
    paths = sorted(path for path in folder.iterdir() if path.name.lower().endswith(TABLE_ENDINGS))
    problems = ProblemCollector()
    by_name: dict[str, Path] = {}
    for path in paths:
        if (first := by_name.setdefault(table_name(path), path)) is not path:
            problems.add(Problem(f"a table with the name of '{first}'", "keep one of them, or rename it", path))
    problems.raise_if_any()
    return paths


def check_regular(path: Path) -> None:
    """Raise InputError unless `path` is a regular file or a pipe of the shell.

    Devices (/dev/zero) have no end, and a named pipe blocks until another process writes to it.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _unreadable(path, (error.strerror or "cannot be read").lower()) from error
    except ValueError as error:  # a character that no path may have
        raise _unreadable(path, "not a path") from error
    if stat.S_ISDIR(mode):
        raise _unreadable(path, "is a directory")
    if not stat.S_ISREG(mode) and not str(path).startswith(_SHELL_PIPES):
        raise _unreadable(path, "a device or a named pipe, not a file")


def check_not_pipe(path: Path) -> None:
    """Raise InputError for a pipe or a device, in the place of a file that is read several times."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError("a pipe or a device, but the table is read several times", "write it to a file, and give that", path)


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(reason, "give a file that exists and can be read", path)


def read_text(path: Path) -> str:
    """Read the text of a file in UTF-8, which may be compressed by gzip.

    Raises InputError if it cannot be read, is damaged, is too large or is not text.
    """
    data = _read_bytes(path)
    if data.startswith(_GZIP_MAGIC):
        data = _decompress(path, data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not a text file (UTF-8)", "give a YAML or CSV file", path, 1) from error


def _read_bytes(path: Path) -> bytes:
    check_regular(path)
    logger.debug(f"read {path}")
    try:
        with path.open("rb") as file:
            return _check_size(path, file.read(MAX_BYTES + 1))
    except OSError as error:
        raise _unreadable(path, (error.strerror or "cannot be read").lower()) from error


def _decompress(path: Path, data: bytes) -> bytes:
    try:
        return _check_size(path, gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("a damaged gzip file", "copy or compress it again", path) from error


def _check_size(path: Path, data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES / 1e6:g} MB", "split it, or keep what is needed", path)
    return data


def read_rows(path: Path, model: type[Row], problems: ProblemCollector | None = None) -> list[tuple[int, Row]]:
    """Read the rows of a CSV file as `model`, each with its line number; an empty cell leaves a field at its default.

    Raises InputError. With `problems`, those of single rows are collected there and the valid rows are returned.
    """
    header, lines = read_cells(path, required_columns(model))
    return parse_rows(path, header, lines, model, problems)


def parse_rows(
    path: Path, header: list[str], lines: Lines, model: type[Row], problems: ProblemCollector | None = None
) -> list[tuple[int, Row]]:
    """Validate cells that `read_cells` returned as rows of `model`; see `read_rows`."""
    _check_header(path, header, model)
    rows, row_problems, required = [], problems or ProblemCollector(), required_columns(model)
    for line, cells in lines:
        if len(cells) > len(header):
            fix = "quote a cell that contains commas, or remove the others"
            row_problems.add(Problem(f"{len(cells)} cells, but the header has {len(header)}", fix, path, line))
            continue
        by_column = {name: cell.strip() for name, cell in zip(header, cells, strict=False) if cell.strip()}
        try:
            rows.append((line, model.model_validate(by_column)))
        except ValidationError as error:
            for loc, message, fix in explain_validation_error(model, error):
                column = ".".join(map(str, loc))
                is_empty = column in required and column not in by_column
                text = ("the cell is empty", "write a value") if is_empty else (message, fix)
                row_problems.add(Problem(*text, path, line, column))
    if not lines:
        row_problems.add(Problem("the table has no rows", "add at least one below the header", path, 1))
    if problems is None:
        row_problems.raise_if_any()
    return rows


def read_cells(path: Path, required: Sequence[str]) -> tuple[list[str], Lines]:
    """Read the header of a CSV file, and the cells of all other lines with their line numbers.

    Raises InputError; for an empty file, the error lists the `required` columns.
    """
    lines = list(_parse_lines(path))
    if not lines:
        raise InputError("the file is empty", f"write a header with at least {','.join(required)}, and rows below it", path)
    header = _strip(lines[0][1])
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise InputError(f"cells are separated by {name}", "separate them by commas", path, 1)
    return header, lines[1:]


def read_header(path: Path) -> list[str]:
    """Read the names of the columns of a CSV file, none if it is empty; other lines are not parsed. Raises InputError."""
    return next((_strip(cells) for _, cells in _parse_lines(path)), [])


def _strip(cells: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def _parse_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each line that is not empty."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"not a CSV table: {error}", "fix the quotes, or the cell on this line", path, reader.line_num) from error


def required_columns(model: type[BaseModel]) -> list[str]:
    """Names of the columns that a table of such rows must have."""
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _fix_column(name: str, columns: Iterable[str]) -> str:
    """What to do about an unknown column: a time in another unit has to be converted, not only renamed."""
    if not name:
        return "remove the column without a name, such as the index of a data frame"
    times = [column for column in columns if column.endswith("_ms")]
    if name.rpartition("_")[2] in TIME_UNITS and times:
        return f"convert the times to milliseconds, in a column such as '{times[0]}'"
    return did_you_mean(name, columns)


def _check_header(path: Path, header: list[str], model: type[BaseModel]) -> None:
    columns = model.model_fields
    problems = [Problem(f"unknown column '{name}'", _fix_column(name, columns), path, 1) for name in header if name not in columns]
    missing = [name for name in required_columns(model) if name not in header]
    problems += [Problem(f"column '{name}' is missing", f"add it; columns are: {','.join(columns)}", path, 1) for name in missing]
    repeated = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    problems += [Problem(f"column '{name}' is given twice", "keep one of them", path, 1) for name in repeated]
    if problems:
        raise InputError.from_problems(problems)
