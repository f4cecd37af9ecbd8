"""Laws of the time of fused attention: counts by hand, growth with the work, limits by the peak and by the bandwidth."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.model.efficiency.attention.launches import PHASES
from dse.model.efficiency.attention.model import AttentionModel
from dse.model.efficiency.attention.parameters import ATTENTION_PRIOR, TILINGS, TILINGS_OF_PHASE, attention_theta, attention_values
from dse.model.efficiency.smooth_maximum import smooth_maximum
from tests.model.efficiency.attention.attention_cases import GPU, make_launches

TILING_NAMES = st.sampled_from(sorted(TILINGS))
SIZES = st.sampled_from((64, 80, 128, 192, 256))
GROUPS = st.tuples(st.integers(1, 16), st.integers(1, 8))  # key heads, and heads that share each


def predict(launches, tiling="flash_attention_2", theta=ATTENTION_PRIOR):
    return AttentionModel(launches.key, tiling, theta).predict_times(launches)


@pytest.mark.parametrize(
    ("sizes", "scores"),
    [
        ({"queries": 4, "keys": 4}, 1 + 2 + 3 + 4),
        ({"queries": 4, "keys": 4, "window": 2}, 1 + 2 + 2 + 2),
        ({"queries": 1, "keys": 5}, 5),
        ({"queries": 2, "keys": 5, "window": 3}, 3 + 3),
        ({"queries": 4, "keys": 4, "causal": False}, 16),
    ],
)
def test_masked_scores_take_no_flops(sizes, scores):
    launches = make_launches(sequences=3, heads=8, kv_heads=2, size=64, **sizes)
    assert launches.scores == scores
    assert launches.flops == 3 * 8 * scores * (2 * 64 + 2 * 64)


@given(st.integers(1, 60), st.integers(0, 60), st.one_of(st.integers(1, 80), st.just(np.inf)))
def test_scores_and_keys_are_those_of_an_explicit_mask(queries, earlier, window):
    keys = queries + earlier
    position, key = np.arange(earlier, keys)[:, None], np.arange(keys)[None]
    mask = (key <= position) & (key > position - window)
    launches = make_launches(queries=queries, keys=keys, window=window)
    assert launches.scores == mask.sum()
    assert launches.keys_read == mask.any(axis=0).sum()


def test_bytes_of_a_decode_by_hand():
    launches = make_launches(sequences=4, queries=1, keys=1000, heads=32, kv_heads=8, size=128)
    assert launches.kv_bytes == 4 * 1000 * 8 * 128 * 2 * 2
    assert launches.query_and_output_bytes == 4 * 32 * 128 * 2 * 2


@settings(deadline=None, max_examples=60)
@given(TILING_NAMES, st.integers(1, 64), st.integers(1, 300), GROUPS, SIZES, st.booleans())
def test_more_keys_are_never_faster(tiling, sequences, queries, heads, size, causal):
    keys = queries + np.unique(np.round(1.3 ** np.arange(40)))
    groups = {"heads": heads[0] * heads[1], "kv_heads": heads[0]}
    time = predict(make_launches(causal, sequences=sequences, queries=queries, keys=keys, size=size, **groups), tiling)
    assert np.all(np.diff(time) >= -1e-9 * time[:-1])


@settings(deadline=None, max_examples=60)
@given(TILING_NAMES, st.integers(1, 300), st.integers(0, 5000), GROUPS, SIZES, st.booleans())
def test_more_sequences_are_never_faster(tiling, queries, earlier, heads, size, causal):
    sequences = np.arange(1, 200)
    groups = {"heads": heads[0] * heads[1], "kv_heads": heads[0]}
    time = predict(make_launches(causal, sequences=sequences, queries=queries, keys=queries + earlier, size=size, **groups), tiling)
    assert np.all(np.diff(time) >= -1e-9 * time[:-1])


@settings(deadline=None, max_examples=100)
@given(TILING_NAMES, st.integers(1, 64), st.integers(1, 5000), st.integers(0, 5000), GROUPS, SIZES, st.booleans())
def test_no_time_is_above_the_peak_or_the_bandwidth(tiling, sequences, queries, earlier, heads, size, causal):
    groups = {"heads": heads[0] * heads[1], "kv_heads": heads[0]}
    launches = make_launches(causal, sequences=sequences, queries=queries, keys=queries + earlier, size=size, **groups)
    overhead, unit, memory = AttentionModel(launches.key, tiling, ATTENTION_PRIOR).time_components(launches, launches.compulsory_bytes)
    assert np.all(overhead > 0)
    assert np.all(unit >= launches.flops / GPU.peak)
    assert np.all(memory >= launches.compulsory_bytes / GPU.bandwidth)


@pytest.mark.parametrize("phase", PHASES)
def test_long_sequences_are_bound_by_the_peak(phase):
    """Twice the peak takes half the time; twice the bandwidth changes nothing. A decode of many heads that share keys is meant as well."""
    single = phase == "decode"
    sizes = {"sequences": 64, "queries": 1 if single else 8192, "keys": 8192, "heads": 4096 if single else 32, "kv_heads": 1}
    times = [
        predict(make_launches(phase != "encoder", rates, size=128, **sizes), TILINGS_OF_PHASE[phase][-1])[0]
        for rates in (GPU, replace(GPU, peak=2 * GPU.peak, cache_peak=2 * GPU.cache_peak), replace(GPU, bandwidth=2 * GPU.bandwidth))
    ]
    assert times[1] == pytest.approx(times[0] / 2, rel=0.05)
    assert times[2] == pytest.approx(times[0], rel=0.02)


@pytest.mark.parametrize("tiling", TILINGS_OF_PHASE["decode"])
def test_a_decode_of_many_sequences_is_bound_by_the_bandwidth(tiling):
    theta = attention_theta(attention_values(ATTENTION_PRIOR) | {"efficiency": 0.98, "fill": 1e-8, "bandwidth": 0.9})
    launches = make_launches(sequences=512, keys=16384, heads=8, kv_heads=8)
    rates = replace(GPU, peak=100 * GPU.peak, cache_peak=100 * GPU.cache_peak)
    assert predict(replace(launches, rates=rates), tiling, theta) == pytest.approx(
        launches.compulsory_bytes / (0.9 * GPU.bandwidth), rel=0.01
    )


def test_repeated_launches_find_small_operands_in_the_cache():
    launches = make_launches(sequences=[1, 512], keys=2048, heads=32, kv_heads=8)
    model = AttentionModel(launches.key, "flash_attention_2", ATTENTION_PRIOR)
    overhead, unit, memory = model.time_components(launches, launches.compulsory_bytes)
    cold, repeated = overhead + np.asarray(smooth_maximum(unit, memory)), model.predict_times(launches)
    assert launches.compulsory_bytes[0] < GPU.cache < launches.compulsory_bytes[1] / 4
    assert repeated[0] < cold[0]
    assert repeated[1] >= cold[1] * (1 - 1e-3)


def test_the_write_of_the_cache_counts_only_where_it_is_measured():
    sizes = {"sequences": 64, "queries": 128, "keys": 128, "heads": 32, "kv_heads": 8}
    assert predict(make_launches(writes_cache=True, **sizes)) > predict(make_launches(**sizes))
