"""Packed checkpoints: written here word by word from their published layouts, and read back as real weights."""

import json

import ml_dtypes
import numpy as np
import pytest

from dse.base.errors import InputError
from dse.readers import parsed_network
from dse.readers.parsed_network import ParsedNetwork
from dse.sparsity import apply
from dse.trace.detect import parse_network
from dse.trace.trace import CountOptions, trace_network

pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
from safetensors.numpy import save_file

M, K, GROUP = 16, 48, 16
MASK = np.random.default_rng(0).random((M, K)) < 0.3


def weights_of(network: ParsedNetwork, name: str = "fc") -> np.ndarray:
    return np.concatenate(list(network.states[0].weights[name].slabs()))


def saved(folder, tensors: dict, name: str = "model.safetensors"):
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, folder / name)
    return folder / name


def pack_words(codes: np.ndarray, bits: int) -> np.ndarray:
    """Rows of codes in 32-bit words, one code after the other from the lowest bits."""
    per_word, words = 32 // bits, []
    for row in codes:
        padded = [int(code) for code in row] + [0] * (-len(row) % per_word)
        words.append([sum(code << bits * i for i, code in enumerate(padded[at : at + per_word])) for at in range(0, len(padded), per_word)])
    return np.array(words, np.uint32).view(np.int32)


