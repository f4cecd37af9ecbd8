"""ONNX files that cannot be read: each is refused with its name and a fix, none ends in a traceback."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="reading ONNX is optional")

import onnx
from onnx import TensorProto, save_model

from dse.base.errors import InputError
from dse.readers.onnx import read_onnx
from tests.readers.onnx_models import NODE, model, numbers, save, save_external

PRODUCT = ([NODE("MatMul", ["x", "fc.weight"], ["y"])], {"x": [1, 100]}, {"fc.weight": numbers(100, 50)})
NOT_WHOLE = "is not an ONNX model, or only a part of one; export the model again"


def refused(path: Path) -> str:
    with pytest.raises(InputError) as error:
        read_onnx(path)
    assert all(problem.file == path and problem.fix for problem in error.value.problems)
    return str(error.value).replace(str(path.parent), ".")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; export the model again"),
        (b"name: not a model\n" * 9, NOT_WHOLE),
        (b"PK\x03\x04" + bytes(60), "is a zip archive (a PyTorch checkpoint?), not an ONNX model; export it with torch.onnx.export"),
        (b"\x80\x02\x8a\nl\xfc\x9c", "is a Python pickle (a PyTorch checkpoint?), not an ONNX model; export it with torch.onnx.export"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS, not the model itself; fetch it with 'git lfs pull'"),
        (b"\x08\x07", "is not a whole ONNX model: it has no graph or names no operator set; export the model again"),
        (bytes(range(256)) * 4, NOT_WHOLE),
    ],
    ids=["empty", "text", "zip", "pickle", "pointer", "no graph", "noise"],
)  # fmt: skip
def test_other_files(tmp_path: Path, content, message):
    (path := tmp_path / "net.onnx").write_bytes(content)
    assert refused(path).startswith(f"./net.onnx: {message}")


def test_no_file_and_a_folder(tmp_path: Path):
    assert refused(tmp_path / "net.onnx") == "./net.onnx: no such file; name the .onnx file"
    assert refused(tmp_path).endswith("is a folder, not an ONNX file; name the .onnx file in it")


def test_every_truncation(tmp_path: Path):
    """A prefix is refused, wherever it ends."""
    made = model(*PRODUCT)
    del made.opset_import[1:]  # without the second, the file would still be a model
    whole = made.SerializeToString()
    for length in [*range(1, 200), *range(200, len(whole), 997), *range(len(whole) - 60, len(whole))]:
        (path := tmp_path / "part.onnx").write_bytes(whole[:length])
        assert refused(path).startswith("./part.onnx: ")


def test_random_damage_is_refused_or_read(tmp_path: Path):
    whole, random = save(tmp_path, *PRODUCT).read_bytes()[:], np.random.default_rng(0)
    header = len(whole) - 20000
    for _ in range(300):
        damaged = bytearray(whole)
        for place in random.integers(0, header, 3):
            damaged[place if place < header // 2 else place - header] = random.integers(256)
        (path := tmp_path / "damaged.onnx").write_bytes(damaged)
        try:
            for weights in read_onnx(path).states[0].weights.values():
                list(weights.slabs())
        except InputError as error:
            assert "damaged.onnx" in str(error)  # noqa: PT017 - either end is right


def test_no_layer(tmp_path: Path):
    path = save(tmp_path, [NODE("Relu", ["x"], ["y"])], {"x": [1, 8]})
    assert refused(path) == "./net.onnx: has no layer with weights that can be read; see that it is the network, and not a part of it"
    path = save(tmp_path, [NODE("Mystery", ["x"], ["y"])], {"x": [1, 8]})
    assert "has no layer with weights that can be read (Mystery: unknown operator); see" in refused(path)


def test_inline_data_of_the_wrong_size(tmp_path: Path):
    made = model(*PRODUCT)
    made.graph.initializer[0].raw_data = bytes(400)
    save_model(made, tmp_path / "net.onnx")
    assert refused(tmp_path / "net.onnx") == "./net.onnx: tensor 'fc.weight' holds 400 bytes instead of 20000; export the model again"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"location": "none.data"}, "is in 'none.data', which is missing; put ./none.data there, it belongs to the model"),
        ({"location": "../net.data"}, "is in '../net.data', outside of the model's folder; save the model again with its data in the same folder"),
        ({"location": "a/../../net.data"}, "is in 'a/../../net.data', outside of the model's folder; save the model again with its data in the same folder"),
        ({"location": "/etc/passwd"}, "is in '/etc/passwd', outside of the model's folder; save the model again with its data in the same folder"),
        ({"location": ""}, "is in '', outside of the model's folder; save the model again with its data in the same folder"),
        ({"offset": "4096"}, "ends at byte 24096 of 'net.data', which has 20000; copy the whole of ./net.data again"),
        ({"offset": "-5"}, "needs 20000 bytes, its external data claims 20000 from -5 on; export the model again"),
        ({"length": "80"}, "needs 20000 bytes, its external data claims 80 from 0 on; export the model again"),
        ({"length": "many"}, "has a bad offset or length in its external data (invalid literal for int() with base 10: 'many'); export the model again"),
    ],
)  # fmt: skip
def test_external_data(tmp_path: Path, keys, message):
    path = save_external(tmp_path, *PRODUCT)
    broken = onnx.load_model(path, load_external_data=False)
    for item in broken.graph.initializer[0].external_data:
        item.value = keys.get(item.key, item.value)
    path.write_bytes(broken.SerializeToString())
    assert refused(path) == f"./net.onnx: tensor 'fc.weight' {message}"


def test_all_broken_tensors_are_reported_at_once(tmp_path: Path):
    nodes = [NODE("MatMul", ["x", "a"], ["h"]), NODE("MatMul", ["h", "b"], ["y"])]
    path = save_external(tmp_path, nodes, {"x": [1, 100]}, {"a": numbers(100, 100), "b": numbers(100, 100)})
    (tmp_path / "net.data").unlink()
    assert [line.split(" is in")[0] for line in refused(path).splitlines()] == ["./net.onnx: tensor 'a'", "./net.onnx: tensor 'b'"]


def test_data_that_vanishes_after_the_check(tmp_path: Path):
    path = save_external(tmp_path, *PRODUCT)
    weights = read_onnx(path).states[0].weights["fc"]
    (tmp_path / "net.data").write_bytes(bytes(1000))
    with pytest.raises(InputError, match=r"ends at byte 20000 of 'net.data', which has 1000"):
        list(weights.slabs())


def test_links_are_followed(tmp_path: Path):
    """Caches of models consist of links to where the data are."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    for name in ("net.onnx", "net.data"):
        save_external(tmp_path / "blobs", *PRODUCT)
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / "blobs" / name)
    assert read_onnx(tmp_path / "snapshot" / "net.onnx").layers[0].name == "fc"


def test_numbers_of_no_number_type(tmp_path: Path):
    made = model(*PRODUCT)
    made.graph.initializer[0].data_type = TensorProto.STRING
    save_model(made, tmp_path / "net.onnx")
    assert "has no layer with weights" in refused(tmp_path / "net.onnx")
