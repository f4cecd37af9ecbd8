"""What the figures share: colours, panels, the choice of one design, the note at the foot."""

import itertools
import json
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from dse.base.errors import InputError

# Okabe and Ito's palette, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
GREY = "#777777"

Rows = Any  # a pandas.DataFrame: its type stubs lose track of selections
Share = Literal["all", "col"]
Looks = dict[Any, Any]  # (method, pattern) to keywords of a line


def panels(
    rows: Sequence[str], columns: Sequence[str], width: float = 3.6, height: float = 3.1, sharex: Share = "all", sharey: bool = True
) -> tuple[Figure, np.ndarray]:
    """A grid of axes that share their limits, with a title on each."""
    figure = Figure(figsize=(max(width * len(columns), 5.0), height * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), sharex=sharex, sharey=sharey, squeeze=False)
    for row, line in zip(rows, axes, strict=True):
        for column, ax in zip(columns, line, strict=True):
            ax.set_title(_title(row, column, int(12 * width)), fontsize=9)
            plain(ax)
    return figure, axes


def _title(row: str, column: str, width: int) -> str:
    """Both names in one line, if it is no longer than the panel is wide, else each in lines of its own."""
    if len(row) + len(column) + 2 <= width:
        return ", ".join(filter(None, [row, column]))
    return "\n".join(wrapped(name, width) for name in (row, column) if name)


