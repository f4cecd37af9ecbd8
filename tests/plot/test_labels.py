"""Labels of points."""

import time

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from dse.plot import style
from dse.plot.labels import GREY, MAX_LABELS, Label, place_labels, share_labels


def test_labels_do_not_cover_each_other():
    figure, axes = style.create_panels(["a"], ["b"])
    (ax,) = axes.flat
    ax.plot([0, 1], [0, 1])
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    labels = [Label(0.5 + 0.001 * n, 0.5, "90%", "black") for n in range(5)]
    placed = place_labels(ax, labels)
    boxes = [text.get_window_extent(renderer) for text in placed]
    assert len(placed) >= 3
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


def test_labels_of_thousands_of_points_are_placed_in_seconds():
    """A front of thousands of designs took minutes: each label was compared with every point."""
    _, axes = style.create_panels(["a"], ["b"], width=8, height=8)
    points = np.random.default_rng(0).random((4000, 2))
    began = time.process_time()
    placed = place_labels(axes[0, 0], [Label(x, y, "90%", "black") for x, y in points])
    assert time.process_time() - began < 12
    assert len(placed) <= MAX_LABELS


def test_crowded_labels_stand_apart_with_a_line_to_their_point():
    figure, axes = style.create_panels(["a"], ["b"], width=8, height=6)
    (ax,) = axes.flat
    renderer = FigureCanvasAgg(figure).get_renderer()
    ax.plot([0, 1], [0, 1])
    figure.draw_without_rendering()
    labels = [Label(0.5 + 0.004 * n, 0.5, f"device-{n}", "black") for n in range(12)]
    near, apart = place_labels(ax, labels), place_labels(ax, labels, leaders=True)
    assert len(near) < len(apart) == 12
    assert any(text.arrow_patch is not None for text in apart)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text, renderer) for text in apart]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


def test_near_points_with_the_same_text_share_one_label():
    points = [
        Label(0.0, 1.0, "50%", "red"),
        Label(10.0, 4.0, "75%", "red"),
        Label(10.4, 5.0, "75%", "blue"),
        Label(10.0, 3.0, "90%", "red"),
    ]
    assert share_labels(points) == [points[0], Label(10.4, 5.0, "75%", GREY), points[3]]
    assert share_labels([points[0], Label(9.0, 1.0, "50%", "red")]) == [points[0], Label(9.0, 1.0, "50%", "red")]
