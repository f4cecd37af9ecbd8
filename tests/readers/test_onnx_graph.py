"""What the operators of an ONNX graph become: rows with sizes counted by hand, names, and what was not understood."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="reading ONNX is optional")

from onnx import TensorProto, helper, numpy_helper, save_model

from dse.base.errors import InputError
from dse.readers.onnx import read_onnx
from dse.readers.parsed_network import Operator, ParsedNetwork
from tests.readers.onnx_models import MICROSOFT, NODE, model, numbers, only, save, sizes


def operators(source: ParsedNetwork, became: str) -> dict[str, float]:
    return {operator.name: operator.macs for operator in source.operators if operator.became == became}


# --- convolutions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("inputs", "weight", "attributes", "row", "macs"),
    [
        ([3, 8, 8], (16, 3, 3, 3), {"pads": [1] * 4}, ("w", "conv", 16, 27, 64, 1, 1), 27648),
        ([3, 8, 8], (16, 3, 3, 3), {"strides": [2, 2]}, ("w", "conv", 16, 27, 9, 1, 1), 3888),
        ([8, 8, 8], (16, 2, 3, 3), {"group": 4}, ("w", "conv", 16, 18, 36, 1, 4), 10368),
        ([8, 8, 8], (8, 1, 3, 3), {"group": 8}, ("w", "conv", 8, 9, 36, 1, 8), 2592),
        ([4, 10], (6, 4, 3), {}, ("w", "conv", 6, 12, 8, 1, 1), 576),
        ([2, 4, 4, 4], (5, 2, 2, 2, 2), {}, ("w", "conv", 5, 16, 27, 1, 1), 2160),
    ],
    ids=["padded", "strided", "grouped", "depthwise", "1d", "3d"],
)
def test_convolutions_of_one_sample(tmp_path: Path, batch, inputs, weight, attributes, row, macs):
    node = NODE("Conv", ["x", "w.weight", "w.bias"], ["y"], **attributes)
    source = read_onnx(save(tmp_path, [node], {"x": [batch, *inputs]}, {"w.weight": numbers(*weight), "w.bias": numbers(weight[0])}))
    assert sizes(source) == [row]
    assert source.layers[0].input_elements == np.prod(inputs)
    assert source.layers[0].other_parameters == weight[0]
    assert source.states[0].weights["w"].shape == weight
    assert source.operators == (Operator("Conv", "w", "layer", macs),)


def test_a_convolution_fused_by_onnxruntime_passes_its_shape_on(tmp_path: Path):
    nodes = [
        NODE("FusedConv", ["x", "a", "b"], ["h"], activation="Relu", auto_pad="SAME_UPPER", strides=[2, 2], **MICROSOFT),
        NODE("Conv", ["h", "c"], ["y"]),
    ]
    tensors = {"a": numbers(4, 3, 3, 3), "b": numbers(4), "c": numbers(5, 4, 1, 1)}
    assert sizes(read_onnx(save(tmp_path, nodes, {"x": [2, 3, 9, 9]}, tensors))) == [
        ("a", "conv", 4, 27, 25, 1, 1), ("c", "conv", 5, 4, 25, 1, 1),
    ]  # fmt: skip


def test_a_convolution_whose_weights_come_from_an_input_is_weighed_but_no_layer(tmp_path: Path):
    nodes = [NODE("Conv", ["x", "kernel"], ["y"]), NODE("Conv", ["y", "w"], ["z"])]
    path = save(tmp_path, nodes, {"x": [2, 3, 8, 8], "kernel": [4, 3, 3, 3]}, {"w": numbers(5, 4, 1, 1)})
    assert only(read_onnx(path)).macs == 4 * 27 * 36


# --- matrix products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trans", "stored"), [(0, (8, 5)), (1, (5, 8))])
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_gemm_either_way_round(tmp_path: Path, trans, stored, domain):
    node = NODE("FusedGemm" if domain else "Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=trans, domain=domain)
    source = read_onnx(save(tmp_path, [node], {"x": [2, 8]}, {"fc.weight": numbers(*stored), "fc.bias": numbers(5)}))
    assert sizes(source) == [("fc", "gemm", 5, 8, 1, 1, 1)]
    assert source.layers[0].other_parameters == 5
    (weights,) = source.states[0].weights.values()
    expected = numbers(*stored) if trans else numbers(*stored).T
    np.testing.assert_array_equal(np.concatenate(list(weights.slabs())), expected)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_linear_layer_is_a_product_and_an_addition(tmp_path: Path, batch):
    nodes = [NODE("MatMul", ["x", "val_3"], ["h"]), NODE("Add", ["fc.bias", "h"], ["y"])]
    source = read_onnx(save(tmp_path, nodes, {"x": [batch, 7, 8]}, {"val_3": numbers(8, 5), "fc.bias": numbers(5)}))
    assert sizes(source) == [("fc", "gemm", 5, 8, 7, 1, 1)]
    assert source.layers[0].other_parameters == 5
    assert source.operators == (Operator("MatMul", "fc", "layer", 280), Operator("Add", "y", "fused"))
    np.testing.assert_array_equal(np.concatenate(list(source.states[0].weights["fc"].slabs())), numbers(8, 5).T)


def test_an_addition_of_something_else_is_no_bias(tmp_path: Path):
    nodes = [NODE("MatMul", ["x", "w"], ["h"]), NODE("Add", ["positions", "h"], ["y"])]
    source = read_onnx(save(tmp_path, nodes, {"x": [1, 7, 8]}, {"w": numbers(8, 5), "positions": numbers(7, 5)}))
    assert source.layers[0].other_parameters == 0


@pytest.mark.parametrize(
    ("node", "inputs", "stored", "row", "presented"),
    [
        (NODE("MatMul", ["w", "x"], ["y"]), [2, 8, 7], (5, 8), (5, 8, 7, 1), lambda w: w),
        (NODE("MatMul", ["x", "w"], ["y"]), [2, 3, 7, 8], (3, 8, 5), (15, 8, 7, 3), lambda w: w.transpose(0, 2, 1).reshape(15, 8)),
        (NODE("MatMul", ["x", "w"], ["y"]), [2, 7, 8], (8,), (1, 8, 7, 1), lambda w: w.reshape(1, 8)),
        (NODE("MatMul", ["x", "w"], ["y"]), [2, 7, 8], (1, 8, 5), (5, 8, 7, 1), lambda w: w[0].T),
        (NODE("Gemm", ["w", "x"], ["y"], transA=1), [8, 2], (8, 5), (5, 8, 0.25, 1), lambda w: w.T),
        (NODE("FusedMatMul", ["x", "w"], ["y"], transB=1, alpha=0.5, **MICROSOFT), [2, 7, 8], (5, 8), (5, 8, 7, 1), lambda w: w),
        (NODE("FusedMatMul", ["w", "x"], ["y"], transA=1, transB=1, **MICROSOFT), [2, 7, 8], (8, 5), (5, 8, 7, 1), lambda w: w.T),
    ],
    ids=[
        "weight on the left",
        "a matrix per head",
        "a vector",
        "leading one",
        "Gemm from the left",
        "fused, transposed",
        "fused, from the left",
    ],
)
def test_weights_of_products(tmp_path: Path, node, inputs, stored, row, presented):
    source = read_onnx(save(tmp_path, [node], {"x": inputs}, {"w": numbers(*stored)}))
    m, k, n, groups = row
    assert sizes(source) == [("w", "gemm", m, k, n, 1, groups)]
    assert only(source, "layer").macs == m * k * n
    weights = source.states[0].weights["w"]
    assert weights.shape == (m, k)
    np.testing.assert_array_equal(np.concatenate(list(weights.slabs())), presented(numbers(*stored)))


@pytest.mark.parametrize("batch", [1, 2])
def test_attention_step_by_step(tmp_path: Path, batch):
    nodes = [
        NODE("MatMul", ["x", "q.weight"], ["q"]),
        NODE("Reshape", ["q", "split"], ["q4"]),
        NODE("Transpose", ["q4"], ["qh"], perm=[0, 2, 1, 3]),
        NODE("Transpose", ["q4"], ["kh"], perm=[0, 2, 3, 1]),
        NODE("MatMul", ["qh", "kh"], ["s"]),
        NODE("Softmax", ["s"], ["p"], axis=-1),
        NODE("MatMul", ["p", "qh"], ["o"]),
        NODE("LayerNormalization", ["o", "scale"], ["y"]),
    ]
    tensors = {"q.weight": numbers(8, 8), "split": np.array([0, 0, 2, 4]), "scale": numbers(4)}
    source = read_onnx(save(tmp_path, nodes, {"x": [batch, 5, 8]}, tensors))
    assert sizes(source) == [
        ("q", "gemm", 8, 8, 5, 1, 1),
        ("matmul_1", "matmul", 5, 4, 5, 2, 1),
        ("softmax_1", "elementwise", 50, 50),
        ("matmul_2", "matmul", 5, 5, 4, 2, 1),
        ("norm_1", "elementwise", 40, 40),
    ]
    assert operators(source, "layer") == {"q": 320, "matmul_1": 200, "softmax_1": 0, "matmul_2": 200, "norm_1": 0}


PROJECTED = ("q", "gemm", 8, 8, 5, 1, 1)
GROUPED = [
    PROJECTED,
    ("matmul_1", "matmul", 10, 2, 5, 2, 1),
    ("softmax_1", "elementwise", 100, 100),
    ("matmul_2", "matmul", 10, 5, 2, 2, 1),
]
FULL = [PROJECTED, ("matmul_1", "matmul", 5, 2, 5, 4, 1), ("softmax_1", "elementwise", 100, 100), ("matmul_2", "matmul", 5, 5, 2, 4, 1)]
LONGER = [PROJECTED, ("matmul_1", "matmul", 10, 2, 8, 2, 1), ("softmax_1", "elementwise", 160, 160), ("matmul_2", "matmul", 10, 8, 2, 2, 1)]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (NODE("Attention", ["q", "k", "k"], ["y"], q_num_heads=4, kv_num_heads=2), GROUPED),
        (NODE("Attention", ["q", "q", "q"], ["y"], q_num_heads=4, kv_num_heads=4), FULL),
        (NODE("Attention", ["q", "k", "k", "", "past", "past"], ["y"], q_num_heads=4, kv_num_heads=2), LONGER),
        (NODE("MultiHeadAttention", ["q", "q", "q"], ["y"], num_heads=4, **MICROSOFT), FULL),
        (NODE("GroupQueryAttention", ["q", "k", "k"], ["y"], num_heads=4, kv_num_heads=2, **MICROSOFT), GROUPED),
        (NODE("GroupQueryAttention", ["q", "k", "k", "past", "past"], ["y"], num_heads=4, kv_num_heads=2, **MICROSOFT), LONGER),
        (
            NODE("GroupQueryAttention", ["q", "k", "k", "past", "past", "", "total"], ["y"], num_heads=4, kv_num_heads=2, **MICROSOFT),
            LONGER,
        ),
    ],
    ids=["grouped", "full", "with a past", "onnxruntime", "onnxruntime grouped", "with a past there", "with a total"],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_attention_as_one_operator(tmp_path: Path, batch, node, expected):
    nodes = [NODE("MatMul", ["x", "q.weight"], ["q"]), node, NODE("Softmax", ["y"], ["z"])]
    inputs = {"x": [batch, 5, 8], "k": [batch, 5, 4], "past": [batch, 2, 3, 2]}
    source = read_onnx(save(tmp_path, nodes, inputs, {"q.weight": numbers(8, 8), "total": np.array(8)}, opset=23))
    assert sizes(source) == [*expected, ("softmax_2", "elementwise", 40, 40)]


def test_packed_query_key_and_value(tmp_path: Path):
    nodes = [
        NODE("Reshape", ["x", "split"], ["packed"]),
        NODE("MultiHeadAttention", ["packed"], ["h"], num_heads=4, **MICROSOFT),
        NODE("MatMul", ["h", "out.weight"], ["y"]),
    ]
    tensors = {"split": np.array([2, 5, 4, 3, 2]), "out.weight": numbers(8, 8)}
    source = read_onnx(save(tmp_path, nodes, {"x": [2, 5, 24]}, tensors))
    assert sizes(source) == [*FULL[1:], ("out", "gemm", 8, 8, 5, 1, 1)]


def test_attention_of_onnxruntime_has_a_projection_of_its_own(tmp_path: Path):
    nodes = [
        NODE("Attention", ["x", "qkv.weight", "qkv.bias"], ["h"], num_heads=4, **MICROSOFT),
        NODE("MatMul", ["h", "out.weight"], ["y"]),
    ]
    tensors = {"qkv.weight": numbers(8, 24), "qkv.bias": numbers(24), "out.weight": numbers(8, 8)}
    source = read_onnx(save(tmp_path, nodes, {"x": [2, 5, 8]}, tensors))
    assert sizes(source) == [("qkv", "gemm", 24, 8, 5, 1, 1), *FULL[1:], ("out", "gemm", 8, 8, 5, 1, 1)]
    assert source.layers[0].other_parameters == 24
    np.testing.assert_array_equal(np.concatenate(list(source.states[0].weights["qkv"].slabs())), numbers(8, 24).T)


@pytest.mark.parametrize(
    "kind", ["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "InstanceNormalization", "GroupNormalization"]
)
def test_norms(tmp_path: Path, kind):
    more = {"num_groups": 2} if kind == "GroupNormalization" else {}
    tensors = ["h", "s"] if kind in ("RMSNormalization", "SimplifiedLayerNormalization") else ["h", "s", "s"]
    nodes = [NODE("Conv", ["x", "w"], ["h"]), NODE(kind, tensors, ["n"], **more), NODE("Conv", ["n", "v"], ["y"])]
    source = read_onnx(
        save(tmp_path, nodes, {"x": [2, 3, 4, 4]}, {"w": numbers(4, 3, 1, 1), "s": numbers(4), "v": numbers(2, 4, 1, 1)}, opset=23)
    )
    assert sizes(source)[1:] == [("norm_1", "elementwise", 64, 64), ("v", "conv", 2, 4, 16, 1, 1)]


# --- what costs nothing, what is not understood -------------------------------------------------------------------------------


def test_lookups_shape_arithmetic_and_activations(tmp_path: Path):
    nodes = [
        NODE("Gather", ["table", "tokens"], ["e"]),
        NODE("Shape", ["e"], ["s"]),
        NODE("Gather", ["s", "zero"], ["b"], axis=0),
        NODE("Div", ["b", "one"], ["b1"]),
        NODE("Unsqueeze", ["b1", "axes"], ["b2"]),
        NODE("Concat", ["b2", "rest"], ["to"], axis=0),
        NODE("Reshape", ["e", "to"], ["r"]),
        NODE("Relu", ["r"], ["a"]),
        NODE("Gather", ["a", "axes"], ["c"], axis=0),
        NODE("MatMul", ["a", "fc.weight"], ["y"]),
    ]
    tensors = {"table": numbers(50, 8), "zero": np.array(0), "one": np.array(1), "axes": np.array([0]), "rest": np.array([20, 2])}
    path = save(tmp_path, nodes, {"tokens": (TensorProto.INT64, [3, 5])}, tensors | {"fc.weight": numbers(2, 4)})
    source = read_onnx(path)
    assert sizes(source) == [("fc", "gemm", 4, 2, 20, 1, 1)]
    assert [(operator.kind, operator.became, operator.reason) for operator in source.operators] == [
        ("Gather", "fused", "lookup"), ("Reshape", "fused", ""), ("Relu", "fused", ""), ("Gather", "fused", ""), ("MatMul", "layer", ""),
    ]  # fmt: skip


def subgraph():
    inner = helper.make_graph(
        [NODE("MatMul", ["h", "w"], ["i"]), NODE("Add", ["i", "c"], ["o"])],
        "then",
        [],
        [helper.make_tensor_value_info("o", 1, None)],
        [numpy_helper.from_array(numbers(4), "c")],
    )
    return {"then_branch": inner, "else_branch": inner}


@pytest.mark.parametrize(
    ("node", "macs", "reason"),
    [
        (NODE("ConvTranspose", ["h", "up"], ["y"], strides=[2, 2], group=2), 4 * 3 * 4 * 16, "no layer of this kind"),
        (NODE("Einsum", ["h", "w"], ["y"], equation="b...d, de -> b...e"), 4 * 4 * 6 * 4, "no layer of this kind"),
        (NODE("LSTM", ["t", "lstm_w", "lstm_r"], ["y"], hidden_size=2), 4 * 4 * (8 * 4 + 8 * 2), "no layer of this kind"),
        (
            NODE("MatMulNBits", ["h", "w4", "s"], ["y"], K=4, N=6, bits=4, block_size=16, **MICROSOFT),
            4 * 4 * 4 * 6,
            "no layer of this kind",
        ),
        (
            NODE("Mystery", ["h", "w"], ["y"], domain="their.own"),
            24,
            "unknown operator of 'their.own': at least one multiply-add for each number of its weights",
        ),
        (
            NODE("Conv", ["h", "w"], ["y"], domain="their.own"),
            24,
            "unknown operator of 'their.own': at least one multiply-add for each number of its weights",
        ),
        (NODE("Mystery", ["h"], ["y"]), 0, "unknown operator"),
        (NODE("DFT", ["h"], ["y"]), 0, "no layer of this kind, and its multiply-adds are not counted"),
        (
            NODE("If", ["yes"], ["y"], **subgraph()),
            24 + 2 * 4,
            "its inner graphs are not read: at least one multiply-add for each number of its weights",
        ),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)
def test_what_no_layer_stands_for(tmp_path: Path, node, macs, reason):
    nodes = [NODE("Conv", ["x", "stem"], ["h"]), node, NODE("Reshape", ["h", "to"], ["t"])]
    nodes = [nodes[0], nodes[2], nodes[1], NODE("MatMul", ["y", "last"], ["z"])]
    tensors = {"stem": numbers(4, 3, 1, 1), "up": numbers(4, 3, 2, 2), "w": numbers(4, 6), "to": np.array([4, 8, 4])}
    tensors |= {"lstm_w": numbers(1, 8, 4), "lstm_r": numbers(1, 8, 2), "w4": numbers(6, 1, 8), "s": numbers(6), "last": numbers(6, 2)}
    source = read_onnx(save(tmp_path, nodes, {"x": [2, 3, 4, 4], "yes": (TensorProto.BOOL, [])}, tensors))
    (skipped, *rest) = (operator for operator in source.operators if operator.became == "skipped")
    assert (skipped.kind, skipped.macs, skipped.reason) == (node.op_type, macs, reason)
    reason = "the shape of 'z' is not known: at least one multiply-add for each number of its weights"
    assert all((operator.reason, operator.macs) == (reason, 12) for operator in rest)


def test_an_operator_that_contradicts_itself_is_skipped_and_the_rest_is_read(tmp_path: Path):
    nodes = [NODE("MatMul", ["x", "w"], ["y"]), NODE("Conv", ["y", "kernel"], ["z"], group=2), NODE("Softmax", [], ["p"])]
    outputs = {"z": [1, 3, 7, 7], "p": [1]}
    source = read_onnx(save(tmp_path, nodes, {"x": [1, 4, 8, 8]}, {"w": numbers(8, 8), "kernel": numbers(3, 2, 2, 2)}, outputs))
    assert [row.name for row in source.layers] == ["w"]
    reasons = [operator.reason for operator in source.operators if operator.became == "skipped"]
    assert reasons[0].startswith(
        "its sizes are not those of a layer (2 groups do not divide m = 3; m counts the output channels of all groups)"
    )


def test_functions_of_the_model_are_written_out(tmp_path: Path):
    inner = helper.make_function("mine", "Linear", ["a", "w"], ["b"], [NODE("MatMul", ["a", "w"], ["b"])], [helper.make_opsetid("", 20)])
    made = model([NODE("Linear", ["x", "fc.weight"], ["y"], domain="mine")], {"x": [1, 8]}, {"fc.weight": numbers(8, 5)})
    made.functions.append(inner)
    made.opset_import.append(helper.make_opsetid("mine", 1))
    save_model(made, tmp_path / "net.onnx")
    assert sizes(read_onnx(tmp_path / "net.onnx")) == [("fc", "gemm", 5, 8, 1, 1, 1)]


def test_without_the_package(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError) as error:
        read_onnx(tmp_path / "net.onnx")
    assert str(error.value) == "reading ONNX needs the package 'onnx'; pip install 'sparse-dse[onnx]'"
