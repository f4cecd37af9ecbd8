"""Files that claim what they do not hold: each claim is compared with the bytes of the file before memory is taken for it."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from dse.base.errors import InputError, Problem
from dse.cli.entry import main
from dse.io_theory import layered_network
from dse.readers.parsed_network import MAX_GENERATED, MAX_REPEATS, WeightTensor, check_computed_size, check_weight_size
from dse.trace.detect import parse_network
from dse.trace.trace import CountOptions, trace_network
from tests.fuzz.torch_networks import exported_archive


def refused(path: Path) -> str:
    """What is said of a file that is read and counted."""
    with pytest.raises(InputError) as caught:
        trace_network(parse_network(path), CountOptions())
    assert all(problem.file == path for problem in caught.value.problems)
    return str(caught.value)


def saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return path


# NumPy


def test_a_member_of_an_archive_that_is_no_array(tmp_path):
    assert "fc: truncated, corrupt, or not a NumPy file" in refused(archive(tmp_path / "net.npz", fc=b"not an array"))


def test_an_array_of_an_archive_that_is_shorter_than_its_header_says(tmp_path):
    whole = saved(np.ones((8, 12), np.float32))
    claimed = whole[:10] + whole[10:].replace(b"'shape': (8, 12), }           ", b"'shape': (100000000000, 12), }", 1)
    assert len(claimed) == len(whole)
    assert "the data of the array ends before its shape (100000000000, 12) is filled" in refused(archive(tmp_path / "net.npz", fc=claimed))


def test_all_wrong_arrays_of_an_archive_are_reported_at_once(tmp_path):
    whole = saved(np.ones((8, 12), np.float32))
    assert len(refused(archive(tmp_path / "net.npz", a=whole[:200], b=b"", c=whole)).splitlines()) == 2


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_archive_is_read_in_pieces_of_either_order(tmp_path, order, monkeypatch):
    monkeypatch.setattr("dse.readers.parsed_network.SLAB_BYTES", 100)
    array = np.asarray(np.arange(96, dtype=np.float32).reshape(8, 12), order=order)
    (state,) = parse_network(archive(tmp_path / "net.npz", fc=saved(array))).states
    np.testing.assert_array_equal(np.concatenate(list(state.weights["fc"].slabs())), array)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("index", [-1, 12, 2**31 - 1])
def test_an_index_of_a_sparse_matrix_out_of_range(tmp_path, form, index):
    """Unchecked, the conversion to compressed rows writes outside of its arrays."""
    scipy.sparse.save_npz(tmp_path / "sound.npz", scipy.sparse.coo_array(np.eye(8, 12)).asformat(form))
    with np.load(tmp_path / "sound.npz") as sound:
        arrays = {name: sound[name] for name in sound.files}
    arrays["indices"][-1] = index
    assert "net.npz: truncated, corrupt" in refused(archive(tmp_path / "net.npz", **{name: saved(array) for name, array in arrays.items()}))


@pytest.mark.parametrize("shape", [(10**12, 8), (8, 10**12), (10**6, 10**6)])
def test_a_sparse_matrix_of_sizes_that_no_layer_has(tmp_path, shape):
    scipy.sparse.save_npz(tmp_path / "net.npz", scipy.sparse.coo_array(([1.0], ([3], [2])), shape=shape))
    assert f"{shape[0]} x {shape[1]} weights are more than any layer has" in refused(tmp_path / "net.npz")


def test_a_mask_of_sizes_that_no_layer_has(tmp_path):
    (tmp_path / "net.smtx").write_text("2, 10000000000, 1\n0 1 1\n5\n")
    assert "net.smtx:1: 2 x 10000000000 weights are more than any layer has" in refused(tmp_path / "net.smtx")


def test_limits_of_sizes():
    check_weight_size((2**17, 2**14))  # the largest published embedding table
    check_computed_size(MAX_GENERATED, 1)
    check_computed_size(10**9, 10**9 // MAX_REPEATS + 1)
    with pytest.raises(InputError, match="computed from 10 numbers"):
        check_computed_size(MAX_GENERATED + 1, 10)


# ONNX


@pytest.fixture
def onnx_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes x W to a file, changed by a function of its graph."""
    pytest.importorskip("onnx", reason="reading ONNX is optional")
    from onnx import save_model

    from tests.readers.onnx_models import NODE, model, numbers

    def write(change: Callable[[Any], object]) -> Path:
        made = model([NODE("MatMul", ["x", "fc.weight"], ["y"])], {"x": [1, 12]}, {"fc.weight": numbers(12, 8)})
        change(made.graph)
        save_model(made, path := tmp_path / "net.onnx")
        return path

    return write


@pytest.mark.parametrize("sizes", [[-1, 8], [12, -8], [2**62, 8], [2**40, 2**40]])
def test_a_tensor_of_sizes_that_none_has(onnx_file, sizes):
    def change(graph: Any) -> None:
        graph.initializer[0].dims[:] = sizes

    assert f"tensor 'fc.weight' has the sizes {sizes}" in refused(onnx_file(change))


def test_fewer_numbers_than_the_sizes_say(onnx_file):
    from onnx import helper

    def change(graph: Any) -> None:
        del graph.initializer[:]
        short = helper.make_tensor("fc.weight", 1, [3], [1.0, 2.0, 3.0])
        short.dims[:] = [120, 80]
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = 120
        graph.initializer.append(short)

    assert "tensor 'fc.weight' holds 3 numbers instead of 9600" in refused(onnx_file(change))


