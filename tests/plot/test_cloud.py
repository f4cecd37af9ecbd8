"""The cloud behind a front: of very many points those that can be told apart are drawn."""

import numpy as np
import pytest

from dse.plot import cloud
from dse.plot.cloud import select_visible


@pytest.mark.parametrize("wide", [False, True])
def test_every_point_left_out_shares_a_cell_with_one_that_is_drawn(wide, monkeypatch):
    monkeypatch.setattr(cloud, "MAX_POINTS", 100)
    monkeypatch.setattr(cloud, "CELLS", 20)
    generator = np.random.default_rng(1)
    x, y = 10.0 ** generator.uniform(0, 4 if wide else 1, (2, 5000))
    shown = select_visible(x, y)
    assert len(shown) <= 20 * 20 + 4
    scaled = [np.log(values) if wide else values for values in (x, y)]
    cells = [np.floor((values - values.min()) / np.ptp(values) * 19) for values in scaled]
    assert {(a, b) for a, b in zip(*cells, strict=True)} == {(a, b) for a, b in zip(*(cell[shown] for cell in cells), strict=True)}
    assert [(v[shown].min(), v[shown].max()) for v in (x, y)] == [(v.min(), v.max()) for v in (x, y)]


def test_few_points_are_all_drawn_and_equal_ones_too():
    assert select_visible(np.ones(7), np.ones(7)).tolist() == list(range(7))
    assert select_visible(np.ones(cloud.MAX_POINTS + 1), np.arange(cloud.MAX_POINTS + 1.0)).size == cloud.CELLS + 1
