"""Damaged networks: every format that `dse trace` and `dse io` read, and folders of workloads.

A case writes a small sound network, damages it, and runs one verb. It is either accepted, and then what was written can be
loaded, or refused with exit code 2, one line a problem, and nothing written.
"""

import contextlib
import io
import json
import os
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse

import dse
from dse.base.errors import InputError
from dse.cli.entry import main
from tests.fuzz import damage

CASES = 40
for _module in ("dse.cli.trace", "dse.cli.io", "safetensors.numpy", "onnx.reference", "torch"):
    if find_spec(_module.partition(".")[0]):
        import_module(_module)  # here, since the time of a case is limited, and not that of the imports
Files = dict[str, bytes]  # by path within the folder of a case

WEIGHTS = {
    "fc1.weight": np.where(np.arange(96).reshape(8, 12) % 3, np.arange(96).reshape(8, 12), 0).astype(np.float32),
    "conv.weight": np.where(np.arange(144).reshape(4, 4, 3, 3) % 2, 1.5, 0).astype(np.float32),
    "fc1.bias": np.ones(8, np.float32),
}
CONFIGS: tuple[dict[str, Any], ...] = (
    {"model_type": "bert", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
     "max_position_embeddings": 16, "type_vocab_size": 2},
    {"model_type": "mixtral", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2,
     "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    {"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
     "head_dim": 4, "tie_word_embeddings": True},
    {"model_type": "gpt2", "vocab_size": 100, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16},
    {"model_type": "opt", "vocab_size": 100, "hidden_size": 8, "ffn_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
     "max_position_embeddings": 16, "word_embed_proj_dim": 8},
    {"model_type": "resnet", "num_channels": 3, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "bottleneck",
     "image_size": 32, "id2label": {"0": "a", "1": "b"}},
    {"model_type": "swin", "image_size": 32, "patch_size": 4, "num_channels": 3, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4],
     "window_size": 4, "mlp_ratio": 4.0},
    {"model_type": "vit", "image_size": 32, "patch_size": 4, "num_channels": 3, "hidden_size": 8, "intermediate_size": 16,
     "num_hidden_layers": 2, "num_attention_heads": 2},
    {"model_type": "convnext", "image_size": 32, "num_channels": 3, "patch_size": 4, "hidden_sizes": [8, 16], "depths": [1, 1]},
    {"model_type": "efficientnet", "image_size": 32, "num_channels": 3, "width_coefficient": 1.0, "depth_coefficient": 1.0},
    {"model_type": "mobilenet_v1", "image_size": 32, "num_channels": 3, "depth_multiplier": 1.0, "min_depth": 8},
    {"model_type": "mlp_mixer", "image_size": 32, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "tokens_mlp_dim": 8,
     "channels_mlp_dim": 16},
)  # fmt: skip
TABLE = """name,kind,m,k,n,count,groups,input_elements,output_elements,experts,active,nnz,density
fc1,gemm,64,128,16,2,,,,,,4096,
conv,conv,32,144,49,,,784,,,,,0.25
scores,matmul,16,8,16,4,,,,,,,
norm,elementwise,,,,,,512,512,,,,
moe,gemm,64,32,4,,,,,8,2,1000,
"""
WORKLOAD: Files = {
    "net/workload.yaml": b"""name: net
task: image classification
metric: {name: top-1 accuracy, unit: "%", direction: higher}
other_metrics: [{name: loss, direction: lower}]
sources: [made for a test]
published: {parameters: {value: 25000, source: nowhere}, macs: {value: 1.0e+6, source: nowhere}}
""",
    "net/layers.csv": b"""name,kind,m,k,n,count,groups,input_elements,output_elements,prunable,experts,active,activation_density
fc1,gemm,64,128,16,2,,,,true,,,0.5
conv,conv,32,144,49,,2,784,,true,,,
scores,matmul,16,8,16,4,,,,,,,
norm,elementwise,,,,,,512,512,,,,
moe,gemm,64,32,4,,,,,true,8,2,
""",
    "net/variants/magnitude.csv": b"""method,pattern,sparsity,layer,nnz,row_mean,row_std,column_mean,column_std,activation_density
magnitude,unstructured,0.5,fc1,4096,64,2.5,32,3,0.5
magnitude,unstructured,0.5,conv,2304,,,,,
magnitude,2:4,0.5,fc1,4096,,,,,
magnitude,block:4x4,0.75,fc1,2048,,,,,
""",
    "net/accuracy.csv": b"""method,pattern,sparsity,value,dense_value,source,kind,metric,densities
magnitude,unstructured,0.5,75.1,76.0,a paper,published,top-1 accuracy,
magnitude,2:4,0.5,75.5,76.0,a paper,published,,traced
random,unstructured,0.9,70,76,a paper,measured,loss,uniform
""",
    "net/statistics/stored.csv": b"""method,pattern,sparsity,layer,stored_as,elements
magnitude,unstructured,0.5,fc1,2:4,4096
magnitude,unstructured,0.5,fc1,block:4x4,8192
magnitude,unstructured,0.5,conv,dense,4608
""",
}
MADE: Files = {
    "net/workload.yaml": b"""name: made
task: language modelling
metric: {name: perplexity, direction: lower}
sources: [made for a test]
network:
  model_type: mixtral
  vocab_size: 100
  hidden_size: 8
  intermediate_size: 16
  num_hidden_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
  num_local_experts: 4
  num_experts_per_tok: 2
inputs: {sequence: 64, phase: prefill, attention: fused, logits: all}
""",
    "net/accuracy.csv": b"method,pattern,sparsity,value,dense_value,source,kind,densities\nsparsegpt,2:4,0.5,6.1,5.5,paper,published,uniform\n",
}


