"""Look of every figure: colours, grids of panels, titles, the legend and the notes at the foot.

No global matplotlib style is changed and pyplot is not imported.
"""

import itertools
import json
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, NullFormatter

from dse.base.display_units import DisplayUnit, format_number
from dse.base.errors import InputError
from dse.plot.selection import Table
from dse.workload import Variant

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito: safe for colour-blind readers
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
GREY = "#777777"
EQUAL = 0.005  # relative difference of the values of two curves that look like one
MAX_WIDTH = 22.0  # inches, of a figure
MAX_LEGEND_ROWS, WIDE = 14, 14.0  # a figure with a longer legend is widened, up to so many inches
MAX_DOWN = 4  # rows of panels up to which a single column stays one
MAX_PANELS = 120
MAX_AXIS_CHARACTERS = 44  # of an axis label, on one line
MIN_TICKS, MAX_DECADES = 3, 8  # labelled ticks of a logarithmic axis, and powers of ten among them
MIN_DECADES = {"x": 3, "y": 4}  # powers of ten in view from which these alone are ticks: on a y axis there is room for more
MULTIPLES = ((1, 2, 5), (1, 1.5, 2, 3, 5, 7))  # of powers of ten, which are ticks where there are few of these
DENSE_BASELINE = "dense baseline"
REFERENCE = "reference"  # gid of the artists that draw no data

Share = Literal["all", "row", "col", "none"]
CurveStyle = dict[str, Any]  # keyword arguments of Axes.plot
NO_LINE: CurveStyle = {"linestyle": "none"}  # markers only
CurveStyles = dict[object, CurveStyle]  # by (method, pattern)
AxesGrid = Any  # numpy array of Axes [row, column]


