"""Small files as PyTorch writes them: checkpoints, and an exported program that is assembled without PyTorch."""

import io
import json
import warnings
import zipfile
from functools import cache
from typing import Any

import numpy as np

from tests.fuzz import damage
from tests.fuzz.sound_networks import WEIGHTS


@cache
def saved_by_torch(number: int) -> bytes:
    import torch

    plain = {name: torch.tensor(array) for name, array in WEIGHTS.items()}
    fc = plain["fc1.weight"]
    contents: tuple[Any, ...] = (
        plain, {"state_dict": plain, "epoch": 3}, {"a.weight": fc, "b.weight": fc, "half": fc.bfloat16(), "whole": fc.int()},
        {"coo": fc.to_sparse_coo(), "csr": fc.to_sparse_csr(), "bsr": fc.to_sparse_bsr((2, 2))}, [fc], {"x": 1, 2: fc, "0d": torch.tensor(1.0)},
        {"meta": torch.empty(4, 4, device="meta"), "complex": fc.to(torch.complex64), "five": torch.ones(2, 2, 2, 2, 2)},
        {"strided": fc.T[::2], "empty": torch.empty(0, 4), "nan": fc * float("nan"), "cut_weight_orig": fc, "cut_weight_mask": fc != 0},
    )  # fmt: skip
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(contents[number], buffer, _use_new_zipfile_serialization=number != 1)
    return buffer.getvalue()


def _meta(*sizes: int) -> dict[str, Any]:
    strides = [int(np.prod(sizes[place + 1 :], initial=1)) for place in range(len(sizes))]
    whole = [[{"as_int": size} for size in parts] for parts in (sizes, strides)]
    return {"dtype": 7, "sizes": whole[0], "strides": whole[1], "storage_offset": {"as_int": 0}, "layout": 7, "requires_grad": False}


def _tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


@cache
def _program() -> dict[str, Any]:
    """What `torch.export` writes of Linear(Flatten(ReLU(Conv2d(x)))) and a softmax, the convolution's weight masked."""

    def node(target: str, output: str, **args: Any) -> dict[str, Any]:
        inputs = [{"name": name, "arg": arg, "kind": 1} for name, arg in args.items()]
        return {"target": f"torch.ops.aten.{target}", "inputs": inputs, "outputs": [_tensor(output)], "metadata": {}}

    nodes = [
        node("mul.Tensor", "masked", self=_tensor("p_conv"), other=_tensor("b_mask")),
        node("conv2d.default", "c", input=_tensor("x"), weight=_tensor("masked"), padding={"as_ints": [1, 1]}, groups={"as_int": 1}),
        node("relu.default", "r", self=_tensor("c")),
        node("reshape.default", "f", self=_tensor("r"), shape={"as_ints": [12, 12]}),
        node("t.default", "turned", self=_tensor("p_head")),
        node("linear.default", "l", input=_tensor("f"), weight=_tensor("p_fc"), bias=_tensor("p_bias")),
        node("mm.default", "m", self=_tensor("l"), mat2=_tensor("turned")),
        node("softmax.int", "y", self=_tensor("m"), dim={"as_int": -1}),
    ]  # fmt: skip
    sizes = {"x": (1, 4, 6, 6), "p_conv": (4, 4, 3, 3), "b_mask": (4, 4, 3, 3), "masked": (4, 4, 3, 3), "c": (1, 4, 6, 6), "r": (1, 4, 6, 6),
             "f": (12, 12), "p_fc": (8, 12), "p_bias": (8,), "p_head": (5, 8), "turned": (8, 5), "l": (12, 8), "m": (12, 5), "y": (12, 5)}  # fmt: skip
    graph = {
        "inputs": [_tensor(name) for name in ("p_conv", "b_mask", "p_fc", "p_bias", "p_head", "x")], "outputs": [_tensor("y")], "nodes": nodes,
        "tensor_values": {name: _meta(*size) for name, size in sizes.items()}, "sym_int_values": {"s0": {"as_int": 3}},
    }  # fmt: skip
    held = {"p_conv": "conv.weight", "p_fc": "fc.weight", "p_bias": "fc.bias", "p_head": "head.weight"}
    specs = [{"parameter": {"arg": {"name": name}, "parameter_name": target}} for name, target in held.items()]
    specs += [
        {"buffer": {"arg": {"name": "b_mask"}, "buffer_name": "conv.mask", "persistent": True}},
        {"user_input": {"arg": _tensor("x")}},
    ]
    module = {"graph": graph, "signature": {"input_specs": specs, "output_specs": []}}
    return {"graph_module": module, "schema_version": {"major": 8, "minor": 8}, "opset_version": {"aten": 10}}


@cache
def exported_archive() -> bytes:
    sizes = {"conv.weight": (4, 4, 3, 3), "conv.mask": (4, 4, 3, 3), "fc.weight": (8, 12), "fc.bias": (8,), "head.weight": (5, 8)}
    payloads = {
        name: {"path_name": f"w{n}", "use_pickle": False, "tensor_meta": _meta(*size)} for n, (name, size) in enumerate(sizes.items())
    }
    members = {
        "models/model.json": json.dumps(_program()).encode(), "byteorder": b"little", "archive_format": b"pt2",
        "data/weights/model_weights_config.json": json.dumps({"config": payloads}).encode(),
        "data/constants/model_constants_config.json": b'{"config": {}}',
        **{f"data/weights/w{n}": np.arange(np.prod(size), dtype=np.float32).tobytes() for n, size in enumerate(sizes.values())},
    }  # fmt: skip
    return damage.zipped([(f"net/{name}", content, zipfile.ZIP_STORED) for name, content in members.items()])
