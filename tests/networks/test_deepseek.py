"""DeepSeek: latent attention, shared experts, prediction of a second token and the indexer, against published and hand-computed figures."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.base.strict_model import validate_mapping
from dse.networks.deepseek import DeepSeekV2, DeepSeekV32
from dse.networks.layers import LayerArrays


def layers_of(name: str, **inputs) -> LayerArrays:
    return dse.load_workload(name, **inputs).layers


def work(layers: LayerArrays) -> np.ndarray:
    """Multiply-adds [layer]."""
    return layers.m * layers.k * layers.n * layers.count * layers.active * layers.has_flops


def row(layers: LayerArrays, name: str) -> dict[str, float]:
    number = layers.name.index(name)
    return {column: float(getattr(layers, column)[number]) for column in ("m", "k", "n", "count", "input_elements", "output_elements")}


@pytest.mark.parametrize(("name", "elements"), [("deepseek-v2", 60 * 576), ("deepseek-v2-lite", 27 * 576), ("deepseek-v3", 61 * 576)])
def test_the_cache_keeps_a_latent_and_a_rotary_key(name, elements):
    for phase in ("prefill", "decode"):
        assert layers_of(name, sequence=1000, phase=phase).cache_elements.sum() == 1000 * elements


def test_the_cache_of_v3_has_the_published_bytes():
    """70.272 KB a token in bf16 (arXiv 2505.09343, table 1)."""
    assert 2 * layers_of("deepseek-v3", sequence=1).cache_elements.sum() == 70_272


@pytest.mark.parametrize(("name", "gflops"), [("deepseek-v2", 155), ("deepseek-v3", 250)])
def test_training_work_agrees_with_published_figures(name, gflops):
    """GFLOPs of training a token at 4,096 tokens (arXiv 2505.09343, table 2): six to a forward multiply-add, causal scores only."""
    layers = layers_of(name, sequence=4096, logits="all")
    causal = work(layers) * np.where(layers.kind == "matmul", 4097 / 8192, 1)
    assert 6 * causal.sum() / 4096 / 1e9 == pytest.approx(gflops, rel=5e-3)


@pytest.mark.parametrize(("name", "billions"), [("deepseek-v3", 36.6), ("deepseek-v2", 20.9), ("deepseek-v2-lite", 2.45)])
def test_active_parameters(name, billions):
    """V3: 36.6 G with the output head (README_WEIGHTS of its repository); V2 and V2-Lite: 21 G and 2.4 G (arXiv 2405.04434)."""
    assert layers_of(name).active_weights / 1e9 == pytest.approx(billions, rel=5e-3)


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "deepseek-v3", "deepseek-v3.2"])
def test_both_phases_have_the_same_parameters(name):
    prefill, decode = (layers_of(name, sequence=64, phase=phase) for phase in ("prefill", "decode"))
    assert prefill.parameters == decode.parameters


def test_absorbed_matrices_do_the_work_of_all_heads_on_latents():
    """One block of V3 at 1,000 tokens: 128 heads on a shared key of 576 and a value of 512; two parts of kv_b_proj for each head."""
    layers, at = layers_of("deepseek-v3", sequence=1000, phase="decode"), "model.layers.5.self_attn"
    computed = dict(zip(layers.name, work(layers), strict=True))
    assert computed[f"{at}.scores"] == 128 * 576 * 1000
    assert computed[f"{at}.context"] == 128 * 512 * 1000
    assert computed[f"{at}.kv_b_proj.key"] == 128 * 128 * 512
    assert computed[f"{at}.kv_b_proj.value"] == 128 * 512 * 128
    assert row(layers, f"{at}.scores")["input_elements"] == 576 * (128 + 1000)  # the latents are read once
    assert row(layers, f"{at}.context")["input_elements"] == 0


def test_absorbed_and_expanded_matrices_compute_the_same():
    """Both orders of the products, with random numbers: 3 heads, latents of 5, content 4, rotary 2, values 6."""
    rng = np.random.default_rng(0)
    heads, latent, content, value, tokens = 3, 5, 4, 6, 7
    key_part, value_part = rng.normal(size=(heads, content, latent)), rng.normal(size=(heads, value, latent))
    latents, query = rng.normal(size=(tokens, latent)), rng.normal(size=(heads, content))
    rotary_keys, rotary_query = rng.normal(size=(tokens, 2)), rng.normal(size=(heads, 2))
    keys, values = (np.einsum("hcl,tl->htc", part, latents) for part in (key_part, value_part))
    expanded_scores = np.einsum("hc,htc->ht", query, keys) + rotary_query @ rotary_keys.T
    absorbed_scores = np.einsum("hl,tl->ht", np.einsum("hc,hcl->hl", query, key_part), latents) + rotary_query @ rotary_keys.T
    np.testing.assert_allclose(absorbed_scores, expanded_scores)
    absorbed = np.einsum("hvl,hl->hv", value_part, absorbed_scores @ latents)
    np.testing.assert_allclose(absorbed, np.einsum("ht,htv->hv", expanded_scores, values))


def test_prefill_expands_keys_and_values():
    layers, at = layers_of("deepseek-v3", sequence=100), "model.layers.0.self_attn"
    assert row(layers, f"{at}.scores") == {
        "m": 100, "k": 192, "n": 100, "count": 128, "input_elements": 192 * 200, "output_elements": 0,
    }  # fmt: skip
    assert (row(layers, f"{at}.context")["m"], row(layers, f"{at}.kv_b_proj")["m"]) == (128, 128 * 256)


def test_first_blocks_have_no_experts_and_shared_experts_add_to_routed_ones():
    layers = layers_of("deepseek-v2-lite")
    mixtures = {name.split(".")[2] for name, experts in zip(layers.name, layers.experts, strict=True) if experts == 64}
    assert mixtures == {str(block) for block in range(1, 27)}
    down = layers.name.index("model.layers.1.mlp.experts.down_proj")
    assert layers.adds[down] == "model.layers.1.mlp.shared_experts.down_proj"
    assert row(layers, "model.layers.1.mlp.shared_experts.gate_proj")["m"] == 2 * 1408


def test_a_decode_step_of_v3_reads_active_weights_and_latents():
    """One sample at 4,096 tokens in fp8: 36.6 G weights and 61 x 576 x 4,096 elements of the cache; the rest is activations."""
    layers = dse.evaluate("h200-sxm-141gb", dse.load_workload("deepseek-v3", phase="decode", sequence=4096), dtype="fp8")
    hand = 36.62e9 + 61 * 576 * 4096
    assert hand < float(layers.bytes.sum()) < 1.005 * hand


def test_predicting_a_second_token_adds_the_parameters_of_the_published_files():
    """The files of V3 hold 684,489,830,400 weights (3,918,786,560 in bf16, 680,571,043,840 in fp8), two tables twice, and 59 x 256 biases."""
    one, two = (layers_of("deepseek-v3", predicted_tokens=tokens, sequence=16) for tokens in (1, 2))
    assert two.parameters == 684_489_830_400 - 2 * 129_280 * 7168 + 59 * 256
    assert (two.active_weights - one.active_weights) / 1e9 == pytest.approx(1.5, abs=0.15)  # README_WEIGHTS of its repository
    assert two.cache_elements.sum() == 16 * 62 * 576
    assert two.graph is not None
    assert [number for number, users in enumerate(two.graph.users) if not users] == [len(two) - 1]


def test_more_predicted_tokens_than_layers_are_refused():
    with pytest.raises(InputError, match=r"3 predicted tokens, but .* has 1 layers for further ones; write predicted_tokens <= 2"):
        dse.load_workload("deepseek-v3", predicted_tokens=3)


def test_the_indexer_chooses_the_keys_of_v32():
    """At 131,072 tokens a decode step scores all of them with 64 heads of 128 and attends to 2,048."""
    layers, at = layers_of("deepseek-v3.2", sequence=131_072, phase="decode"), "model.layers.0.self_attn"
    computed = dict(zip(layers.name, work(layers), strict=True))
    assert computed[f"{at}.indexer.scores"] == 64 * 128 * 131_072
    assert computed[f"{at}.scores"] == 128 * 576 * 2048
    assert row(layers, f"{at}.scores")["input_elements"] == 576 * (128 + 2048)
    assert layers.cache_elements.sum() == 61 * (576 + 128) * 131_072
    assert row(layers, f"{at}.indexer.topk") == {
        "m": 1, "k": 1, "n": 1, "count": 1, "input_elements": 131_072, "output_elements": 2048,
    }  # fmt: skip


def test_short_contexts_of_v32_are_attended_to_completely():
    sparse, full = (layers_of(name, sequence=1000, phase="decode") for name in ("deepseek-v3.2", "deepseek-v3"))
    at = "model.layers.7.self_attn.scores"
    assert row(sparse, at) == row(full, at)


SIZES = {
    "vocab_size": 10, "hidden_size": 16, "intermediate_size": 32, "moe_intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
}  # fmt: skip


def test_impossible_configurations_are_refused():
    with pytest.raises(InputError, match="a token cannot use 9 of 4 experts; write num_experts_per_tok <= n_routed_experts"):
        validate_mapping(DeepSeekV2, {"model_type": "deepseek_v2", **SIZES, "num_experts_per_tok": 9})
    indexer = {"index_n_heads": 2, "index_head_dim": 4, "index_topk": 8}
    with pytest.raises(InputError, match="there is no q_lora_rank; write q_lora_rank"):
        validate_mapping(DeepSeekV32, {"model_type": "deepseek_v32", **SIZES, **indexer})


def test_a_network_without_shared_experts_has_routed_ones_alone():
    network = DeepSeekV2(model_type="deepseek_v2", **SIZES)
    assert not [layer for layer in network.build_layers(DeepSeekV2.inputs(sequence=4)) if "shared" in layer.name]
