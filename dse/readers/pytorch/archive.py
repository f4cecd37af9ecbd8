"""Read archives written by `torch.export.save`: a zip file of a program and its weights, neither of which is unpickled."""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from pydantic import BaseModel, ValidationError

from dse.base.errors import InputError, errors_in_file
from dse.readers.dtypes import TORCH_SCALAR_TYPES, dtype_name, torch_dtype_in_numpy
from dse.readers.parsed_network import Shape, WeightTensor, array_slabs, check_computed_size, rows_per_slab
from dse.readers.pytorch.program import STRIDED, JsonObject, JsonProgram, JsonTensor, Program, check_version, flatten_graph, size_value

FIX = "write it again with torch.export.save(torch.export.export(model, inputs), path)"
OLD_ARCHIVE = ("the archive is of an old torch", "load it with torch.export.load there and save it with a newer one")


class Payload(BaseModel):
    """How one tensor is stored, and in which file of the archive."""

    path_name: str
    use_pickle: bool = False
    tensor_meta: JsonTensor | None = None


class Payloads(BaseModel):
    config: dict[str, Payload]


@dataclass(frozen=True)
class ExportedArchive:
    """The contents of a file: the program, its inputs, and the stored tensors by their names in the program."""

    program: Program
    inputs: tuple[str, ...]
    module_names: dict[str, str]  # names of the stored tensors in the module
    parameters: frozenset[str]
    tensors: dict[str, WeightTensor]
    storage_keys: dict[str, object]  # equal for tensors that are one and the same


