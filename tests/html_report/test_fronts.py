"""Which points a page holds: fronts as brute force finds them, the fastest within the loss of accuracy, and samples that keep the fronts."""

import warnings

import numpy as np
import pytest

import dse
from dse.html_report import fronts, points
from dse.html_report.sweep_section import _with_accuracy_drop
from tests.html_report.conftest import AXES


@pytest.fixture
def dataset(folder):
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text() + AXES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _with_accuracy_drop(dse.sweep(spec))


def test_the_front_of_each_batch_is_that_of_brute_force(dataset):
    signs = {"latency": 1.0, "accuracy_drop": 1.0}
    for group in fronts.group_results(dataset, signs, 1.0):
        rows = points.select_points(dataset, group.cells)
        values = np.stack([rows[name].values for name in signs], axis=1)
        known = np.isfinite(values).all(axis=1)
        dominated = [bool(((values[known] <= value).all(axis=1) & (values[known] < value).any(axis=1)).any()) for value in values]
        assert set(group.front) == set(group.cells[known & ~np.array(dominated)])


def test_the_best_result_is_the_fastest_within_the_loss_of_accuracy(dataset):
    for group in fronts.group_results(dataset, {"latency": 1.0}, 1.0):
        rows = points.select_points(dataset, group.cells)
        allowed = rows.latency.values[rows.accuracy_drop.values <= 1.0]
        assert points.select_points(dataset, np.array([group.best])).latency.item() == allowed.min()
        assert points.select_points(dataset, np.array([group.best_unrated])).method.item() == "blocky"  # nobody measured its accuracy
        assert points.select_points(dataset, np.array([group.best_unrated])).latency.item() < allowed.min()


def test_without_a_result_within_the_loss_the_best_one_loses_least(dataset):
    measured = dataset.isel(variant=dataset.accuracy_drop.notnull().values)
    for group in fronts.group_results(measured, {"latency": 1.0}, 0.1):
        best = points.select_points(measured, np.array([group.best]))
        assert best.accuracy_drop.item() == measured.accuracy_drop.min()
        same = measured.sel(batch=group.batch).isel(variant=int(np.argmin(measured.accuracy_drop.values)))
        assert best.latency.item() == same.latency.min()


def test_a_sample_keeps_fronts_and_best_results_whole(dataset):
    groups = fronts.group_results(dataset, fronts.default_objectives(dataset), 1.0)
    needed = {int(cell) for group in groups for cell in (*group.front, group.best)}
    cells = fronts.choose_cells(groups, maximum=len(needed) + 3)
    assert needed <= set(cells.tolist())
    assert len(cells) == len(set(cells.tolist())) <= len(needed) + 4
    assert len(fronts.choose_cells(groups)) == dataset.latency.size


def test_the_costs_of_the_default_front_are_swept_resources_unless_area_is_stored(dataset):
    assert list(fronts.default_objectives(dataset)) == ["latency", "accuracy_drop", "memory.dram.bandwidth"]
    with_area = dataset.assign(area=dataset.latency * 2)
    assert list(fronts.default_objectives(with_area)) == ["latency", "accuracy_drop", "area"]


def test_a_thinned_grid_keeps_the_wanted_results(dataset, monkeypatch):
    wanted = np.array([0, dataset.latency.size - 1, 17])
    monkeypatch.setattr(points, "MAX_GRID_VALUES", 30)
    grid = points.describe_grid(dataset, [wanted])
    assert not grid["complete"]
    positions = np.array(points.grid_positions(dataset, wanted, dataset, grid))
    assert (positions >= 0).all()