@pytest.mark.parametrize("place", [-1, 96])
def test_a_nonzero_outside_of_a_sparse_tensor(onnx_file, place):
    from onnx import helper

    def change(graph: Any) -> None:
        del graph.initializer[:]
        values, indices = helper.make_tensor("fc.weight", 1, [2], [1.0, 2.0]), helper.make_tensor("", 7, [2], [5, place])
        graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [12, 8]))

    assert "tensor 'fc.weight' has a nonzero outside of its sizes [12, 8]" in refused(onnx_file(change))


def test_a_weight_that_a_graph_makes_of_next_to_nothing(onnx_file):
    from onnx import helper

    def change(graph: Any) -> None:
        graph.initializer.append(helper.make_tensor("sizes", 7, [2], [12, 2**26]))
        graph.node.insert(0, helper.make_node("ConstantOfShape", ["sizes"], ["generated"]))
        graph.node[1].input[1] = "generated"

    assert f"{12 * 2**26} weights are computed from 2 numbers in the file" in refused(onnx_file(change))


# PyTorch


def changed_program(path: Path, change: Callable[[str, Any], None]) -> Path:
    """The archive of a small program, every JSON in it changed by a function of its name and value."""
    with zipfile.ZipFile(io.BytesIO(exported_archive())) as held, zipfile.ZipFile(path, "w") as made:
        for name in held.namelist():
            content = held.read(name)
            if name.endswith(".json"):
                change(name, value := json.loads(content))
                content = json.dumps(value).encode()
            made.writestr(name, content)
    return path


def test_the_program_itself_is_read(tmp_path):
    source = parse_network(changed_program(tmp_path / "net.pt2", lambda name, value: None))
    assert [(row.name, row.m, row.k, row.n) for row in source.layers if row.m] == [
        ("conv", 4, 36, 36),
        ("fc", 8, 12, 12),
        ("head", 5, 8, 12),
    ]


def test_a_tensor_that_repeats_one_number_without_end(tmp_path):
    def change(name: str, value: Any) -> None:
        if "weights_config" in name:
            meta = value["config"]["fc.weight"]["tensor_meta"]
            meta["sizes"], meta["strides"] = [{"as_int": 2**40}, {"as_int": 12}], [{"as_int": 0}, {"as_int": 1}]

    assert f"{12 * 2**40} weights are computed from 12 numbers" in refused(changed_program(tmp_path / "net.pt2", change))


def test_shapes_of_a_program_that_contradict_its_tensors(tmp_path):
    def change(name: str, value: Any) -> None:
        if "model.json" in name:
            value["graph_module"]["graph"]["tensor_values"]["masked"]["sizes"][1] = {"as_int": 8}

    assert "the weights that depend on 'p_conv' cannot be computed" in refused(changed_program(tmp_path / "net.pt2", change))


def test_a_weight_that_overflows_under_its_mask_is_refused_without_a_warning(tmp_path):
    large = np.array([[3e38, 1.0], [0.0, 2.0]], np.float32)
    np.savez(tmp_path / "net.npz", **{"fc.weight_orig": large, "fc.weight_mask": np.full((2, 2), 2.0, np.float32)})
    assert "fc: the weight in row 0, column 0 is inf" in refused(tmp_path / "net.npz")


def test_more_parameters_than_any_network_has(tmp_path):
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    torch.save({"fc.weight": torch.ones(2, 2), "scale": torch.ones(1).expand(2**60)}, tmp_path / "net.pt")
    assert "layer 'other_parameters' has sizes that are not possible (other_parameters: 1.15" in refused(tmp_path / "net.pt")


def test_more_connections_than_can_be_simulated(monkeypatch):
    monkeypatch.setattr(layered_network, "MAX_LAYER_CONNECTIONS", 5)
    weights = WeightTensor((2, 3), "fp32", lambda: iter([np.ones((2, 3))]))
    with pytest.raises(InputError, match="more than 5 connections"):
        layered_network._nonzero_matrix(weights, np.arange(3), (2, 3), 0.0)


# Paths


@pytest.mark.parametrize(
    "name", ["net.npz", "net.npy", "net.smtx", "net.csv", "net.safetensors", "net.onnx", "net.pt", "net.pt2", "config.json"]
)
def test_a_pipe_in_the_place_of_a_file(tmp_path, name, capsys):
    """Nobody writes to it, so that whoever opens it waits for ever."""
    os.mkfifo(tmp_path / name)
    assert main(["trace", str(tmp_path / name), "-o", str(tmp_path / "out")]) == 2
    assert f"{name}: a device or a named pipe, not a file; give a file that exists and can be read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_device_in_the_place_of_a_file_of_a_folder(tmp_path, capsys):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "config.json").symlink_to("/dev/zero")
    assert main(["trace", str(tmp_path / "net"), "-o", str(tmp_path / "out")]) == 2
    assert "config.json: a device or a named pipe, not a file" in capsys.readouterr().err


def test_a_link_to_itself(tmp_path, capsys):
    (tmp_path / "net.npz").symlink_to("net.npz")
    assert main(["trace", str(tmp_path / "net.npz"), "-o", str(tmp_path / "out")]) == 2
    assert "net.npz: no such file or folder" in capsys.readouterr().err


def test_what_a_file_holds_does_not_control_the_terminal():
    assert str(Problem("'\x1b[31m\na\u202e' is not known", "write é")) == r"'\x1b[31m\na\u202e' is not known; write é"
