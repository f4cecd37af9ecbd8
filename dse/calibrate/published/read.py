"""Read published tables: which one a file is, by its columns or its name; its rows, and the reason of each row left out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import Lines, Row, required_columns, table_name
from dse.base.strict_model import explain_validation_error
from dse.calibrate.published.aiconfigurator import AICONFIGURATOR
from dse.calibrate.published.pruning_papers import PRUNING_PAPERS
from dse.calibrate.published.table import PublishedTable, RowLeftOut
from dse.calibrate.published.vllm_networks import VLLM_NETWORKS
from dse.calibrate.tables.measurement import Measurement

_NO_NETWORKS = "whole networks are not fitted"
NETWORK_TABLES = {
    "networks of 'dse validate'": PublishedTable(("workload", "batch", "time_ms", "dense_ms"), reason=_NO_NETWORKS),
    "networks in vLLM": replace(VLLM_NETWORKS, convert_row=None, reason=_NO_NETWORKS),
}
MAX_SHOWN = 10  # rows with the same kind of error
PUBLISHED_TABLES = PRUNING_PAPERS | AICONFIGURATOR | NETWORK_TABLES


def find_published_table(path: Path, header: Sequence[str]) -> PublishedTable | None:
    """The published table that a file is, of several the one with most of the columns; None for a table in the columns of `Measurement`.

    A file with the name of a table is that table if its columns are those of no other.
    """
    columns = set(header)
    if columns.issuperset(required_columns(Measurement)):
        return None
    matching = [table for table in PUBLISHED_TABLES.values() if columns.issuperset(table.columns)]
    return max(matching, key=lambda table: len(table.columns), default=PRUNING_PAPERS.get(table_name(path)))


def expected_columns(path: Path) -> Sequence[str]:
    """The columns that a table with this name must have."""
    table = PRUNING_PAPERS.get(table_name(path))
    return required_columns(Measurement) if table is None else table.columns


def convert_rows(
    path: Path, header: Sequence[str], lines: Lines, table: PublishedTable, row: type[Row], problems: ProblemCollector
) -> tuple[list[tuple[int, Row]], list[str]]:
    """The rows of a published table with their line numbers, and the reason of each row left out; errors of rows are collected.

    Raises InputError for a wrong header.
    """
    _check_header(path, header, table.columns)
    if not lines:
        problems.add(Problem("the table has no rows", "add at least one below the header", path, 1))
    if table.convert_row is None:
        return [], [table.reason] * len(lines)
    rows, left_out, row_problems = [], [], ProblemCollector()
    for line, cells in lines:
        try:
            with row_problems.collect(path, line):
                rows.append((line, _convert_row(header, cells, table, row)))
        except RowLeftOut as exclusion:
            left_out.append(f"{path}:{line}: {exclusion}")
        except ValidationError as error:
            for loc, what, fix in explain_validation_error(row, error):
                row_problems.add(Problem(what, fix, path, line, ".".join(map(str, loc))))
        except (KeyError, ValueError, ArithmeticError) as error:
            row_problems.add(Problem(f"not a row of this table: {error}", "keep the rows of the published table", path, line))
    problems.problems += _shorten(row_problems.problems)
    return rows, left_out


def _convert_row(header: Sequence[str], cells: Sequence[str], table: PublishedTable, row: type[Row]) -> Row:
    """A line of a published table as a row; raises RowLeftOut, InputError, ValidationError, or another error of the conversion."""
    assert table.convert_row is not None
    if len(cells) != len(header):
        raise InputError(f"the row has {len(cells)} cells, the header {len(header)}", "write a cell for each column")
    by_column = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    values: Any = {"source": by_column.get("source", "")} | table.convert_row(by_column)
    return row.model_validate({name: cell for name, cell in values.items() if cell != ""})


def _shorten(problems: Sequence[Problem]) -> list[Problem]:
    """The first problems of each kind (of one column, with one fix), and the number of the others."""
    by_kind = dict[tuple[str, str], list[Problem]]()
    for problem in problems:
        by_kind.setdefault((problem.key, problem.fix), []).append(problem)
    lengths = {kind: MAX_SHOWN if len(of_kind) > MAX_SHOWN + 1 else len(of_kind) for kind, of_kind in by_kind.items()}
    shown = [problem for kind, of_kind in by_kind.items() for problem in of_kind[: lengths[kind]]]
    hidden = [of_kind[lengths[kind] :] for kind, of_kind in by_kind.items() if len(of_kind) > lengths[kind]]
    return shown + [replace(more[0], message=f"this row and {len(more) - 1:,} later ones have such an error too") for more in hidden]


def _check_header(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    fix = "keep the columns of the published table"
    problems = [Problem(f"column '{name}' is missing", fix, path, 1) for name in columns if name not in header]
    problems += [Problem(f"column '{name}' is given twice", fix, path, 1) for name in columns if header.count(name) > 1]
    if problems:
        raise InputError.from_problems(problems)