def case(random: Random, folder: Path) -> str:
    """One damaged network; "accepted" or "refused"."""
    kind = random.choice(list(kinds()))
    path = _written(random, kind, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        if kind in ("workload", "made"):
            return _loaded(path)
        return _traced(random, path, folder) if random.random() < 0.8 else _simulated(path, folder)


# Sound networks


@cache
def kinds() -> Mapping[str, Callable[[Random], tuple[str, Files]]]:
    """What each makes: the path to read, and the files."""
    found: dict[str, Callable[[Random], tuple[str, Files]]] = {
        "table": lambda random: ("net.csv", {"net.csv": TABLE.encode()}), "yaml": lambda random: ("net.yaml", _yaml_table()),
        "smtx": lambda random: ("net.smtx", {"net.smtx": _smtx(WEIGHTS["fc1.weight"])}), "states": lambda random: ("net", _states()),
        "npy": lambda random: ("net.npy", {"net.npy": _npy(WEIGHTS["fc1.weight"], random)}),
        "npz": lambda random: ("net.npz", {"net.npz": _npz(random)}), "scipy": lambda random: ("net.npz", {"net.npz": _scipy(random)}),
        "config": _config, "workload": lambda random: ("net", dict(WORKLOAD)), "made": lambda random: ("net", dict(MADE)),
        "pt2": lambda random: ("net.pt2", {"net.pt2": exported_archive()}), "connections": lambda random: ("net.csv", {"net.csv": CONNECTIONS}),
    }  # fmt: skip
    if find_spec("safetensors"):
        found |= {
            "safetensors": lambda random: ("net.safetensors", {"net.safetensors": _safetensors()}),
            "shards": _shards,
            "model": _model,
        }
    if find_spec("onnx"):
        found |= {"onnx": lambda random: ("net.onnx", _onnx(random)), "onnx2": lambda random: ("net.onnx", _onnx(random))}
    if find_spec("torch"):
        found |= {"torch": lambda random: ("net" + random.choice((".pt", ".pth", ".bin")), {"net.pt": _torch(random.randrange(8))})}
    return found


CONNECTIONS = b"source,target,weight\na,c,1\nb,c,-0.5\na,d,2\nc,e,1\nd,e,1\n"


def _yaml_table() -> Files:
    rows = "".join(f"  - {{name: fc{n}, kind: gemm, m: 16, k: 8, n: 4, nnz: {n * 10}}}\n" for n in range(4))
    return {"net.yaml": f"layers:\n{rows}".encode()}


def _smtx(mask: np.ndarray) -> bytes:
    matrix = scipy.sparse.csr_array(mask)
    lines = (", ".join(map(str, (*matrix.shape, matrix.nnz))), " ".join(map(str, matrix.indptr)), " ".join(map(str, matrix.indices)))
    return ("\n".join(lines) + "\n").encode()


def _states() -> Files:
    masks = {"fc1": WEIGHTS["fc1.weight"], "fc2": np.eye(4, 8)}
    return {f"net/magnitude/{sparsity}/{name}.smtx": _smtx(mask) for sparsity in (0.5, 0.9) for name, mask in masks.items()}


DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int64",
    "bool",
    "complex64",
    "S3",
    "U2",
    "datetime64[s]",
    "object",
    "f4,i4",
    ">f4",
)
SHAPES = ((8, 12), (96,), (), (0, 12), (12, 0), (2, 2, 2, 3, 4), (1, 96), (96, 1), (2, 3, 4, 4), (1, 1, 1, 1, 1, 96))


