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
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from dse.base.display_units import DisplayUnit, format_number
from dse.base.errors import InputError
from dse.plot.selection import Table
from dse.workload import Variant

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito: safe for colour-blind readers
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
GREY = "#777777"
MAX_WIDTH = 22.0  # inches, of a figure
MAX_LEGEND_ROWS, WIDE = 14, 14.0  # a figure with a longer legend is widened, up to so many inches
MAX_DOWN = 4  # rows of panels up to which a single column stays one
MAX_PANELS = 120
MAX_AXIS_CHARACTERS = 44  # of an axis label, on one line
DENSE_BASELINE = "dense baseline"
UNCERTAIN_RESULTS = ("accuracy", "accuracy_drop")
REFERENCE = "reference"  # gid of the artists that draw no data

Share = Literal["all", "col", "none"]
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
    sharey: bool = True,
    label_width: float = 0.0,
) -> tuple[Figure, AxesGrid]:
    """A figure with a titled panel for each row and column, each `width` x `height` inches, of which tick labels take `label_width`.

    Columns that do not fit `MAX_WIDTH` continue below all rows; of more than `MAX_DOWN` rows, several stand side by side. Returns the axes
    [row, column]. Raises InputError for more than `MAX_PANELS` panels.
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
        low, high = axis.get_view_interval()
        is_narrow, is_wide = high < 3 * low, high >= 50 * low
        axis.set_major_locator(MaxNLocator(4) if is_narrow else LogLocator(subs=(1,) if is_wide else (1, 2, 5)))
        axis.set_minor_formatter(NullFormatter())


def curve_styles(rows: Table) -> CurveStyles:
    """Colour, marker and line of each (method, pattern), the same in every panel."""
    pairs = dict.fromkeys(zip(rows.method, rows.pattern, strict=True))
    return {
        pair: {"color": COLOURS[n % 7], "marker": MARKERS[n % 7 if n < 7 else (n + n // 7) % 7], "linestyle": LINES[n // 7 % 3]}
        for n, pair in enumerate(pairs)
    }


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


def fill_by_probability(ax: Axes, x: ArrayLike, y: ArrayLike, probability: ArrayLike, style: CurveStyle, size: float) -> None:
    """Fill markers by the probability of a speedup above one: white at 50% and less, the full colour at 100%."""
    look = {"marker": style["marker"], "s": (0.75 * size) ** 2, "linewidths": 0, "zorder": 3}
    ax.scatter(x, y, facecolor="white", **look)
    ax.scatter(x, y, facecolor=style["color"], alpha=np.clip(2 * np.nan_to_num(probability) - 1, 0, 1), **look)


def probability_note(rows: Table) -> str:
    """Explains the filling of the markers, where there is a probability."""
    return "filling of a marker: probability that it is faster than dense, 50% (white) to 100%" if "faster_probability" in rows else ""


def mark_uncertain_accuracies(ax: Axes, rows: Table, x: str, y: str, style: CurveStyle, size: float) -> None:
    """Draw the intervals of accuracies as error bars, and estimated or assumed accuracies as hollow markers.

    `rows`: with the columns `x` and `y`, where there are intervals those with `_low` and `_high`, and `accuracy_kind`.
    """
    for name, draw_bars in ((x, ax.hlines), (y, ax.vlines)):
        if name in UNCERTAIN_RESULTS and f"{name}_low" in rows:
            known = rows[np.isfinite(rows[f"{name}_low"])]
            across = known[y if name == x else x]
            draw_bars(across, known[f"{name}_low"], known[f"{name}_high"], color=style["color"], linewidth=0.9, zorder=2)
    if {x, y} & set(UNCERTAIN_RESULTS) and "faster_probability" not in rows:
        estimated = rows[rows.accuracy_kind.astype(str).str.contains("estimated|assumed")]
        look = {"marker": style["marker"], "markersize": size, "markeredgecolor": style["color"], "markerfacecolor": "white"}
        ax.plot(estimated[x], estimated[y], linestyle="none", zorder=3.5, **look)


def accuracy_note(rows: Table) -> str:
    """Explains the error bars of accuracies and the hollow markers, where there are any."""
    intervals = "vertical bars: 90% intervals of the accuracies" * ("accuracy_low" in rows and bool(np.isfinite(rows.accuracy_low).any()))
    is_marked = "accuracy_kind" in rows and "faster_probability" not in rows
    kinds = [kind for kind in ("estimated", "assumed") if is_marked and rows.accuracy_kind.astype(str).str.contains(kind).any()]
    return "; ".join(filter(None, [intervals, f"hollow: the accuracy is {' or '.join(kinds)}" if kinds else ""]))


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
