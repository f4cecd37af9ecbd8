"""A table of results: numbers in SI units with their units, rendered as text, CSV, Markdown or JSON.

Text, CSV and Markdown have units that people use, each in the head of its column; JSON has SI units under the names of the dataset.
CSV has the first table only, since a file has one header.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import fill
from typing import Literal, get_args

import numpy as np
import pandas as pd

from dse.base.display_units import DisplayUnit, format_number, select_unit
from dse.base.table_format import format_narrow_table

Format = Literal["table", "csv", "json", "markdown"]
FORMATS: tuple[Format, ...] = get_args(Format)
SHARES = ("sparsity", "nominal_sparsity", "faster_probability", "front_probability")  # shown in percent
LINE = 120  # characters of a line of text above or below a table
MAX_CELL = 60  # characters: of columns with longer texts, only the first row is shown, below the table
INTERVALS = ("_low", "_high", "_bound")
LABELS = {"tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "bound": "bound by"}
ACCURACIES = ("accuracy", "accuracy_low", "accuracy_high", "dense_accuracy")  # the loss of accuracy is shown
HIDDEN = ("method", "pattern", "sparsity", "nominal_sparsity", "densities_from", "assumed_drop", "metric", *ACCURACIES, "best")

Column = list[str]


@dataclass(frozen=True)
class ResultTable:
    """Rows of results with a title: columns in SI units, the unit of each, and notes that belong below."""

    title: str
    rows: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def units(self) -> dict[str, str]:
        return self.rows.attrs.get("units", {})


def render(tables: Sequence[ResultTable], style: Format) -> str:
    """All tables in one format; of CSV, the first that has rows."""
    if style == "json":
        return json.dumps([_json_table(table) for table in tables], indent=2)
    if style == "csv":
        return next((_csv_text(table) for table in tables if len(table.rows)), "")
    return "\n\n".join(_text(table, style) for table in tables)


def _text(table: ResultTable, style: Format) -> str:
    """Title, table and notes; columns with one value in all rows stand in a line above the table, long texts below it."""
    table = replace(table, rows=for_people(table.rows))
    columns = _merge_intervals(table.rows, display_columns(table))
    common = {name: cells[0] for name, cells in columns.items() if len(cells) > 1 and len(set(cells)) == 1}
    varied = {name: cells for name, cells in columns.items() if name not in common and any(cells)}
    shared = ", ".join(_with_unit(label, text) for label, text in common.items() if text and label not in ("rank", "knee"))
    long = {} if style == "markdown" else {name: cells for name, cells in varied.items() if max(map(len, cells)) > MAX_CELL}
    short = {name: cells for name, cells in varied.items() if name not in long}
    rows = [dict(zip(short, cells, strict=True)) for cells in zip(*short.values(), strict=True)]
    if style == "markdown":
        parts = [f"**{table.title}**", shared, _markdown(rows), *table.notes]
        return "\n\n".join(filter(None, parts))
    notes = [fill(note, LINE, subsequent_indent="  ") for note in table.notes]
    first = [fill(f"{name} of the first row: {cells[0]}", LINE, subsequent_indent="  ") for name, cells in long.items()]
    return "\n".join(filter(None, [table.title, fill(shared, LINE), format_narrow_table(rows), *first, *notes]))


def _with_unit(label: str, text: str) -> str:
    """'area [mm^2]' and '826' as 'area 826 mm^2'."""
    name, _, unit = label.partition(" [")
    return f"{name} {text} {unit.removesuffix(']')}".rstrip()


def _markdown(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _csv_text(table: ResultTable) -> str:
    """CSV with one number a cell, six digits, in the unit that the head of the column names."""
    frame = pd.DataFrame(dict(map(partial(_numbers, table), map(str, table.rows.columns))))
    return frame.to_csv(index=False, float_format="%.6g").removesuffix("\n")


def _numbers(table: ResultTable, name: str) -> tuple[str, np.ndarray]:
    """Head and values of a column, converted if they are a result."""
    values = table.rows[name].to_numpy()
    if values.dtype.kind != "f":
        return name, values
    unit = _unit(name, table)
    return unit.label(name), unit.convert(values)


def _json_table(table: ResultTable) -> dict[str, object]:
    rows = [{str(name): _json_value(value) for name, value in row.items()} for row in table.rows.to_dict("records")]
    return {
        "title": table.title,
        "units": {name: table.units.get(name, "1") for name in table.rows},
        "rows": rows,
        "notes": list(table.notes),
    }


def _json_value(value: object) -> object:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def for_people(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with one column `variant` for method, pattern and sparsity, without labels that no reader needs."""
    shown = rows.copy()
    if len(rows) and {"method", "pattern", "nominal_sparsity"} <= set(rows):
        texts = [_variant_text(*row) for row in zip(rows.method, rows.pattern, rows.nominal_sparsity, strict=True)]
        shown.insert(list(rows).index("method"), "variant", texts)
    if "fits" in rows and rows.fits.isin([True, "unknown"]).all():
        shown = shown.drop(columns="fits")
    hidden = [name for name in shown if name in HIDDEN or str(name).startswith("dense_latency") or _is_repeated(rows, str(name))]
    shown = shown.drop(columns=hidden)
    shown.attrs = dict(rows.attrs)
    return shown


