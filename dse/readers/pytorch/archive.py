"""Archives written by `torch.export.save`: a zip file of a program and its weights, neither of them unpickled."""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from dse.base.errors import InputError, Problem
from dse.readers.dtypes import numpy_dtype, short
from dse.readers.parsed_network import SLAB_BYTES, WeightTensor, check_computed, slabs_of
from dse.readers.pytorch import program as torch_program
from dse.readers.pytorch.program import ExportedProgram, Flat, Shape, TensorMeta

# The enumeration ScalarType of torch/_export/serde/schema.py
DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64",
    11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip

FIX = "write it again with torch.export.save(torch.export.export(model, inputs), path)"
OLD = InputError("the archive is of an old torch", "load it with torch.export.load there and save it with a newer one")


class Payload(BaseModel):
    path_name: str
    use_pickle: bool = False
    tensor_meta: TensorMeta | None = None


class Payloads(BaseModel):
    config: dict[str, Payload]


@dataclass(frozen=True)
class Archive:
    """What a file holds: operators, the tensors that they take from it, and the network's own inputs, by their names there."""

    program: Flat
    inputs: tuple[str, ...]
    names: dict[str, str]  # of the stored tensors, as the module calls them
    parameters: frozenset[str]
    stored: dict[str, WeightTensor]
    places: dict[str, object]  # where each lies: equal for tensors that are one


def read(path: Path) -> Archive:
    """Raises InputError for anything but a whole archive of one exported program."""
    with refused(path), zipfile.ZipFile(path) as archive:
        root, model = _model(path, archive)
        module = _program(archive, root, model).graph_module
        payloads = _payloads(archive, f"{root}data/weights/", f"{model}_weights_config.json")
        payloads |= _payloads(archive, f"{root}data/constants/", f"{model}_constants_config.json")
        specs = module.signature.input_specs
        stored, places = {}, {}
        for name, target, _ in _held(specs):
            if found := payloads.get(target):
                stored[name], places[name] = _weights(path, archive, *found)
        names = {name: target for name, target, _ in _held(specs)}
        parameters = frozenset(name for name, _, kind in _held(specs) if kind == "parameter")
        return Archive(torch_program.flat(module.graph), _inputs(specs), names, parameters, stored, places)


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """What goes wrong with a file that isn't one of ours, as a InputError that names it."""
    try:
        yield
    except InputError as error:
        raise InputError.from_problems(
            problem if problem.file else Problem(problem.message, problem.fix, path) for problem in error.problems
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"not a program that torch.export wrote: {first['msg'].lower()}", FIX, path, key=where) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise InputError(f"not a whole torch.export archive ({error})", FIX, path) from error
    except OSError as error:
        raise InputError((error.strerror or "cannot be read").lower(), "give a file that exists and can be read", path) from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise InputError(f"not a program that torch.export wrote ({error})", FIX, path) from error


def _model(path: Path, archive: zipfile.ZipFile) -> tuple[str, str]:
    """Where the archive's folders stand, and the name of its only program."""
    if min((member.header_offset for member in archive.infolist()), default=0):
        raise InputError("not a whole torch.export archive (its end is missing)", FIX)  # found is that of an archive inside
    members = archive.namelist()
    programs = [found.groups() for name in members if (found := re.fullmatch(r"((?:[^/]+/)?)models/([^/]+)\.json", name))]
    if len(programs) == 1:
        return programs[0][0], programs[0][1]
    if programs:
        names = ", ".join(name for _, name in programs)
        raise InputError(f"the archive has several programs: {names}", "save each to a file of its own")
    if any("data/aotinductor/" in name for name in members):
        raise InputError("the archive holds compiled code, not a program", FIX)
    if "serialized_exported_program.json" in members:
        raise OLD
    if any(name.endswith("data.pkl") for name in members):
        raise InputError("the file holds weights, not a program", f"name it {path.stem}.pt, or {FIX}")
    raise InputError("not a torch.export archive", FIX)


