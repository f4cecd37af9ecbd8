"""Small HTML tables, for objects shown in notebooks."""

import math
from collections.abc import Iterable, Sequence
from html import escape


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
