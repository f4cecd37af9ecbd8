"""Statistics of activations: hand-computed, and compared with slow implementations on random arrays in random slabs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dse.base.errors import InputError
from dse.sparsity.activation_statistics import count_activations

ACTIVATIONS = arrays(
    np.float32, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.sampled_from([0.0, 0.0, 0.5, -1.0, 2.0, -3.0])
)


def slabs(array: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    return np.split(array, sorted(cut % (len(array) + 1) for cut in cuts))


def test_counts_of_a_small_recording():
    """By hand: 4 tokens of 4 channels, with 2, 0, 3 and 1 nonzeros."""
    recording = np.array([[1.0, -2, 0, 0], [0, 0, 0, 0], [3, 1, 1, 0], [0, 0, -1, 0]])
    counted = count_activations([recording], [2, 4], 0.0)
    assert (counted.tokens, counted.channels, counted.density) == (4, 4, 6 / 16)
    assert counted.over_tokens.deviation == pytest.approx(np.sqrt((2**2 + 0 + 3**2 + 1) / 4 - 1.5**2) / 4)
    assert (counted.over_tokens.empty, counted.over_channels.empty) == (1 / 4, 1 / 4)
    assert counted.over_channels.deviation == pytest.approx(np.std([2, 2, 2, 0]) / 4)
    needed = {group.tokens: (group.groups, group.union_density) for group in counted.token_groups}
    assert needed == {1: (4, 6 / 16), 2: (2, (2 + 3) / 8), 4: (1, 3 / 4)}
    imbalance = {group.tokens: group.imbalance for group in counted.token_groups}
    assert imbalance == {1: 1.0, 2: (2 + 3) / (1 + 2), 4: 3 / 1.5}
    patterns = {str(group.pattern): group for group in counted.channel_groups}
    assert list(patterns) == ["1:2", "1:4", "2:4", "3:4"]
    assert [patterns[name].over for name in patterns] == [2 / 8, 2 / 4, 1 / 4, 0]  # over 1:2: (1, -2) and (3, 1)
    assert patterns["2:4"].l1_share == pytest.approx((3 + 0 + 4 + 1) / 9)
    assert patterns["2:4"].l2_share == pytest.approx((5 + 0 + 10 + 1) / 17)
    assert patterns["3:4"].l2_share == 1


@given(ACTIVATIONS, st.lists(st.integers(0, 9), max_size=3), st.sampled_from([0.0, 0.7]))
def test_counts_are_those_of_the_whole_array(array, cuts, tolerance):
    """Any slabs give what NumPy counts on the whole array."""
    counted = count_activations(slabs(array, cuts), [2, 4], tolerance)
    magnitudes = np.where(np.abs(array) > tolerance, np.abs(array), 0).astype(float)
    mask = magnitudes > 0
    assert (counted.tokens, counted.channels) == array.shape
    assert counted.density == pytest.approx(mask.mean())
    for spread, densities in ((counted.over_tokens, mask.mean(1)), (counted.over_channels, mask.mean(0))):
        assert spread.deviation == pytest.approx(densities.std(), abs=1e-7)
        assert spread.empty == pytest.approx((densities == 0).mean())
    sizes = [2**level for level in range(len(array).bit_length())]
    assert [group.tokens for group in counted.token_groups] == sizes
    for group in counted.token_groups:
        groups = mask[: len(array) // group.tokens * group.tokens].reshape(-1, group.tokens, array.shape[1])
        assert (group.groups, group.union_density) == (len(groups), pytest.approx(groups.any(1).mean()))
        nonzeros = groups.sum(2)
        expected = nonzeros.max(1).sum() / nonzeros.mean(1).sum() if nonzeros.any() else np.nan
        assert group.imbalance == pytest.approx(expected, nan_ok=True)
    for group in counted.channel_groups:
        n, m = group.pattern.n, group.pattern.m
        padded = np.pad(magnitudes, ((0, 0), (0, -array.shape[1] % m))).reshape(-1, m)
        largest = -np.sort(-padded, axis=1)[:, :n]
        assert group.over == pytest.approx(((padded > 0).sum(1) > n).mean())
        for kept, power in ((group.l1_share, 1), (group.l2_share, 2)):
            total = (padded**power).sum()
            assert kept == pytest.approx((largest**power).sum() / total if total else np.nan, nan_ok=True)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float16, bool])
def test_number_types_count_the_same(dtype):
    values = np.array([[0, 1, 2, -128], [0, 0, 3, 0]])
    expected = np.abs(values.astype(dtype).astype(float))
    counted = count_activations([values.astype(dtype)], [4], 0.0)
    assert counted.density == np.count_nonzero(expected) / 8
    assert counted.channel_groups[0].l1_share == pytest.approx(expected.max(axis=1).sum() / expected.sum())


def test_what_is_not_finite_is_located_over_slabs():
    broken = np.ones((5, 3), np.float16)
    broken[3, 1] = np.inf
    with pytest.raises(InputError, match="token 3, channel 1 is inf"):
        count_activations([broken[:2], broken[2:]], [2], 0.0)


def test_an_array_without_elements_is_an_error():
    with pytest.raises(InputError, match="the array is empty"):
        count_activations([np.ones((0, 3))], [2], 0.0)
