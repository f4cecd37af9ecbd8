"""Figures of a dataset: which can be drawn, what is saved, and what all kinds have in common."""

import itertools

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg

import dse
from dse import plot
from dse.base.errors import InputError
from tests.plot.conftest import lines


def test_every_figure_is_saved_with_its_table(results, tmp_path):
    kinds = plot.default_kinds(results)
    written = plot.save_figures(results, kinds, tmp_path / "figures", prefix="x.")
    assert set(kinds) == plot.FIGURES.keys() - {"capacity", "efficiency", "axis", "inputs"}  # of which nothing is swept
    assert [path.name for path in written] == [f"x.{kind}.{ending}" for kind in kinds for ending in ("png", "csv")]
    assert all(path.stat().st_size > (500 if path.suffix == ".png" else 100) for path in written)


def test_unmet_needs_are_reported(edited):
    alone = dse.sweep(edited("small.yaml", ("{methods: all}", "{methods: [blocky]}")))
    with pytest.raises(InputError, match="the figure 'sparsity_roofline' needs a variant with an accuracy; draw 'speedup' instead"):
        plot.draw_figure("sparsity_roofline", alone)
    with pytest.raises(InputError, match="the figure 'speedup' needs 'speedup'; add it to"):
        plot.draw_figure("speedup", alone.drop_vars("speedup"))


def test_the_first_value_of_each_swept_axis_is_drawn_and_named(edited):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [2 TB/s, 4 TB/s]}"))
    results = dse.sweep(path)
    figure, table = plot.draw_figure("speedup", results)
    assert "memory.dram.bandwidth = 2 TB/s" in figure.legends[0].get_title().get_text()
    np.testing.assert_allclose(np.unique(table.latency), np.unique(results.latency.isel({"memory.dram.bandwidth": 0})))
    _, layers = plot.draw_figure("roofline", results)
    memory_bound = layers[(layers.bound == "dram") & (layers.dense_flops > 0)]
    np.testing.assert_allclose(memory_bound.performance, memory_bound.intensity * 2e12)


def test_a_selection_of_a_dataset_can_be_drawn(results, tmp_path):
    part = results.isel(batch=0, variant=slice(4, 8))
    assert len(plot.save_figures(part, ["speedup", "roofline"], tmp_path)) == 4


def test_patterns_of_fixed_density_are_single_markers(results):
    figure, _ = plot.draw_figure("sparsity_roofline", results)
    assert {line.get_linestyle() for line in lines(figure, "semi, 2:4")} == {"None"}
    figure, table = plot.draw_figure("speedup", results)
    assert {line.get_linestyle() for line in lines(figure, "fixed density (labelled)")} == {"None"}
    assert len(lines(figure, "block:8x8")) == 4
    assert len(table) == 2 * 2 * results.sizes["variant"]


def test_intervals_of_speedups_are_drawn_as_bands(edited, folder):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: capacity}"))
    edited("chip.yaml", ("l2: {capacity: 10 MB}", "l2: {capacity: 4 kB, bandwidth: 3 TB/s}"))
    results = dse.sweep(path)
    for kind in ("speedup", "sparsity_roofline"):
        figure, table = plot.draw_figure(kind, results)
        (band, *_) = figure.axes[0].collections
        drawn = band.get_paths()[0].vertices[:, 1 if kind == "speedup" else 0]
        rows = table[(table.batch == 1) & (table.method == "pruned")]
        assert (drawn.min(), drawn.max()) == pytest.approx((rows.speedup_low.min(), rows.speedup_high.max()))
        assert rows.speedup_high.max() > 1.01 * rows.speedup.max()


@pytest.mark.parametrize("kind", ["speedup", "sparsity_roofline", "roofline", "layers"])
def test_titles_of_long_names_do_not_overlap(kind, folder, edited):
    edited("chip.yaml", ("name: chip", "name: an-accelerator-with-quite-a-long-name-of-80-gigabytes"))
    edited("net/workload.yaml", ("name: net", "name: a_very_long_network_name_with_a_context_of_2048_tokens"))
    figure, _ = plot.draw_figure(kind, dse.sweep(folder / "small.yaml"))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [ax.title.get_window_extent(canvas.get_renderer()) for ax in figure.axes if ax.get_title()]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_images_have_the_format_that_is_asked_for(results, tmp_path):
    for image, start in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        picture, table = plot.save_figures(results, ["speedup"], tmp_path, image=image)
        assert picture.name == f"speedup.{image}"
        assert picture.read_bytes().startswith(start)
        assert table.name == "speedup.csv"


def test_fixed_axes_cannot_be_chosen(results):
    with pytest.raises(InputError, match="the axes of the figure 'roofline' are fixed; choose x and y of the figure 'axis' or 'pareto'"):
        plot.draw_figure("roofline", results, x="speedup")


