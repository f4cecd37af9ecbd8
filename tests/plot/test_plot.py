"""Figures show what their tables say, and the tables what the dataset says."""

import itertools
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import dse
from dse import plot
from dse.base.errors import InputError
from dse.plot import roofline, style
from dse.plot.labels import MAX_LABELS, Label, place_labels
from dse.sweeping import provenance

PATTERNS = "{methods: all, patterns: [{list: [1:8, 2:4]}, {list: ['block:8x8'], densities: from_method}]}"


@pytest.fixture
def results(edited, folder):
    (folder / "other.yaml").write_text((folder / "chip.yaml").read_text().replace("name: chip", "name: other").replace("2:4", "1:8"))
    return dse.sweep(edited("small.yaml", ("{methods: all}", PATTERNS), ("[./chip.yaml]", "[./chip.yaml, ./other.yaml]")))


def lines(figure: Figure, label: str) -> list:
    return [line for ax in figure.axes for line in ax.lines if line.get_label() == label]


def test_the_sparsity_roofline_has_a_curve_for_each_method_and_no_hypothetical_point(results):
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


def test_a_metric_that_goes_down_is_drawn_better_up(edited, folder):
    edited("net/workload.yaml", ("direction: higher", "direction: lower"))
    edited("net/accuracy.csv", ("75,76", "77,76"), ("70,76", "80,76"), ("75.5,76", "76.5,76"))
    figure, _ = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    assert lines(figure, "iso-accuracy: dense +1")
    bottom, top = figure.axes[0].get_ylim()
    assert bottom > 80 > 76 > top


def test_sources_with_different_dense_networks_are_compared_by_what_they_lose(edited, folder):
    edited("net/accuracy.csv", ("semi,2:4,0.5,75.5,76", "semi,2:4,0.5,75.5,77"))
    figure, table = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    (pruned, *_), (semi, *_) = lines(figure, "pruned, unstructured"), lines(figure, "semi, 2:4")
    assert list(pruned.get_ydata()) == [75 - 76, 70 - 76]
    assert list(semi.get_ydata()) == [75.5 - 77]
    assert figure.axes[0].get_ylabel() == "change of accuracy against dense"
    assert set(table.accuracy) == {75, 70, 75.5}  # the table says what was measured


def test_accuracies_of_different_metrics_have_panels_of_their_own(edited, folder):
    edited("net/workload.yaml", ("sources:", "other_metrics: [{name: loss, direction: lower}]\nsources:"))
    edited("net/accuracy.csv", ("source,kind", "source,kind,metric"), ("75.5,76,a test,measured", "0.3,0.2,a test,measured,loss"))
    figure, _ = plot.draw_figure("sparsity_roofline", dse.sweep(folder / "small.yaml"))
    assert {ax.get_ylabel() for ax in figure.axes} == {"accuracy", "loss"}
    for ax in figure.axes:
        assert ax.yaxis_inverted() == (ax.get_ylabel() == "loss")


def test_fixed_patterns_are_points_in_both_figures(results):
    figure, _ = plot.draw_figure("sparsity_roofline", results)
    assert {line.get_linestyle() for line in lines(figure, "semi, 2:4")} == {"None"}
    figure, table = plot.draw_figure("speedup", results)
    assert {line.get_linestyle() for line in lines(figure, "fixed density (labelled)")} == {"None"}
    assert len(lines(figure, "block:8x8")) == 4
    assert len(table) == 2 * 2 * results.sizes["variant"]


def test_the_roofline_puts_every_layer_on_or_below_its_roof(results):
    _, table = plot.draw_figure("roofline", results)
    assert set(table.accelerator) == {"chip", "other"}
    np.testing.assert_allclose(table.groupby(["accelerator", "state"]).share.sum(), 1)
    bound = table[table.bound == "dram"]
    counted = bound[bound.dense_flops > 0]
    np.testing.assert_allclose(counted.performance, counted.intensity * 1e12)
    assert (table.performance <= table.intensity * 1e12 * (1 + 1e-9)).all()
    tensor = table[table.bound == "tensor"]
    np.testing.assert_allclose(tensor.performance, 100e12 * tensor.dense_flops / tensor.flops)


