"""Laws of all generating networks, for random small sizes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dse.networks.architecture import Architecture
from dse.networks.deepseek import DeepSeekV2, DeepSeekV32
from dse.networks.gemma import Gemma3Text
from dse.networks.layers import LayerArrays
from dse.networks.llama4 import Llama4Text
from dse.networks.t5 import T5

COMMON = {"vocab_size": 10, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 4}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}


@st.composite
def networks(draw: st.DrawFn) -> Architecture:
    """Networks that differ in how their attention chooses and caches keys."""
    heads, size = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 20))
    sizes = COMMON | {"num_attention_heads": heads}
    latent = {
        "moe_intermediate_size": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "kv_lora_rank": size, "qk_nope_head_dim": 4,
        "qk_rope_head_dim": 2, "v_head_dim": draw(st.integers(1, 6)), "first_k_dense_replace": draw(st.integers(0, 4)),
        "q_lora_rank": draw(st.integers(1, 8)), "n_shared_experts": draw(st.sampled_from([None, 1, 2])),
    }  # fmt: skip
    return draw(
        st.sampled_from(
            [
                Gemma3Text(model_type="gemma3_text", **sizes, num_key_value_heads=1, sliding_window=size, sliding_window_pattern=3),
                Llama4Text(**sizes, **EXPERTS, intermediate_size_mlp=8, attention_chunk_size=size),
                DeepSeekV2(model_type="deepseek_v2", **sizes, **latent),
                DeepSeekV32(model_type="deepseek_v32", **sizes, **latent, index_n_heads=2, index_head_dim=4, index_topk=size),
                T5(model_type="t5", vocab_size=10, d_model=16, d_kv=4, d_ff=8, num_layers=2, num_decoder_layers=3, num_heads=heads),
            ]
        )
    )


def layers_of(network: Architecture, **inputs) -> LayerArrays:
    return LayerArrays.from_rows(network.build_layers(network.inputs(**inputs)))


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(1, 50), st.sampled_from(["fused", "unfused"]))
def test_phases_have_the_same_parameters_and_leave_the_same_cache(network, tokens, attention):
    name = "target" if isinstance(network, T5) else "sequence"
    inputs = {name: tokens, "attention": attention}
    prefill, decode = (layers_of(network, phase=phase, **inputs) for phase in ("prefill", "decode"))
    assert prefill.parameters == decode.parameters
    assert prefill.cache_elements.sum() == decode.cache_elements.sum()


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(1, 49))
def test_a_longer_context_is_never_less_work(network, tokens):
    """Of prompts; a decode step at the start of a chunk (Llama 4) attends to fewer tokens than one at the end of the last."""
    name = "target" if isinstance(network, T5) else "sequence"
    shorter, longer = (layers_of(network, **{name: length}) for length in (tokens, tokens + 1))
    assert shorter.macs < longer.macs
    assert shorter.input_elements.sum() <= longer.input_elements.sum()


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(1, 50), st.sampled_from(["prefill", "decode"]), st.sampled_from(["fused", "separate"]))
def test_every_layer_is_read_but_the_last_and_those_that_do_not_run(network, tokens, phase, passes):
    layers = layers_of(network, **{"target" if isinstance(network, T5) else "sequence": tokens}, phase=phase, passes=passes)
    assert layers.graph is not None
    unread = [layers.name[number] for number, users in enumerate(layers.graph.users) if not users]
    assert unread == [layers.name[-1]]