AXES = "dtype: fp16\naxes: {memory.dram.bandwidth: [1 TB/s, 2 TB/s, 8 TB/s], units.tensor.peak.fp16: [50 TFLOP/s, 100 TFLOP/s]}"


def test_a_result_against_an_axis_is_a_curve_for_each_variant(edited):
    results = dse.sweep(edited("small.yaml", ("dtype: fp16", AXES)))
    figure, table = plot.draw_figure("axis", results, x="memory.dram.bandwidth", y="latency")
    assert len(figure.axes) == results.sizes["batch"]
    for ax, batch in zip(figure.axes, results.batch.values, strict=True):
        design = results.isel({"units.tensor.peak.fp16": 0}).sel(batch=batch).squeeze()
        drawn = {tuple(line.get_ydata()) for line in ax.lines if len(line.get_xdata()) == 3}
        assert drawn == {tuple(design.latency.isel(variant=index).values) for index in range(design.sizes["variant"])}
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1e12, 2e12, 8e12])
    assert figure.axes[0].get_xlabel() == "memory.dram.bandwidth [TB/s]"
    assert "units.tensor.peak.fp16 = 50 TFLOP/s" in figure.legends[0].get_title().get_text()
    assert len(table) == 3 * results.sizes["batch"] * results.sizes["variant"]
    _, over_batches = plot.draw_figure("axis", results, x="batch")
    assert sorted(over_batches.batch.unique()) == [1, 16]
    for wrong in ({"x": "memory.dram.bandwith"}, {"y": "latencies"}, {"x": "accelerator"}):
        with pytest.raises(InputError, match=r"did you mean|known:"):
            plot.draw_figure("axis", results, **wrong)


@pytest.mark.parametrize(("x", "y"), [("latency", "speedup"), ("speedup", "latency"), ("memory.dram.bandwidth", "latency")])
def test_a_front_of_two_results_is_on_the_axes_that_are_chosen(edited, x, y):
    results = dse.sweep(edited("small.yaml", ("dtype: fp16", AXES))).sel(batch=[1])
    figure, table = plot.draw_figure("pareto", results, x=x, y=y)
    (ax,) = figure.axes
    assert (ax.get_xlabel().split(" ")[0], ax.get_ylabel().split(" ")[0]) == (x.split("_")[0], y)
    (cloud,) = lines(figure, "all points")
    assert len(cloud.get_xdata()) == results.speedup.size
    signs = np.array([-1 if name == "speedup" else 1 for name in (x, y)])
    points = np.stack([np.broadcast_arrays(*xr.broadcast(results[x], results[y]))[n].ravel() for n in (0, 1)], axis=-1) * signs
    for point in table[[x, y]].to_numpy() * signs:
        assert not ((points < point * (1 - 1e-9 * np.sign(point))).all(axis=1)).any()


def test_figures_of_a_front_show_its_points(results, tmp_path):
    front = dse.pareto(results, maximize=["speedup"], minimize=["accuracy_drop"])
    assert plot.default_kinds(front) == ("pareto", "axis")
    figure, table = plot.draw_figure("pareto", front)
    np.testing.assert_array_equal(table.speedup, front.speedup)  # a front is its own front
    assert len(figure.axes) == results.sizes["batch"]
    with pytest.raises(InputError, match="'layers' needs all results of a sweep, and the dataset holds single points; draw 'pareto'"):
        plot.draw_figure("layers", front)
    with pytest.raises(InputError, match="the points have no number 'sped'; did you mean 'speedup'"):
        plot.draw_figure("axis", front, "batch", "sped")
    assert len(plot.save_figures(front, ["axis"], tmp_path, x="batch", y="latency")) == 2


def test_the_front_of_a_search_is_drawn_in_its_objectives_with_its_best_design(folder):
    search = "axes: {memory.dram.bandwidth: [1 TB/s, 2 TB/s]}\nsearch: {maximize: [performance], minimize: [latency], sampler: exhaustive}"
    (folder / "search.yaml").write_text(f"{(folder / 'small.yaml').read_text()}{search}\n".replace("[1, 16]", "[1]"))
    front = dse.search(folder / "search.yaml")
    figure, _ = plot.draw_figure("pareto", front)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()[:7]) == ("performance", "latency")
    (star,) = (line for line in figure.axes[0].lines if line.get_marker() == "*")
    assert list(star.get_xdata()) == list(front.performance.values[front.best.values])
    everything = dse.search(folder / "search.yaml").isel(point=[0, 0])
    everything["memory.dram.bandwidth"] = ("point", [1e12, 2e12])
    figure, _ = plot.draw_figure("axis", everything)
    assert figure.axes[0].get_xlabel().startswith("memory.dram.bandwidth")
