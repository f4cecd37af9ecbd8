"""State dicts as PyTorch saves them: every form of a tensor arrives with its zeros, and no file gets its code run."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="state dicts are written and read by the package 'torch'")

from torch import nn  # noqa: E402 - the skip comes first
from torch.nn.utils import prune  # noqa: E402

from dse.base.errors import InputError  # noqa: E402
from dse.readers import parsed_network  # noqa: E402
from dse.readers.named_tensors import apply_masks  # noqa: E402
from dse.readers.parsed_network import NamedTensors  # noqa: E402
from dse.readers.pytorch.checkpoint import read_checkpoint  # noqa: E402


def saved(folder: Path, what: Any, **options: Any) -> Path:
    torch.save(what, path := folder / "net.pt", **options)
    return path


def whole(named: NamedTensors, name: str) -> np.ndarray:
    return np.concatenate(list(named.tensors[name].slabs()))


@pytest.mark.parametrize("archive", [True, False])
def test_a_state_dict(tmp_path, archive):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2, bias=False))
    named = read_checkpoint(saved(tmp_path, net.state_dict(), _use_new_zipfile_serialization=archive))
    assert {name: (weights.shape, weights.dtype) for name, weights in named.tensors.items()} == {
        "0.weight": ((4, 3, 3, 3), "fp32"), "0.bias": ((4,), "fp32"), "1.weight": ((4,), "fp32"), "1.bias": ((4,), "fp32"),
        "1.running_mean": ((4,), "fp32"), "1.running_var": ((4,), "fp32"), "1.num_batches_tracked": ((), "int64"),
        "3.weight": ((2, 4), "fp32"),
    }  # fmt: skip
    for name in ("0.weight", "0.bias", "3.weight"):
        np.testing.assert_array_equal(whole(named, name), net.state_dict()[name].numpy())
    assert [int(slab) for slab in named.tensors["1.num_batches_tracked"].slabs()] == [0]
    assert named.shared == ()


@pytest.mark.parametrize("wrap", [
    lambda found: {"state_dict": found, "epoch": 3}, lambda found: {"model": found, "optimizer": {"state": {}}},
    lambda found: {"model": {"state_dict": found}}, lambda found: {**found, "step": 7},
])  # fmt: skip
def test_checkpoints_that_hold_more(tmp_path, wrap):
    named = read_checkpoint(saved(tmp_path, wrap({"fc.weight": torch.eye(3)})))
    assert list(named.tensors) == ["fc.weight"]


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        (torch.float32, "fp32"), (torch.float64, "fp64"), (torch.float16, "fp16"), (torch.bfloat16, "bf16"), (torch.float8_e4m3fn, "fp8"),
        (torch.float8_e5m2, "fp8"), (torch.int8, "int8"), (torch.bool, "bool"),
    ],
)  # fmt: skip
def test_number_types(tmp_path, dtype, short):
    matrix = torch.tensor([[0.0, 1.5, -2.0], [0.25, 0.0, 0.0]]).to(dtype)
    named = read_checkpoint(saved(tmp_path, {"w": matrix, "w.t": matrix.t()}))
    assert named.tensors["w"].dtype == short
    np.testing.assert_array_equal(whole(named, "w").astype(np.float32), matrix.float().numpy())
    np.testing.assert_array_equal(whole(named, "w.t").astype(np.float32), matrix.float().numpy().T)


def test_large_tensors_come_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", 100)
    matrix = torch.randn(7, 10).where(torch.rand(7, 10) > 0.5, 0)
    named = read_checkpoint(saved(tmp_path, {"w": matrix, "sparse": matrix.to_sparse(), "w_orig": matrix, "w_mask": matrix != 0}))
    assert [len(slab) for slab in named.tensors["sparse"].slabs()] == [2, 2, 2, 1]
    np.testing.assert_array_equal(whole(named, "sparse"), matrix.numpy())
    np.testing.assert_array_equal(whole(named, "w"), matrix.numpy())


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state:UserWarning")  # PyTorch, of the tensors made here
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", ["sparse", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_sparse_tensors(tmp_path, form, dtype):
    matrix = torch.diag(torch.arange(6.0)).to(dtype)
    sparse = getattr(matrix, f"to_{form}")(*[(2, 3)] * form.startswith("sparse_bs"))
    named = read_checkpoint(saved(tmp_path, {"w": sparse}))
    assert named.tensors["w"].shape == (6, 6)
    np.testing.assert_array_equal(whole(named, "w").astype(np.float32), matrix.float().numpy())


def test_a_sparse_convolution_with_entries_given_twice(tmp_path):
    sparse = torch.sparse_coo_tensor([[1, 1, 0], [2, 2, 0], [0, 0, 1]], [1.0, 2.0, 5.0], (2, 3, 2))
    dense = np.zeros((2, 3, 2))
    dense[1, 2, 0], dense[0, 0, 1] = 3, 5
    np.testing.assert_array_equal(whole(read_checkpoint(saved(tmp_path, {"w": sparse})), "w"), dense)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, .* are deprecated:UserWarning")  # still, such files are about
def test_quantised_tensors_have_zeros_where_they_mean_zero(tmp_path):
    path = saved(tmp_path, {"w": torch.quantize_per_tensor(torch.eye(4), scale=0.1, zero_point=3, dtype=torch.qint8)})
    named = read_checkpoint(path)
    assert named.tensors["w"].dtype == "int8"
    np.testing.assert_allclose(whole(named, "w"), np.eye(4), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, .* are deprecated:UserWarning")  # PyTorch, of the tensors made here
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state:UserWarning")
def test_reading_gives_no_warnings(tmp_path):
    """PyTorch warns once a process, so this needs one of its own."""
    quantised = torch.quantize_per_tensor(torch.eye(4), scale=0.1, zero_point=3, dtype=torch.qint8)
    path = saved(tmp_path, {"quantised": quantised, "csr": torch.eye(4).to_sparse_csr(), "bsr": torch.eye(4).to_sparse_bsr((2, 2))})
    read = f"from pathlib import Path; from dse.readers.pytorch.checkpoint import read_checkpoint; found = read_checkpoint(Path({str(path)!r})).tensors"
    count = "print(*(sum(int((slab != 0).sum()) for slab in weights.slabs()) for weights in found.values()))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", f"{read}; {count}"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("4 4 4\n", "")


def test_masks_of_pruning_are_applied(tmp_path):
    net = nn.Sequential(nn.Linear(20, 10), nn.Linear(10, 5))
    prune.l1_unstructured(net[0], "weight", 150)
    prune.random_unstructured(net[1], "bias", 2)
    named = NamedTensors(apply_masks(read_checkpoint(saved(tmp_path, net.state_dict())).tensors))
    assert set(named.tensors) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert np.count_nonzero(whole(named, "0.weight")) == 50
    np.testing.assert_array_equal(whole(named, "0.weight"), net[0].weight.detach().numpy())
    np.testing.assert_array_equal(whole(named, "1.bias"), net[1].bias.detach().numpy())


def test_names_of_one_tensor_are_shared(tmp_path):
    tied, parts = torch.randn(6, 4), torch.randn(3, 4)
    state = {"embedding": tied, "head": tied, "head.t": tied.t(), "q": parts[:1], "k": parts[1:2], "copy": tied.clone()}
    assert read_checkpoint(saved(tmp_path, state)).shared == (("embedding", "head", "head.t"),)


class RunsCode:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("archive", [True, False])
def test_code_of_a_file_is_not_run(tmp_path, archive):
    path = saved(tmp_path, {"w": torch.eye(2), "other": RunsCode(tmp_path / "ran")}, _use_new_zipfile_serialization=archive)
    with pytest.raises(InputError, match=r"the file holds an object of '\w+.mkdir', and loading that could run code; save model"):
        read_checkpoint(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ({"w": torch.eye(2), "loss": np.float64(3)}, "numpy._core.multiarray.scalar"),
        ({"w": np.eye(2)}, "numpy._core.multiarray._reconstruct"),
        ({"w": torch.eye(2), "args": argparse.Namespace(lr=1)}, "argparse.Namespace"),
    ],
)
def test_objects_are_refused_by_name(tmp_path, what, name):
    with pytest.raises(InputError, match=rf"net.pt: the file holds an object of '{re.escape(name)}'.*or use safetensors"):
        read_checkpoint(saved(tmp_path, what))


@pytest.mark.parametrize("what", [{}, {"epoch": 3}, [torch.eye(2)], torch.eye(2), 5])
def test_files_without_named_tensors(tmp_path, what):
    with pytest.raises(InputError, match=r"net.pt: no tensors in it"):
        read_checkpoint(saved(tmp_path, what))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")  # PyTorch, of the tensor made here
def test_tensors_without_numbers(tmp_path):
    with pytest.raises(InputError, match=r"net.pt: 'w' has a shape, but no numbers"):
        read_checkpoint(saved(tmp_path, {"w": torch.empty(2, 2, device="meta")}))
    named = read_checkpoint(saved(tmp_path, {"w": torch.ones(2, 2, dtype=torch.complex32)}))
    with pytest.raises(InputError, match=r"net.pt: numbers of type complex32 cannot be read"):
        whole(named, "w")


SAFETENSORS = (2).to_bytes(8, "little") + b"{}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"weights: none", "not a file of torch.save"),
        (SAFETENSORS, "this is a safetensors file; name it net.safetensors"),
        (b"PK\x03\x04 and no more", "not a whole file of torch.save (File is not a zip file)"),
        (b"\x80\x02 and no more", "not a whole file of torch.save"),
    ],
)
def test_other_files(tmp_path, data, message):
    path = tmp_path / "net.pt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"net.pt: {re.escape(message)}"):
        read_checkpoint(path)


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_truncated_files(tmp_path, archive, kept):
    path = saved(tmp_path, {"w": torch.randn(100, 100)}, _use_new_zipfile_serialization=archive)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(InputError, match=r"net.pt: not a whole file of torch.save"):
        read_checkpoint(path)


def test_a_pickle_that_makes_no_sense(tmp_path):
    path = saved(tmp_path, {"w": torch.eye(4)})
    path.write_bytes(path.read_bytes().replace(b"storage", b"st\x00rage"))
    with pytest.raises(InputError, match=r"not a whole file of torch.save \(\S.*\)"):
        read_checkpoint(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_checkpoint(tmp_path / "net.pt")
    with pytest.raises(InputError, match="is a directory"):
        read_checkpoint(tmp_path)


@pytest.mark.filterwarnings("ignore:`torch.jit.* is deprecated:FutureWarning")  # still, such files are about
def test_programs_are_no_weights(tmp_path):
    path, net = tmp_path / "net.pt", nn.Linear(2, 2)
    torch.export.save(torch.export.export(net, (torch.ones(1, 2),)), tmp_path / "net.pt2")
    (tmp_path / "net.pt2").rename(path)
    with pytest.raises(InputError, match=r"this is a torch.export archive; name it net.pt2"):
        read_checkpoint(path)
    torch.jit.save(torch.jit.trace(net, torch.ones(1, 2)), path)
    with pytest.raises(InputError, match="this is a TorchScript program"):
        read_checkpoint(path)


def test_without_pytorch(tmp_path, monkeypatch):
    path = saved(tmp_path, {"w": torch.eye(2)})
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"needs the package 'torch'; pip install 'sparse-dse\[torch\]'"):
        read_checkpoint(path)
