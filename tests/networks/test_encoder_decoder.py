"""Networks of an encoder and a decoder: the encoder runs once, and a decode step keeps its parameters and the cache of cross attention."""

import numpy as np
import pytest

import dse
from dse.networks.layers import LayerArrays

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
