"""Weights as `torch.save` writes them (.pt, .pth, .bin): tensors by name, without running code that a file may hold."""

import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dse.base.errors import InputError, Problem
from dse.readers.dtypes import numpy_dtype, short
from dse.readers.parsed_network import SLAB_BYTES, NamedTensors, WeightTensor

SAVE = "save model.state_dict() with torch.save, or use safetensors"
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")  # names under which a checkpoint keeps its weights
SPARSE = ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc")


def read(path: Path) -> NamedTensors:
    """The tensors of a state dict, of which a checkpoint may hold more than that; raises InputError."""
    archive = _is_archive(path)
    torch = _torch(path)
    with _quiet(), _refused(path):
        found = _state_dict(_load(torch, path, archive))
        if not found:
            raise InputError("no tensors in it", SAVE, path)
        return NamedTensors({name: _weights(torch, path, name, tensor) for name, tensor in found.items()}, _shared(found), ordered=True)


def _torch(path: Path) -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(f"reading {path} needs the package 'torch'", "pip install 'sparse-dse[torch]'") from error


def _is_archive(path: Path) -> bool:
    """Whether it is of the newer form of `torch.save`; refuses what is of neither, before PyTorch is needed."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise InputError((error.strerror or "cannot be read").lower(), "give a file that exists and can be read", path) from error
    if not start:
        raise InputError("the file is empty", SAVE, path)
    if start[8:9] == b"{":
        raise InputError("this is a safetensors file", f"name it {path.stem}.safetensors", path)
    if start[:4] == b"PK\x03\x04":
        _check_archive(path)
    elif start[:1] != b"\x80":
        raise InputError("not a file of torch.save", SAVE, path)
    return start[:1] == b"P"


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except Exception as error:  # a damaged directory ends in whatever reads it first
        raise InputError(f"not a whole file of torch.save ({error})", "copy it again", path) from error
    if any(name.endswith("archive_format") for name in members):
        raise InputError("this is a torch.export archive", f"name it {path.stem}.pt2", path)
    if any(name.endswith("constants.pkl") for name in members):
        raise InputError("this is a TorchScript program", SAVE, path)


def _load(torch: Any, path: Path, archive: bool) -> Any:
    """What the file holds, its tensors mapped rather than read where its form allows."""
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=archive)


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch warns about its own sparse and quantised tensors, and about old files; users can't do anything about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Whatever PyTorch raises for a file that is broken, or that only running its code could read, as a InputError."""
    try:
        yield
    except InputError as error:
        raise InputError.from_problems(
            problem if problem.file else Problem(problem.message, problem.fix, path) for problem in error.problems
        ) from error
    except Exception as error:
        text = str(error)
        if found := re.search(r"GLOBAL (\S+)|[Uu]nsupported class (\S+)", text):
            what = f"the file holds an object of '{found[1] or found[2]}', and loading that could run code"
            raise InputError(what, SAVE, path) from error
        reason = text.rpartition("WeightsUnpickler error: ")[2].strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"not a whole file of torch.save ({reason[:200]})", SAVE, path) from error


def _state_dict(loaded: Any) -> dict[str, Any]:
    """The named tensors of a state dict, or of the first dictionary in a checkpoint that is called as one."""
    if not isinstance(loaded, Mapping):
        return {}
    for wrapper in WRAPPERS:
        if isinstance(loaded.get(wrapper), Mapping) and (found := _state_dict(loaded[wrapper])):
            return found
    return {name: value for name, value in loaded.items() if isinstance(name, str) and hasattr(value, "untyped_storage")}


def _weights(torch: Any, path: Path, name: str, tensor: Any) -> WeightTensor:
    if tensor.is_meta:
        raise InputError(f"'{name}' has a shape, but no numbers", "save the network after its weights are loaded")
    if tensor.is_nested:
        raise InputError(f"'{name}' is a nested tensor", "save plain tensors")
    dtype = str(tensor.dtype).removeprefix("torch.")
    return WeightTensor(tuple(tensor.shape), short(dtype), lambda: _slabs(torch, path, tensor.detach(), dtype))


def _slabs(torch: Any, path: Path, tensor: Any, dtype: str) -> Iterator[np.ndarray]:
    with _refused(path):
        if str(tensor.layout) in SPARSE:
            yield from _sparse_slabs(_coordinates(tensor, dtype), tuple(tensor.shape))
            return
        if not tensor.ndim:
            yield _array(torch, tensor, dtype)
            return
        rows = _rows(tensor.shape, tensor.element_size())
        for start in range(0, tensor.shape[0], rows):
            yield _array(torch, tensor[start : start + rows], dtype)


def _rows(shape: tuple[int, ...], size: int) -> int:
    row = int(np.prod(shape[1:], dtype=np.int64)) * size
    return max(1, SLAB_BYTES // max(row, 1))


def _array(torch: Any, tensor: Any, dtype: str) -> np.ndarray:
    """A tensor in NumPy; number types that PyTorch doesn't hand over are taken as the bits that they are."""
    if tensor.is_quantized:
        return tensor.dequantize().numpy()
    tensor = tensor.resolve_conj().resolve_neg()
    bits = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
    if dtype.startswith(("bfloat", "float8")) and bits:
        return tensor.view(bits).numpy().view(numpy_dtype(dtype))
    numpy_dtype(dtype)
    return tensor.numpy()


def _coordinates(tensor: Any, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the nonzeros of a sparse tensor stand [dimension, nonzero], and what they are, in order."""
    with _quiet():
        blocked = str(tensor.layout) in ("torch.sparse_bsr", "torch.sparse_bsc")
        tensor = (tensor.to_dense() if blocked else tensor).to_sparse_coo()
        tensor = (tensor.float() if dtype.startswith(("bfloat", "float8")) else tensor).coalesce()
    return tensor.indices().numpy(), tensor.values().numpy()


def _sparse_slabs(nonzeros: tuple[np.ndarray, np.ndarray], shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    indices, values = nonzeros
    rows = _rows(shape, values.itemsize)
    for start in range(0, shape[0], rows):
        slab = np.zeros((min(rows, shape[0] - start), *shape[1:]), values.dtype)
        first, last = np.searchsorted(indices[0], (start, start + rows))
        slab[indices[0, first:last] - start, *indices[1:, first:last]] = values[first:last]
        yield slab


def _shared(tensors: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Names of the same elements of one storage; pieces of one that lie side by side are different tensors."""
    groups: dict[object, list[str]] = {}
    for name, tensor in tensors.items():
        if str(tensor.layout) == "torch.strided" and not tensor.is_meta and tensor.numel():
            groups.setdefault((tensor.data_ptr(), tensor.numel()), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)
