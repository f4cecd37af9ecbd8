"""Read weights as `torch.save` writes them (.pt, .pth, .bin): tensors by name, without running code that a file may hold."""

import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from dse.base.errors import InputError, errors_in_file
from dse.readers.dtypes import dtype_name, torch_dtype_in_numpy
from dse.readers.parsed_network import NamedTensors, Shape, WeightTensor, rows_per_slab

Torch = Any  # the module `torch`, an optional dependency that is imported when it is needed
TorchTensor = Any  # torch.Tensor
FIX = "save model.state_dict() with torch.save, or use safetensors"
STATE_DICT_KEYS = ("state_dict", "model_state_dict", "model", "module")  # under which a checkpoint holds its weights
SPARSE_LAYOUTS = ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc")


def read_checkpoint(path: Path) -> NamedTensors:
    """Read the tensors of the state dict in a file; raises InputError."""
    is_archive = _is_archive(path)
    torch = _import_torch(path)
    with _no_warnings(), _checkpoint_errors(path):
        tensors = _find_state_dict(_load(torch, path, is_archive))
        if not tensors:
            raise InputError("no tensors in it", FIX, path)
        weights = {name: _weight_tensor(torch, path, name, tensor) for name, tensor in tensors.items()}
        return NamedTensors(weights, _shared_names(tensors), ordered=True)


def _import_torch(path: Path) -> Torch:
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(f"reading {path} needs the package 'torch'", "pip install 'sparse-dse[torch]'") from error


def _is_archive(path: Path) -> bool:
    """Whether a file has the newer format of `torch.save`, a zip archive. Raises InputError, without PyTorch, if it has neither format."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise InputError((error.strerror or "cannot be read").lower(), "give a file that exists and can be read", path) from error
    if not start:
        raise InputError("the file is empty", FIX, path)
    if start[8:9] == b"{":
        raise InputError("this is a safetensors file", f"name it {path.stem}.safetensors", path)
    if start[:4] == b"PK\x03\x04":
        _check_archive(path)
    elif start[:1] != b"\x80":
        raise InputError("not a file of torch.save", FIX, path)
    return start[:1] == b"P"


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except Exception as error:  # a damaged directory makes zipfile raise errors of almost any type
        raise InputError(f"not a whole file of torch.save ({error})", "copy it again", path) from error
    if any(name.endswith("archive_format") for name in members):
        raise InputError("this is a torch.export archive", f"name it {path.stem}.pt2", path)
    if any(name.endswith("constants.pkl") for name in members):
        raise InputError("this is a TorchScript program", FIX, path)


def _load(torch: Torch, path: Path, is_archive: bool) -> object:
    """The contents of the file; tensors of an archive are mapped, not read."""
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=is_archive)


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore PyTorch's warnings about its own sparse and quantised tensors and about old files, which a user cannot fix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _checkpoint_errors(path: Path) -> Iterator[None]:
    """Convert anything that PyTorch raises for a broken file, or for one that needs code to be run, to an InputError."""
    try:
        with errors_in_file(path):
            yield
    except InputError:
        raise
    except Exception as error:  # a damaged file makes PyTorch raise errors of almost any type
        text = str(error)
        if match := re.search(r"GLOBAL (\S+)|[Uu]nsupported class (\S+)", text):
            what = f"the file holds an object of '{match[1] or match[2]}', and loading that could run code"
            raise InputError(what, FIX, path) from error
        reason = text.rpartition("WeightsUnpickler error: ")[2].strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"not a whole file of torch.save ({reason[:200]})", FIX, path) from error


def _find_state_dict(loaded: object) -> dict[str, TorchTensor]:
    """The named tensors of a state dict, or of the first entry of a checkpoint that holds one."""
    if not isinstance(loaded, Mapping):
        return {}
    for key in STATE_DICT_KEYS:
        if isinstance(loaded.get(key), Mapping) and (tensors := _find_state_dict(loaded[key])):
            return tensors
    return {name: value for name, value in loaded.items() if isinstance(name, str) and hasattr(value, "untyped_storage")}


def _weight_tensor(torch: Torch, path: Path, name: str, tensor: TorchTensor) -> WeightTensor:
    if tensor.is_meta:
        raise InputError(f"'{name}' has a shape, but no numbers", "save the network after its weights are loaded")
    if tensor.is_nested:
        raise InputError(f"'{name}' is a nested tensor", "save plain tensors")
    dtype = str(tensor.dtype).removeprefix("torch.")
    return WeightTensor(tuple(tensor.shape), dtype_name(dtype), lambda: _read_slabs(torch, path, tensor.detach(), dtype))


def _read_slabs(torch: Torch, path: Path, tensor: TorchTensor, dtype: str) -> Iterator[Shaped[np.ndarray, "row ..."]]:
    with _checkpoint_errors(path):
        if str(tensor.layout) in SPARSE_LAYOUTS:
            yield from _sparse_slabs(*_nonzeros(tensor, dtype), tuple(tensor.shape))
            return
        if not tensor.ndim:
            yield _to_numpy(torch, tensor, dtype)
            return
        rows = rows_per_slab(prod(tensor.shape[1:]) * tensor.element_size())
        for start in range(0, tensor.shape[0], rows):
            yield _to_numpy(torch, tensor[start : start + rows], dtype)


def _to_numpy(torch: Torch, tensor: TorchTensor, dtype: str) -> Shaped[np.ndarray, "..."]:
    """A tensor in NumPy; number types that PyTorch does not convert are passed as their bits."""
    if tensor.is_quantized:
        return tensor.dequantize().numpy()
    tensor = tensor.resolve_conj().resolve_neg()
    bits = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
    if dtype.startswith(("bfloat", "float8")) and bits:
        return tensor.view(bits).numpy().view(torch_dtype_in_numpy(dtype))
    torch_dtype_in_numpy(dtype)  # raises if there is none
    return tensor.numpy()


def _nonzeros(tensor: TorchTensor, dtype: str) -> tuple[Int[np.ndarray, "dimension nonzero"], Shaped[np.ndarray, " nonzero"]]:
    """Indices and values of the stored elements of a sparse tensor, sorted by index."""
    with _no_warnings():
        blocked = str(tensor.layout) in ("torch.sparse_bsr", "torch.sparse_bsc")
        tensor = (tensor.to_dense() if blocked else tensor).to_sparse_coo()
        tensor = (tensor.float() if dtype.startswith(("bfloat", "float8")) else tensor).coalesce()
    return tensor.indices().numpy(), tensor.values().numpy()


def _sparse_slabs(
    indices: Int[np.ndarray, "dimension nonzero"], values: Shaped[np.ndarray, " nonzero"], shape: Shape
) -> Iterator[Shaped[np.ndarray, "row ..."]]:
    """Slabs of a sparse tensor, as dense arrays."""
    rows = rows_per_slab(prod(shape[1:]) * values.itemsize)
    for start in range(0, shape[0], rows):
        slab = np.zeros((min(rows, shape[0] - start), *shape[1:]), values.dtype)
        first, last = np.searchsorted(indices[0], (start, start + rows))
        slab[indices[0, first:last] - start, *indices[1:, first:last]] = values[first:last]
        yield slab


def _shared_names(tensors: Mapping[str, TorchTensor]) -> tuple[tuple[str, ...], ...]:
    """Names of one and the same tensor: same start and length of the data. Neighbouring parts of one storage are different tensors."""
    groups: dict[object, list[str]] = {}
    for name, tensor in tensors.items():
        if str(tensor.layout) == "torch.strided" and not tensor.is_meta and tensor.numel():
            groups.setdefault((tensor.data_ptr(), tensor.numel()), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)
