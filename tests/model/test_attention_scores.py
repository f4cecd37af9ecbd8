"""Units that leave scores of an attention out: their FLOPs and bytes against counts by hand, and laws."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.sparsity.attention import parse_attention

WIDTH, HEADS, KEY_HEADS = 8, 8, 2
TINY = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS,
}  # fmt: skip
LISTED = ["causal", "window:*+global:*", "strided:*", "topk:*"]


def device(scores=None, memory=None, **run):
    runs = {} if scores is None else {"dense": {"weights": "dense", "scores": scores, **run}}
    memory = memory or {"dram": {"bandwidth": "1 TB/s"}}
    return {"name": "unit", "source": "test", "units": {"u": {"peak": {"fp16": "1 TFLOP/s"}, "runs": runs}}, "memory": memory}


@cache
def network(pattern="causal", phase="prefill", sequence=64, **inputs):
    description = {"name": "tiny", "task": "t", "metric": {"name": "m", "direction": "higher"}, "sources": ["a test"], "network": TINY}
    return dse.load_workload(description, attention_pattern=pattern, phase=phase, sequence=sequence, attention="fused", **inputs).dense


def products(pattern, scores=None, phase="prefill", sequence=64, batch=1, memory=None, **options):
    results = dse.evaluate(device(scores, memory), network(pattern, phase, sequence), batch=batch, **options)
    return results.sel(layer=[f"model.layers.0.self_attn.{name}" for name in ("scores", "context")])


def test_units_that_list_no_scores_compute_the_rectangle():
    assert products("causal").flops.values == pytest.approx([2 * 64 * 64 * WIDTH * HEADS] * 2)
    assert products("topk:8", phase="decode").flops.values == pytest.approx([2 * 8 * WIDTH * HEADS] * 2)


@pytest.mark.parametrize(
    "pattern", ["causal", "window:16", "window:8+global:4", "strided:8", "chunk:16", "topk:8", "topk:3x4", "block:4x4@0.5"]
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("tile", ["1x1", "4x4", "16x8"])
def test_flops_are_those_of_the_touched_tiles(pattern, phase, tile):
    result = products(pattern, {"patterns": ["causal", pattern], "tile": tile}, phase)
    queries = 64 if phase == "prefill" else 1
    size, own = tuple(map(int, tile.split("x"))), parse_attention(pattern)
    causal = parse_attention("causal").touched_scores(queries, max(queries, own.cached_keys(64)), size)
    touched = min(own.touched_scores(queries, 64, size), causal)
    assert result.flops.values == pytest.approx([2 * touched * WIDTH * HEADS] * 2)


def test_bytes_of_decode_are_those_of_the_chosen_keys_and_their_indices():
    result = products("topk:8", {"patterns": ["topk:*"], "index": "16 bit"}, "decode")
    queries, keys, indices = 2 * WIDTH * HEADS, 2 * WIDTH * KEY_HEADS * 8, 2 * 8 * KEY_HEADS
    assert result.bytes.values == pytest.approx([queries + keys + indices, keys + queries])


def test_a_window_reads_every_key_that_some_query_attends_to():
    keys = 2 * WIDTH * KEY_HEADS * 64
    prefill = products("window:16", {"patterns": ["window:*"]})
    assert prefill.bytes.values == pytest.approx([2 * WIDTH * HEADS * 64 + keys, keys + 2 * WIDTH * HEADS * 64])
    decode = products("window:16", {"patterns": ["window:*"]}, "decode")
    assert decode.bytes.values[1] == pytest.approx(2 * WIDTH * KEY_HEADS * 16 + 2 * WIDTH * HEADS)


def test_a_pattern_that_is_not_listed_runs_as_one_that_contains_it_or_in_full():
    causal = {"patterns": ["causal"]}
    assert products("topk:8", causal).flops.values == pytest.approx(products("causal", causal).flops.values)
    full = products("topk:8", {"patterns": ["window:*"]}, "decode")
    assert full.flops.values == pytest.approx([2 * 64 * WIDTH * HEADS] * 2)
    assert full.bytes.values[1] == pytest.approx(2 * WIDTH * KEY_HEADS * 64 + 2 * WIDTH * HEADS)
    assert products("topk:8", {"patterns": ["causal", "topk:*"]}).flops.sum() < products("causal", causal).flops.sum() / 4


def test_a_window_that_is_not_listed_runs_on_the_keys_that_the_cache_holds():
    assert products("window:16", {"patterns": ["causal"]}, "decode").flops.values == pytest.approx([2 * 16 * WIDTH * HEADS] * 2)
    prefill = products("window:16", {"patterns": ["causal"]})
    assert prefill.flops.values == pytest.approx([2 * (64 * 65 / 2) * WIDTH * HEADS] * 2)


def test_gated_scores_take_time_but_no_energy():
    gated = products("causal", {"patterns": ["causal"], "zeros": "gated"})
    assert gated.latency.values == pytest.approx(products("causal").latency.values)
    assert gated.gated_flops.values == pytest.approx([2 * (64 * 64 - 64 * 65 / 2) * WIDTH * HEADS] * 2)


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from(LISTED),
    st.sampled_from(["causal", "window:16", "chunk:8", "topk:8"]),
    st.sampled_from(["prefill", "decode"]),
    st.data(),
)
def test_more_listed_patterns_and_smaller_tiles_never_compute_more(family, pattern, phase, data):
    small, large = data.draw(st.sampled_from([(1, 4), (4, 16), (2, 8)]))
    few, more = {"patterns": ["causal"], "tile": f"{large}x{large}"}, {"patterns": sorted({"causal", family}), "tile": f"{small}x{small}"}
    assert products(pattern, more, phase).flops.sum() <= products(pattern, few, phase).flops.sum() + 1e-9


@pytest.mark.parametrize("pattern", ["causal", "window:16", "topk:8"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_capacity_lies_between_the_bound_and_the_rectangle(pattern, phase):
    memory = {"dram": {"bandwidth": "1 GB/s"}, "sram": {"capacity": "4 KiB"}}
    scores = {"patterns": ["causal", "window:*", "topk:*"]}
    result = products(pattern, scores, phase, memory=memory, fidelity="capacity")
    assert np.all(result.bytes_bound <= result.bytes * (1 + 1e-12))
    compulsory = products(pattern, scores, phase)
    assert np.all(result.bytes >= compulsory.bytes * (1 - 1e-12))


def test_a_batch_multiplies_the_products():
    scores = {"patterns": ["causal", "topk:*"]}
    for phase in ("prefill", "decode"):
        one, four = (products("topk:8", scores, phase, batch=batch) for batch in (1, 4))
        assert four.flops.values == pytest.approx(4 * one.flops.values)
        assert four.bytes.values == pytest.approx(4 * one.bytes.values)


@pytest.mark.parametrize(
    ("run", "message"),
    [({"pattern": "2:4", "scores": {"patterns": ["causal"]}}, "list 'scores' in a run of the pattern dense"),
     ({"pattern": "dense", "scores": {"patterns": ["windows:*"]}}, "not an attention pattern"),
     ({"pattern": "dense", "scores": {"patterns": []}}, "write at least one"),
     ({"pattern": "dense", "scores": {"patterns": ["causal"], "tile": "128"}}, "not a tile"),
     ({"pattern": "2:4", "weights": "2:4"}, "'weights' and 'pattern' are the same key")],
)  # fmt: skip
def test_bad_runs(run, message):
    description = device()
    description["units"]["u"]["runs"] = {"mine": run}
    with pytest.raises(dse.InputError, match=message):
        dse.load_accelerator(description)


def test_operands_name_the_keys_of_a_run():
    runs = {"mine": {"weights": "2:4", "inputs": {"patterns": ["unstructured"]}}}
    named = device() | {"units": {"u": {"peak": {"fp16": "1 TFLOP/s"}, "runs": runs}}}
    accelerator = dse.load_accelerator(named)
    assert str(accelerator.units["u"].runs["mine"].pattern) == "2:4"
    varied = accelerator.replace({"units.u.runs.mine.pattern": "1:4", "units.u.runs.mine.activations.zeros": "gated"})
    assert str(varied.units["u"].runs["mine"].pattern) == "1:4"


def test_tiles_are_an_axis():
    sweep = {
        "name": "tiles", "accelerators": [device({"patterns": ["causal"], "tile": "1x1"})], "batch": [1], "dtype": "fp16",
        "workloads": {"tiny": {"workload": {"name": "tiny", "task": "t", "metric": {"name": "m", "direction": "higher"}, "sources": ["a test"],
                                            "network": TINY, "inputs": {"sequence": 64}}}},
        "axes": {"units.u.runs.dense.scores.tile": ["1x1", "16x16", "64x64"]},
    }  # fmt: skip
    latency = dse.sweep(sweep).latency.squeeze()
    assert np.all(np.diff(latency) > 0)
