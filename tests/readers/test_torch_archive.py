"""Archives of programs that are broken, of another kind, or that hold code: none is run, and each is refused with a fix."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="archives are written by the package 'torch'")

from torch import nn  # noqa: E402 - the skip comes first

from dse.base.errors import InputError  # noqa: E402
from dse.readers.pytorch.network import read_exported_program  # noqa: E402


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    path = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(4, 3)), (torch.ones(2, 4),)), path)
    return path


def changed(path: Path, **members: Callable[[bytes], bytes] | None) -> Path:
    """The archive with some members (by the last part of their names) replaced or left out."""
    with zipfile.ZipFile(path) as source:
        read = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(path, "w") as target:
        for name, data in read.items():
            change = members.get(Path(name).stem, bytes) if not name.endswith(".pt") else bytes
            if change:
                target.writestr(name, change(data))
    return path


def test_no_code_of_a_file_is_run(linear, tmp_path):
    """Loaded by PyTorch, the text of a size is evaluated, and inputs that are no plain tensors are unpickled."""
    ran = tmp_path / "ran"

    def with_code(data: bytes) -> bytes:
        program = json.loads(data)
        for meta in program["graph_module"]["graph"]["tensor_values"].values():
            meta["sizes"] = [{"as_expr": {"expr_str": f"open({str(ran)!r}, 'w')", "hint": size}} for size in meta["sizes"]]
        return json.dumps(program).encode()

    source = read_exported_program(changed(linear, model=with_code))
    assert [(row.name, row.m, row.k, row.n) for row in source.layers] == [("0", 3, 4, 1)]
    assert not ran.exists()


def pickled(data: bytes) -> bytes:
    config = json.loads(data)
    config["config"]["0.weight"]["use_pickle"] = True
    return json.dumps(config).encode()


def oversized(data: bytes) -> bytes:
    config = json.loads(data)
    config["config"]["0.weight"]["tensor_meta"]["sizes"][0] = {"as_int": 4}
    return json.dumps(config).encode()


def newer(data: bytes) -> bytes:
    return json.dumps(json.loads(data) | {"schema_version": {"major": 9, "minor": 1}}).encode()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"model": lambda data: data[:100]}, "not a program that torch.export wrote: invalid json"),
        ({"model": lambda data: b"{}"}, "graph_module: not a program that torch.export wrote: field required"),
        ({"model": lambda data: data.replace(b'"as_tensor"', b'"as_mystery"')}, "not a program that torch.export wrote"),
        ({"model": newer}, "schema version 9 is not understood, only 8"),
        ({"model": None}, "not a torch.export archive"),
        ({"model_weights_config": None}, "the archive is of an old torch"),
        ({"model_weights_config": pickled}, "'0.weight' is pickled, and unpickling could run code"),
        ({"model_weights_config": oversized}, "'linear/data/weights/weight_0' is smaller than its tensor"),
        ({"weight_0": lambda data: data[:-4]}, "'linear/data/weights/weight_0' is smaller than its tensor"),
        ({"weight_0": None}, "There is no item named 'linear/data/weights/weight_0' in the archive"),
    ],
)  # fmt: skip
def test_broken_archives_are_refused(linear, members, message):
    with pytest.raises(InputError) as error:
        read_exported_program(changed(linear, **members))
    assert message in str(error.value)
    assert all(problem.file == linear for problem in error.value.problems)


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04 and no more"])
def test_other_files_are_refused(tmp_path, data):
    path = tmp_path / "net.pt2"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"net.pt2: not a whole torch.export archive \(File is not a zip file\); write it again with"):
        read_exported_program(path)
    with pytest.raises(InputError, match="no such file"):
        read_exported_program(tmp_path / "absent.pt2")


def test_weights_alone_are_no_network(tmp_path):
    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / "net.pt2")
    with pytest.raises(InputError, match=r"holds weights, not a program; name it net.pt"):
        read_exported_program(tmp_path / "net.pt2")


def test_an_archive_cut_short_is_refused(linear):
    linear.write_bytes(linear.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"not a whole torch.export archive \(its end is missing\)"):
        read_exported_program(linear)


def test_damaged_weights_are_refused_when_they_are_read(linear):
    source = read_exported_program(linear)
    data = bytearray(linear.read_bytes())
    with zipfile.ZipFile(linear) as archive:
        start = archive.getinfo("linear/data/weights/weight_0").header_offset
    data[start + 30 + sum(struct.unpack("<2H", data[start + 26 : start + 30]))] ^= 0xFF
    linear.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"not a whole torch.export archive \(Bad CRC-32"):
        list(source.states[0].weights["0"].slabs())
