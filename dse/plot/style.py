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
from matplotlib.figure import Figure

from dse.plot.selection import Table
from dse.workload import Variant

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito: safe for colour-blind readers
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
GREY = "#777777"
MAX_WIDTH = 20.0  # inches, of a figure
DENSE_BASELINE = "dense baseline"
REFERENCE = "reference"  # gid of the artists that are no data

Share = Literal["all", "col"]
CurveStyle = dict[str, Any]  # keyword arguments of Axes.plot
NO_LINE: CurveStyle = {"linestyle": "none"}  # markers only
CurveStyles = dict[Any, CurveStyle]  # by (method, pattern)
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

    Columns that do not fit `MAX_WIDTH` continue below all rows. Returns the axes [row, column].
    """
    across = min(len(columns), max(int(MAX_WIDTH / width), 1))
    down = len(rows) * -(-len(columns) // across)
    figure = Figure(figsize=(max(width * across, 5.0), height * down), layout="constrained")
    grid = figure.subplots(down, across, sharex=sharex, sharey=sharey, squeeze=False)
    blocks = np.concatenate([grid[start : start + len(rows)] for start in range(0, down, len(rows))], axis=1)
    for ax in blocks[:, len(columns) :].flat:
        ax.remove()
    axes = blocks[:, : len(columns)]
    for row, line in zip(rows, axes, strict=True):
        for column, ax in zip(columns, line, strict=True):
            ax.set_title(_title(row, column, int(12 * (width - label_width))), fontsize=9)
            set_panel_style(ax)
    for ax in axes[-1]:
        ax.tick_params(labelbottom=True)
    return figure, axes


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
    """Label the x axes of the bottom row and the y axes at the left edge."""
    for ax in axes[-1]:
        ax.set_xlabel(x, fontsize=9)
    for ax in axes.flat:
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(y, fontsize=9)


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
    columns = max(1, min(int(figure.get_figwidth() / entry_width), len(handles)))
    lines = textwrap.wrap("; ".join(filter(None, notes)), int(14 * figure.get_figwidth()), break_on_hyphens=False)
    rows = math.ceil(len(handles) / columns) + len(lines)
    figure.set_figheight(figure.get_figheight() + 0.19 * rows + 0.2)  # the panels keep their height
    legend = figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False,
        title="\n".join(lines), title_fontsize=7,
    )  # fmt: skip
    legend.get_title().set_multialignment("center")
    figure.draw_without_rendering()


def fill_by_probability(ax: Axes, x: Any, y: Any, probability: Any, style: CurveStyle, size: float) -> None:
    """Fill markers by the probability of a speedup above one: white at 50% and less, the full colour at 100%."""
    look = {"marker": style["marker"], "s": (0.75 * size) ** 2, "linewidths": 0, "zorder": 3}
    ax.scatter(x, y, facecolor="white", **look)
    ax.scatter(x, y, facecolor=style["color"], alpha=np.clip(2 * np.nan_to_num(probability) - 1, 0, 1), **look)


def probability_note(rows: Table) -> str:
    """Explains the filling of the markers, where there is a probability."""
    return "filling of a marker: probability that it is faster than dense, 50% (white) to 100%" if "faster_probability" in rows else ""


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
