"""The figure of a result against an input of the networks."""

import warnings

import numpy as np
import pytest
import xarray as xr

import dse
from dse.base.dtype import parse_dtype, shorten_label
from dse.plot import draw_figure
from dse.plot.inputs import FASTEST, GAIN


@pytest.fixture(scope="module")
def results():
    return dse.sweep({
        "name": "contexts", "accelerators": ["a100-sxm4-80gb"],
        "workloads": {
            "llama-3.2-1b": {
                "methods": ["dense"], "patterns": {"list": ["2:4"]},
                "inputs": {"phase": ["prefill", "decode"], "sequence": [1024, 8192, 65536], "attention_pattern": ["causal", "window:1024"]},
            }
        },
        "dtype": ["fp16", "fp16 weights=int8"],
    })  # fmt: skip


def test_a_gain_is_the_ratio_of_latencies_at_the_same_point(results):
    _, rows = draw_figure("inputs", results)
    point = (rows.phase == "decode") & (rows.sequence == 8192)
    latency = {curve: float(rows[point & (rows.curve == curve)].latency.iloc[0]) for curve in rows.curve.unique()}
    gains = {curve: float(rows[point & (rows.curve == curve)].gain.iloc[0]) for curve in rows.curve.unique()}
    first = rows.curve.iloc[0]
    assert first == "dense, fp16, causal"
    assert len(gains) == 8
    for curve, gain in gains.items():
        assert gain == pytest.approx(latency[first] / latency[curve], rel=1e-12)
    names = [str(name) for name in results.workload.values]
    workload = names.index("llama-3.2-1b (phase=decode, sequence=8192, attention_pattern=causal)")
    assert latency[first] == pytest.approx(float(results.latency.isel(variant=workload, dtype=0).squeeze()), rel=1e-12)


def test_of_many_combinations_single_changes_and_the_fastest_are_drawn(results):
    figure, rows = draw_figure("inputs", results)
    ax = figure.axes[1]
    lines = {line.get_label(): line.get_ydata() for line in ax.lines if not str(line.get_label()).startswith("_")}
    assert set(lines) == {"dense, fp16, causal", "2:4", "window:1024", "fp16 weights=int8", FASTEST}
    decode = rows[rows.phase == "decode"]
    np.testing.assert_array_equal(lines[FASTEST], decode.groupby("sequence")[GAIN].max())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1k", "8k", "64k"]


def test_another_result_is_drawn_as_it_is(results):
    _, rows = draw_figure("inputs", results, y="latency")
    assert GAIN not in rows
    with pytest.raises(dse.InputError, match="no result 'energy'"):
        draw_figure("inputs", results, y="energy")
    with pytest.raises(dse.InputError, match="'phase' is not an input with several numbers"):
        draw_figure("inputs", results, x="phase")


def test_networks_without_inputs_are_refused():
    one = dse.sweep({"name": "one", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16"})
    with pytest.raises(dse.InputError, match="needs latencies of a network with several numbers of an input"):
        draw_figure("inputs", one)


@pytest.mark.parametrize("text", ["fp16", "int8 outputs=int32", "fp8 weights=nvfp4 outputs=bf16", "bf16 elementwise=fp16"])
def test_a_shortened_label_is_what_a_specification_states(text):
    assert parse_dtype(shorten_label(parse_dtype(text).label)) == parse_dtype(text)


@pytest.fixture(scope="module")
def large() -> xr.Dataset:
    """A network that does not fit a small GPU in its first dtype, at several lengths; and one of another default length."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dse.ModelWarning)
        return dse.sweep(
            {
                "name": "large",
                "accelerators": ["rtx4090"],
                "workloads": {
                    "qwen2.5-14b": {"methods": ["dense"], "inputs": {"phase": "prefill", "sequence": [1024, 4096]}, "patterns": ["2:4"]},
                    "gpt2": {"methods": ["dense"], "inputs": {"phase": "decode"}},
                },
                "dtype": ["bf16", "fp8"],
                "model": {"fidelity": "capacity"},
            }
        )


def test_the_gain_is_over_the_first_combination_even_where_that_does_not_fit(large):
    _, rows = draw_figure("inputs", large)
    assert not large.fits.sel(dtype="bf16").isel(variant=0).any()
    dense = large.latency.isel(accelerator=0, batch=0).sel(dtype="bf16").isel(variant=large.workload == large.workload[0]).isel(variant=0)
    sparse = rows[(rows.pattern == "2:4") & (rows.dtype == "fp8") & (rows.sequence == 1024)]
    np.testing.assert_allclose(sparse.gain, float(dense) / sparse.latency)
    assert sparse.gain.iloc[0] > 2


def test_networks_at_one_length_are_not_drawn(large):
    figure, rows = draw_figure("inputs", large)
    assert set(rows.network) == {"qwen2.5-14b"}
    assert all(low < 1 < high for low, high in (ax.get_ylim() for ax in figure.axes))
    with pytest.raises(dse.InputError, match="needs latencies of a network with several numbers of an input"):
        draw_figure("inputs", large.isel(variant=large.workload == "gpt2 (phase=decode)"))
