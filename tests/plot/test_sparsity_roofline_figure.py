"""Accuracy against speedup."""

import numpy as np
import pytest

import dse
from dse import plot
from tests.plot.conftest import lines


def test_there_is_a_curve_for_each_method_and_no_hypothetical_point(results):
    figure, table = plot.draw_figure("sparsity_roofline", results)
    assert len(figure.axes) == 4  # two accelerators x two batches
    assert set(table.method) == {"pruned", "semi"}
    (first, *_) = lines(figure, "pruned, unstructured")
    expected = results.isel(accelerator=0, batch=0, dtype=0, variant=results.method.values == "pruned").sortby("sparsity")
    np.testing.assert_allclose(first.get_xdata(), expected.speedup)
    np.testing.assert_allclose(first.get_ydata(), expected.accuracy)


def test_the_dense_baseline_and_the_iso_accuracy_line(results):
    figure, _ = plot.draw_figure("sparsity_roofline", results)
    (star, *_) = lines(figure, "dense baseline")
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (1, 76)
    (line, *_) = lines(figure, "iso-accuracy: dense -1")
    assert line.get_ydata()[0] == 75


def test_a_metric_that_is_better_lower_says_so_and_its_axis_points_up(edited, folder):
    edited("net/workload.yaml", ("direction: higher", "direction: lower"))
    edited("net/accuracy.csv", ("75,76", "77,76"), ("70,76", "80,76"), ("75.5,76", "76.5,76"))
    figure, _ = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    assert lines(figure, "iso-accuracy: dense +1")
    bottom, top = figure.axes[0].get_ylim()
    assert bottom < 76 < 80 < top
    assert figure.axes[0].get_ylabel() == "accuracy (lower is better)"


def test_sources_with_different_dense_networks_are_compared_by_their_loss(edited, folder):
    edited("net/accuracy.csv", ("semi,2:4,0.5,75.5,76", "semi,2:4,0.5,75.5,77"))
    figure, table = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    (pruned, *_), (semi, *_) = lines(figure, "pruned, unstructured"), lines(figure, "semi, 2:4")
    assert list(pruned.get_ydata()) == [75 - 76, 70 - 76]
    assert list(semi.get_ydata()) == [75.5 - 77]
    assert figure.axes[0].get_ylabel() == "change of accuracy against dense"
    assert set(table.accuracy) == {75, 70, 75.5}  # the table says what was measured


@pytest.mark.parametrize("has_accuracies", [True, False])
def test_assumed_drops_are_hollow_and_at_their_loss_where_no_dense_accuracy_is_known(edited, folder, has_accuracies):
    edited("net/accuracy.csv", ("semi,2:4,0.5,75.5,76", "semi,2:4,0.5,75.5,77"))
    edited("small.yaml", ("methods: all", "methods: all, patterns: {list: ['1:8'], accuracy_drop: 3}"))
    if not has_accuracies:
        (folder / "net/accuracy.csv").unlink()
    figure, table = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    (point, *_) = lines(figure, "hypothetical, 1:8")
    assert list(point.get_ydata()) == [-3]
    assert figure.axes[0].get_ylabel() == "change of accuracy against dense"
    assert set(table.accuracy.dropna()) == ({75, 70, 75.5} if has_accuracies else set())
    assert "hollow: the accuracy is assumed" in " ".join(legend.get_title().get_text() for legend in figure.legends)


def test_an_assumed_drop_is_below_the_dense_accuracy_that_the_drawn_sources_share(edited, folder):
    """Sources disagree, but those of the selected method do not."""
    edited("net/accuracy.csv", ("semi,2:4,0.5,75.5,76", "semi,2:4,0.5,75.5,77"))
    edited("small.yaml", ("methods: all", "methods: [pruned], patterns: {list: ['1:8'], accuracy_drop: 3}"))
    figure, _ = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    (point, *_) = lines(figure, "hypothetical, 1:8")
    assert list(point.get_ydata()) == [73]
    assert figure.axes[0].get_ylabel() == "accuracy"


def test_each_metric_has_its_own_panels(edited, folder):
    edited("net/workload.yaml", ("sources:", "other_metrics: [{name: loss, direction: lower}]\nsources:"))
    edited("net/accuracy.csv", ("source,kind", "source,kind,metric"), ("75.5,76,a test,measured", "0.3,0.2,a test,measured,loss"))
    figure, _ = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    assert {ax.get_ylabel() for ax in figure.axes} == {"accuracy", "loss (lower is better)"}
    assert not any(ax.yaxis_inverted() for ax in figure.axes)


def test_intervals_are_vertical_bars_and_estimates_hollow(edited, folder):
    edited(
        "net/accuracy.csv",
        ("dense_value,source", "dense_value,low,high,source"),
        ("75,76,a test,published", "75.8,76,75.5,75.9,a test,estimated"),
    )
    edited("net/accuracy.csv", ("70,76,a test", "70,76,,,a test"), ("75.5,76,a test", "75.5,76,,,a test"))
    results = dse.sweep(folder / "small.yaml")
    for kind in ("sparsity_roofline", "pareto"):
        figure, table = plot.draw_figure(kind, results)
        bars = [segment for ax in figure.axes for bar in ax.collections for segment in getattr(bar, "get_segments", list)()]
        ends = sorted({round(float(end), 9) for bar in bars for end in bar[:, 1]})
        assert ends == ([75.5, 75.9] if kind == "sparsity_roofline" else [0.1, 0.5])
        assert any(line.get_markerfacecolor() == "white" for ax in figure.axes for line in ax.lines)
        assert {"accuracy_low", "accuracy_high"} <= set(table)
        assert "vertical bars: 90% intervals of the accuracies; hollow: the accuracy is estimated" in figure.legends[
            0
        ].get_title().get_text().replace("\n", " ")