def _is_repeated(rows: pd.DataFrame, name: str) -> bool:
    """Whether a column is a bound of a result that equals the result in all rows."""
    result = name.removesuffix("_bound")
    return result != name and result in rows and bool((rows[name] == rows[result]).all())


def _variant_text(method: str, pattern: str, sparsity: float) -> str:
    """'magnitude_pruning unstructured 90%', or 'dense'."""
    name = " ".join(dict.fromkeys([method, pattern]))
    return name if method == "dense" else f"{name} {100 * sparsity:.3g}%"


def display_columns(table: ResultTable) -> dict[str, Column]:
    """The columns as text, by a head with the unit: `area [mm^2]`. An interval has the unit of its result."""
    columns = dict[str, Column]()
    for name in map(str, table.rows.columns):
        label, column = _column(name, table)
        columns[label] = column
    return columns


def _column(name: str, table: ResultTable) -> tuple[str, Column]:
    values, label = table.rows[name], LABELS.get(name) or (name if "." in name else name.replace("_", " "))
    if values.dtype.kind == "b":
        return label, ["yes" if value else "no" for value in values]
    if values.dtype.kind not in "if":
        return label, [{True: "yes", False: "no"}.get(value, str(value)) for value in values.tolist()]
    if name in SHARES:
        return label, [f"{100 * value:.3g}%" if value == value else "" for value in values]
    if values.dtype.kind == "i":
        return label, [str(value) for value in values]
    unit = _unit(name, table)
    return unit.label(label), [format_number(value) for value in unit.convert(values.to_numpy(float)).tolist()]


def _unit(name: str, table: ResultTable) -> DisplayUnit:
    """The unit of a column; an interval has that of its result."""
    results = (name.removesuffix(ending) for ending in INTERVALS if name.endswith(ending))
    base = next((result for result in results if result in table.rows), name)
    return select_unit(table.units.get(name, "1"), table.rows[base].to_numpy(float))


def _merge_intervals(rows: pd.DataFrame, columns: dict[str, Column]) -> dict[str, Column]:
    """The columns with each interval behind its result: '1.32 (1.2 - 1.4)'. A single bound is kept as a column."""
    labels = dict(zip(map(str, rows.columns), columns, strict=True))
    merged = dict(columns)
    for name, label in labels.items():
        low, high = labels.get(f"{name}_low"), labels.get(f"{name}_high")
        if low is not None and high is not None:
            triples = zip(columns[label], columns[low], columns[high], strict=True)
            merged[label] = [value if least in ("", most) else f"{value} ({least} - {most})" for value, least, most in triples]
            del merged[low], merged[high]
    return merged
