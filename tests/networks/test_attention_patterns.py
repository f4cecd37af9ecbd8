"""Attention patterns of networks: the keys of their products and of the cache, the layers of indexers, bad input."""

import pytest

import dse
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.attention import parse_attention

TINY = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2,
}  # fmt: skip


def layers_of(network=TINY, **inputs) -> dict[str, LayerRow]:
    description = {"name": "tiny", "task": "t", "metric": {"name": "m", "direction": "higher"}, "sources": ["a test"], "network": network}
    return {row.name: row for row in dse.load_workload(description, **inputs).layers.to_rows()}


AT = "model.layers.0.self_attn"


def test_the_default_is_what_the_configuration_says():
    assert str(layers_of()[f"{AT}.scores"].scores) == "causal"
    window = layers_of(TINY | {"sliding_window": 16}, sequence=64)
    assert str(window[f"{AT}.context"].scores) == "window:16"
    assert (window[f"{AT}.scores"].m, window[f"{AT}.context"].k, window[f"{AT}.scores"].context) == (16, 16, 64)
    assert layers_of(TINY | {"sliding_window": 16}, sequence=8)[f"{AT}.scores"].m == 8


def test_a_window_as_input_is_a_window_of_the_configuration():
    assert layers_of(attention_pattern="window:16", sequence=64) == layers_of(TINY | {"sliding_window": 16}, sequence=64)


@pytest.mark.parametrize(
    ("pattern", "keys", "cached"),
    [("causal", 64, 64), ("full", 64, 64), ("window:16+global:4", 20, 20), ("strided:8", 64, 64), ("chunk:16", 16, 16), ("topk:8", 8, 64),
     ("topk:2x8", 16, 64), ("block:8x8@0.5", 64, 64)],
)  # fmt: skip
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_keys_of_the_products_and_of_the_cache(pattern, keys, cached, phase):
    layers = layers_of(attention_pattern=pattern, sequence=64, phase=phase)
    scores, context = layers[f"{AT}.scores"], layers[f"{AT}.context"]
    assert (scores.m, context.k, layers[f"{AT}.k_proj"].cache_elements) == (keys, keys, 2 * 8 * cached)
    assert scores.scores == context.scores == parse_attention(pattern)
    assert scores.causal == (pattern != "full")
    assert (scores.key_axis, context.key_axis) == ("m", "k")
    read = 64 if phase == "prefill" else keys
    assert scores.input_elements in (None, 8 * (scores.n + read))
    assert context.input_elements == 8 * read
    assert (scores.read_keys or keys) == read


def test_latent_attention_has_patterns_too():
    v3 = {
        "model_type": "deepseek_v3", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
        "q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
    }  # fmt: skip
    v32 = v3 | {"model_type": "deepseek_v32", "index_n_heads": 64, "index_head_dim": 128, "index_topk": 16}
    assert layers_of(v32, sequence=64) == layers_of(v3, sequence=64, attention_pattern="topk:16")
    assert layers_of(v32, sequence=64, attention_pattern="causal") == layers_of(v3, sequence=64)
    with pytest.raises(dse.InputError, match="write tokens"):
        layers_of(v3, sequence=64, attention_pattern="topk:2x8")


def test_pages_round_the_cache_up():
    assert layers_of(sequence=65, page=16)[f"{AT}.v_proj"].cache_elements == 2 * 8 * 80
    assert layers_of(sequence=65, page=16)[f"{AT}.scores"].m == 65


def test_an_indexer_of_tokens_has_the_layers_of_deepseek_sparse_attention():
    layers = layers_of(attention_pattern="topk:16", sequence=64, indexer_heads=4, indexer_width=32)
    at = f"{AT}.indexer"
    queries, keys, weights, scores = (layers[f"{at}.{name}"] for name in ("wq_b", "wk", "weights_proj", "scores"))
    assert [(row.m, row.k) for row in (queries, keys, weights)] == [(4 * 32, 64), (32, 64), (4, 64)]
    assert (scores.m, scores.k, scores.n, scores.count) == (64, 32, 4 * 64, 1)
    assert scores.output_elements == 64 * 64 == layers[f"{at}.topk"].input_elements
    assert layers[f"{at}.topk"].output_elements == 64 * 16
    assert layers[f"{at}.k_norm"].cache_elements == 32 * 64
    assert f"{at}.topk" in layers[f"{AT}.scores"].reads


def test_an_indexer_of_blocks_scores_their_means():
    layers = layers_of(attention_pattern="topk:4x8", sequence=64, phase="decode")
    scores = layers[f"{AT}.indexer.scores"]
    assert (scores.m, scores.k, scores.n, scores.count) == (8, 8, 4, 2)  # 8 blocks; heads of width 8, of which 4 share keys
    assert layers[f"{AT}.indexer.topk"].output_elements == 2 * 3  # for each head of keys: 3 earlier blocks


def test_encoders_attend_to_tokens_around_each():
    bert = {
        "model_type": "bert", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
        "num_attention_heads": 8, "max_position_embeddings": 64, "type_vocab_size": 2,
    }  # fmt: skip
    layers = layers_of(bert, sequence=64, attention_pattern="around:4")
    scores, context = (layers[f"encoder.layer.0.attention.self.{name}"] for name in ("scores", "context"))
    assert (scores.m, context.k, scores.causal, str(scores.scores), scores.read_keys) == (9, 9, False, "around:4", 64)
    assert layers_of(bert, sequence=64, attention_pattern="full") == layers_of(bert, sequence=64)
    with pytest.raises(dse.InputError, match="no layers that choose"):
        layers_of(bert, sequence=64, attention_pattern="topk:4")
    with pytest.raises(dse.InputError, match="later tokens, which do not exist yet"):
        layers_of(sequence=64, attention_pattern="around:4")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("window:65", "longer than the context: it needs 65 tokens, and there are 64"), ("topk:65", "needs 65"), ("topk:9x8", "needs 72"),
     ("windows:8", "not an attention pattern")],
)  # fmt: skip
def test_bad_patterns(pattern, message):
    with pytest.raises(dse.InputError, match=message):
        layers_of(attention_pattern=pattern, sequence=64)


def test_rows_of_scores_need_queries():
    with pytest.raises(ValueError, match="fill queries"):
        LayerRow(name="qk", kind="matmul", m=8, k=8, n=8, scores="causal")


def test_columns_round_trip():
    rows = list(layers_of(attention_pattern="topk:8", sequence=64).values())
    assert LayerArrays.from_rows(rows).to_rows() == rows


def test_every_combination_of_inputs_that_is_not_possible_is_reported(tmp_path):
    inputs = {"sequence": [64, 128], "attention_pattern": ["window:100", "topk:65", "blocky"]}
    workload = {"name": "tiny", "task": "t", "metric": {"name": "m", "direction": "higher"}, "sources": ["a test"], "network": TINY}
    selection = {"workload": workload, "methods": ["dense"], "inputs": inputs}
    with pytest.raises(dse.InputError) as caught:
        dse.sweep({"name": "s", "accelerators": ["a100-sxm4-80gb"], "workloads": {"tiny": selection}, "batch": [1], "dtype": "fp16"})
    for text in ("'window:100' is longer", "'topk:65' is longer", "'blocky' is not an attention pattern"):
        assert str(caught.value).count(text) == 1