def _program(archive: zipfile.ZipFile, root: str, model: str) -> ExportedProgram:
    exported = ExportedProgram.model_validate_json(archive.read(f"{root}models/{model}.json"))
    torch_program.check_version(exported)
    order = f"{root}byteorder"
    if order in archive.namelist() and archive.read(order).strip() == b"big":
        raise InputError("the weights are big-endian", "export it on a little-endian machine")
    return exported


def _held(specs: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Tensors that the file holds: their names in the program and in the module, and what they are."""
    for spec in specs:
        for kind in ("parameter", "buffer", "tensor_constant"):
            if kind in spec:
                yield spec[kind]["arg"]["name"], spec[kind][f"{kind}_name"], kind


def _inputs(specs: list[dict[str, Any]]) -> tuple[str, ...]:
    given = (spec["user_input"]["arg"] for spec in specs if "user_input" in spec)
    return tuple(arg["as_tensor"]["name"] for arg in given if "as_tensor" in arg)


def _payloads(archive: zipfile.ZipFile, folder: str, config: str) -> dict[str, tuple[str, Payload]]:
    """The file of each tensor and how it lies there, by the tensor's name in the module."""
    if folder + config not in archive.namelist():
        raise OLD
    payloads = Payloads.model_validate(json.loads(archive.read(folder + config))).config
    for name, payload in payloads.items():
        if payload.use_pickle and "weights/" in folder:
            what = f"'{name}' is pickled, and unpickling could run code"
            raise InputError(what, "export the network with plain tensors as parameters (unwrap tensor subclasses)")
    return {name: (folder + payload.path_name, payload) for name, payload in payloads.items() if not payload.use_pickle}


def _weights(path: Path, archive: zipfile.ZipFile, member: str, payload: Payload) -> tuple[WeightTensor, object]:
    """A tensor, and where it lies."""
    meta = payload.tensor_meta
    if meta is None or meta.layout != torch_program.STRIDED or meta.dtype not in DTYPES:
        raise InputError(f"'{member}' is no plain tensor", "export the network with plain tensors as parameters")
    shape, strides = (tuple(torch_program.size(part) for part in parts) for parts in (meta.sizes, meta.strides))
    offset, name = torch_program.size(meta.storage_offset), DTYPES[meta.dtype]
    size = 4 if name == "complex32" else numpy_dtype(name).itemsize
    if min((*shape, *strides, offset, 0)) < 0 or archive.getinfo(member).file_size < _span(shape, strides, offset) * size:
        raise InputError(f"'{member}' is smaller than its tensor", FIX)
    check_computed(prod(shape), _span(shape, strides, offset))
    weights = WeightTensor(shape, short(name), lambda: _slabs(path, member, shape, strides, offset, name))
    return weights, (member, offset, shape)


def _slabs(path: Path, member: str, shape: Shape, strides: Shape, offset: int, name: str) -> Iterator[np.ndarray]:
    """Pieces along the first dimension; a tensor that doesn't lie in order is read whole."""
    with refused(path), zipfile.ZipFile(path) as archive, archive.open(member) as file:
        dtype = numpy_dtype(name)
        if not shape or not _in_order(shape, strides):
            yield from _scattered(np.frombuffer(file.read(), dtype), shape, strides, offset)
            return
        file.seek(offset * dtype.itemsize)
        row = prod(shape[1:]) * dtype.itemsize
        rows = max(1, SLAB_BYTES // max(row, 1))
        for start in range(0, shape[0], rows):
            count = min(rows, shape[0] - start)
            yield np.frombuffer(file.read(count * row), dtype).reshape(count, *shape[1:])


def _scattered(numbers: np.ndarray, shape: Shape, strides: Shape, offset: int) -> Iterator[np.ndarray]:
    if len(numbers) < _span(shape, strides, offset):
        raise EOFError("a tensor ends early")
    array = np.lib.stride_tricks.as_strided(numbers[offset:], shape, [stride * numbers.itemsize for stride in strides], writeable=False)
    yield from slabs_of(array) if shape else (array,)


def _span(shape: Shape, strides: Shape, offset: int) -> int:
    """Elements of a storage from its start to the last that a tensor shows."""
    return offset + 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) if 0 not in shape else 0


def _in_order(shape: Shape, strides: Shape) -> bool:
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return True
