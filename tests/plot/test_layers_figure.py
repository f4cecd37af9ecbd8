"""Speedup of single layers."""

import shutil

import numpy as np

import dse
from dse import plot


def test_the_layers_add_up_to_the_speedup_of_the_network(edited, folder):
    """Layers that are alike are one row, and the number above a column is the network's speedup."""
    edited("net/layers.csv", ("head,gemm", "wide2,gemm,4096,4096,512,2,1,,,false\nhead,gemm"))
    results = dse.sweep(folder / "small.yaml").sel(batch=[1])
    figure, table = plot.draw_figure("layers", results)
    speedups = table.groupby("state", sort=False)[["dense_latency", "latency"]].sum().eval("dense_latency / latency")
    np.testing.assert_allclose(speedups.to_numpy(), results.speedup.values.ravel(), rtol=1e-9)
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {f"{speedup:.2f}x" for speedup in speedups} <= texts


def test_a_layer_is_one_row_also_where_memories_have_results_of_their_own(edited, folder):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: capacity}"))
    edited("chip.yaml", ("l2: {capacity: 10 MB}", "l2: {capacity: 4 MB, bandwidth: 3 TB/s}"))
    _, rows = plot.draw_figure("layers", dse.sweep(path))
    assert not rows.duplicated(["accelerator", "variant", "layer"]).any()


def test_many_variants_are_in_several_panels_of_one_network(folder, edited):
    blocks = ", ".join(f"'block:{height}x{width}'" for height in (2, 4, 8, 16) for width in (2, 4, 8, 16))
    edited(
        "small.yaml", ("{methods: all}", f"{{methods: all, patterns: [{{list: [{blocks}], densities: [0.5, 0.25]}}]}}"), ("[1, 16]", "[1]")
    )
    figure, rows = plot.draw_figure("layers", dse.sweep(folder / "small.yaml"))
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["chip, net (1 of 2)", "chip, net (2 of 2)"]
    drawn = sum(len(ax.get_xticklabels()) for ax in figure.axes if ax.get_title())
    assert drawn == rows.variant.nunique() == 36


def test_columns_are_labelled_with_the_variants_of_their_network(folder, edited):
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
    figure, rows = plot.draw_figure("layers", dse.sweep(folder / "small.yaml"))
    labels = {ax.get_title(): [text.get_text() for text in ax.get_xticklabels()] for ax in figure.axes if ax.get_title()}
    assert labels["chip, other"] == ["dense", "2:4", "1:4"]
    assert labels["chip, net"] == ["pruned unstructured 50%", "pruned unstructured 90%", "semi 2:4", "blocky block:8x8 75%"]
    assert rows.variant.nunique() == 7