@dataclass(frozen=True)
class _ArchiveTensor:
    """A tensor in a file of the archive: element [i, j, ...] is number offset + i * strides[0] + j * strides[1] + ..."""

    path: Path
    member: str
    shape: Shape
    strides: Shape
    offset: int
    dtype: str  # its name in PyTorch

    @property
    def span(self) -> int:
        """Numbers from the start of the file to the last that the tensor uses."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.offset + 1 + last if 0 not in self.shape else 0

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != expected:
                return False
            expected *= size
        return True

    def as_weights(self) -> WeightTensor:
        return WeightTensor(self.shape, dtype_name(self.dtype), self.read_slabs)

    def read_slabs(self) -> Iterator[Shaped[np.ndarray, "row ..."]]:
        """Slabs of the tensor; one that is not contiguous is read as a whole first."""
        with archive_errors(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            dtype = torch_dtype_in_numpy(self.dtype)
            if not self.shape or not self.is_contiguous:
                array = self._strided(np.frombuffer(file.read(), dtype))
                yield from array_slabs(array) if self.shape else (array,)
                return
            file.seek(self.offset * dtype.itemsize)
            row_bytes = prod(self.shape[1:]) * dtype.itemsize
            rows = rows_per_slab(row_bytes)
            for start in range(0, self.shape[0], rows):
                count = min(rows, self.shape[0] - start)
                yield np.frombuffer(file.read(count * row_bytes), dtype).reshape(count, *self.shape[1:])

    def _strided(self, numbers: Shaped[np.ndarray, " number"]) -> Shaped[np.ndarray, "..."]:
        if len(numbers) < self.span:
            raise EOFError("a tensor ends early")
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, strides, writeable=False)


def read_archive(path: Path) -> ExportedArchive:
    """Read an archive; raises InputError for anything but a whole archive of one exported program."""
    with archive_errors(path), zipfile.ZipFile(path) as archive:
        root, model = _find_program(path, archive)
        graph_module = _read_program(archive, root, model).graph_module
        payloads = _read_payloads(archive, f"{root}data/weights/", f"{model}_weights_config.json")
        payloads |= _read_payloads(archive, f"{root}data/constants/", f"{model}_constants_config.json")
        held = list(_held_tensors(graph_module.signature.input_specs))
        stored = {name: _stored_tensor(path, archive, *payloads[target]) for name, target, _ in held if target in payloads}
        return ExportedArchive(
            program=flatten_graph(graph_module.graph),
            inputs=_network_inputs(graph_module.signature.input_specs),
            module_names={name: target for name, target, _ in held},
            parameters=frozenset(name for name, _, kind in held if kind == "parameter"),
            tensors={name: tensor.as_weights() for name, tensor in stored.items()},
            storage_keys={name: (tensor.member, tensor.offset, tensor.shape) for name, tensor in stored.items()},
        )


@contextmanager
def archive_errors(path: Path) -> Iterator[None]:
    """Convert the errors that a file of another kind, or a damaged one, leads to, to an InputError that names the file."""
    try:
        with errors_in_file(path):
            yield
    except InputError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(f"not a program that torch.export wrote: {first['msg'].lower()}", FIX, path, key=key) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise InputError(f"not a whole torch.export archive ({error})", FIX, path) from error
    except OSError as error:
        raise InputError((error.strerror or "cannot be read").lower(), "give a file that exists and can be read", path) from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise InputError(f"not a program that torch.export wrote ({error})", FIX, path) from error


def _find_program(path: Path, archive: zipfile.ZipFile) -> tuple[str, str]:
    """The folder at the top of the archive ('' or 'NAME/'), and the name of its only program."""
    if min((member.header_offset for member in archive.infolist()), default=0):  # the directory is that of an inner archive
        raise InputError("not a whole torch.export archive (its end is missing)", FIX)
    members = archive.namelist()
    programs = [match.groups() for name in members if (match := re.fullmatch(r"((?:[^/]+/)?)models/([^/]+)\.json", name))]
    if len(programs) == 1:
        return programs[0][0], programs[0][1]
    if programs:
        names = ", ".join(name for _, name in programs)
        raise InputError(f"the archive has several programs: {names}", "save each to a file of its own")
    if any("data/aotinductor/" in name for name in members):
        raise InputError("the archive holds compiled code, not a program", FIX)
    if "serialized_exported_program.json" in members:
        raise InputError(*OLD_ARCHIVE)
    if any(name.endswith("data.pkl") for name in members):
        raise InputError("the file holds weights, not a program", f"name it {path.stem}.pt, or {FIX}")
    raise InputError("not a torch.export archive", FIX)


def _read_program(archive: zipfile.ZipFile, root: str, model: str) -> JsonProgram:
    program = JsonProgram.model_validate_json(archive.read(f"{root}models/{model}.json"))
    check_version(program)
    byte_order = f"{root}byteorder"
    if byte_order in archive.namelist() and archive.read(byte_order).strip() == b"big":
        raise InputError("the weights are big-endian", "export it on a little-endian machine")
    return program


def _held_tensors(specs: list[JsonObject]) -> Iterator[tuple[str, str, str]]:
    """Tensors that the file holds: name in the program, name in the module, and kind."""
    for spec in specs:
        for kind in ("parameter", "buffer", "tensor_constant"):
            if kind in spec:
                yield spec[kind]["arg"]["name"], spec[kind][f"{kind}_name"], kind


def _network_inputs(specs: list[JsonObject]) -> tuple[str, ...]:
    args = (spec["user_input"]["arg"] for spec in specs if "user_input" in spec)
    return tuple(arg["as_tensor"]["name"] for arg in args if "as_tensor" in arg)


def _read_payloads(archive: zipfile.ZipFile, folder: str, config: str) -> dict[str, tuple[str, Payload]]:
    """The file of each tensor and how it is stored there, by the tensor's name in the module."""
    if folder + config not in archive.namelist():
        raise InputError(*OLD_ARCHIVE)
    payloads = Payloads.model_validate(json.loads(archive.read(folder + config))).config
    for name, payload in payloads.items():
        if payload.use_pickle and "weights/" in folder:
            what = f"'{name}' is pickled, and unpickling could run code"
            raise InputError(what, "export the network with plain tensors as parameters (unwrap tensor subclasses)")
    return {name: (folder + payload.path_name, payload) for name, payload in payloads.items() if not payload.use_pickle}


def _stored_tensor(path: Path, archive: zipfile.ZipFile, member: str, payload: Payload) -> _ArchiveTensor:
    """Position of a tensor; raises InputError if its file is too short for it."""
    meta = payload.tensor_meta
    if meta is None or meta.layout != STRIDED or meta.dtype not in TORCH_SCALAR_TYPES:
        raise InputError(f"'{member}' is not a plain tensor", "export the network with plain tensors as parameters")
    shape, strides = (tuple(map(size_value, sizes)) for sizes in (meta.sizes, meta.strides))
    tensor = _ArchiveTensor(path, member, shape, strides, size_value(meta.storage_offset), TORCH_SCALAR_TYPES[meta.dtype])
    item_bytes = 4 if tensor.dtype == "complex32" else torch_dtype_in_numpy(tensor.dtype).itemsize
    if min((*shape, *strides, tensor.offset, 0)) < 0 or archive.getinfo(member).file_size < tensor.span * item_bytes:
        raise InputError(f"'{member}' is smaller than its tensor", FIX)
    check_computed_size(prod(shape), tensor.span)
    return tensor