def _array(random: Random) -> np.ndarray:
    """Mostly a plain matrix; else of any number type and shape, with numbers that are none."""
    if random.random() < 0.4:
        return WEIGHTS["fc1.weight"]
    shape, dtype = random.choice(SHAPES), random.choice(DTYPES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype == "f4,i4":
            return np.zeros(shape, dtype)
        array = np.resize(np.arange(96) % 3, shape).astype(dtype)
    if dtype.startswith("float") and array.size and random.random() < 0.3:
        array.flat[-1] = random.choice((np.nan, np.inf, -np.inf))
    return np.asfortranarray(array) if random.random() < 0.2 else array


def _npy(array: np.ndarray, random: Random) -> bytes:
    chosen = array if random.random() < 0.5 else _array(random)
    buffer = io.BytesIO()
    np.save(buffer, chosen, allow_pickle=True)
    return buffer.getvalue()


def _npz(random: Random) -> bytes:
    arrays = {name: array if random.random() < 0.8 else _array(random) for name, array in WEIGHTS.items()}
    if random.random() < 0.3:
        arrays = {random.choice(damage.WORDS[3:14]).replace("\x00", "").replace("\ud800", "") or "x": array for array in arrays.values()}
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    return damage.zipped([(f"{name}.npy", _saved(array), method) for name, array in arrays.items()])


def _saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


ODD_INDICES = (-1, 2**31 - 1, 2**31, -(2**31), 100, 12)


def _scipy(random: Random) -> bytes:
    """A matrix of scipy.sparse, of which one array may be replaced."""
    form = random.choice(("csr", "csc", "coo", "bsr", "dia"))
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, scipy.sparse.coo_array(WEIGHTS["fc1.weight"]).asformat(form))
    with np.load(io.BytesIO(buffer.getvalue())) as held:
        arrays = {name: held[name] for name in held.files}
    name = random.choice(list(arrays))
    action = random.randrange(7)
    if action == 0:
        shape = [random.choice((*ODD_INDICES, 8, 2**40, 10**12)) for _ in range(random.choice((1, 2, 2, 2, 3)))]
        arrays["shape"] = np.array(shape)
    elif action == 1 and arrays[name].ndim and arrays[name].dtype.kind in "iuf":
        changed = arrays[name].astype(np.int64)
        changed.flat[random.randrange(changed.size)] = random.choice(ODD_INDICES)
        arrays[name] = changed
    elif action == 2:
        del arrays[name]
    elif action == 3:
        arrays[name] = _array(random)
    elif action == 4:
        arrays["format"] = np.array(random.choice((b"csr", b"csc", b"coo", b"bsr", b"dia", b"lil", b"", "csr", 3)))
    elif action == 5 and arrays[name].ndim:
        arrays[name] = arrays[name][: random.randrange(3)]
    return damage.zipped([(f"{name}.npy", _saved(array), zipfile.ZIP_DEFLATED) for name, array in arrays.items()])