def test_the_roofline_shows_the_variant_on_which_the_hardware_differs(results):
    chosen = provenance.rebuild_plan(results)
    variant = chosen.variants[roofline.select_variant(results, chosen)]
    assert str(variant.pattern) in ("1:8", "2:4")
    _, table = roofline.draw_figure(results, batch=16, variant=0)
    assert {"dense dense 0", str(chosen.variants[0])} == set(table.state)


def test_roofs_cover_units_precisions_and_sparsity_modes(results):
    figure, _ = plot.draw_figure("roofline", results)
    text = " | ".join(label.get_text() for label in figure.axes[0].texts)
    for roof in ("tensor fp16: 100 TFLOP/s, ridge 100", "tensor fp16 2:4, int8: 200 TFLOP/s, ridge 200", "vector fp32: 5 TFLOP/s, ridge 5"):
        assert roof in text


def test_every_figure_is_saved_with_its_table(results, tmp_path):
    kinds = plot.default_kinds(results)
    written = plot.save_figures(results, kinds, tmp_path / "figures", prefix="x.")
    assert set(kinds) == plot.FIGURES.keys() - {"capacity", "efficiency"}  # of which nothing is swept
    assert [path.name for path in written] == [f"x.{kind}.{ending}" for kind in kinds for ending in ("png", "csv")]
    assert all(path.stat().st_size > 500 for path in written)


def test_a_figure_that_cannot_be_drawn_says_why(edited):
    alone = dse.sweep(edited("small.yaml", ("{methods: all}", "{methods: [blocky]}")))
    with pytest.raises(InputError, match="the figure 'sparsity_roofline' needs a variant with an accuracy; draw 'speedup' instead"):
        plot.draw_figure("sparsity_roofline", alone)
    with pytest.raises(InputError, match="the figure 'speedup' needs 'speedup'; add it to"):
        plot.draw_figure("speedup", alone.drop_vars("speedup"))


def test_swept_axes_stand_at_their_first_value_and_the_figure_says_so(edited):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [2 TB/s, 4 TB/s]}"))
    found = dse.sweep(path)
    figure, table = plot.draw_figure("speedup", found)
    assert "memory.dram.bandwidth = 2e+12 B/s" in figure.legends[0].get_title().get_text()
    np.testing.assert_allclose(np.unique(table.latency), np.unique(found.latency.isel({"memory.dram.bandwidth": 0})))
    _, layers = plot.draw_figure("roofline", found)
    memory_bound = layers[(layers.bound == "dram") & (layers.dense_flops > 0)]
    np.testing.assert_allclose(memory_bound.performance, memory_bound.intensity * 2e12)


def test_a_curve_looks_the_same_in_every_panel_and_in_the_legend():
    """Two networks with different methods: a colour stands for one (method, pattern) throughout."""
    rows = pd.DataFrame({"method": ["b", "a", "b"], "pattern": ["2:4", "2:4", "1:4"]})
    looks = style.curve_styles(rows)
    assert len({look["color"] for look in looks.values()}) == 3
    many = style.curve_styles(pd.DataFrame({"method": ["m"] * 21, "pattern": [f"1:{n}" for n in range(2, 23)]}))
    assert len({(look["color"], look["linestyle"]) for look in many.values()}) == 21


def test_the_sparsest_variant_within_the_accuracy_drop_is_drawn(folder):
    found = dse.sweep(folder / "small.yaml")
    known = provenance.rebuild_plan(found)
    assert roofline.select_variant(found, known) == 0  # 1 point lost; semi is sparse in one layer only
    assert roofline.select_variant(found.isel(variant=[1, 2]), known) == 2
    assert roofline.select_variant(found.isel(variant=[1, 3]), known) == 1  # none within: the first


def test_a_part_of_a_dataset_can_be_drawn(results, tmp_path):
    part = results.isel(batch=0, variant=slice(4, 8))
    assert len(plot.save_figures(part, ["speedup", "roofline"], tmp_path)) == 4