def draw_codes(bits: int, zeros: np.ndarray) -> np.ndarray:
    """Codes [M, K] that differ from the zero points [M, groups] exactly where MASK is true."""
    generator = np.random.default_rng(1)
    zero = np.repeat(zeros, K // zeros.shape[1], axis=1)
    other = (zero + generator.integers(1, 2**bits, (M, K))) % 2**bits
    return np.where(MASK, other, zero)


def scales(groups: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.01, 0.1, (M, groups)).astype(np.float16)


def dequantized(codes: np.ndarray, zeros: np.ndarray, scale: np.ndarray) -> np.ndarray:
    width = K // scale.shape[1]
    return (codes - np.repeat(zeros, width, axis=1)) * np.repeat(scale.astype(np.float32), width, axis=1)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_pack_quantized_has_the_zeros_of_its_zero_points(tmp_path, bits, symmetric):
    groups = K // GROUP
    zeros = np.full((M, groups), 2 ** (bits - 1)) if symmetric else np.random.default_rng(3).integers(0, 2**bits, (M, groups))
    codes, scale = draw_codes(bits, zeros), scales(groups)
    tensors = {"fc.weight_packed": pack_words(codes, bits), "fc.weight_scale": scale, "fc.weight_shape": np.array([M, K])}
    if not symmetric:
        tensors["fc.weight_zero_point"] = pack_words(zeros.T, bits).T
    network = parse_network(saved(tmp_path, tensors))
    np.testing.assert_allclose(weights_of(network), dequantized(codes, zeros, scale), rtol=1e-6)
    assert network.states[0].weights["fc"].dtype == f"int{bits}:fp16/16" + ("" if symmetric else f"z{bits}")
    assert [(row.name, row.m, row.k) for row in network.layers] == [("fc", M, K)]
    (state,) = trace_network(network, CountOptions())
    assert state.nonzeros == {"fc": MASK.sum()}


def test_columns_may_belong_to_any_group(tmp_path):
    """Activation order: `weight_g_idx` says which group a column has."""
    zeros, order = np.array([[3, 12]] * M), np.random.default_rng(4).permutation(np.arange(K) % 2)
    codes = np.where(MASK, 7, zeros[:, order])
    tensors = {
        "fc.weight_packed": pack_words(codes, 4), "fc.weight_scale": scales(2), "fc.weight_shape": np.array([M, K]),
        "fc.weight_zero_point": pack_words(zeros.T, 4).T, "fc.weight_g_idx": order.astype(np.int32),
    }  # fmt: skip
    np.testing.assert_array_equal(weights_of(parse_network(saved(tmp_path, tensors))) != 0, MASK)


def test_int_quantized_weights_with_zero_points(tmp_path):
    zeros = np.random.default_rng(5).integers(-100, 100, (M, 1)).astype(np.int8)
    codes = np.where(MASK, np.int8(101), zeros).astype(np.int8)
    network = parse_network(saved(tmp_path, {"fc.weight": codes, "fc.weight_scale": scales(1), "fc.weight_zero_point": zeros}))
    np.testing.assert_allclose(weights_of(network), dequantized(codes.astype(int), zeros.astype(int), scales(1)), rtol=1e-6)


def gptq_tensors(bits: int, stored_zeros: np.ndarray, codes: np.ndarray) -> dict:
    """[M, K] codes and [M, groups] zero points in the layout of GPTQ, which is transposed."""
    return {
        "fc.qweight": pack_words(codes, bits).T, "fc.qzeros": pack_words(stored_zeros.T, bits),
        "fc.scales": scales(K // GROUP).T, "fc.g_idx": (np.arange(K) // GROUP).astype(np.int32),
    }  # fmt: skip


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_gptq_stores_zero_points_less_one(tmp_path, bits):
    zeros = np.random.default_rng(6).integers(1, 2**bits, (M, K // GROUP))
    codes = draw_codes(bits, zeros)
    network = parse_network(saved(tmp_path, gptq_tensors(bits, zeros - 1, codes)))
    np.testing.assert_allclose(weights_of(network), dequantized(codes, zeros, scales(K // GROUP)), rtol=1e-6)
    assert any("version 1" in note for note in network.notes)


LLAMA = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "max_position_embeddings": 8,
}  # fmt: skip


@pytest.mark.parametrize(("version", "offset"), [("gptq", 1), ("gptq_v2", 0)])
def test_the_version_of_gptq_is_in_the_configuration(tmp_path, version, offset):
    config = LLAMA | {"quantization_config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": version}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    zeros = np.full((M, K // GROUP), 8)
    tensors = gptq_tensors(4, zeros - offset, draw_codes(4, zeros))
    name = "model.layers.0.mlp.down_proj"
    saved(tmp_path, {key.replace("fc", name): value for key, value in tensors.items()})
    network = parse_network(tmp_path)
    np.testing.assert_array_equal(weights_of(network, name) != 0, MASK)
    assert not any("version 1" in note for note in network.notes)


def test_awq_interleaves_the_output_channels_of_a_word(tmp_path):
    zeros = np.random.default_rng(7).integers(0, 16, (M, K // GROUP))
    codes, order = draw_codes(4, zeros), [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = [channel for start in range(0, M, 8) for channel in (start + place for place in order)]
    tensors = {
        "fc.qweight": pack_words(codes.T[:, interleaved], 4), "fc.qzeros": pack_words(zeros.T[:, interleaved], 4),
        "fc.scales": scales(K // GROUP).T,
    }  # fmt: skip
    network = parse_network(saved(tmp_path, tensors))
    np.testing.assert_allclose(weights_of(network), dequantized(codes, zeros, scales(K // GROUP)), rtol=1e-6)
    assert network.states[0].weights["fc"].dtype == "int4:fp16/16z4"


def pack_bits(mask: np.ndarray) -> np.ndarray:
    """Rows of a mask in bytes, lowest bit first."""
    rows = [[sum(int(bit) << i for i, bit in enumerate(row[at : at + 8])) for at in range(0, len(row), 8)] for row in mask]
    return np.array(rows, np.uint8)


@pytest.mark.parametrize("prefix", ["fc", "fc.weight"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_sparse_bitmask(tmp_path, prefix, dtype):
    weights = (np.random.default_rng(8).choice([-2, -1, 0.5, 1], (M, K + 3)) * np.pad(MASK, ((0, 0), (0, 3)))).astype(dtype)
    keeps = weights.astype(np.float32) != 0
    tensors = {
        "shape": np.array(weights.shape), "compressed": weights[keeps], "bitmask": pack_bits(keeps),
        "row_offsets": keeps.sum(axis=1).cumsum() - keeps.sum(axis=1),
    }  # fmt: skip
    network = parse_network(saved(tmp_path, {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}))
    np.testing.assert_array_equal(weights_of(network).astype(np.float32), weights.astype(np.float32))
    assert [row.name for row in network.layers] == ["fc"]


def test_sparse_24_bitmask_is_traced_as_2_4(tmp_path):
    """One of the weights that its mask keeps is zero; the scales of fp8 weights are parts of the layer."""
    weights = np.random.default_rng(9).uniform(0.5, 1, (M, K)).astype(np.float32)
    keeps = apply(weights, "2:4")
    weights[np.nonzero(keeps)[0][0], np.nonzero(keeps)[1][0]] = 0
    tensors = {
        "fc.shape": np.array([[M], [K]]), "fc.compressed": weights[keeps].reshape(M, K // 2), "fc.bitmask": pack_bits(keeps),
        "fc.weight_scale": np.ones((M, 1), np.float32),
    }  # fmt: skip
    network = parse_network(saved(tmp_path, tensors))
    np.testing.assert_array_equal(weights_of(network), weights * keeps)
    (state,) = trace_network(network, CountOptions())
    assert (str(state.pattern), state.nonzeros["fc"]) == ("2:4", M * K // 2 - 1)
    assert [operator.name for operator in network.operators] == ["fc"]


def fp4_tensors(scale: np.ndarray, zero_code: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Packed fp4 codes that are zero (of either sign) outside MASK, and their values."""
    codes = np.where(MASK, np.random.default_rng(10).choice([1, 3, 7, 9, 15], (M, K)), zero_code)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])[codes]
    return {"packed": (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)}, values * np.repeat(scale, K // scale.shape[1], axis=1)


@pytest.mark.parametrize("names", [("weight_packed", "weight_global_scale"), ("weight", "weight_scale_2")])
@pytest.mark.parametrize("zero_code", [0, 8])
def test_nvfp4_of_compressed_tensors_and_modelopt(tmp_path, names, zero_code):
    scale = np.full((M, K // 16), 1.5, ml_dtypes.float8_e4m3fn)
    scale[0, 0] = 0  # a block of which everything is rounded to zero
    tensors, values = fp4_tensors(scale.astype(np.float32), zero_code)
    parts = {f"fc.{names[0]}": tensors["packed"], "fc.weight_scale": scale, f"fc.{names[1]}": np.array([0.25], np.float32)}
    network = parse_network(saved(tmp_path, parts))
    np.testing.assert_array_equal(weights_of(network), values)
    assert network.states[0].weights["fc"].dtype == "nvfp4"


def test_mxfp4_of_compressed_tensors(tmp_path):
    """48 weights in a row are a block of 32 and one of 16."""
    exponents = np.array([[127, 130]] * M, np.uint8)
    tensors, _ = fp4_tensors(np.ones((M, 1)))
    network = parse_network(saved(tmp_path, {"fc.weight_packed": tensors["packed"], "fc.weight_scale": exponents}))
    _, values = fp4_tensors(np.ones((M, 1)))
    np.testing.assert_array_equal(weights_of(network), values * np.repeat([1.0, 8.0], [32, 16]))


GPT_OSS = {
    "model_type": "gpt_oss", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8,
    "max_position_embeddings": 16,
}  # fmt: skip


def test_gpt_oss_stacks_the_experts_of_a_layer(tmp_path):
    """4 experts of 32 x 32 and 64 x 32: a block of 32 for each row; the pruned weights are those of expert 1."""
    (tmp_path / "config.json").write_text(json.dumps(GPT_OSS))
    blocks, scale = np.full((4, 64, 1, 16), 0x21, np.uint8), np.full((4, 64, 1), 128, np.uint8)
    blocks[1] = 0x80  # 0 and -0
    at = "model.layers.0.mlp.experts"
    tensors = {
        f"{at}.gate_up_proj_blocks": blocks,
        f"{at}.gate_up_proj_scales": scale,
        f"{at}.gate_up_proj_bias": np.ones((4, 64), np.float32),
    }
    saved(tmp_path, tensors)
    network = parse_network(tmp_path)
    weights = weights_of(network, f"{at}.gate_up_proj")
    expected = np.tile([0.5, 1.0], (4 * 64, 16)) * 2
    expected[64:128] = 0
    np.testing.assert_array_equal(weights, expected)
    (state,) = trace_network(network, CountOptions())
    assert state.nonzeros == {f"{at}.gate_up_proj": 3 * 64 * 32}


def test_scales_of_fp8_blocks_are_no_layers(tmp_path):
    """DeepSeek-V3 has `weight_scale_inv` [m / 128, k / 128] next to its weights."""
    tensors = {"fc.weight": MASK.astype(ml_dtypes.float8_e4m3fn), "fc.weight_scale_inv": np.ones((2, 3), np.float32)}
    network = parse_network(saved(tmp_path, tensors))
    assert [row.name for row in network.layers] == ["fc"]
    np.testing.assert_array_equal(weights_of(network) != 0, MASK)


@pytest.mark.parametrize(
    "tensors",
    [
        {
            "fc.weight_packed": np.ones((16, 6), np.int32),
            "fc.scale_packed": np.ones((3, 16), np.float16),
            "fc.meta": np.ones((6, 8), np.int16),
        },
        {"fc.qweight": np.ones((6, 16), np.int32), "fc.qzeros": np.ones((3, 5), np.int32), "fc.scales": np.ones((3, 16), np.float16)},
        {
            "fc.weight_packed": np.ones((16, 6), np.int32),
            "fc.weight_scale": np.ones((9, 1), np.float16),
            "fc.weight_shape": np.array([16, 48]),
        },
        {"fc.weight_packed": np.ones((16, 24), np.uint8), "fc.weight_scale": np.ones((16, 7), np.uint8)},
        {"fc.absmax": np.ones((16, 1), np.float32), "fc.quant_map": np.ones((1, 16), np.float32)},
    ],
    ids=["marlin-24", "other shapes of gptq", "other scales", "other blocks", "bitsandbytes"],
)
def test_other_packings_are_skipped_with_the_reason(tmp_path, tensors):
    network = parse_network(saved(tmp_path, tensors | {"out.weight": np.ones((2, 2), np.float32)}))
    assert [row.name for row in network.layers if row.kind == "gemm"] == ["out"]
    assert any("packed by a quantiser" in operator.reason for operator in network.operators)


def test_a_bit_mask_that_does_not_match_its_weights_is_refused(tmp_path):
    tensors = {"fc.shape": np.array([M, K]), "fc.compressed": np.ones(5, np.float32), "fc.bitmask": pack_bits(MASK)}
    network = parse_network(saved(tmp_path, tensors))
    with pytest.raises(InputError, match=r"the bit mask has .* weights or more, and 5 are stored; give the whole checkpoint"):
        weights_of(network)


def test_large_weights_are_read_slab_by_slab(tmp_path, monkeypatch):
    zeros = np.full((M, K // GROUP), 8)
    codes = draw_codes(4, zeros)
    path = saved(tmp_path, gptq_tensors(4, zeros - 1, codes))
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", 16 * K * 3)
    network = parse_network(path)
    assert len(list(network.states[0].weights["fc"].slabs())) == 6
    np.testing.assert_array_equal(weights_of(network) != 0, MASK)
