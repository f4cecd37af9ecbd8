"""Weights of an ONNX graph: the right numbers as [m, k], however they are stored and whatever constant operators follow."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="reading ONNX is optional")

import ml_dtypes
from onnx import TensorProto, helper, numpy_helper, save_model

from dse.base.errors import InputError
from dse.readers import parsed_network
from dse.readers.onnx import file as onnx_file
from dse.readers.onnx import read_onnx
from dse.readers.onnx import shapes as onnx_shapes
from tests.readers.onnx_models import MICROSOFT, NODE, model, numbers, save, save_external

PRODUCT = ([NODE("MatMul", ["x", "w"], ["y"])], {"x": [1, 24]})


def slabs(path: Path, name: str = "w") -> list[np.ndarray]:
    return list(read_onnx(path).states[0].weights[name].slabs())


def whole(path: Path, name: str = "w") -> np.ndarray:
    return np.concatenate(slabs(path, name))


# --- storage ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [save, save_external])
@pytest.mark.parametrize("slab", [1, 7 * 24 * 4, 2**25])
@pytest.mark.parametrize(
    ("node", "stored", "presented"),
    [
        (NODE("MatMul", ["x", "w"], ["y"]), (24, 50), lambda w: w.T),
        (NODE("Gemm", ["x", "w"], ["y"], transB=1), (50, 24), lambda w: w),
    ],
    ids=["transposed", "as stored"],
)
def test_slabs_are_small_and_whole(tmp_path: Path, monkeypatch, store, slab, node, stored, presented):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", slab)
    pieces = slabs(store(tmp_path, [node], {"x": [1, 24]}, {"w": numbers(*stored)}))
    assert [len(piece) for piece in pieces] == {1: [1] * 50, 672: [7] * 7 + [1], 2**25: [50]}[slab]
    np.testing.assert_array_equal(np.concatenate(pieces), presented(numbers(*stored)))


@pytest.mark.parametrize("store", [save, save_external])
@pytest.mark.parametrize("slab", [1, 200, 2**25])
def test_kernels_and_stacked_matrices_in_slabs(tmp_path: Path, monkeypatch, store, slab):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", slab)
    nodes = [NODE("Conv", ["x", "kernel"], ["h"]), NODE("MatMul", ["h", "heads"], ["y"])]
    tensors = {"kernel": numbers(6, 3, 1, 2), "heads": numbers(6, 3, 5)}
    path = store(tmp_path, nodes, {"x": [1, 3, 4, 4]}, tensors)
    np.testing.assert_array_equal(whole(path, "kernel"), tensors["kernel"])
    np.testing.assert_array_equal(whole(path, "heads"), tensors["heads"].transpose(0, 2, 1).reshape(30, 3))


@pytest.mark.parametrize("store", [save, save_external])
@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float64, "fp64"), (np.float16, "fp16"), (ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float8_e4m3fn, "fp8"), (np.int8, "int8"),
        (ml_dtypes.int4, "int4"), (ml_dtypes.float4_e2m1fn, "fp4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("slab", [1, 2**25])
def test_number_types(tmp_path: Path, monkeypatch, store, dtype, name, slab):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", slab)
    array = (numbers(24, 5) % 3).astype(dtype)  # an odd width: packed numbers begin in the middle of a byte
    path = store(tmp_path, *PRODUCT, {"w": array}, {"y": [1, 5]}, opset=23)
    assert read_onnx(path).states[0].weights["w"].dtype == name
    np.testing.assert_array_equal(whole(path).astype(np.float32), array.astype(np.float32).T)


@pytest.mark.parametrize(
    "node", [NODE("MatMul", ["x", "w"], ["y"]), NODE("Gemm", ["x", "w"], ["y"], transB=1)], ids=["transposed", "as stored"]
)
def test_a_large_external_tensor_is_never_in_memory_as_a_whole(tmp_path: Path, monkeypatch, node):
    path = save_external(tmp_path, [node], {"x": [1, 1024]}, {"w": np.ones((1024, 1024), np.float32)})
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", 2**18)
    tracemalloc.start()
    count = sum(np.count_nonzero(slab) for slab in read_onnx(path).states[0].weights["w"].slabs())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2**20
    assert peak < 2**21  # of 4 MiB


def test_shape_arithmetic_on_external_tensors(tmp_path: Path):
    nodes = [NODE("Reshape", ["x", "to"], ["r"]), NODE("MatMul", ["r", "w"], ["y"])]
    path = save_external(tmp_path, nodes, {"x": [2, 48]}, {"to": np.array([2, 2, 24]), "w": numbers(24, 5)})
    assert read_onnx(path).layers[0].n == 2


def test_a_sparse_initializer(tmp_path: Path):
    made = model(*PRODUCT, outputs={"y": [1, 3]})
    for name, where in (("w", np.array([2, 71])), ("v", np.array([[0, 2], [2, 1]]))):
        values = numpy_helper.from_array(numbers(2), name)
        shape = [24, 3] if name == "w" else [3, 2 + 1]
        made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, numpy_helper.from_array(where), shape))
    made.graph.node.append(NODE("MatMul", ["y", "v"], ["z"]))
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3]))
    save_model(made, tmp_path / "net.onnx")
    first, second = whole(tmp_path / "net.onnx"), whole(tmp_path / "net.onnx", "v")
    assert (first.shape, first[2, 0], first[2, 23], np.count_nonzero(first)) == ((3, 24), 1, 2, 2)
    np.testing.assert_array_equal(second, [[0, 0, 0], [0, 0, 2], [1, 0, 0]])


# --- constant operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "stored", "expected"),
    [
        ([NODE("Cast", ["w"], ["v"], to=TensorProto.FLOAT)], numbers(24, 5).astype(np.float16), lambda w: w.T),
        ([NODE("Transpose", ["w"], ["v"], perm=[1, 0])], numbers(5, 24), lambda w: w),
        ([NODE("Transpose", ["w"], ["t"]), NODE("Identity", ["t"], ["v"])], numbers(5, 24), lambda w: w),
        ([NODE("Transpose", ["w"], ["t"]), NODE("Transpose", ["t"], ["v"])], numbers(24, 5), lambda w: w.T),
        ([NODE("Squeeze", ["w"], ["s"]), NODE("Transpose", ["s"], ["v"])], numbers(5, 24, 1), lambda w: w[:, :, 0]),
        ([NODE("Reshape", ["w", "to"], ["v"])], numbers(12, 10), lambda w: w.reshape(24, 5).T),
        ([NODE("Transpose", ["w"], ["t"]), NODE("Reshape", ["t", "to"], ["v"])], numbers(10, 12), lambda w: w.T.reshape(24, 5).T),
        ([NODE("Transpose", ["w"], ["t"], perm=[1, 0, 2]), NODE("Reshape", ["t", "to"], ["v"])], numbers(4, 6, 5), lambda w: w.transpose(1, 0, 2).reshape(24, 5).T),
        ([NODE("Mul", ["w", "mask"], ["v"])], numbers(24, 5), lambda w: (w * (np.arange(120).reshape(24, 5) % 2)).T),
        ([NODE("Split", ["w"], ["u", "v"], num_outputs=2, axis=1)], numbers(24, 10), lambda w: w[:, 5:].T),
    ],
    ids=["cast", "transposed", "and passed on", "twice", "squeezed", "reshaped", "and transposed", "permuted", "masked", "split"],
)  # fmt: skip
@pytest.mark.parametrize("store", [save, save_external])
@pytest.mark.parametrize("small", [4, 4096])
def test_weights_behind_other_operators(tmp_path: Path, monkeypatch, store, small, nodes, stored, expected):
    monkeypatch.setattr(
        onnx_file, "MAX_SMALL_ELEMENTS", small
    )  # weights among the small tensors are evaluated at once, others when they are read
    tensors = {"w": stored, "mask": (np.arange(120).reshape(24, 5) % 2).astype(np.float32), "to": np.array([24, 5])}
    path = store(tmp_path, [*nodes, NODE("MatMul", ["x", "v"], ["y"])], {"x": [1, 24]}, tensors)
    assert [operator.kind for operator in read_onnx(path).operators] == ["MatMul"]
    np.testing.assert_array_equal(whole(path), expected(stored))


def test_a_kernel_whose_sides_are_swapped(tmp_path: Path):
    nodes = [NODE("Transpose", ["w"], ["v"], perm=[0, 1, 3, 2]), NODE("Conv", ["x", "v"], ["y"])]
    path = save(tmp_path, nodes, {"x": [1, 3, 8, 8]}, {"w": numbers(4, 3, 1, 2)})
    np.testing.assert_array_equal(whole(path), numbers(4, 3, 1, 2).transpose(0, 1, 3, 2))


def test_weights_in_a_constant_node(tmp_path: Path):
    nodes = [NODE("Constant", [], ["w"], value=numpy_helper.from_array(numbers(24, 5))), *PRODUCT[0]]
    np.testing.assert_array_equal(whole(save(tmp_path, nodes, {"x": [1, 24]})), numbers(24, 5).T)


def test_weights_that_cannot_be_computed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(onnx_file, "MAX_SMALL_ELEMENTS", 4)
    nodes = [NODE("Mul", ["w", "w"], ["v"]), NODE("MatMul", ["x", "v"], ["y"])]
    path = save(tmp_path, nodes, {"x": [1, 24]}, {"w": numbers(24, 5)})
    read = read_onnx(path)
    monkeypatch.setattr(onnx_shapes, "evaluate_node", lambda *given: 1 / 0)
    with pytest.raises(InputError, match=r"tensor 'v' cannot be read \(division by zero\); export the model again, with constants folded"):
        list(read.states[0].weights["w"].slabs())


# --- quantised weights --------------------------------------------------------------------------------------------------------

SCALAR, EACH = np.array(3, np.uint8), np.arange(5).astype(np.uint8)
QUANTISED = numbers(24, 5, dtype=np.uint8)


@pytest.mark.parametrize("zero", [SCALAR, EACH, np.full(5, 3, np.uint8)], ids=["one", "each", "each alike"])
@pytest.mark.parametrize("slab", [1, 2**25])
@pytest.mark.parametrize(
    "node",
    [
        NODE("MatMulInteger", ["q", "w", "", "zero"], ["y"]),
        NODE("QLinearMatMul", ["q", "s", "z", "w", "s", "zero", "s", "z"], ["y"]),
        NODE("MatMulIntegerToFloat", ["q", "w", "s", "s", "z", "zero"], ["y"], **MICROSOFT),
        NODE("QGemm", ["q", "s", "z", "w", "s", "zero"], ["y"], **MICROSOFT),
    ],
    ids=lambda node: node.op_type,
)
def test_zero_points_of_products(tmp_path: Path, monkeypatch, zero, slab, node):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", slab)
    tensors = {"w": QUANTISED, "zero": zero, "s": np.array(1, np.float32), "z": np.array(0, np.uint8)}
    read = read_onnx(save(tmp_path, [node], {"q": (TensorProto.UINT8, [1, 24])}, tensors))
    (row,), (weights,) = read.layers, read.states[0].weights.values()
    assert (row.m, row.k, row.n, weights.dtype, read.notes) == (5, 24, 1, "uint8", ())
    np.testing.assert_array_equal(np.concatenate(list(weights.slabs())), (QUANTISED.astype(int) - zero).T)


@pytest.mark.parametrize("zero", [SCALAR, EACH], ids=["one", "each"])
@pytest.mark.parametrize(
    "node",
    [NODE("ConvInteger", ["q", "w", "z", "zero"], ["y"]), NODE("QLinearConv", ["q", "s", "z", "w", "s", "zero", "s", "z"], ["y"])],
    ids=lambda node: node.op_type,
)
def test_zero_points_of_convolutions(tmp_path: Path, zero, node):
    kernel = numbers(5, 3, 2, 2, dtype=np.uint8)
    tensors = {"w": kernel, "zero": zero, "s": np.array(1, np.float32), "z": np.array(0, np.uint8)}
    path = save(tmp_path, [node], {"q": (TensorProto.UINT8, [1, 3, 4, 4])}, tensors)
    np.testing.assert_array_equal(whole(path), kernel.astype(int) - np.broadcast_to(zero, 5).reshape(5, 1, 1, 1))


@pytest.mark.parametrize(
    ("zero", "axis", "more", "expected"),
    [
        (SCALAR, 1, {}, lambda w: (w - 3).T),
        (EACH, 1, {}, lambda w: (w - EACH).T),
        (EACH, -1, {}, lambda w: (w - EACH).T),
        (np.arange(24).astype(np.uint8), 0, {}, lambda w: (w - np.arange(24)[:, None]).T),
        (np.arange(10).reshape(2, 5).astype(np.uint8), 0, {"block_size": 12}, lambda w: (w - np.arange(10).reshape(2, 5).repeat(12, 0)).T),
    ],
    ids=["one", "each output", "counted from the end", "each input", "each block"],
)
def test_dequantised_weights(tmp_path: Path, zero, axis, more, expected):
    nodes = [NODE("DequantizeLinear", ["w", "scale", "zero"], ["v"], axis=axis, **more), NODE("MatMul", ["x", "v"], ["y"])]
    tensors = {"w": QUANTISED, "scale": np.ones(zero.shape, np.float32), "zero": zero}
    read = read_onnx(save(tmp_path, nodes, {"x": [1, 24]}, tensors, opset=21))
    assert read.notes == ()
    np.testing.assert_array_equal(np.concatenate(list(read.states[0].weights["w"].slabs())), expected(QUANTISED.astype(int)))


def test_zero_points_that_change_with_the_input(tmp_path: Path):
    node = NODE("MatMulInteger", ["q", "w", "", "zero"], ["y"])
    inputs = {"q": (TensorProto.UINT8, [1, 24]), "zero": (TensorProto.UINT8, [])}
    read = read_onnx(save(tmp_path, [node], inputs, {"w": QUANTISED}))
    assert read.notes == ("'w': its zero points change with the input and are taken as 0",)