def _safetensors(names: tuple[str, ...] = tuple(WEIGHTS)) -> bytes:
    from safetensors.numpy import save

    return save({name: WEIGHTS[name] for name in names})


def _shards(random: Random) -> tuple[str, Files]:
    index = {"metadata": {"total_size": 1}, "weight_map": {name: f"{number}.safetensors" for number, name in enumerate(WEIGHTS)}}
    files = {f"net/{number}.safetensors": _safetensors((name,)) for number, name in enumerate(WEIGHTS)}
    return "net", {"net/model.safetensors.index.json": json.dumps(index).encode(), **files}


def _model(random: Random) -> tuple[str, Files]:
    """config.json, and weights of one of its layers beside it."""
    from safetensors.numpy import save

    stored = {"lm_head.weight": np.eye(100, 8, dtype=np.float32), "model.layers.0.self_attn.q_proj.weight": np.eye(16, 8, dtype=np.float32)}
    return "net", {"net/config.json": json.dumps(CONFIGS[2]).encode(), "net/model.safetensors": save(stored)}


def _config(random: Random) -> tuple[str, Files]:
    config = dict(random.choice(CONFIGS))
    for _ in range(random.choice((0, 0, 1, 2))):  # sizes far beyond any network, all of them legal by themselves
        key = random.choice(list(config))
        if isinstance(config[key], int):
            config[key] = random.choice((1, 3, 8, 1000, 10_000, 10**6, 10**9))
        elif isinstance(config[key], list):
            config[key] = [random.choice((1, 100, 10_000, 10**6))] * random.choice((1, 2, 5, 100))
    return "config.json", {"config.json": json.dumps(config).encode()}


# ONNX


def _onnx(random: Random) -> Files:
    from onnx import save_model

    from tests.readers.onnx_models import NODE, model, numbers

    tensors = {"fc.weight": numbers(12, 8), "head": numbers(8, 4), "conv.weight": numbers(4, 2, 3, 3), "shape": np.array([-1, 12])}
    nodes = [
        NODE("Conv", ["x", "conv.weight"], ["a"], pads=[1, 1, 1, 1]), NODE("Relu", ["a"], ["r"]), NODE("Reshape", ["r", "shape"], ["f"]),
        NODE("MatMul", ["f", "fc.weight"], ["b"]), NODE("Gemm", ["b", "head"], ["c"], transB=0), NODE("Softmax", ["c"], ["y"]),
    ]  # fmt: skip
    if random.random() < 0.4:
        tensors |= {"mask": (numbers(12, 8) % 2), "perm": numbers(8, 12)}
        nodes[3:3] = [NODE("Mul", ["fc.weight", "mask"], ["masked"]), NODE("Transpose", ["perm"], ["turned"], perm=[1, 0])]
        nodes[5].input[1] = random.choice(("masked", "turned"))
    made = model(nodes, {"x": [1, 2, 6, 6]}, tensors)
    if random.random() < 0.75:
        _change_graph(random, made)
    files: Files = {}
    if random.random() < 0.3:
        offset, blob = 0, b""
        for tensor in made.graph.initializer:
            if tensor.HasField("raw_data"):
                raw, tensor.data_location = tensor.raw_data, tensor.EXTERNAL
                tensor.ClearField("raw_data")
                given = {"location": "net.data", "offset": offset, "length": len(raw)}
                if random.random() < 0.3:
                    given[random.choice(list(given))] = random.choice(("../net.data", "/etc/passwd", "", -1, 2**62, "x", "net.onnx", "."))
                for key, value in given.items():
                    tensor.external_data.add(key=key, value=str(value))
                offset, blob = offset + len(raw), blob + raw
        files["net.data"] = blob
    buffer = io.BytesIO()
    save_model(made, buffer)
    return {"net.onnx": buffer.getvalue(), **files}


