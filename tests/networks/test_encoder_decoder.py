"""Networks of an encoder and a decoder: the encoder runs once, and a decode step keeps its parameters and the cache of cross attention."""

import numpy as np
import pytest

import dse
from dse.networks.layers import LayerArrays, LayerRow

NETWORKS = ["t5-base", "flan-t5-xl", "whisper-small", "whisper-large-v3"]


def layers_of(name: str, **inputs) -> LayerArrays:
    return dse.load_workload(name, **inputs).layers


def work(layers: LayerArrays) -> dict[str, float]:
    """Multiply-adds of each layer."""
    return dict(zip(layers.name, layers.m * layers.k * layers.n * layers.count * layers.has_flops, strict=True))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_decode_step_keeps_parameters_and_cache_of_what_it_does_not_run(name):
    prefill, decode = (layers_of(name, phase=phase, target=7) for phase in ("prefill", "decode"))
    assert prefill.parameters == decode.parameters
    assert prefill.cache_elements.sum() == decode.cache_elements.sum()
    assert decode.name[0] == "encoder"
    assert not decode.input_elements[0]
    assert not any(layer.startswith(("encoder.", "shared")) for layer in decode.name)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_decoder_does_the_work_of_one_token_in_a_decode_step(name):
    """A prompt of T tokens does T times the work of the decode step at T, without the encoder and the projections of its outputs."""
    prefill, decode = (work(layers_of(name, phase=phase, target=16, logits="all")) for phase in ("prefill", "decode"))
    for layer, done in decode.items():
        if layer != "encoder":
            assert prefill[layer] == 16 * done, layer


