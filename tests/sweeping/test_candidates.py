"""Points that may be on a front: the front of the candidates is that of all points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.sweeping import candidates
from dse.sweeping.candidates import RankFilter, select_candidates
from dse.sweeping.pareto_front import nondominated


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(candidates, "SAMPLE", 30)
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 30)
    monkeypatch.setattr(candidates, "CHUNK", 64)


def random_points(seed: int, objectives: int, count: int, levels: int) -> np.ndarray:
    """Points with many ties (few levels) or none, over several orders of magnitude."""
    generator = np.random.default_rng(seed)
    points = 10.0 ** generator.uniform(-6, 3, (count, objectives))
    return np.round(generator.uniform(0, levels, (count, objectives))) if levels else points


@settings(max_examples=150)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(31, 600), st.sampled_from([0, 2, 9]))
def test_the_front_of_the_candidates_is_that_of_all_points(seed, objectives, count, levels):
    points = random_points(seed, objectives, count, levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "SAMPLE", 30)
        patch.setattr(candidates, "MAX_CANDIDATES", 30)
        patch.setattr(candidates, "CHUNK", 64)
        selected = select_candidates(list(points.T))
    assert (np.diff(selected) > 0).all()
    assert selected[nondominated(points[selected])].tolist() == np.flatnonzero(nondominated(points)).tolist()


def test_few_points_are_left_of_many(small_samples):
    points = random_points(0, 3, 20_000, 0)
    assert len(select_candidates(list(points.T))) < 2_000


def test_a_point_of_the_same_bucket_dominates_nothing():
    """Two points that differ in one bucket of the first objective only: neither may be left out."""
    table = RankFilter.from_sample(np.array([[1.0, 1.0], [2.0, 5.0], [3.0, 0.5]]))
    assert table.select([np.array([1.5, 2.5]), np.array([1.0, 1.0])]).tolist() == [0]
    assert table.select([np.array([1.0, 1.2]), np.array([1.0, 1.0])]).tolist() == [0, 1]