def test_the_roofline_draws_the_designs_that_the_dataset_holds(edited):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [2 TB/s, 4 TB/s]}"))
    part = dse.sweep(path).isel({"memory.dram.bandwidth": 1, "batch": 0})
    figure, table = roofline.draw_figure(part)
    memory_bound = table[(table.bound == "dram") & (table.dense_flops > 0)]
    np.testing.assert_allclose(memory_bound.performance, memory_bound.intensity * 4e12)
    np.testing.assert_allclose(table[table.state == "dense dense 0"].dense_flops.sum(), dse_flops(part))
    assert "memory.dram.bandwidth = 4e+12 B/s" in figure.legends[0].get_title().get_text()
    with pytest.raises(InputError, match=r"the dataset no longer has the axis 'memory.dram.bandwidth'"):
        roofline.draw_figure(dse.sweep(path).mean("memory.dram.bandwidth", keep_attrs=True))


def dse_flops(dataset) -> float:
    """FLOPs of the dense network at the dataset's one batch size."""
    dense = provenance.rebuild_plan(dataset).dense_variants["net"]
    layers = dense.layers.at_batch(int(dataset.batch))
    return float((2 * layers.m * layers.k * layers.n * layers.count * layers.has_flops).sum())


def test_an_uncapped_roof_is_as_high_as_the_work_is_reduced(folder):
    """90% of `wide` is pruned: its run on the vector unit has a roof near ten times the dense peak."""
    figure, table = roofline.draw_figure(dse.sweep(folder / "small.yaml"), batch=1, variant=1)
    pruned = table[table.execution == "vector.csr"]
    height = 10 * pruned.dense_flops.sum() / pruned.flops.sum()
    text = " | ".join(label.get_text() for label in figure.axes[1].texts)
    assert f"vector fp16 unstructured ({height / 10:.3g}x): {height:.4g} TFLOP/s" in text


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


def test_labels_of_thousands_of_points_are_placed_at_once():
    """A front of thousands of designs took minutes: each label was compared with every point."""
    _, axes = style.create_panels(["a"], ["b"], width=8, height=8)
    points = np.random.default_rng(0).random((4000, 2))
    began = time.process_time()
    placed = place_labels(axes[0, 0], [Label(x, y, "90%", "black") for x, y in points])
    assert time.process_time() - began < 12
    assert len(placed) <= MAX_LABELS


def test_the_layers_figure_adds_up_to_the_network(edited, folder):
    """Layers that are alike are one row, and the number above a column is the network's speedup."""
    edited("net/layers.csv", ("head,gemm", "wide2,gemm,4096,4096,512,2,1,,,false\nhead,gemm"))
    found = dse.sweep(folder / "small.yaml").sel(batch=[1])
    figure, table = plot.draw_figure("layers", found)
    speedups = table.groupby("state", sort=False)[["dense_latency", "latency"]].sum().eval("dense_latency / latency")
    np.testing.assert_allclose(speedups.to_numpy(), found.speedup.values.ravel(), rtol=1e-9)
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {f"{speedup:.2f}x" for speedup in speedups} <= texts


def test_a_figure_of_capacities_holds_every_ratio_to_the_most(edited, folder):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: capacity}\naxes: {memory.l2.capacity: [1 GB, 64 KiB]}"))
    with pytest.warns(dse.ModelWarning, match="'l2' has no bandwidth"):
        found = dse.sweep(path)
    figure, table = plot.draw_figure("capacity", found)
    ratio = (found.speedup / found.speedup.sel({"memory.l2.capacity": 1e9})).isel(dtype=0, accelerator=0)
    here = table.set_index("memory.l2.capacity")
    assert (here.low[1e9], here.high[1e9], here.factor[1e9]) == (1, 1, 1)
    assert here.low[65536] == ratio.sel({"memory.l2.capacity": 65536}).min().item()
    assert here.high[65536] == ratio.sel({"memory.l2.capacity": 65536}).max().item()
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{here.low[65536]:.2f} - {here.high[65536]:.2f}", "1"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["64 KiB", "1 GB"]