DIMS = (0, -1, 1, 3, 2**31, 2**40, 2**62, -(2**63), 10**9)


def _change_graph(random: Random, made: Any) -> None:
    """One change that keeps the file a protobuf."""
    from onnx import TensorProto, helper

    graph = made.graph
    node, tensor, value = random.choice(graph.node), random.choice(graph.initializer), graph.input[0]
    names = [name for one in graph.node for name in (*one.input, *one.output)] + ["", "nowhere"]

    def own_type() -> None:
        tensor.data_type = random.randrange(30)

    def own_dims() -> None:
        dims = [random.choice(DIMS) if random.random() < 0.5 else dim for dim in tensor.dims]
        del tensor.dims[:]
        tensor.dims.extend(random.choice((dims, dims[::-1], dims[:1], [], dims * 2, [*dims, 2**40])))

    def own_input() -> None:
        if node.input:
            node.input[random.randrange(len(node.input))] = random.choice(names)

    def own_output() -> None:
        node.output[0] = random.choice(names)

    def own_operator() -> None:
        node.op_type = random.choice(OPERATORS)

    def own_attribute() -> None:
        name = random.choice(
            ("perm", "axis", "pads", "strides", "group", "transB", "kernel_shape", "value", "to", "num_heads", "dilations")
        )
        choices = (random.choice(DIMS), [random.choice(DIMS)] * random.randrange(1, 5), "x", 1.5, [2, 2], [0, 0], 2)
        kept = [item for item in node.attribute if item.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, random.choice(choices))])

    def input_dims() -> None:
        for dim in value.type.tensor_type.shape.dim:
            if random.random() < 0.4:
                dim.dim_value = random.choice(DIMS)
        if random.random() < 0.3:
            value.type.tensor_type.shape.dim[0].dim_param = random.choice(("n", "", "batch"))

    def order() -> None:
        nodes = list(graph.node)
        random.shuffle(nodes)
        del graph.node[:]
        graph.node.extend(nodes)

    def repeated() -> None:
        if random.random() < 0.5:
            graph.node.append(node)
        else:
            graph.initializer.append(tensor)

    def generated() -> None:
        """A weight that the graph makes out of next to nothing."""
        graph.initializer.append(helper.make_tensor("big", TensorProto.INT64, [2], [random.choice((12, 2**20, 2**31)), 8]))
        operator = random.choice(("ConstantOfShape", "Expand", "Tile"))
        inputs = ["big"] if operator == "ConstantOfShape" else ["one", "big"]
        graph.initializer.append(helper.make_tensor("one", TensorProto.FLOAT, [1, 1], [1.0]))
        graph.node.insert(0, helper.make_node(operator, inputs, ["generated"]))
        for one in graph.node:
            if one.op_type == "MatMul":
                one.input[1] = "generated"

    def sparse() -> None:
        values = helper.make_tensor("fc.weight", TensorProto.FLOAT, [2], [1.0, 2.0])
        places = random.choice(([0, 5], [-1, 3], [0, 2**40], [0, 0], [95, 96]))
        given = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2], places), [12, 8])
        if random.random() < 0.5:
            del given.dims[:]
            given.dims.extend(random.choice(([2**31, 2**31], [0, 8], [-1, 8], [12], [8, 12])))
        kept = [one for one in graph.initializer if one.name != "fc.weight"]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        graph.sparse_initializer.append(given)

    def nested() -> None:
        inner = helper.make_graph([helper.make_node("Identity", [random.choice(names)], ["inside"])], "inner", [], [])
        for _ in range(random.choice((0, 5, 20))):
            inner = helper.make_graph([helper.make_node("If", ["x"], ["inside"], then_branch=inner)], "inner", [], [])
        graph.node.insert(
            random.randrange(len(graph.node)), helper.make_node("If", ["x"], ["branch"], then_branch=inner, else_branch=inner)
        )

    def other() -> None:
        part = random.choice((made.opset_import[0], node, tensor, graph, made))
        if part is made.opset_import[0]:
            part.version = random.choice((0, -1, 1, 7, 13, 30, 1000))
        elif part is node:
            node.domain = random.choice(("com.microsoft", "ai.onnx", "nowhere", ""))
        elif part is tensor:
            tensor.name = random.choice((*names, "../x", "x" * 300, "é"))
        elif part is graph:
            del graph.output[:]
        else:
            made.ir_version = random.choice((0, -1, 3, 99, 2**40))

    choices = (
        own_type,
        own_dims,
        own_input,
        own_output,
        own_operator,
        own_attribute,
        input_dims,
        order,
        repeated,
        generated,
        sparse,
        nested,
        other,
    )
    for _ in range(random.choice((1, 1, 2, 3))):
        random.choice(choices)()