@pytest.mark.parametrize(
    ("name", "inputs", "elements"),
    [
        ("t5-base", {"sequence": 300, "target": 20}, 12 * 2 * 768 * (300 + 20)),
        ("flan-t5-xl", {"sequence": 512, "target": 1}, 24 * 2 * 2048 * (512 + 1)),
        ("whisper-small", {"target": 100}, 12 * 2 * 768 * (1500 + 100)),
        ("whisper-large-v3", {"target": 448}, 32 * 2 * 1280 * (1500 + 448)),
    ],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_cache_holds_the_tokens_of_the_decoder_and_those_of_the_encoder(name, inputs, elements, phase):
    assert layers_of(name, phase=phase, **inputs).cache_elements.sum() == elements


def test_work_of_whisper_by_hand():
    """Encoder of the small network: 1,500 positions of width 768, 12 blocks, behind convolutions of 3 on 3,000 frames of 80 bins."""
    done = work(layers_of("whisper-small"))
    encoder = sum(macs for layer, macs in done.items() if layer.startswith("encoder"))
    width, tokens = 768, 1500
    convolutions = 3 * 80 * width * 2 * tokens + 3 * width * width * tokens
    assert encoder == convolutions + 12 * (12 * width * width * tokens + 2 * width * tokens**2)


def test_work_of_t5_by_hand():
    done = work(layers_of("t5-base", sequence=100, target=1))
    assert sum(macs for layer, macs in done.items() if layer.startswith("encoder.")) == 12 * (
        100 * (4 * 768**2 + 2 * 768 * 3072) + 2 * 100**2 * 768
    )
    assert sum(macs for layer, macs in done.items() if "EncDecAttention.k" in layer) == 12 * 768**2 * 100
    assert done["lm_head"] == 32128 * 768


@pytest.mark.parametrize("name", ["t5-base", "whisper-small"])
def test_a_decode_step_reads_the_decoder_and_both_caches(name):
    """In bytes of 2 an element: the weights of the decoder without cross keys and values, and the cache; little else."""
    workload = dse.load_workload(name, phase="decode", target=64)
    layers = dse.evaluate("a100-sxm4-80gb", workload, dtype="fp16")
    read = 2 * float((workload.layers.weights * workload.layers.copies).sum() + workload.layers.cache_elements.sum())
    assert read < float(layers.bytes.sum()) < 1.02 * read
    assert float(layers.latency.sel(layer="encoder")) == 0
    assert np.isfinite(layers.latency).all()


def test_cross_attention_reads_the_output_of_the_encoder():
    layers = layers_of("whisper-small")
    reads = dict(zip(layers.name, layers.reads, strict=True))
    assert reads["decoder.layers.3.encoder_attn.k_proj"] == "encoder.layer_norm"
    assert reads["decoder.layers.3.encoder_attn.scores"] == "decoder.layers.3.encoder_attn.q_proj;decoder.layers.3.encoder_attn.k_proj"
    assert reads["decoder.embed_tokens"] == "input"
    assert not layers.causal[layers.name.index("decoder.layers.3.encoder_attn.scores")]
    assert layers.causal[layers.name.index("decoder.layers.3.self_attn.scores")]


def rows_of(name: str, **inputs) -> dict[str, LayerRow]:
    return {row.name: row for row in dse.load_workload(name, **inputs).layers.to_rows()}


@pytest.mark.parametrize(
    ("name", "at", "tokens"),
    [("t5-base", "encoder.block.3.layer.0.SelfAttention", 512), ("whisper-small", "encoder.layers.3.self_attn", 1500)],
)
def test_the_encoder_attends_to_tokens_around_each(name, at, tokens):
    """LongT5 (Guo et al. 2021, arXiv 2112.07916) has 127 tokens on each side: 255 keys of a query, all keys of all queries."""
    local, full = (rows_of(name, encoder_pattern=pattern) for pattern in ("around:127", "full"))
    scores, context = local[f"{at}.scores"], local[f"{at}.context"]
    assert (scores.m, context.k, str(scores.scores), scores.causal, scores.read_keys) == (255, 255, "around:127", False, tokens)
    assert full == rows_of(name)
    assert [row for at_row, row in local.items() if not at_row.endswith((".scores", ".context"))] == [
        row for at_row, row in full.items() if not at_row.endswith((".scores", ".context"))
    ]
    assert {at_row for at_row, row in local.items() if row != full[at_row]} == {
        at_row for at_row in full if at_row.startswith("encoder") and at_row.endswith((".scores", ".context"))
    }


@pytest.mark.parametrize(
    ("name", "at", "cross"),
    [("t5-base", "decoder.block.3.layer.0.SelfAttention", "decoder.block.3.layer.1.EncDecAttention"),
     ("whisper-small", "decoder.layers.3.self_attn", "decoder.layers.3.encoder_attn")],
)  # fmt: skip
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_window_of_the_decoder_limits_its_keys_and_its_cache(name, at, cross, phase):
    """Of 64 tokens each attends to 16: products and cache have 16 keys, all queries of a prompt read 64, cross-attention is full."""
    window, causal = (rows_of(name, phase=phase, target=64, attention_pattern=pattern) for pattern in ("window:16", "causal"))
    scores, context, keys = (window[f"{at}.{part}"] for part in ("scores", "context", "k_proj" if "whisper" in name else "k"))
    assert (scores.m, context.k, str(scores.scores), keys.cache_elements) == (16, 16, "window:16", 16 * 768)
    assert (scores.read_keys or scores.m) == (64 if phase == "prefill" else 16)
    assert causal == rows_of(name, phase=phase, target=64)
    assert window[f"{cross}.scores"] == causal[f"{cross}.scores"]
    assert str(window[f"{cross}.scores"].scores) == "full"


def test_units_leave_out_the_scores_of_encoder_and_decoder():
    """By hand: windows of 16 keys in a prompt of 64 tokens have 16 x 17 / 2 + 48 x 16 scores, 127 around each of 512 as many as counted."""
    chip = {
        "name": "chip", "source": "test", "memory": {"dram": {"bandwidth": "1000 TB/s"}},
        "units": {"u": {"peak": {"fp16": "1 TFLOP/s"}, "runs": {"dense": {"pattern": "dense", "scores": {"patterns": ["window:*", "around:*"]}}}}},
    }  # fmt: skip
    workload = dse.load_workload("t5-base", target=64, attention_pattern="window:16", encoder_pattern="around:127")
    latency = dse.evaluate(chip, workload, dtype="fp16").latency
    decoder, encoder = (float(latency.sel(layer=f"{at}.block.0.layer.0.SelfAttention.scores")) for at in ("decoder", "encoder"))
    assert decoder == pytest.approx(2 * 768 * (16 * 17 / 2 + 48 * 16) / 1e12)
    around = sum(min(position + 127, 511) - max(position - 127, 0) + 1 for position in range(512))
    assert encoder == pytest.approx(2 * 768 * around / 1e12)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("t5-base", {"attention_pattern": "around:4", "target": 9}, "'around:4' attends to later tokens, which do not exist yet"),
        ("t5-base", {"attention_pattern": "topk:4", "target": 9}, "this decoder has no layers that choose the keys of 'topk:4'"),
        ("t5-base", {"attention_pattern": "window:16", "target": 8}, "needs 16 tokens, and there are 8"),
        ("t5-base", {"encoder_pattern": "topk:4"}, "an encoder has no layers that choose the keys of 'topk:4'"),
        ("t5-base", {"encoder_pattern": "chunk:600"}, "needs 600 tokens, and there are 512"),
        ("whisper-small", {"encoder_pattern": "chunk:1600"}, "needs 1600 tokens, and there are 1500"),
        ("whisper-small", {"cross_pattern": "causal"}, "unknown"),
    ],
)
def test_patterns_that_do_not_apply_are_errors(name, inputs, message):
    with pytest.raises(dse.InputError, match=message):
        dse.load_workload(name, **inputs)
