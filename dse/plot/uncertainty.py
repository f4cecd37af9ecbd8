"""How figures show uncertainty: intervals of accuracies, estimated or assumed ones, the probability of a speedup above one."""

import numpy as np
from jaxtyping import Bool
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dse.plot.selection import Table
from dse.plot.style import CurveStyle

UNCERTAIN_RESULTS = ("accuracy", "accuracy_drop")


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
    estimated = rows[_is_hollow(rows, x, y)]
    if len(estimated):
        look = {"marker": style["marker"], "markersize": size, "markeredgecolor": style["color"], "markerfacecolor": "white"}
        ax.plot(estimated[x], estimated[y], linestyle="none", zorder=3.5, **look)


def _is_hollow(rows: Table, x: str, y: str) -> Bool[np.ndarray, " row"]:
    """Whether the marker of each row is hollow: its accuracy is estimated or assumed, and shown."""
    if "faster_probability" in rows or not {x, y} & set(UNCERTAIN_RESULTS):
        return np.zeros(len(rows), bool)
    return rows.accuracy_kind.astype(str).str.contains("estimated|assumed").to_numpy(bool)


def legend_marker(rows: Table, x: str, y: str) -> CurveStyle:
    """Hollow markers of a curve all of whose markers are hollow, so that its entry in the legend is hollow, too."""
    return {"markerfacecolor": "white"} if len(rows) and _is_hollow(rows, x, y).all() else {}


def accuracy_note(rows: Table) -> str:
    """Explains the error bars of accuracies and the hollow markers, where there are any."""
    intervals = "vertical bars: 90% intervals of the accuracies" * ("accuracy_low" in rows and bool(np.isfinite(rows.accuracy_low).any()))
    is_marked = "accuracy_kind" in rows and "faster_probability" not in rows
    kinds = [kind for kind in ("estimated", "assumed") if is_marked and rows.accuracy_kind.astype(str).str.contains(kind).any()]
    return "; ".join(filter(None, [intervals, f"hollow: the accuracy is {' or '.join(kinds)}" if kinds else ""]))
