"""Passes between the products of a transformer: which layers they are, and the bytes that they move."""

import numpy as np
import pytest

import dse
from dse.base import catalog

TRANSFORMERS = [name for name in catalog.list_names("workloads") if "passes" in dse.load_workload(name).all_inputs]
W8A8 = "int8 outputs=int32 elementwise=bf16"


def separate(name: str, **inputs) -> dse.Workload:
    return dse.load_workload(name, passes="separate", **inputs)


def bytes_by_layer(name: str, dtype: str, **inputs) -> dict[str, float]:
    layers = dse.evaluate("a100-sxm4-80gb", separate(name, **inputs), dtype=dtype)
    return dict(zip(layers.layer.values, layers.bytes.values, strict=True))


def test_every_transformer_has_passes():
    assert {"bert-base", "gpt2", "opt-6.7b", "llama-3.1-8b", "qwen2.5-7b", "mixtral-8x7b", "deit-b", "swin-t"} <= set(TRANSFORMERS)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_separate_passes_add_elementwise_layers_and_nothing_else(name):
    fused, layers = dse.load_workload(name).layers, separate(name).layers
    added = [number for number, layer in enumerate(layers.name) if layer not in fused.name]
    assert added
    assert set(layers.kind[added]) == {"elementwise"}
    kept = np.setdiff1d(np.arange(len(layers)), added)
    assert tuple(np.array(layers.name)[kept]) == fused.name
    for column in ("m", "k", "n", "count", "prunable", "input_elements", "output_elements", "cache_elements"):
        np.testing.assert_array_equal(getattr(layers, column)[kept], getattr(fused, column))
    assert (layers.parameters, layers.macs) == (fused.parameters, fused.macs)
    assert layers.graph is not None


def test_inputs_that_several_products_read_are_quantised_once():
    names = [name.removeprefix("model.layers.0.") for name in separate("llama-3.1-8b").layers.name if name.startswith("model.layers.0.")]
    quantized = ["input_layernorm.quantize", "self_attn.context.quantize", "post_attention_layernorm.quantize", "mlp.product.quantize"]
    assert [name for name in names if name.endswith("quantize")] == quantized
    assert sum(name.endswith(".scale") for name in names) == 7
    assert names.index("input_layernorm.quantize") < names.index("self_attn.q_proj")


def test_a_product_reads_quantised_inputs_and_others_its_scaled_outputs():
    layers = separate("llama-3.1-8b").layers
    reads = dict(zip(layers.name, layers.reads, strict=True))
    at = "model.layers.0"
    assert reads[f"{at}.self_attn.k_proj"] == f"{at}.input_layernorm.quantize"
    assert reads[f"{at}.self_attn.rotary"] == f"{at}.self_attn.q_proj.scale;{at}.self_attn.k_proj.scale"
    assert reads[f"{at}.mlp.product"] == f"{at}.mlp.gate_proj.scale;{at}.mlp.up_proj.scale"
    assert reads[f"{at}.mlp.down_proj"] == f"{at}.mlp.product.quantize"


def test_bytes_of_passes_by_hand():
    """Llama 3.1 8B on 8 tokens of int8 weights and activations: width 4096, hidden 14336, keys 1024 wide."""
    moved, tokens, at = bytes_by_layer("llama-3.1-8b", W8A8, sequence=8), 8, "model.layers.0"
    assert moved[f"{at}.input_layernorm"] == tokens * 4 * 4096 * 2  # two tensors in, two out, of bf16
    assert moved[f"{at}.input_layernorm.quantize"] == tokens * 4096 * (2 + 1)
    assert moved[f"{at}.self_attn.q_proj"] == 4096 * 4096 + tokens * 4096 * (1 + 4)
    assert moved[f"{at}.self_attn.q_proj.scale"] == tokens * 4096 * (4 + 2)
    assert moved[f"{at}.self_attn.rotary"] == tokens * (4096 + 1024) * (2 + 2)
    assert moved[f"{at}.mlp.product"] == tokens * 3 * 14336 * 2
    assert moved[f"{at}.mlp.product.quantize"] == tokens * 14336 * (2 + 1)


@pytest.mark.parametrize("dtype", ["fp16", "bf16 outputs=fp16", "int8", "int8 outputs=bf16", "bf16 elementwise=bf16"])
def test_nothing_is_converted_where_operands_are_not_quantised(dtype):
    moved = bytes_by_layer("llama-3.2-1b", dtype, sequence=64)
    conversions = [layer for layer in moved if layer.endswith((".quantize", ".scale"))]
    assert conversions
    assert not any(moved[layer] for layer in conversions)


def test_activation_functions_are_passes_in_any_dtype():
    moved = bytes_by_layer("gpt2", "fp16", sequence=16)
    assert moved["h.0.mlp.act"] == 2 * 2 * 16 * 4 * 768


def test_the_cache_holds_keys_and_values_as_the_attention_reads_them():
    """2 x 8 heads of 128 for each of 32 layers and 1,024 tokens of 100 samples, of 1 or of 2 bytes: 6.7 or 13.4 GB beside 8 GB of weights."""
    sweep = {
        "name": "cache", "accelerators": ["a100-sxm4-80gb"], "workloads": {"llama-3.1-8b": {"methods": ["dense"], "inputs": {"sequence": 1024, "phase": "decode"}}},
        "axes": {"memory.dram.capacity": ["18 GB", "25 GB"]}, "batch": [100], "dtype": ["int8", "int8 elementwise=bf16"],
    }  # fmt: skip
    fits = dse.sweep(sweep).fits.isel(variant=0).squeeze()
    assert fits.isel(dtype=0).values.tolist() == [True, True]
    assert fits.isel(dtype=1).values.tolist() == [False, True]


def test_calibrated_attention_computes_in_the_dtype_between_the_products():
    at = {"sequence": 1024}
    layers = [
        dse.evaluate("a100-sxm4-80gb", dse.load_workload("llama-3.2-1b", **at), batch=4, dtype=dtype, fidelity="calibrated")
        for dtype in ("bf16", "int8 elementwise=bf16")
    ]
    attention = [name for name in layers[0].layer.values if name.endswith((".scores", ".context"))]
    wide, narrow = (each.latency.sel(layer=attention) for each in layers)
    np.testing.assert_allclose(narrow, wide, rtol=1e-9)
    assert all("prefill" in kernel for kernel in layers[1].kernel.sel(layer=attention).values)
