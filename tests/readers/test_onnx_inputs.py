"""Sizes that an ONNX file leaves open: one sample unless a shape is given, and never a guess."""

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="reading ONNX is optional")

from dse.base.errors import InputError
from dse.readers.onnx import read_onnx
from tests.readers.onnx_models import NODE, numbers, only, save, sizes

TOKENS = (
    [NODE("MatMul", ["x", "w"], ["h"]), NODE("Add", ["h", "mask"], ["y"]), NODE("Softmax", ["y"], ["p"])],
    {"x": ["batch", "tokens", 8], "mask": ["batch", "tokens", 1]},
    {"w": numbers(8, 5)},
)


def test_an_open_batch_is_one(tmp_path: Path):
    path = save(tmp_path, [NODE("Conv", ["x", "w"], ["y"])], {"x": ["N", 3, 8, 8]}, {"w": numbers(4, 3, 1, 1)}, {"y": ["N", 4, "h", "w"]})
    source = read_onnx(path)
    assert sizes(source) == [("w", "conv", 4, 3, 64, 1, 1)]
    assert source.notes == ("input 'x' [N, 3, 8, 8] leaves the batch open: 1 is taken",)


@pytest.mark.parametrize("batch", [1, 4])
def test_open_sizes_of_further_inputs_follow_the_first(tmp_path: Path, batch):
    source = read_onnx(save(tmp_path, *TOKENS), (batch, 7, 8))
    assert sizes(source) == [("w", "gemm", 5, 8, 7, 1, 1), ("softmax_1", "elementwise", 35, 35)]
    assert source.notes == ()


@pytest.mark.parametrize(
    ("inputs", "shape", "message"),
    [
        (["batch", "tokens", 8], None, "input 'x' [batch, tokens, 8] leaves sizes open; give its whole shape, as in '--shape 1x128x8'"),
        (["N", 3, "h", "w"], None, "input 'x' [N, 3, h, w] leaves sizes open; give its whole shape, as in '--shape 1x3x224x224'"),
        ([None, None, 8], None, "input 'x' [?, ?, 8] leaves sizes open; give its whole shape, as in '--shape 1x128x8'"),
        (None, None, "input 'x' of unknown shape leaves sizes open; give its whole shape, as in '--shape 1x3x224x224'"),
        (["batch", "tokens", 8], (1, 7), "input 'x' [batch, tokens, 8] cannot have the shape 1x7; write one that fits, as in '--shape 1x128x8'"),
        (["batch", "tokens", 8], (1, 7, 9), "input 'x' [batch, tokens, 8] cannot have the shape 1x7x9; write one that fits, as in '--shape 1x128x8'"),
        (["batch", "tokens", 8], (1, 0, 8), "input 'x' [batch, tokens, 8] cannot have the shape 1x0x8; write one that fits, as in '--shape 1x128x8'"),
    ],
)  # fmt: skip
def test_sizes_that_nothing_tells(tmp_path: Path, inputs, shape, message):
    path = save(tmp_path, [NODE("MatMul", ["x", "w"], ["y"])], {"x": inputs}, {"w": numbers(8, 5)})
    with pytest.raises(InputError) as error:
        read_onnx(path, shape)
    assert str(error.value) == f"{path}: {message}"


def test_a_second_input_that_stays_open_costs_only_what_depends_on_it(tmp_path: Path):
    nodes = [NODE("MatMul", ["x", "w"], ["y"]), NODE("MatMul", ["past", "y"], ["z"])]
    source = read_onnx(save(tmp_path, nodes, {"x": ["N", 7, 8], "past": ["N", "p", 7]}, {"w": numbers(8, 5)}))
    assert [row.name for row in source.layers] == ["w"]
    assert (only(source).kind, only(source).reason) == ("MatMul", "the shape of 'z' is not known")
    assert "input 'past' [N, p, 7] leaves sizes open: what depends on them may be skipped" in source.notes


def test_weights_that_are_listed_as_inputs_are_none(tmp_path: Path):
    """Old exporters list them, and before the real input at that."""
    path = save(tmp_path, [NODE("MatMul", ["x", "w"], ["y"])], {"w": [8, 5], "x": ["N", 8]}, {"w": numbers(8, 5)})
    source = read_onnx(path)
    assert sizes(source) == [("w", "gemm", 5, 8, 1, 1, 1)]
    assert source.notes == ("input 'x' [N, 8] leaves the batch open: 1 is taken",)


def test_a_vector_is_one_sample(tmp_path: Path):
    source = read_onnx(save(tmp_path, [NODE("MatMul", ["x", "w"], ["y"])], {"x": [8]}, {"w": numbers(8, 5)}))
    assert sizes(source) == [("w", "gemm", 5, 8, 1, 1, 1)]
