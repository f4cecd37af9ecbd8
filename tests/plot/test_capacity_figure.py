"""Speedup at each on-chip capacity."""

import pytest

import dse
from dse import plot
from dse.base.errors import InputError


def test_cells_have_the_range_of_ratios_to_the_largest_capacity(edited, folder):
    path = edited("small.yaml", ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: capacity}\naxes: {memory.l2.capacity: [1 GB, 64 KiB]}"))
    with pytest.warns(dse.ModelWarning, match="'l2' has no bandwidth"):
        results = dse.sweep(path)
    figure, table = plot.draw_figure("capacity", results)
    ratio = (results.speedup / results.speedup.sel({"memory.l2.capacity": 1e9})).isel(dtype=0, accelerator=0)
    here = table.set_index("memory.l2.capacity")
    assert (here.low[1e9], here.high[1e9], here.factor[1e9]) == (1, 1, 1)
    assert here.low[65536] == ratio.sel({"memory.l2.capacity": 65536}).min().item()
    assert here.high[65536] == ratio.sel({"memory.l2.capacity": 65536}).max().item()
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{here.low[65536]:.2f} - {here.high[65536]:.2f}", "1"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["64 KiB", "1 GB"]


def test_exactly_one_capacity_axis_is_needed(results, edited):
    with pytest.raises(InputError, match="needs exactly one capacity axis with several values, not 0; sweep one"):
        plot.draw_figure("capacity", results)
    with pytest.raises(
        InputError, match=r"plots.0: the figure 'capacity' needs exactly one capacity axis with several values, not 0; sweep one"
    ):
        dse.sweep(edited("small.yaml", ("dtype: fp16", "dtype: fp16\nplots: [capacity]")))
