"""Layers of an ONNX graph are called after their modules, each by a name of its own."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="reading ONNX is optional")

from dse.readers.onnx import read_onnx
from tests.readers.onnx_models import NODE, numbers, save


@pytest.mark.parametrize(
    ("weight", "node", "scopes", "bias", "name"),
    [
        ("encoder.0.q.weight", "/q/MatMul", None, "", "encoder.0.q"),
        ("attn.in_proj_weight", "", None, "", "attn.in_proj"),
        ("fc1.weight_orig", "", None, "", "fc1"),
        ("fc1.weight_quantized", "", None, "", "fc1"),
        ("fc1.parametrizations.weight.original", "", None, "", "fc1"),
        ("resnetv17_conv0_weight", "resnetv17_conv0_fwd", None, "", "resnetv17_conv0"),
        ("StatefulPartitionedCall/model/dense/MatMul/ReadVariableOp:0", "x", None, "", "model.dense"),
        ("onnx::MatMul_123", "/encoder/layer.0/query/MatMul", None, "", "encoder.layer.0.query"),
        ("onnx::MatMul_123", "/net/net.0/MatMul_1", None, "", "net.0"),
        ("onnx::MatMul_123", "/attn/MatMul", None, "attn.in_proj_bias", "attn.in_proj"),
        ("onnx::MatMul_123", "/cls/decoder/MatMul", None, "cls.bias", "cls.decoder"),
        ("val_7", "node_linear_3", "['', 'encoder', 'encoder.q', 'linear_3']", "", "encoder.q"),
        ("val_7", "node_linear_3", "['', 'encoder', 'encoder.q@1', 'linear_3']", "", "encoder.q"),
        ("val_7", "node_linear_3", "no list", "fc.bias", "fc"),
        ("val_7", "node_linear_3", "['', 'linear_3']", "", "op_1"),
        ("/net/Transpose_output_0", "MatMul_12", None, "", "op_1"),
        ("12", "head", None, "", "head"),
        ("val_7", "", None, "", "op_1"),
        ("matmul_1.weight", "", None, "", "matmul_1_2"),
    ],
)  # fmt: skip
def test_names_of_modules(tmp_path: Path, weight, node, scopes, bias, name):
    nodes = [NODE("MatMul", ["x", weight], ["h"], name=node), NODE("Add", ["h", bias or "b"], ["y"])]
    if scopes:
        nodes[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    source = read_onnx(save(tmp_path, nodes, {"x": [1, 8]}, {weight: numbers(8, 5), bias or "b": numbers(5)}))
    assert [row.name for row in source.layers] == [name]


def test_layers_that_share_a_tensor_are_reported(tmp_path: Path):
    nodes = [
        NODE("Identity", ["tied.weight"], ["again"]),
        NODE("MatMul", ["x", "tied.weight"], ["a"]),
        NODE("MatMul", ["a", "again"], ["b"]),
        NODE("Gemm", ["b", "tied.weight"], ["c"], transB=1),
        NODE("MatMul", ["c", "val_1"], ["d"], name="/tied/MatMul"),
    ]
    source = read_onnx(save(tmp_path, nodes, {"x": [1, 8]}, {"tied.weight": numbers(8, 8), "val_1": numbers(8, 8)}))
    assert [row.name for row in source.layers] == ["tied", "tied#2", "tied#3", "tied_2"]
    assert source.shared == (("tied", "tied#2", "tied#3"),)
    weights = {name: np.concatenate(list(weights.slabs())) for name, weights in source.states[0].weights.items()}
    np.testing.assert_array_equal(weights["tied#2"], numbers(8, 8).T)
    np.testing.assert_array_equal(weights["tied#3"], numbers(8, 8))