def plain(ax: Axes) -> None:
    """The look of every panel."""
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def label_edges(axes: np.ndarray, x: str, y: str) -> None:
    for ax in axes[-1]:
        ax.set_xlabel(x, fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel(y, fontsize=9)


def looks(rows: Rows) -> Looks:
    """Colour, marker and line of each (method, pattern): one for the whole figure, so that its legend holds in every panel."""
    pairs = dict.fromkeys(zip(rows.method, rows.pattern, strict=True))
    return {
        pair: {"color": COLOURS[n % 7], "marker": MARKERS[n % 7 if n < 7 else (n + n // 7) % 7], "linestyle": LINES[n // 7 % 3]}
        for n, pair in enumerate(pairs)
    }


def wrapped(text: str, width: int) -> str:
    """Text in lines of at most so many characters, broken after a space, an underscore, a hyphen or a slash, else anywhere."""
    lines = [""]
    for part in re.findall(r"[^ _/-]*[ _/-]|[^ _/-]+", text):
        if len(lines[-1]) + len(part.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    pieces = (line[start : start + width] for line in lines for start in range(0, max(len(line.rstrip()), 1), width))
    return "\n".join(piece.rstrip() for piece in pieces)


def finish(figure: Figure, axes: np.ndarray, dataset: xr.Dataset, *remarks: str) -> None:
    """One legend for all panels; above it what a reader must know to judge the figure."""
    unverified = [f"{name} {path}" for name, paths in json.loads(dataset.attrs.get("unverified", "{}")).items() for path in paths]
    note = "; ".join(filter(None, [*remarks, "unverified: " + ", ".join(unverified) if unverified else ""]))
    handles = {label: handle for ax in np.ravel(axes) for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    widest = 0.5 + 0.075 * max(map(len, handles), default=1)  # inches of an entry at 8 points
    columns = max(1, min(int(figure.get_figwidth() / widest), len(handles)))
    title = textwrap.wrap(note, int(14 * figure.get_figwidth()))
    below = 0.19 * (math.ceil(len(handles) / columns) + len(title)) + 0.2
    figure.set_figheight(figure.get_figheight() + below)  # the legend grows the figure, not into the panels
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False,
        title="\n".join(title), title_fontsize=7,
    )  # fmt: skip
    figure.draw_without_rendering()  # settles the layout, on which the labels below depend


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    colour: str


_OFFSETS = [(5, 3), (5, -8), (-5, 3), (-5, -8), (0, 6), (0, -11), (9, -2), (-9, -2), (8, 9), (-8, 9), (8, -14), (-8, -14)]


MOST_LABELS = 200


def place_labels(ax: Axes, labels: Sequence[Label], size: float = 6.0) -> list[Any]:
    """Write each label beside its point, where it covers least of the lines, points and labels there already.

    A label that would cover another one, leave the axes or seem another point's is left out: the CSV beside the figure has every value.
    Of more than `MOST_LABELS` labels, only as many are tried, evenly spaced.
    """
    scale = ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    colours = np.array([label.colour for label in labels])
    lines = np.concatenate([_sampled(ax, line) for line in ax.lines] or [np.empty((0, 2))])
    points = ax.transData.transform([(label.x, label.y) for label in labels] or np.empty((0, 2)))
    taken: list[Bbox] = []
    artists: list[Any] = []
    for label in labels[:: -(-len(labels) // MOST_LABELS) or 1]:
        x, y = ax.transData.transform((label.x, label.y))
        if not ax.bbox.contains(x, y):
            continue
        boxes = [_box(x + scale * dx, y + scale * dy, dx, label.text, size * scale) for dx, dy in _OFFSETS]
        costs = [
            100 * sum(box.overlaps(other) for other in taken)
            + 10 * box.padded(3 * scale).count_contains(points)  # markers have a size
            + 100 * (not (ax.bbox.contains(*box.min) and ax.bbox.contains(*box.max)))
            + 100 * _belongs_elsewhere(box, (x, y), points[colours == label.colour])
            + box.count_contains(lines)
            for box in boxes
        ]
        best = int(np.argmin(costs))
        if costs[best] >= 100:
            continue
        taken.append(boxes[best])
        place = {"xytext": _OFFSETS[best], "textcoords": "offset points", "fontsize": size, "color": label.colour}
        artists.append(ax.annotate(label.text, (label.x, label.y), ha=_side(_OFFSETS[best][0]), **place))
    return artists


def _belongs_elsewhere(box: Bbox, point: tuple[float, float], curve: np.ndarray) -> bool:
    """Whether a reader would take the label for that of another point of the same curve."""
    centre = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
    return bool(np.linalg.norm(curve - centre, axis=1).min() < 0.99 * np.linalg.norm(np.array(point) - centre))


def _side(dx: float) -> str:
    return "center" if dx == 0 else "left" if dx > 0 else "right"


def _box(x: float, y: float, dx: float, text: str, height: float) -> Bbox:
    width = 0.72 * height * len(text)  # a generous guess: measuring each text would need a renderer
    left = {"left": x, "right": x - width, "center": x - width / 2}[_side(dx)]
    return Bbox.from_bounds(left, y - 0.2 * height, width, 1.2 * height)


def _sampled(ax: Axes, line: Any) -> np.ndarray:
    """Points along a drawn line, in display coordinates, close enough together that a label can't slip between."""
    points = line.get_transform().transform(np.column_stack(line.get_data()).astype(float))
    if line.get_linestyle() in ("None", "none") or len(points) < 2:
        return points
    steps = np.linspace(0, 1, 40)[:, None]
    return np.concatenate([a + steps * (b - a) for a, b in itertools.pairwise(points)])


def one_design(dataset: xr.Dataset, *but: str) -> tuple[xr.Dataset, str]:
    """The dataset with every swept axis (`but` some) at its first value, and a remark that says so."""
    labels = ("accelerator", "batch", "dtype", "variant")
    dataset = dataset.expand_dims([dim for dim in labels if dim in dataset.coords and dim not in dataset.dims])
    kept = {*labels, *but, "resource", "execution"}
    axes = [str(dim) for dim in dataset.dims if dim not in kept]
    chosen = dataset.isel(dict.fromkeys(axes, 0))
    single = [str(name) for name in chosen.coords if "." in str(name) and name not in but]  # dotted paths: the axes
    return chosen, "; ".join(f"{axis} at {_shown(chosen[axis])}" for axis in single)


def _shown(coordinate: xr.DataArray) -> str:
    value, unit = coordinate.item(), coordinate.attrs.get("units", "1")
    return f"{value:.4g} {unit}".removesuffix(" 1") if isinstance(value, float) else str(value)


def speedups(dataset: xr.Dataset) -> pd.DataFrame:
    """One row for each accelerator, batch, dtype and variant: speedup and latencies, beside what the variant is."""
    if "speedup" not in dataset:
        raise InputError("the dataset has no speedup", "add it to 'store: {variables: [...]}' and sweep again")
    wanted = [name for name in ("speedup", "speedup_low", "speedup_high", "latency", "dense_latency") if name in dataset]
    kept = dataset[wanted].drop_vars(["resource", "execution"], errors="ignore")
    return kept.to_dataframe().reset_index()


def kind_name(method: str, pattern: str) -> str:
    """How a network was pruned, for a legend."""
    return method if method == pattern else f"{method.replace('_', ' ')}, {pattern}"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%"
