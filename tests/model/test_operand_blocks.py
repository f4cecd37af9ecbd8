"""Operands in number formats with scales: bytes of weights, inputs, outputs and the key-value cache, by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model import footprint, traffic
from dse.model.executions import Execution
from dse.model.operand_blocks import cached_elements, check_whole_blocks
from dse.model.stored_weights import store_weights
from dse.model.terms import compulsory_terms
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.unit_run import Run
from dse.sparsity import apply, encode_numbers, parse
from dse.workload import Variant
from tests.model.test_laws import network

DENSE = {"pattern": "dense"}
SPARSE_24 = {"pattern": "2:4", "format": {"kind": "nm_index"}}


def weight_bytes(m: int, k: int, dtype: str, run: dict, pattern: str = "dense", density: float = 1.0) -> float:
    variant, *_ = network([{"kind": "gemm", "m": m, "k": k, "n": 8, "count": 1}], pattern, density)
    execution, roles = Execution("u", "r", Run.model_validate(run), ("p",), None, None, "m"), OperandDtypes.model_validate(dtype)
    stored = store_weights(variant.layers, variant, execution, roles.number_format("weights"))
    return float(traffic.weight_bytes(variant.layers, stored, roles)[0])


@pytest.mark.parametrize(
    ("dtype", "m", "k", "expected"),
    [
        ("fp4 weights=nvfp4", 10, 100, (1000 * 4 + 10 * 7 * 8 + 32) / 8),
        ("fp4 weights=mxfp4", 10, 100, (1000 * 4 + 10 * 4 * 8) / 8),
        ("fp8 weights=fp8_block128", 130, 300, 130 * 300 + 2 * 3 * 4),
        ("bf16 weights=int4:g128z4", 64, 200, (64 * 200 * 4 + 64 * 2 * 20) / 8),
        ("int8 weights=int8:fp32/row", 64, 200, 64 * 200 + 64 * 4),
    ],
)
def test_weights_are_stored_with_the_scales_of_incomplete_blocks(dtype, m, k, expected):
    assert weight_bytes(m, k, dtype, DENSE) == expected


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4", "fp8_block", "int4:g128z4"])
def test_the_mean_agrees_where_blocks_divide(name):
    mean = OperandDtypes.model_validate(f"bf16 weights={name}").bytes_per_element("weights")
    assert weight_bytes(256, 512, f"bf16 weights={name}", DENSE) == mean * 256 * 512


FORMATS = ["mxfp8", "mxfp6", "mxfp4", "nvfp4", "fp8_block", "fp8_block128", "int4:g32", "int4:g64z4", "int8:fp32/row", "fp8+fp32", "bf16"]


@pytest.mark.parametrize("pattern", ["dense", "2:4", "1:8", "2:4/block:1x2", "1:4x8", "row", "column"])
@settings(max_examples=8, deadline=None)
@given(m=st.integers(1, 9).map(lambda size: 8 * size), k=st.integers(1, 9).map(lambda size: 24 * size), name=st.sampled_from(FORMATS))
def test_the_model_counts_the_bits_that_encoders_write(pattern, m, k, name):
    """Weights of any size, with their scales and the metadata of their positions."""
    weights = np.random.default_rng(m * k).standard_normal((m, k))
    mask = apply(weights, pattern, 0.5 if pattern in ("row", "column") else None)
    encoded = encode_numbers(weights * mask, name, pattern)
    metadata = 0 if pattern in ("row", "column") else encoded.places.bits.size  # removed rows and columns leave a smaller matrix
    run = DENSE if pattern in ("dense", "row", "column") else {"pattern": pattern, "format": {"kind": "nm_index"}}
    counted = 8 * weight_bytes(m, k, f"bf16 weights={name}", run, pattern, float(mask.mean()))
    assert counted == encoded.number_bits.size + metadata


def test_2_4_in_nvfp4_has_a_scale_for_16_kept_values():
    """Of 128 x 256 weights half are kept: 4 bits each, 2 bits of metadata each, 8 bits for each 16 of them, and 32 bits."""
    kept = 128 * 256 // 2
    assert weight_bytes(128, 256, "fp4 weights=nvfp4", SPARSE_24, "2:4", 0.5) == (kept * (4 + 2) + kept // 16 * 8 + 32) / 8


def test_2_4_in_groups_of_gptq_has_a_scale_for_128_positions():
    kept = 128 * 256 // 2
    assert weight_bytes(128, 256, "fp16 weights=gptq", SPARSE_24, "2:4", 0.5) == (kept * (4 + 2) + 128 * 2 * 20) / 8


def test_structured_pruning_removes_the_scales_of_its_rows_and_columns():
    assert weight_bytes(128, 256, "fp8 weights=fp8_block", DENSE, "row", 0.5) == 64 * 256 + 64 * 2 * 4
    assert weight_bytes(128, 256, "fp8 weights=fp8_block", DENSE, "column", 0.75) == 128 * 192 + 128 * 2 * 4


def test_inputs_and_outputs_have_scales_along_their_rows():
    """8 inputs of 100 values, and 8 outputs of 10."""
    variant, *_ = network([{"kind": "gemm", "m": 10, "k": 100, "n": 8, "count": 1}], "dense", 1.0)
    dtype = OperandDtypes.model_validate("fp8 activations=fp8_block128 outputs=mxfp8")
    assert traffic.read_bytes(variant.layers, dtype, variant.layers.input_elements)[0] == 8 * (100 + 4)
    assert traffic.written_bytes(variant.layers, dtype, variant.layers.output_elements)[0] == 8 * (10 + 1)


ATTENTION = [
    LayerRow(name="k_proj", kind="gemm", m=2 * 80, k=160, n=1, cache_elements=2 * 80 * 1000),
    LayerRow(name="v_proj", kind="gemm", m=2 * 80, k=160, n=1, cache_elements=2 * 80 * 1000),
    LayerRow(name="attn.scores", kind="matmul", m=1000, k=80, n=4, count=2, queries=1, input_elements=80 * 1004, output_elements=0),
    LayerRow(name="attn.context", kind="matmul", m=80, k=1000, n=4, count=2, queries=1, input_elements=80 * 1000),
]  # 2 key heads of width 80, shared by 4 query heads each; 1000 tokens


@pytest.mark.parametrize(
    ("cache", "row_bytes"),
    [
        ("fp8", 80),
        ("int4:g32", 40 + 3 * 2),
        ("int4:g64z4", 40 + 2 * 2.5),
        ("nvfp4", 40 + 5),
        ("int8:fp32/row", 80 + 4),
        ("fp8@2:4", 40 + 10),
        ("int2:g80z2@2:8", 20 * (2 + 3) / 8 + 2.25),
    ],
)
def test_a_cache_in_blocks_of_each_head(cache, row_bytes):
    """80 values are 3 groups of 32, the last of 16. The scale of NVFP4 of a whole tensor is 4 bytes for each operand."""
    layers, dtype = LayerArrays.from_rows(ATTENTION), OperandDtypes.model_validate(f"bf16 cache={cache}")
    of_tensor = 4 if cache == "nvfp4" else 0
    assert footprint.kv_cache_bytes(layers, 3, dtype) == 3 * 2 * (2 * 1000 * row_bytes + of_tensor)
    read = traffic.read_bytes(layers, dtype, layers.input_elements)
    assert read[2] == 1000 * row_bytes + of_tensor + 2 * 80 * 4  # keys of one head, and its queries
    assert read[3] == 1000 * row_bytes + of_tensor  # values


def test_windows_and_written_scores_differ_from_keys_and_values():
    """A prompt of 1000 tokens whose queries see 100 keys each reads all keys once; scores that are not fused are read in bf16."""
    size = {"kind": "matmul", "n": 4000, "count": 2, "queries": 1000}
    prompt = [
        *ATTENTION[:2],
        LayerRow(name="scores", m=100, k=80, input_elements=80 * (4000 + 1000), output_elements=4000 * 100, **size),
        LayerRow(name="softmax", kind="elementwise", input_elements=4000 * 100, output_elements=4000 * 100),
        LayerRow(name="context", m=80, k=100, input_elements=4000 * 100 + 80 * 1000, **size),
    ]
    layers = LayerArrays.from_rows(prompt)
    read = traffic.read_bytes(layers, OperandDtypes.model_validate("bf16 cache=fp8"), layers.input_elements)
    assert read[2] == 2 * 80 * 4000 + 80 * 1000
    assert read[3:].tolist() == [2 * 4000 * 100, 2 * 4000 * 100 + 80 * 1000]


def test_an_indexer_reads_keys_of_its_own():
    """Scores of an indexer come before those of the attention, and no values belong to them."""
    layers = LayerArrays.from_rows(
        [*ATTENTION[:2], ATTENTION[2].model_copy(update={"name": "indexer", "k": 32, "input_elements": 32 * 1004}), *ATTENTION[2:]]
    )
    read = traffic.read_bytes(layers, OperandDtypes.model_validate("bf16 cache=int4:g32"), layers.input_elements)
    assert read[2:].tolist() == [1000 * 18 + 2 * 32 * 4, 1000 * 46 + 2 * 80 * 4, 1000 * 46]


def cached_share(name: str, phase: str, layer: str) -> float:
    """Share of what a product of attention reads that is in the cache."""
    layers = dse.load_workload(name, phase=phase).layers
    number = layers.name.index(layer)
    return float(cached_elements(layers, layers.input_elements)[number] / layers.input_elements[number])


@pytest.mark.parametrize(
    ("name", "phase", "layer", "share"),
    [
        ("llama-3.1-8b", "decode", "model.layers.0.self_attn.scores", 8192 / (8192 + 4)),
        ("llama-3.1-8b", "prefill", "model.layers.0.self_attn.context", 1.0),
        ("gemma-2-9b", "prefill", "model.layers.0.self_attn.context", 1.0),
        ("deepseek-v3", "prefill", "model.layers.0.self_attn.context", 0.0),
        ("deepseek-v3", "decode", "model.layers.0.self_attn.scores", 4096 / (4096 + 128)),
        ("t5-base", "prefill", "encoder.block.0.layer.0.SelfAttention.context", 0.0),
        ("t5-base", "prefill", "decoder.block.0.layer.0.SelfAttention.context", 1.0),
    ],
)
def test_what_networks_read_from_their_cache(name, phase, layer, share):
    """Values that prefill expands from a latent cache and those of an encoder are not in it; windows read all keys of a prompt."""
    assert cached_share(name, phase, layer) == pytest.approx(share)


def test_a_batch_reads_the_cache_of_each_sample():
    layers = dse.load_workload("llama-3.2-1b", phase="decode", sequence=1000).layers
    batched = layers.at_batch(7)
    read = cached_elements(batched, batched.input_elements) * batched.count
    assert read.sum() == 7 * layers.cache_elements.sum()


def test_without_the_role_the_cache_is_stored_as_attention_computes():
    layers = LayerArrays.from_rows(ATTENTION)
    for text, width in (("bf16", 2), ("int8 elementwise=bf16", 2), ("int8", 1)):
        dtype, same = OperandDtypes.model_validate(text), OperandDtypes.model_validate(f"{text} cache={'int8' if width == 1 else 'bf16'}")
        assert footprint.kv_cache_bytes(layers, 1, dtype) == 2 * 2 * 80 * 1000 * width
        for each in (dtype, same):
            np.testing.assert_array_equal(traffic.read_bytes(layers, each, layers.input_elements)[2:], layers.input_elements[2:] * width)


def test_only_networks_with_a_cache_read_it():
    layers = LayerArrays.from_rows([row.model_copy(update={"cache_elements": 0}) for row in ATTENTION])
    dtype = OperandDtypes.model_validate("bf16 cache=fp8")
    np.testing.assert_array_equal(traffic.read_bytes(layers, dtype, layers.input_elements), 2 * layers.input_elements)


def test_a_format_whose_blocks_have_to_divide_names_the_layer():
    layers = LayerArrays.from_rows([LayerRow(name="fc", kind="gemm", m=64, k=200, n=1)])
    message = (
        "layer 'fc' has 200 weights in a row, which the blocks of 128 of 'gptq' do not divide; "
        "write 'weights=int4:fp16/128z4', in which the rest of a row has a scale of its own"
    )
    with pytest.raises(InputError, match=message):
        check_whole_blocks(layers, OperandDtypes.model_validate("fp16 weights=gptq"))
    check_whole_blocks(layers, OperandDtypes.model_validate("fp16 weights=int4:g128z4"))


CHIP = {
    "name": "chip", "source": "a test", "units": {"core": {"peak": {"bf16": "100 TFLOP/s"}}},
    "memory": {"dram": {"capacity": "80 GB", "bandwidth": "1 TB/s"}, "cache": {"capacity": "1 MB", "bandwidth": "5 TB/s"}},
}  # fmt: skip


@pytest.mark.parametrize("fidelity", ["sol", "capacity"])
def test_decoding_is_faster_with_a_smaller_cache(fidelity):
    """Memory-bound attention: an fp8 cache halves the time of both products, up to the queries."""
    device, layers = Accelerator.model_validate(CHIP), LayerArrays.from_rows(ATTENTION)
    variant = Variant("net", layers, "none", parse("dense"), 0.0, np.ones(len(layers)))
    moved = {}
    for text in ("bf16", "bf16 cache=fp8"):
        terms = compulsory_terms(device, variant, 1, OperandDtypes.model_validate(text), ModelOptions(fidelity=fidelity))
        moved[text] = terms.traffic[:, 0, 0] if terms.reuse is None else terms.reuse.lower_bound(1e6)[:, 0]
    np.testing.assert_allclose(moved["bf16 cache=fp8"][3] / moved["bf16"][3], (80_000 + 0 + 2 * 320) / (160_000 + 640), rtol=0.01)
    np.testing.assert_array_equal(moved["bf16 cache=fp8"][:2], moved["bf16"][:2])


SWEEP = """
name: blocks
accelerators: [a100-sxm4-80gb]
workloads: {resnet50: {methods: [magnitude_pruning], sparsities: [0.9]}}
batch: 1
dtype: [fp16, fp16 weights=awq]
"""


def test_a_sweep_reports_rows_that_blocks_do_not_divide_with_their_line(tmp_path):
    (tmp_path / "blocks.yaml").write_text(SWEEP)
    with pytest.raises(
        InputError, match=r"blocks\.yaml:6: dtype\.1: layer '.*' has 147 weights in a row, which the blocks of 128 of 'awq'"
    ):
        dse.sweep(tmp_path / "blocks.yaml")


def test_evaluate_reports_rows_that_blocks_do_not_divide():
    with pytest.raises(InputError, match="has 147 weights in a row"):
        dse.evaluate("a100-sxm4-80gb", "resnet50", dtype="fp16 weights=awq")