def create_panels(
    rows: Sequence[str],
    columns: Sequence[str],
    width: float = 3.6,
    height: float = 3.1,
    sharex: Share = "all",
    sharey: Share = "all",
    label_width: float = 0.0,
) -> tuple[Figure, AxesGrid]:
    """A figure with a titled panel for each row and column, each `width` x `height` inches, of which tick labels take `label_width`.

    Columns that do not fit `MAX_WIDTH` continue below all rows; of more than `MAX_DOWN` rows, several stand side by side, and share no y
    axis that is shared by row. Returns the axes [row, column]. Raises InputError for more than `MAX_PANELS` panels.
    """
    if len(rows) * len(columns) > MAX_PANELS:
        message = f"the figure has {len(rows) * len(columns)} panels, {len(rows)} x {len(columns)}; at most {MAX_PANELS} can be read"
        raise InputError(message, "select some, as in '--select batch=32'")
    widest = max(int(MAX_WIDTH / width), 1)
    blocks = -(-len(columns) // widest)  # of columns, one below the other
    across = -(-len(columns) // blocks)
    side_by_side = max(min(widest // across, -(-len(rows) // MAX_DOWN)), 1) if blocks == 1 else 1
    down = -(-len(rows) // side_by_side) * blocks
    figure = Figure(figsize=(max(width * across * side_by_side, 5.0), height * down), layout="constrained")
    sharey = "none" if sharey == "row" and side_by_side > 1 else sharey
    grid = figure.subplots(down, across * side_by_side, sharex=sharex, sharey=sharey, squeeze=False)
    axes = np.empty((len(rows), len(columns)), object)
    for row, column in itertools.product(range(len(rows)), range(len(columns))):
        block, position = divmod(column, across)
        axes[row, column] = grid[block * len(rows) + row // side_by_side, row % side_by_side * across + position]
        axes[row, column].set_title(_title(rows[row], columns[column], int(12 * (width - label_width))), fontsize=9)
        set_panel_style(axes[row, column])
    for ax in set(grid.flat) - set(axes.flat):
        ax.remove()
    for ax in _lowest_panels(axes):
        ax.tick_params(labelbottom=True)
    return figure, axes


def _lowest_panels(axes: AxesGrid) -> set[Axes]:
    """The panels of the last row, and the lowest of each column of the grid."""
    ordered = sorted(axes.flat, key=lambda ax: ax.get_subplotspec().rowspan.start)
    return {*axes[-1], *{ax.get_subplotspec().colspan.start: ax for ax in ordered}.values()}


def _title(row: str, column: str, width: int) -> str:
    """Both names on one line of at most `width` characters, or each on lines of its own."""
    if len(row) + len(column) + 2 <= width:
        return ", ".join(filter(None, [row, column]))
    return "\n".join(wrap_name(name, width) for name in (row, column) if name)


def set_panel_style(ax: Axes) -> None:
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def label_edges(axes: AxesGrid, x: str, y: str) -> None:
    """Label the x axes of the lowest panels and the y axes at the left edge."""
    for ax in _lowest_panels(axes):
        ax.set_xlabel(x, fontsize=9)
    for ax in axes.flat:
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(y, fontsize=9)


def set_axis_unit(axis: Axis, name: str, unit: DisplayUnit) -> None:
    """Label an axis whose data are in SI units, and its ticks, in a unit that people use."""
    axis.set_label_text(wrap_name(unit.label(name), MAX_AXIS_CHARACTERS), fontsize=9)
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value / unit.size, 6)))
    if axis.get_scale() == "log":
        set_log_ticks(axis, unit.size)


def set_log_ticks(axis: Axis, unit_size: float = 1.0) -> None:
    """Ticks of a logarithmic axis whose data are `unit_size` times the numbers at its ticks; minor ticks have no label."""
    axis.set_major_locator(LogTickLocator(unit_size))
    axis.set_minor_formatter(NullFormatter())


class LogTickLocator(Locator):
    """Powers of ten where at least three (of a y axis four) are in view; else also some multiples of them; else other round numbers.

    So every axis has two labelled ticks or more, and no multiple of a power of ten is a tick unless a power of ten is in view.
    """

    def __init__(self, unit_size: float = 1.0):
        self.unit_size = unit_size

    def __call__(self) -> list[float]:
        assert self.axis is not None
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        low, high = min(vmin, vmax) / self.unit_size, max(vmin, vmax) / self.unit_size
        if low <= 0 or not np.isfinite(high):
            return []
        low, high = low * (1 - 1e-9), high * (1 + 1e-9)
        decades = 10.0 ** np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        if len(decades) >= MIN_DECADES[getattr(self.axis, "axis_name", "x")]:
            return [float(tick) * self.unit_size for tick in decades[:: -(-len(decades) // MAX_DECADES)]]
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        candidates = [np.outer(powers, multiples).ravel() for multiples in MULTIPLES if len(decades)]
        candidates = [*candidates, MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]
        in_view = [ticks[(ticks >= low) & (ticks <= high)] for ticks in candidates]
        return [float(tick) * self.unit_size for tick in next((ticks for ticks in in_view if len(ticks) >= MIN_TICKS), in_view[-1])]


def numbered_style(number: int) -> CurveStyle:
    """Colour, marker and line of the curve with a number from 0: seven differ in all but the line, 49 in colour or marker."""
    cycle = number // len(COLOURS)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + cycle) % len(MARKERS)],
        "linestyle": LINES[cycle % len(LINES)],
    }


def curve_styles(rows: Table) -> CurveStyles:
    """Colour, marker and line of each (method, pattern), the same in every panel; styles are given in the order of rows."""
    pairs = dict.fromkeys(zip(rows.method, rows.pattern, strict=True))
    return {pair: numbered_style(number) for number, pair in enumerate(pairs)}


def merge_equal_curves(rows: Table, name: str, positions: Sequence[str], y: str) -> Table:
    """The rows with one curve, under both names, for curves that no eye can distinguish; `name` is the column that names curves.

    Such curves have points at the same positions, and y differs by at most `EQUAL` of itself.
    """
    equal: list[tuple[pd.Series, list[str]]] = []
    for curve, points in rows.groupby(name, sort=False):
        values = points.set_index(list(positions))[y].sort_index()
        same = (names for other, names in equal if other.index.equals(values.index) and np.allclose(other, values, rtol=EQUAL, atol=0))
        if (names := next(same, None)) is not None:
            names.append(str(curve))
        else:
            equal.append((values, [str(curve)]))
    joined = {names[0]: _join_names(names) for _, names in equal}
    return rows[rows[name].isin(joined)].assign(**{name: lambda shown: shown[name].map(joined)})


def _join_names(names: Sequence[str]) -> str:
    """'deit-b, 2:4 or 1:2': the names, without the words with which all begin but in the first."""
    words = [name.split(" ") for name in names]
    common = next((n for n, each in enumerate(zip(*words, strict=False)) if len(set(each)) > 1), 0)
    return " or ".join([names[0], *(" ".join(each[common:]) for each in words[1:])])


def nested_marker(number: int, count: int) -> CurveStyle:
    """Hollow marker and line of one of `count` curves: smaller and thinner than those of the curves before, which it may cover."""
    size = min(2.5 + 1.1 * (count - number), 9)
    return {"markersize": size, "markerfacecolor": "none", "linewidth": size / 5}


def wrap_name(text: str, width: int) -> str:
    """Text in lines of at most `width` characters, broken after a space, underscore, hyphen or slash, else anywhere."""
    lines = [""]
    for part in re.findall(r"[^ _/-]*[ _/-]|[^ _/-]+", text):
        if len(lines[-1]) + len(part.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    chunks = (line[start : start + width] for line in lines for start in range(0, max(len(line.rstrip()), 1), width))
    return "\n".join(chunk.rstrip() for chunk in chunks)


def add_legend(figure: Figure, axes: Iterable[Axes], *notes: str) -> None:
    """Add one legend for all panels below them, with the notes above it, and settle the layout (labels are placed after that)."""
    unique = {
        label: handle for ax in np.ravel(np.asarray(axes, object)) for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    handles = dict(sorted(unique.items(), key=lambda item: item[1].get_gid() == REFERENCE))  # the reference lines last
    entry_width = 0.5 + 0.065 * max(map(len, handles), default=1)  # inches, at 8 points
    widest = max(figure.get_figwidth(), min(entry_width * -(-len(handles) // MAX_LEGEND_ROWS), WIDE))
    figure.set_figwidth(widest)
    columns = max(1, min(int(widest / entry_width), len(handles)))
    lines = textwrap.wrap("; ".join(filter(None, notes)), int(14 * figure.get_figwidth()), break_on_hyphens=False)
    rows = math.ceil(len(handles) / columns) + len(lines)
    figure.set_figheight(figure.get_figheight() + 0.19 * rows + 0.2)  # the panels keep their height
    legend = figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False,
        title="\n".join(lines), title_fontsize=7,
    )  # fmt: skip
    legend.get_title().set_multialignment("center")
    figure.draw_without_rendering()


def unverified_note(dataset: xr.Dataset) -> str:
    """Names the numbers that the model used but that were not read at their source."""
    unverified: dict[str, list[str]] = json.loads(dataset.attrs.get("unverified", "{}"))
    listed = "; ".join(f"{name} {', '.join(_grouped(paths))}" for name, paths in unverified.items())
    return f"not verified at the source: {listed}" if listed else ""


def _grouped(paths: Sequence[str]) -> list[str]:
    """Merge dotted paths with the same parent: 'units.x.runs.{a, b}'."""
    groups = itertools.groupby(paths, key=lambda path: path.rpartition(".")[0])
    names = [(parent, [path.rpartition(".")[2] for path in members]) for parent, members in groups]
    return [f"{parent}.{{{', '.join(last)}}}" if len(last) > 1 else f"{parent}.{last[0]}".lstrip(".") for parent, last in names]


def variant_label(variant: Variant) -> str:
    """'dense', 'magnitude pruning unstructured 90%' or 'hypothetical 1:8'."""
    if variant.method == "dense":
        return "dense"
    pattern = f"{variant.pattern} {percent(variant.nominal_sparsity)}" if variant.pattern.density is None else str(variant.pattern)
    return f"{variant.method.replace('_', ' ')} {pattern}"


def curve_label(method: str, pattern: str) -> str:
    """'magnitude pruning, unstructured', for a legend."""
    return method if method == pattern else f"{method.replace('_', ' ')}, {pattern}"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%"
