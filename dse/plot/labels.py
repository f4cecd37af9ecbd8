"""Place text labels next to data points so that they cover neither each other nor the curves."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

MAX_LABELS = 200
OFFSETS = (  # points, the preferred ones first
    (5, 3), (5, -8), (-5, 3), (-5, -8), (0, 6), (0, -11), (7, -2), (-7, -2)
)  # fmt: skip
LEADER_DISTANCES = (14, 20, 27, 36, 46)  # points from a data point to its label, where a line connects both
LEADER_OFFSETS = tuple(
    (round(distance * math.cos(angle), 1), round(distance * math.sin(angle), 1))
    for distance in LEADER_DISTANCES
    for angle in np.linspace(0, 2 * math.pi, 16, endpoint=False) + math.pi / 16
)
LEADER_GAP = 4  # points between a label with a line and other points of the same colour, whose label it could seem to be
DISTANCE_COST = 0.6  # of a point of distance: a nearer label is better
REJECTED = 100  # cost from which a position is not used
MARKER_COST = 10
NEAR = 0.05  # of the range of x: points that can share a label
MARKER_RADIUS = 3  # points
GREY = "#888888"
HALO = withStroke(linewidth=1.2, foreground="white")  # keeps a label readable on a curve or a cloud

Positions = Float[np.ndarray, "point 2"]  # in display coordinates (pixels)


@dataclass(frozen=True)
class Label:
    """A text for the data point (x, y)."""

    x: float
    y: float
    text: str
    colour: str


def share_labels(labels: Sequence[Label]) -> list[Label]:
    """One grey label for all points of about the same x that have the same text, at the highest of them."""
    width = NEAR * (max(label.x for label in labels) - min(label.x for label in labels))
    shared: list[list[Label]] = []
    for label in sorted(labels, key=lambda label: (label.text, label.x)):
        if shared and shared[-1][0].text == label.text and label.x - shared[-1][0].x <= width:
            shared[-1].append(label)
        else:
            shared.append([label])
    highest = [max(group, key=lambda label: label.y) for group in shared]
    return [label if len(group) == 1 else replace(label, colour=GREY) for label, group in zip(highest, shared, strict=True)]


def place_labels(ax: Axes, labels: Sequence[Label], size: float = 6.0, leaders: bool = False) -> list[Annotation]:
    """Write each label next to its point, at the position that covers least of the curves, markers and other labels.

    With `leaders`, a label that is not next to its point is connected to it by a line, and may be farther away.
    A label is left out where every position covers another label, leaves the axes or is about as near to another point of the
    same colour; the CSV file of the figure has every value. Of more than `MAX_LABELS` labels, as many evenly spaced ones are tried.
    The layout of the figure must be settled.
    """
    scale = ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    colours = np.array([label.colour for label in labels])
    points = ax.transData.transform([(label.x, label.y) for label in labels] or np.empty((0, 2)))
    markers, curves = _markers(ax), _curves(ax)
    offsets = OFFSETS + LEADER_OFFSETS * leaders
    used: list[Bbox] = []
    annotations: list[Annotation] = []
    for label in labels[:: -(-len(labels) // MAX_LABELS) or 1]:
        x, y = ax.transData.transform((label.x, label.y))
        if not ax.bbox.contains(x, y):
            continue
        boxes = [_box(x + scale * dx, y + scale * dy, dx, label.text, size * scale) for dx, dy in offsets]
        own_curve = points[colours == label.colour]
        costs = [
            REJECTED * sum(box.overlaps(other) for other in used)
            + REJECTED * (not (ax.bbox.contains(*box.min) and ax.bbox.contains(*box.max)))
            + REJECTED * (number < len(OFFSETS) and _is_ambiguous(box, (x, y), own_curve, MARKER_RADIUS * scale))
            + REJECTED * bool(number >= len(OFFSETS) and box.padded(LEADER_GAP * scale).count_contains(own_curve))
            + DISTANCE_COST * math.hypot(*offset) * leaders
            + MARKER_COST * box.padded(MARKER_RADIUS * scale).count_contains(markers)
            + box.count_contains(curves)
            for number, (box, offset) in enumerate(zip(boxes, offsets, strict=True))
        ]
        best = int(np.argmin(costs))
        if costs[best] < REJECTED:
            used.append(boxes[best])
            annotations.append(_annotate(ax, label, offsets[best], size, has_line=best >= len(OFFSETS)))
    return annotations


def _annotate(ax: Axes, label: Label, offset: tuple[float, float], size: float, has_line: bool) -> Annotation:
    place: dict[str, Any] = {"xytext": offset, "textcoords": "offset points", "ha": _alignment(offset[0]), "path_effects": [HALO]}
    if has_line:
        place["arrowprops"] = {"arrowstyle": "-", "linewidth": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 2}
    return ax.annotate(label.text, (label.x, label.y), fontsize=size, color=label.colour, zorder=5, **place)


def _is_ambiguous(box: Bbox, point: tuple[float, float], curve: Positions, marker_radius: float) -> bool:
    """Whether a reader could take the label for that of another point of the same curve, because that one is about as near."""
    centre = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
    others = curve[np.linalg.norm(curve - np.array(point), axis=1) > marker_radius]
    distance = float(np.linalg.norm(np.array(point) - centre))
    return bool((np.linalg.norm(others - centre, axis=1) < 1.05 * distance).any())


def _alignment(dx: float) -> str:
    return "center" if dx == 0 else "left" if dx > 0 else "right"


def _box(x: float, y: float, dx: float, text: str, height: float) -> Bbox:
    width = 0.72 * height * len(text)  # an upper estimate: measuring each text would need a renderer
    left = {"left": x, "right": x - width, "center": x - width / 2}[_alignment(dx)]
    return Bbox.from_bounds(left, y - 0.2 * height, width, 1.2 * height)


def _curves(ax: Axes) -> Positions:
    """Points along every line, close enough together that no label fits between two of them, and every point of a scatter plot."""
    lines = [_sample(line) for line in ax.lines]
    clouds = [collection.get_offset_transform().transform(collection.get_offsets()) for collection in ax.collections]
    return np.concatenate([*lines, *(np.asarray(cloud) for cloud in clouds), np.empty((0, 2))])


def _sample(line: Line2D) -> Positions:
    points = _positions(line)
    if line.get_linestyle() in ("None", "none") or len(points) < 2:
        return points
    steps = np.linspace(0, 1, 40)[:, None]
    return np.concatenate([start + steps * (end - start) for start, end in itertools.pairwise(points)])


def _markers(ax: Axes) -> Positions:
    return np.concatenate([*(_positions(line) for line in ax.lines if line.get_marker() not in ("None", "none", ",")), np.empty((0, 2))])


def _positions(line: Line2D) -> Positions:
    return line.get_transform().transform(np.column_stack(line.get_data()).astype(float))
