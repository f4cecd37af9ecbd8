"""A small sweep with two accelerators, and a way to find the lines of a figure."""

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import dse

SELECTION = "{methods: all, patterns: [{list: [1:8, 2:4]}, {list: ['block:8x8'], densities: from_method}]}"


@pytest.fixture
def results(edited, folder):
    (folder / "other.yaml").write_text((folder / "chip.yaml").read_text().replace("name: chip", "name: other").replace("2:4", "1:8"))
    return dse.sweep(edited("small.yaml", ("{methods: all}", SELECTION), ("[./chip.yaml]", "[./chip.yaml, ./other.yaml]")))


def lines(figure: Figure, label: str) -> list[Line2D]:
    return [line for ax in figure.axes for line in ax.lines if line.get_label() == label]
