"""A waterfall of an explanation: from the value of one side, through the part of every factor, to the value of the other side."""

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dse.explaining.explanation import Explanation
from dse.explaining.parts import Part, format_value
from dse.plot import style
from dse.plot.selection import Table

MAX_PARTS = 14  # bars between the two ends: smaller parts are summed
MIN_SHARE = 0.001  # of the larger end: a shorter bar cannot be seen, and is in the table alone
ROW_HEIGHT, WIDTH = 0.34, 8.0  # inches
TITLE_WIDTH = 104  # characters
MAX_NAME = 46  # characters of a line of a label
INCREASE, DECREASE, END = style.COLOURS[1], style.COLOURS[0], style.GREY


def draw_figure(explanation: Explanation) -> tuple[Figure, pd.DataFrame]:
    """The waterfall as horizontal bars, from top to bottom, and its table."""
    table = waterfall_table(explanation)
    shown: Table = table[
        (table.kind == "end") | ((table.end - table.start).abs() >= MIN_SHARE * table.end[table.kind == "end"].abs().max())
    ]
    labels = [style.wrap_name(name, MAX_NAME) for name in shown.label]
    lines = sum(1 + 0.45 * label.count("\n") for label in labels)
    title = textwrap.fill(explanation.sentence, TITLE_WIDTH, break_on_hyphens=False)
    figure = Figure(figsize=(WIDTH, ROW_HEIGHT * lines + 0.9 + 0.2 * (1 + title.count("\n"))), layout="constrained")
    ax = figure.subplots()
    unit = _unit_scale(explanation)
    colours = {"end": END, "increase": INCREASE, "decrease": DECREASE}
    rows = np.arange(len(shown))
    ax.barh(rows, (shown.end - shown.start) / unit, left=shown.start / unit, color=[colours[kind] for kind in shown.kind], height=0.66)
    for row, level in enumerate(shown.end[:-1]):
        ax.plot([level / unit] * 2, [row - 0.33, row + 1.33], color=END, linewidth=0.7)
    _write_values(ax, shown, explanation, unit)
    ax.set_yticks(rows, labels, fontsize=8)
    ax.set_ylim(len(rows) - 0.45, -0.55)
    style.set_panel_style(ax)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(_axis_label(explanation), fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    return figure, table


def waterfall_table(explanation: Explanation) -> pd.DataFrame:
    """Rows from one side to the other: `label`, `kind` (end, increase or decrease), and where the bar starts and ends, in SI units."""
    first = explanation.a if explanation.a.startswith("ideal") else f"A: {explanation.a}"
    rows = [(first, "end", 0.0, explanation.value_a)]
    level = explanation.value_a
    for label, value in _summed(explanation.parts):
        rows.append((label, "increase" if value > 0 else "decrease", level, level + value))
        level += value
    last = explanation.b if explanation.a.startswith("ideal") else f"B: {explanation.b}"
    rows.append((last, "end", 0.0, explanation.value_b))
    return pd.DataFrame(rows, columns=["label", "kind", "start", "end"])


def _summed(parts: tuple[Part, ...]) -> list[tuple[str, float]]:
    """Labels and values of the parts; the smallest of many as one."""
    shown = parts if len(parts) <= MAX_PARTS else parts[: MAX_PARTS - 1]
    listed = [(_label(part), part.value) for part in shown]
    rest = parts[len(shown) :]
    return [*listed, (f"{len(rest)} smaller parts", sum(part.value for part in rest))] if rest else listed


def _label(part: Part) -> str:
    return f"{part.label}: {part.a} to {part.b}" if part.a and part.b else part.label


def _unit_scale(explanation: Explanation) -> float:
    """Size of the unit on the axis, in SI units."""
    largest = max(abs(explanation.value_a), abs(explanation.value_b))
    number = format_value(largest, explanation.quantity, 15).rstrip("x").split()[0]
    return largest / float(number) if float(number) else 1.0


def _axis_label(explanation: Explanation) -> str:
    if explanation.quantity == "speedup":
        return "speedup over dense"
    largest = max(abs(explanation.value_a), abs(explanation.value_b))
    return f"{explanation.quantity} ({format_value(largest, explanation.quantity).split()[-1]})"


def _write_values(ax, table: pd.DataFrame, explanation: Explanation, unit: float) -> None:
    """The value of every bar at its right end."""
    right = np.maximum(table.start, table.end).to_numpy()
    for row, (kind, start, end) in enumerate(zip(table.kind, table.start, table.end, strict=True)):
        value = end - start if kind != "end" else end
        text = format_value(value, explanation.quantity, sign=kind != "end")
        ax.annotate(text, (right[row] / unit, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    lowest = min(0.0, float(np.minimum(table.start, table.end).min()))
    ax.set_xlim(lowest / unit * 1.12, right.max() / unit * 1.14)
