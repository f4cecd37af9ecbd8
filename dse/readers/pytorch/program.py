"""The program of a `torch.export` archive: JSON as in PyTorch's torch/_export/serde/schema.py, flattened to a list of operators.

It is read as data. `torch.export.load` would evaluate the text of symbolic sizes as Python, and unpickle: it could run code
that somebody put into the file.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from dse.base.errors import InputError
from dse.readers.parsed_network import Shape

JsonObject = dict[str, Any]
Argument = Any  # of an operator: a TensorName, a number, text, a JsonGraph, None, or a list of them
SCHEMA_MAJOR = 8
STRIDED = 7  # a plain tensor, in the enumeration Layout
# Operators that run a subgraph once, in place; the operands of the subgraph follow it among the arguments.
_TRANSPARENT = tuple(f"torch.ops.higher_order.{name}" for name in ("wrap_with_set_grad_enabled", "wrap_with_autocast"))


class JsonExpression(BaseModel):
    """A symbolic size; `hint` holds its value at export."""

    expr_str: str
    hint: JsonObject | None = None


class JsonSize(BaseModel):
    as_int: int | None = None
    as_expr: JsonExpression | None = None


class JsonTensor(BaseModel):
    """Type and shape of a tensor."""

    dtype: int
    sizes: list[JsonSize]
    strides: list[JsonSize]
    storage_offset: JsonSize
    layout: int = STRIDED


class JsonArgument(BaseModel):
    name: str
    arg: JsonObject


class JsonNode(BaseModel):
    name: str | None = None
    target: str
    inputs: list[JsonArgument]
    outputs: list[JsonObject]


class JsonGraph(BaseModel):
    inputs: list[JsonObject]
    outputs: list[JsonObject]
    nodes: list[JsonNode]
    tensor_values: dict[str, JsonTensor]
    sym_int_values: dict[str, JsonSize] = {}


class JsonSignature(BaseModel):
    input_specs: list[JsonObject]


class JsonGraphModule(BaseModel):
    graph: JsonGraph
    signature: JsonSignature


class JsonVersion(BaseModel):
    major: int


class JsonProgram(BaseModel):
    graph_module: JsonGraphModule
    schema_version: JsonVersion


class TensorName(str):
    """The name of a tensor, among arguments that are text or numbers."""


@dataclass(frozen=True)
class Node:
    """One operator: `kind` as in "aten.conv2d", arguments by the names of its schema, without those left at their defaults."""

    kind: str
    name: str
    args: dict[str, Argument]
    outputs: tuple[str, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """All tensors among the arguments."""
        flat = [part for arg in self.args.values() for part in (arg if isinstance(arg, list) else [arg])]
        return tuple(part for part in flat if isinstance(part, TensorName))


@dataclass
class Program:
    """Operators in the order in which they run, and the shape of every tensor."""

    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)  # symbolic sizes, with their values at export
    unknown_sizes: set[str] = field(default_factory=set)  # sizes that are known only when the network runs


def check_version(program: JsonProgram) -> None:
    """Raise InputError for a program in another version of the schema."""
    if (major := program.schema_version.major) != SCHEMA_MAJOR:
        other = "an older" if major > SCHEMA_MAJOR else "a newer"
        raise InputError(f"schema version {major} is not understood, only {SCHEMA_MAJOR}", f"export it with {other} torch")


def flatten_graph(graph: JsonGraph) -> Program:
    """The operators of a graph and of the subgraphs that run in place."""
    program = Program()
    _append_graph(graph, program, {}, "")
    return program


def size_value(size: JsonSize, program: Program | None = None) -> int:
    """A size as a number: a symbolic one as at export, or 1 if it is known only when the network runs; `program` notes which."""
    if size.as_expr is None:
        return int(size.as_int or 0)
    hint, symbol = (size.as_expr.hint or {}).get("as_int"), _symbol_name(size.as_expr.expr_str)
    if program and not isinstance(hint, int):
        program.unknown_sizes.add(symbol)
    elif program and symbol.isidentifier():
        program.symbols[symbol] = int(hint or 0)
    return hint if isinstance(hint, int) else 1


def _symbol_name(expression: str) -> str:
    """'s0' for "Symbol('s0', positive=True)"."""
    return re.sub(r"Symbol\('(\w+)'[^()]*\)", r"\1", expression)


def _append_graph(graph: JsonGraph, program: Program, outer_names: dict[str, str], prefix: str) -> None:
    """Append the operators of a graph; `outer_names` are those of its tensors that have a name outside of it."""
    for name, tensor in graph.tensor_values.items():
        program.shapes[outer_names.get(name, prefix + name)] = tuple(size_value(size, program) for size in tensor.sizes)
    integers = {name: size_value(size) for name, size in graph.sym_int_values.items()}
    for node in graph.nodes:
        args = {argument.name or str(place): _argument_value(argument.arg, integers) for place, argument in enumerate(node.inputs)}
        args = {name: _rename(arg, outer_names, prefix) for name, arg in args.items()}
        outputs = [tensor for output in node.outputs for tensor in _tensor_names(_argument_value(output, integers))]
        if node.target in _TRANSPARENT:
            _append_subgraph(list(args.values()), outputs, program, outer_names, prefix)
        else:
            kind = ".".join(node.target.removeprefix("torch.ops.").split(".")[:2])
            names = tuple(prefix + name for name in outputs)
            program.nodes.append(Node(kind, prefix + (node.name or [*outputs, kind][0]), args, names))


def _append_subgraph(args: list[Argument], outputs: list[TensorName], program: Program, outer_names: dict[str, str], prefix: str) -> None:
    """Append the graph among the arguments; its inputs get the names of its operands, its results those of the outputs."""
    place = next(place for place, arg in enumerate(args) if isinstance(arg, JsonGraph))
    graph, operands = args[place], args[place + 1 :]
    inner_prefix = f"{prefix}{outputs[0] if outputs else place}."
    inputs = [_argument_value(argument, {}) for argument in graph.inputs]
    operand_names = {name: str(operand) for name, operand in zip(inputs, operands, strict=True) if isinstance(operand, TensorName)}
    _append_graph(graph, program, operand_names, inner_prefix)
    results = [tensor for output in graph.outputs for tensor in _tensor_names(_argument_value(output, {}))]
    outer_names |= {outer: operand_names.get(name, inner_prefix + name) for outer, name in zip(outputs, results, strict=True)}


def _argument_value(arg: JsonObject, integers: dict[str, int]) -> Argument:
    """The value in a tagged union such as {"as_ints": [1, 1]}; `integers` are the symbolic ones by name."""
    ((tag, value),) = arg.items()
    match tag:
        case "as_tensor":
            return TensorName(value["name"])
        case "as_tensors":
            return [TensorName(part["name"]) for part in value]
        case "as_nested_tensors":
            return [TensorName(part["name"]) for parts in value for part in parts]
        case "as_optional_tensor":
            return _argument_value(value, integers)
        case "as_optional_tensors" | "as_sym_ints":
            return [_argument_value(part, integers) for part in value]
        case "as_sym_int":
            return _argument_value(value, integers)
        case "as_name":
            return integers.get(value)
        case "as_graph":
            return JsonGraph.model_validate(value["graph"])
        case "as_none":
            return None
    return value


def _tensor_names(value: Argument) -> list[TensorName]:
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, TensorName)]


def _rename(value: Argument, outer_names: dict[str, str], prefix: str) -> Argument:
    if isinstance(value, TensorName):
        return TensorName(outer_names.get(value, prefix + value))
    return [_rename(part, outer_names, prefix) for part in value] if isinstance(value, list) else value
