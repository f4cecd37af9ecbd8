"""Rows as an aligned text table, as JSON, or as an HTML table for notebooks."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from dse.base.units import Quantity, format_count

Row = dict[str, Any]  # by column; None where there is no value
UNVERIFIED_MARK = " (?)"


class LargeCount(float):
    """A count that a table shows with four digits and a prefix."""

    def __str__(self) -> str:
        return format_count(self)


def format_table(rows: list[Row]) -> str:
    """Aligned columns under their names; columns without any content are left out."""
    cells = [{column: _cell_text(value) for column, value in row.items()} for row in rows]
    columns = [column for column in (cells[0] if cells else ()) if any(row[column] for row in cells)]
    widths = {column: max(len(column), *(len(row[column]) for row in cells)) for column in columns}
    lines = [{column: column for column in columns}, *cells]
    return _join_lines([[line[column] for column in columns] for line in lines], [widths[column] for column in columns])


def format_markdown(rows: list[Row]) -> str:
    """A Markdown table; columns without any content are left out."""
    cells = [{column: _cell_text(value) for column, value in row.items()} for row in rows]
    columns = [column for column in (cells[0] if cells else ()) if any(row[column] for row in cells)]
    lines = [columns, ["---"] * len(columns), *([row[column] for column in columns] for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_narrow_table(rows: list[dict[str, str]]) -> str:
    """Aligned columns under their names, a name that is longer than its cells on two lines: 'memory.sram.' over 'capacity [MB]'."""
    columns = list(rows[0]) if rows else []
    cells = [[row[column] for column in columns] for row in rows]
    heads = [_split_head(column, max(len(line[index]) for line in cells)) for index, column in enumerate(columns)]
    lines = [[top for top, _ in heads], [bottom for _, bottom in heads], *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return _join_lines(lines if any(lines[0]) else lines[1:], widths)


def _split_head(name: str, width: int) -> tuple[str, str]:
    """Two lines of a name, after a dot or a space, as narrow as possible; one line where it is not longer than `width`."""
    if len(name) <= width:
        return "", name
    places = [place + 1 for place, character in enumerate(name[:-1]) if character in ". "]
    halves = [("", name), *((name[:place].rstrip(), name[place:]) for place in places)]
    return min(halves, key=lambda half: max(map(len, half)))


def _join_lines(lines: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def _cell_text(value: object) -> str:
    if isinstance(value, Quantity):
        return value.text + (UNVERIFIED_MARK if value.unverified else "")
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    if isinstance(value, float) and not isinstance(value, LargeCount):
        return f"{value:g}"
    return str(value)


def format_json(content: object) -> str:
    """JSON in which a quantity has its value, unit, text and whether it is unverified; NaN and infinities, which JSON lacks, are null."""
    return json.dumps(_to_json_types(content), indent=2, allow_nan=False)


def _to_json_types(content: object) -> object:
    if isinstance(content, Quantity):
        return _to_json_types(_quantity_fields(content))
    if isinstance(content, Mapping):
        return {key: _to_json_types(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_to_json_types(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _quantity_fields(quantity: Quantity) -> dict[str, object]:
    return {"value": quantity.value, "unit": quantity.unit, "text": quantity.text, "unverified": quantity.unverified}


def has_unverified(rows: list[Row]) -> bool:
    return any(isinstance(value, Quantity) and value.unverified for row in rows for value in row.values())


def none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Render a table with a caption; numbers have four digits, None and NaN are left blank."""
    lines = [f"<caption>{escape(caption)}</caption>"]
    if header:
        lines.append(_html_row("th", header))
    lines += [_html_row("td", row) for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _html_row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_format_cell(cell))}</{tag}>' for cell in cells)}</tr>"


def _format_cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
