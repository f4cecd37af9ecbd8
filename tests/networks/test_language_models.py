"""Language models of 2024 and later: windows, caches, experts and fused projections against published or hand-computed figures."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.base.strict_model import validate_mapping
from dse.networks.gemma import Gemma2
from dse.networks.gpt_oss import GPTOSS
from dse.networks.layers import LayerArrays
from dse.networks.mixtral import Qwen3MoE
from dse.networks.phi3 import Phi3


def layers_of(name: str, **inputs) -> LayerArrays:
    return dse.load_workload(name, **inputs).layers


def keys_of(layers: LayerArrays) -> list[int]:
    """Keys of the attention of each block."""
    return [int(m) for name, m in zip(layers.name, layers.m, strict=True) if name.endswith("self_attn.scores")]


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("mistral-7b", [4096] * 32),
        ("mistral-nemo-12b", [100_000] * 40),
        ("gemma-2-9b", [4096, 100_000] * 21),
        ("gemma-3-1b", ([512] * 5 + [100_000]) * 4 + [512] * 2),
        ("gpt-oss-20b", [128, 100_000] * 12),
        ("phi-3-mini", [2047] * 32),
        ("qwen3-8b", [100_000] * 36),
    ],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_each_block_attends_to_its_window(name, windows, phase):
    layers = layers_of(name, sequence=100_000, phase=phase)
    assert keys_of(layers) == windows


@pytest.mark.parametrize(
    ("name", "sequence", "elements"),
    [
        ("mistral-7b", 32768, 32 * 4096 * 2 * 1024),
        ("gemma-2-9b", 8192, 21 * (4096 + 8192) * 2 * 2048),
        ("gemma-3-1b", 32768, (22 * 512 + 4 * 32768) * 2 * 256),
        ("gpt-oss-120b", 131072, 18 * (128 + 131072) * 2 * 512),
        ("qwen3-30b-a3b", 1000, 48 * 1000 * 2 * 512),
        ("phi-4", 1000, 40 * 1000 * 2 * 1280),
    ],
)
def test_the_cache_keeps_the_window_of_each_block(name, sequence, elements):
    for phase in ("prefill", "decode"):
        assert layers_of(name, sequence=sequence, phase=phase).cache_elements.sum() == elements


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("gpt-oss-20b", 3.61),  # arXiv 2508.10925, table 1: active parameters, without the embeddings
        ("gpt-oss-120b", 5.13),
        ("qwen3-30b-a3b", 3.04),  # 3.3 of the model card, which counts the embeddings (0.31)
        ("qwen3-235b-a22b", 21.57),  # 22 of the model card, which counts the embeddings (0.62)
    ],
)
def test_active_parameters_agree_with_published_ones(name, billions):
    assert layers_of(name).active_weights / 1e9 == pytest.approx(billions, rel=5e-3)


def test_components_of_gpt_oss_agree_with_its_model_card():
    """arXiv 2508.10925, table 1: 19.12 G in experts, 0.64 G in attention, 1.16 G in both embeddings, of 20.91 G."""
    layers = layers_of("gpt-oss-20b")
    parameters = layers.weights * layers.copies + layers.other_parameters * layers.count
    share = {part: sum(p for name, p in zip(layers.name, parameters, strict=True) if part in name) / 1e9 for part in ("mlp", "self_attn")}
    assert share["mlp"] == pytest.approx(19.12, abs=0.005)
    assert share["self_attn"] == pytest.approx(0.64, abs=0.005)
    assert pytest.approx(1.16, abs=0.005) == 2 * 201088 * 2880 / 1e9


def test_fused_projections_have_the_work_of_separate_ones():
    sizes = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8}
    sizes |= {"num_key_value_heads": 2, "attention_bias": True}
    fused, separate = (
        LayerArrays.from_rows(model(model_type=kind, **sizes).build_layers(model.inputs(sequence=30)))
        for model, kind in ((Phi3, "phi3"), (Phi3.__base__, "llama"))
    )
    assert fused.macs == separate.macs
    assert fused.cache_elements.sum() == separate.cache_elements.sum()
    assert len(fused) == len(separate) - 2 * 3


def test_blocks_of_qwen3_without_experts_have_one_feed_forward_network():
    sizes = {"vocab_size": 10, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2}
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 4}
    network = Qwen3MoE(model_type="qwen3_moe", **sizes, **experts, decoder_sparse_step=2, mlp_only_layers=(3,))
    rows = network.build_layers(Qwen3MoE.inputs(sequence=8))
    assert sorted({row.name.split(".")[2] for row in rows if row.experts == 8}) == ["1"]
    assert sorted({row.name.split(".")[2] for row in rows if row.name.endswith("mlp.gate_proj")}) == ["0", "2", "3"]


def test_gemma_normalises_before_and_behind_both_parts_of_a_block():
    names = [name.removeprefix("model.layers.0.") for name in layers_of("gemma-2-9b").name if name.startswith("model.layers.0.")]
    assert [name for name in names if "layernorm" in name] == [
        "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
    ]  # fmt: skip
    reads = dict(zip(layers_of("gemma-2-9b").name, layers_of("gemma-2-9b").reads, strict=True))
    at = "model.layers.0"
    assert reads[f"{at}.pre_feedforward_layernorm"] == f"{at}.post_attention_layernorm;{at}.input_layernorm"
    assert reads["model.layers.1.input_layernorm"] == f"{at}.post_feedforward_layernorm;{at}.pre_feedforward_layernorm"


def test_a_decode_step_reads_the_active_weights_and_the_cache():
    """GPT-OSS 20B, one sample at 1,024 tokens, 2 bytes an element, by hand from the sizes of its configuration."""
    layers = dse.evaluate("h100-sxm5-80gb", dse.load_workload("gpt-oss-20b", phase="decode", sequence=1024), dtype="bf16")
    moved = dict(zip(layers.layer.values, layers.bytes.values, strict=True))
    expert = 3 * 2880 * 2880
    for block, keys in ((0, 128), (1, 1024)):
        at = f"model.layers.{block}"
        experts = sum(moved[f"{at}.mlp.experts.{name}"] for name in ("gate_up_proj", "down_proj"))
        assert experts == pytest.approx(2 * 4 * (expert + 2 * 2880 + 2 * 2880 + 2880), rel=1e-6)
        attention = moved[f"{at}.self_attn.scores"] + moved[f"{at}.self_attn.context"]
        assert attention == 2 * (2 * keys * 512 + 2 * 4096)
    assert np.isfinite(layers.latency).all()


MINIMAL = {"vocab_size": 10, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.mark.parametrize(
    ("model", "sizes", "message"),
    [
        (Gemma2, {"layer_types": ["full_attention"]}, "1 layer_types for 2 blocks; write one for each of num_hidden_layers"),
        (GPTOSS, {"num_local_experts": 4, "num_experts_per_tok": 5}, "a token cannot use 5 of 4 experts; write num_experts_per_tok <="),
        (
            Qwen3MoE, {"num_experts": 4, "num_experts_per_tok": 5, "moe_intermediate_size": 4},
            "a token cannot use 5 of 4 experts; write num_experts_per_tok <= num_experts",
        ),
        (Gemma2, {"layer_types": ["full_attention", "local"]}, "'local' is not known here"),
    ],
)  # fmt: skip
def test_impossible_configurations_are_refused(model, sizes, message):
    kind = model.model_fields["model_type"].annotation.__args__[0]
    with pytest.raises(InputError, match=message):
        validate_mapping(model, {"model_type": kind, **MINIMAL, **sizes})
