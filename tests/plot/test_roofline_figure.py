"""Performance against operational intensity."""

import numpy as np
import pandas as pd
import pytest

import dse
from dse import plot
from dse.base.errors import InputError
from dse.plot import roofline
from dse.sweeping import provenance


def test_every_layer_is_on_or_below_its_roof(results):
    _, table = plot.draw_figure("roofline", results)
    assert set(table.accelerator) == {"chip", "other"}
    np.testing.assert_allclose(table.groupby(["accelerator", "state"]).share.sum(), 1)
    bound = table[table.bound == "dram"]
    counted = bound[bound.dense_flops > 0]
    np.testing.assert_allclose(counted.performance, counted.intensity * 1e12)
    assert (table.performance <= table.intensity * 1e12 * (1 + 1e-9)).all()
    tensor = table[table.bound == "tensor"]
    np.testing.assert_allclose(tensor.performance, 100e12 * tensor.dense_flops / tensor.flops)


def test_the_variant_on_which_the_accelerators_differ_most_is_drawn(results):
    plan = provenance.rebuild_plan(results)
    variant = plan.variants[roofline.select_variant(results, plan)]
    assert str(variant.pattern) in ("1:8", "2:4")
    _, table = roofline.draw_figure(results, batch=16, variant=0)
    assert {"dense dense 0", str(plan.variants[0])} == set(table.state)


def test_the_sparsest_variant_within_the_accuracy_drop_is_drawn(folder):
    results = dse.sweep(folder / "small.yaml")
    plan = provenance.rebuild_plan(results)
    assert roofline.select_variant(results, plan) == 0  # 1 point lost; semi is sparse in one layer only
    assert roofline.select_variant(results.isel(variant=[1, 2]), plan) == 2
    assert roofline.select_variant(results.isel(variant=[1, 3]), plan) == 1  # none within: the first


def test_accuracies_of_another_metric_are_compared_in_its_direction(edited, folder):
    edited("net/workload.yaml", ("sources:", "other_metrics: [{name: loss, direction: lower}]\nsources:"))
    edited("net/accuracy.csv", ("source,kind", "source,kind,metric"), ("70,76,a test,published", "9,2,a test,published,loss"))
    results = dse.sweep(folder / "small.yaml")
    assert roofline.select_variant(results, provenance.rebuild_plan(results)) == 0


def test_there_is_a_roof_for_each_unit_and_sparsity_mode_in_the_dtype(results):
    figure, _ = plot.draw_figure("roofline", results)
    text = " | ".join(label.get_text() for label in figure.axes[0].texts)
    for roof in ("tensor fp16: 100 TFLOP/s, ridge 100", "tensor fp16 2:4: 200 TFLOP/s, ridge 200", "vector fp16: 10 TFLOP/s, ridge 10"):
        assert roof in text
    assert "int8" not in text
    assert "fp32" not in text


def test_the_selected_design_of_a_dataset_is_drawn(edited):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [2 TB/s, 4 TB/s]}"))
    part = dse.sweep(path).isel({"memory.dram.bandwidth": 1, "batch": 0})
    figure, table = roofline.draw_figure(part)
    memory_bound = table[(table.bound == "dram") & (table.dense_flops > 0)]
    np.testing.assert_allclose(memory_bound.performance, memory_bound.intensity * 4e12)
    np.testing.assert_allclose(table[table.state == "dense dense 0"].dense_flops.sum(), dense_flops_of(part))
    assert "memory.dram.bandwidth = 4 TB/s" in figure.legends[0].get_title().get_text()
    with pytest.raises(InputError, match=r"the dataset no longer has the axis 'memory.dram.bandwidth'"):
        roofline.draw_figure(dse.sweep(path).mean("memory.dram.bandwidth", keep_attrs=True))


def dense_flops_of(dataset) -> float:
    """FLOPs of the dense network at the dataset's one batch size."""
    dense = provenance.rebuild_plan(dataset).dense_variants["net"]
    layers = dense.layers.at_batch(int(dataset.batch))
    return float((2 * layers.m * layers.k * layers.n * layers.count * layers.has_flops).sum())


def test_an_uncapped_roof_rises_with_the_reduction_of_the_work(folder):
    """90% of `wide` is pruned: its run on the vector unit has a roof near ten times the dense peak."""
    figure, table = roofline.draw_figure(dse.sweep(folder / "small.yaml"), batch=1, variant=1)
    pruned = table[table.execution == "vector.csr"]
    height = 10 * pruned.dense_flops.sum() / pruned.flops.sum()
    text = " | ".join(label.get_text() for label in figure.axes[1].texts)
    assert f"vector fp16 unstructured ({height / 10:.3g}x): {height:.4g} TFLOP/s" in text


@pytest.mark.parametrize("pattern", ["64:2:8", "64:2:16", "2:4", "1:8"])
def test_no_layer_is_above_the_roofs_of_its_panel(pattern, folder, edited):
    """Gathered columns, too: 64:2:16 runs at 8 times the dense peak on a 2:4 unit."""
    edited(
        "small.yaml",
        ("{methods: all}", f"{{methods: [dense], patterns: [{{list: ['{pattern}'], densities: own}}]}}"),
        ("[1, 16]", "[1024]"),
    )
    results = dse.sweep(folder / "small.yaml")
    figure, rows = roofline.draw_figure(results, variant=1)
    (ax,) = (ax for ax in figure.axes if pattern in ax.get_title())
    roofs = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]]
    reached = rows[rows.state != "dense"].performance.max()
    assert reached <= max(roofs) * (1 + 1e-9)


def test_repeated_layers_are_one_marker_as_large_as_all_of_them(folder, edited):
    """Eight equal blocks and one layer of eight times the count look the same."""
    results = dse.sweep(folder / "small.yaml")
    _, rows = roofline.draw_figure(results, batch=16)
    dense = rows[(rows.state == "dense dense 0") & (rows.dense_flops > 0)]
    repeated = pd.concat([dense.assign(share=dense.share / 8)] * 8)
    merged, expected = roofline.merge_equal_points(repeated), roofline.merge_equal_points(dense)
    np.testing.assert_allclose(merged.share, expected.share)
    np.testing.assert_allclose(merged[["intensity", "performance"]], expected[["intensity", "performance"]])
    assert merged.share.sum() == pytest.approx(dense.share.sum())
