"""Descriptions and examples of the keys of published network configurations, for the JSON Schema of a workload.

The keys are those of `config.json` in Hugging Face Transformers, so that a published configuration can be copied.
"""

from typing import Any

KEYS: dict[str, tuple[str, Any]] = {
    "attention_bias": ("whether the linear layers of attention have biases", False),
    "channels_mlp_dim": ("hidden width of the perceptrons over channels", 3072),
    "d_ff": ("hidden width of the perceptron of each block", 2048),
    "d_kv": ("width of one attention head", 64),
    "d_model": ("width of the residual stream", 768),
    "decoder_attention_heads": ("attention heads of each block of the decoder", 20),
    "decoder_ffn_dim": ("hidden width of the perceptron of each block of the decoder", 5120),
    "decoder_layers": ("blocks of the decoder", 32),
    "decoder_sparse_step": ("every how many blocks one has experts", 1),
    "depth_coefficient": ("factor on the number of blocks of each stage", 1.1),
    "depth_multiplier": ("factor on the channels of every layer", 0.5),
    "depths": ("blocks of each stage", [3, 4, 6, 3]),
    "distilled": ("whether a second learned token and a second head are used (DeiT)", False),
    "do_layer_norm_before": ("whether norms come before attention and perceptron, instead of after them", True),
    "embed_dim": ("width of the first stage", 96),
    "embedding_size": ("channels of the first convolution", 64),
    "encoder_attention_heads": ("attention heads of each block of the encoder", 20),
    "encoder_ffn_dim": ("hidden width of the perceptron of each block of the encoder", 5120),
    "encoder_layers": ("blocks of the encoder", 32),
    "feed_forward_proj": ("relu: a perceptron; gated-gelu: a gated unit", "gated-gelu"),
    "ffn_dim": ("hidden width of the perceptron of each block", 3072),
    "first_k_dense_replace": ("first blocks, which have one feed-forward network instead of experts", 3),
    "head_dim": ("width of one attention head; default: hidden_size / num_attention_heads", 128),
    "hidden_size": ("width of the residual stream", 768),
    "hidden_sizes": ("channels of each stage", [256, 512, 1024, 2048]),
    "image_size": ("height and width of the images in pixels", 224),
    "index_head_dim": ("width of one head of the indexer, which chooses the keys of each query", 128),
    "index_n_heads": ("heads of the indexer", 64),
    "index_topk": ("keys that a query attends to", 2048),
    "intermediate_size": ("hidden width of the perceptron of each block", 3072),
    "kv_lora_rank": ("width of the latent vector of a token, from which its keys and values are computed", 512),
    "layer_type": ("kind of residual block", "bottleneck"),
    "layer_types": ("attention of each block; default: by sliding_window_pattern", ["sliding_attention", "full_attention"]),
    "max_position_embeddings": ("largest number of tokens", 512),
    "max_source_positions": ("outputs of the encoder, which the decoder attends to", 1500),
    "max_target_positions": ("largest number of tokens of the decoder", 448),
    "mlp_bias": ("whether the linear layers of the perceptron have biases", False),
    "mlp_only_layers": ("numbers of blocks that have no experts", [0]),
    "mlp_ratio": ("hidden width of the perceptron divided by the width of its stage", 4.0),
    "model_type": ("selects the architecture", None),
    "moe_intermediate_size": ("hidden width of each expert", 768),
    "moe_layer_freq": ("every how many blocks one has experts", 1),
    "n_embd": ("width of the residual stream", 768),
    "n_head": ("attention heads of each block", 12),
    "n_inner": ("hidden width of the perceptron of each block; default: 4 n_embd", 3072),
    "n_layer": ("number of blocks", 12),
    "n_positions": ("largest number of tokens", 1024),
    "n_routed_experts": ("experts of each block that the router chooses from", 256),
    "n_shared_experts": ("experts of each block that every token passes; default: none", 1),
    "num_attention_heads": ("attention heads of each block", 12),
    "num_channels": ("channels of the images", 3),
    "num_decoder_layers": ("blocks of the decoder; default: num_layers", 12),
    "num_experts": ("experts of each block", 128),
    "num_experts_per_tok": ("experts that each token passes through", 2),
    "num_heads": ("attention heads: one number, or that of the blocks of each stage", [3, 6, 12, 24]),
    "num_hidden_layers": ("number of blocks", 12),
    "num_key_value_heads": ("heads of keys and values, which queries share; default: num_attention_heads", 8),
    "num_labels": ("classes of the classifier", 1000),
    "num_layers": ("blocks of the encoder", 12),
    "num_local_experts": ("experts of each block", 8),
    "num_mel_bins": ("frequencies of the spectrogram", 128),
    "num_nextn_predict_layers": ("layers that predict further tokens; they run if the input predicted_tokens is above 1", 1),
    "patch_size": ("height and width of a patch in pixels", 16),
    "q_lora_rank": ("width of the latent vector of a query; default: queries are computed from the residual stream", 1536),
    "qk_nope_head_dim": ("width of one head of queries and keys without the rotary part", 128),
    "qk_rope_head_dim": ("width of the rotary part of queries and of the key that all heads share", 64),
    "relative_attention_num_buckets": ("distances between tokens that positions distinguish", 32),
    "sliding_window": ("tokens that a query attends to; default: all", 4096),
    "sliding_window_pattern": ("every how many blocks one attends to all tokens; default: 2 (Gemma 2, GPT-OSS) or 6 (Gemma 3)", 6),
    "tie_word_embeddings": ("whether the output layer shares the weights of the word embedding", False),
    "tokens_mlp_dim": ("hidden width of the perceptrons over tokens", 384),
    "type_vocab_size": ("segment types of the input", 2),
    "v_head_dim": ("width of one head of the values", 128),
    "vocab_size": ("tokens of the vocabulary", 30522),
    "width_coefficient": ("factor on the channels of each stage", 1.0),
    "window_size": ("height and width of an attention window in patches", 7),
    "word_embed_proj_dim": ("width of the word embedding, if it is narrower than the blocks", 512),
}


def describe_keys(properties: dict[str, dict[str, Any]]) -> None:
    """Add description and example to the properties of a JSON Schema, in place."""
    for name, node in properties.items():
        description, example = KEYS[name]
        if isinstance(example, list) and node.get("type") == "integer":  # one value where other architectures have one for each stage
            example = example[0]
        node["description"] = description
        if example is not None:
            node["examples"] = [example]