OPERATORS = (
    "Conv", "MatMul", "Gemm", "Reshape", "Transpose", "Softmax", "LayerNormalization", "Attention", "MultiHeadAttention", "GroupQueryAttention", "Einsum",
    "LSTM", "ConvTranspose", "Constant", "Shape", "Range", "ConstantOfShape", "Slice", "Gather", "Split", "Concat", "Squeeze", "QLinearConv",
    "QLinearMatMul", "MatMulInteger", "DequantizeLinear", "ConvInteger", "MatMulNBits", "EmbedLayerNormalization", "SkipLayerNormalization", "Resize",
    "Pad", "Loop", "If", "Scan", "FusedConv", "FusedGemm", "Identity", "Cast", "Flatten", "Nothing", "Expand", "Tile", "NonZero", "OneHot",
)  # fmt: skip


# PyTorch


@cache
def _torch(number: int) -> bytes:
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


# Damage


def _written(random: Random, kind: str, folder: Path) -> Path:
    """The files of one network, one of them damaged; returns the path to read."""
    name, files = kinds()[kind](random)
    if kind == "torch":
        files = {name: files["net.pt"]}
    rate = random.random()
    if rate < 0.75 or kind in ("table", "yaml", "smtx", "workload", "made", "config", "pt2", "connections", "safetensors"):
        for _ in range(random.choice((1, 1, 1, 1, 2, 4))):
            victim = random.choice(sorted(files))
            with contextlib.suppress(
                ValueError, RecursionError, zipfile.BadZipFile, EOFError, struct.error, zlib.error
            ):  # damaged beyond this damage
                files[victim] = _damaged(random, victim, files[victim])
    if random.random() < 0.04 and Path(name).suffix:
        wrong = "net" + random.choice(
            (".npz", ".npy", ".safetensors", ".onnx", ".pt", ".pt2", ".json", ".csv", ".smtx", ".yaml", ".xyz", "")
        )
        files[wrong] = files.pop(name)
        name = wrong
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    if random.random() < 0.06:
        _strange(random, folder / random.choice(sorted(files)))
    return folder / name


def _damaged(random: Random, name: str, given: bytes) -> bytes:
    suffix, rate = Path(name).suffix, random.random()
    if suffix == ".json" and rate < 0.8:
        return damage.as_json(random, given)
    if suffix in (".csv", ".yaml", ".smtx") and rate < 0.85:
        return damage.text(random, given)
    if suffix in (".npz", ".pt", ".pt2", ".pth", ".bin") and rate < 0.7 and zipfile.is_zipfile(io.BytesIO(given)):
        return damage.archive(random, given, _damaged_member)
    if suffix == ".npy" and rate < 0.6:
        return _header_changed(random, given)
    if suffix == ".safetensors" and rate < 0.7:
        length = struct.unpack("<Q", given[:8])[0]
        header = damage.as_json(random, given[8 : 8 + length])
        return struct.pack("<Q", len(header)) + header + given[8 + length :]
    return damage.data(random, given)