def test_speedups_that_depend_on_schedules_have_a_band(edited, folder):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: capacity}"))
    edited("chip.yaml", ("l2: {capacity: 10 MB}", "l2: {capacity: 4 kB, bandwidth: 3 TB/s}"))
    found = dse.sweep(path)
    for kind in ("speedup", "sparsity_roofline"):
        figure, table = plot.draw_figure(kind, found)
        (band, *_) = figure.axes[0].collections
        drawn = band.get_paths()[0].vertices[:, 1 if kind == "speedup" else 0]
        rows = table[(table.batch == 1) & (table.method == "pruned")]
        assert (drawn.min(), drawn.max()) == pytest.approx((rows.speedup_low.min(), rows.speedup_high.max()))
        assert rows.speedup_high.max() > 1.01 * rows.speedup.max()


def test_a_figure_of_capacities_needs_one(results, edited):
    with pytest.raises(InputError, match="needs exactly one capacity axis with several values, not 0; sweep one"):
        plot.draw_figure("capacity", results)
    with pytest.raises(
        InputError, match=r"plots.0: the figure 'capacity' needs exactly one capacity axis with several values, not 0; sweep one"
    ):
        dse.sweep(edited("small.yaml", ("dtype: fp16", "dtype: fp16\nplots: [capacity]")))


def test_layers_labels_the_columns_of_each_network_with_its_own_variants(folder, edited):
    """Networks with different numbers of variants; two of one have the same name."""
    shutil.copytree(folder / "net", folder / "other")
    described = folder / "other" / "workload.yaml"
    described.write_text(described.read_text().replace("name: net", "name: other"))
    edited(
        "small.yaml",
        (
            "./net: {methods: all}",
            "./net: {methods: all}\n  ./other: {methods: [dense], patterns: [{list: ['2:4', '1:4'], densities: own}]}",
        ),
    )
    drawn, rows = plot.draw_figure("layers", dse.sweep(folder / "small.yaml"))
    labels = {ax.get_title(): [text.get_text() for text in ax.get_xticklabels()] for ax in drawn.axes if ax.get_title()}
    assert labels["chip, other"] == ["dense", "2:4", "1:4"]
    assert labels["chip, net"] == ["pruned unstructured 50%", "pruned unstructured 90%", "semi 2:4", "blocky block:8x8 75%"]
    assert rows.variant.nunique() == 7


@pytest.mark.parametrize("kind", ["speedup", "sparsity_roofline", "roofline", "layers"])
def test_titles_of_long_names_do_not_overlap(kind, folder, edited):
    edited("chip.yaml", ("name: chip", "name: an-accelerator-with-quite-a-long-name-of-80-gigabytes"))
    edited("net/workload.yaml", ("name: net", "name: a_very_long_network_name_with_a_context_of_2048_tokens"))
    drawn, _ = plot.draw_figure(kind, dse.sweep(folder / "small.yaml"))
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    boxes = [ax.title.get_window_extent(canvas.get_renderer()) for ax in drawn.axes if ax.get_title()]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@pytest.mark.parametrize("pattern", ["64:2:8", "64:2:16", "2:4", "1:8"])
def test_no_layer_is_above_the_roofs_of_its_panel(pattern, folder, edited):
    """Gathered columns, too: 64:2:16 runs at 8 times the dense peak on a 2:4 unit."""
    edited(
        "small.yaml",
        ("{methods: all}", f"{{methods: [dense], patterns: [{{list: ['{pattern}'], densities: own}}]}}"),
        ("[1, 16]", "[1024]"),
    )
    results = dse.sweep(folder / "small.yaml")
    drawn, rows = roofline.draw_figure(results, variant=1)
    (ax,) = (ax for ax in drawn.axes if pattern in ax.get_title())
    roofs = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]]
    reached = rows[rows.state != "dense"].performance.max()
    assert reached <= max(roofs) * (1 + 1e-9)
