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