def _damaged_member(random: Random, name: str, given: bytes) -> bytes:
    if name.endswith(".json") and random.random() < 0.9:
        return damage.as_json(random, given)
    if name.endswith(".npy") and random.random() < 0.6:
        return _header_changed(random, given)
    return damage.data(random, given)


def _header_changed(random: Random, given: bytes) -> bytes:
    """The header of an array, of the same length where it can be, so that only what it says is wrong."""
    match = re.search(rb"\{.*\}", given)
    if match is None:
        return damage.data(random, given)
    shape = random.choice(("(8, 12)", "(96,)", "(1000000000000, 12)", "(9999999999999999999999, 8)", "(-8, 12)", "(8, -12)", "(8, '12')", "8", "(0, 12)",
                           "(2**40, 2)", "(True, 96)", "()", "(8.0, 12)", "(4611686018427387904, 4)", "(1073741824, 64)"))  # fmt: skip
    descr = random.choice(
        ("'<f4'", "'<f4'", "'<f4'", "'|O'", "'<U9'", "'>f4'", "'<i8'", "'<f2'", "'<c8'", "'|V4'", "'nonsense'", "[('a', '<f4')]", "3")
    )
    header = f"{{'descr': {descr}, 'fortran_order': {random.choice(('False', 'True', '3'))}, 'shape': {shape}, }}".encode()
    room = match.end() - match.start()
    return given[: match.start()] + header.ljust(room)[: max(room, len(header))] + given[match.end() :]


def _strange(random: Random, path: Path) -> None:
    """Something that is no file in its place."""
    kept = path.with_name(path.name + ".kept")
    path.rename(kept)
    action = random.randrange(7)
    if action == 0:
        path.mkdir()
    elif action == 1:
        path.symlink_to(path.name)
    elif action == 2:
        path.symlink_to("/dev/zero")
    elif action == 3:
        path.symlink_to("/dev/null")
    elif action == 4:
        os.mkfifo(path)
    elif action == 5:
        path.symlink_to("missing")
    else:
        path.symlink_to(path.parent)


# Outcomes


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(arguments)
    return code, out.getvalue(), error.getvalue()


def check_refusal(message: str) -> None:
    """One line a problem, each with what is wrong and what to do, none of them in the words of a library."""
    lines = [line for line in message.splitlines() if line and not line.startswith(("warning:", "\rcounting", "counting"))]
    assert lines, "refused without a message"
    for line in lines:
        if re.fullmatch(r"\.\.\. and \d+ more problems", line):
            continue
        assert "; " in line, f"no fix: {line!r}"
    for foreign in ("Traceback", "pydantic", "validation error", "For further information", "errors.pydantic.dev"):
        assert foreign not in message, message


def _traced(random: Random, path: Path, folder: Path) -> str:
    made = folder / "made"
    made.mkdir()
    code, _, error = run_command(["trace", str(path), "-o", str(made / "out"), *random.choice(OPTIONS)])
    left = sorted(file.name for file in made.iterdir())
    if code == 0:
        assert left == ["out"], left
        dse.load_workload(made / "out")
        return "accepted"
    assert code == 2, f"exit code {code}: {error}"
    check_refusal(error)
    assert not left, f"{left} is left behind"
    return "refused"


OPTIONS: tuple[list[str], ...] = ([], [], [], [], ["--json"], ["--shape", "1x2x6x6"], ["--method", "magnitude"], ["--tolerance", "0.5"])


def _simulated(path: Path, folder: Path) -> str:
    code, _, error = run_command(["io", str(path), "--memory", "64 values", "--moves", "10", "--json"])
    if code == 0:
        return "accepted"
    assert code == 2, f"exit code {code}: {error}"
    check_refusal(error)
    return "refused"


def _loaded(path: Path) -> str:
    try:
        loaded = dse.load_workload(path)
    except InputError as error:
        check_refusal(str(error))
        return "refused"
    assert np.isfinite(loaded.layers.macs)
    return "accepted"
