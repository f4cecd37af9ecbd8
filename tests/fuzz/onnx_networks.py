"""Small ONNX files, most of them with changes that keep them a protobuf."""

import io
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.sound_networks import Files

DIMS = (0, -1, 1, 3, 2**31, 2**40, 2**62, -(2**63), 10**9)
OPERATORS = (
    "Conv", "MatMul", "Gemm", "Reshape", "Transpose", "Softmax", "LayerNormalization", "Attention", "MultiHeadAttention", "GroupQueryAttention", "Einsum",
    "LSTM", "ConvTranspose", "Constant", "Shape", "Range", "ConstantOfShape", "Slice", "Gather", "Split", "Concat", "Squeeze", "QLinearConv",
    "QLinearMatMul", "MatMulInteger", "DequantizeLinear", "ConvInteger", "MatMulNBits", "EmbedLayerNormalization", "SkipLayerNormalization", "Resize",
    "Pad", "Loop", "If", "Scan", "FusedConv", "FusedGemm", "Identity", "Cast", "Flatten", "Nothing", "Expand", "Tile", "NonZero", "OneHot",
)  # fmt: skip


def onnx_files(random: Random) -> Files:
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
