"""The program of a `torch.export` archive: the JSON of PyTorch's torch/_export/serde/schema.py, flattened to a list of operators.

It is read as data. `torch.export.load` would evaluate the text of symbolic sizes as Python, and unpickle: reading a
file could run code that somebody put there.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from dse.base.errors import InputError

SCHEMA_MAJOR = 8
STRIDED = 7  # of the enumeration Layout
# These run their subgraph once, as if it stood there; its operands follow it.
TRANSPARENT = tuple(f"torch.ops.higher_order.{name}" for name in ("wrap_with_set_grad_enabled", "wrap_with_autocast"))

Shape = tuple[int, ...]


class Expression(BaseModel):
    expr_str: str
    hint: dict[str, Any] | None = None


class Size(BaseModel):
    as_int: int | None = None
    as_expr: Expression | None = None


class TensorMeta(BaseModel):
    dtype: int
    sizes: list[Size]
    strides: list[Size]
    storage_offset: Size
    layout: int = STRIDED


class JsonArgument(BaseModel):
    name: str
    arg: dict[str, Any]


class JsonNode(BaseModel):
    name: str | None = None
    target: str
    inputs: list[JsonArgument]
    outputs: list[dict[str, Any]]


class Graph(BaseModel):
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    nodes: list[JsonNode]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, Size] = {}


class Signature(BaseModel):
    input_specs: list[dict[str, Any]]


class GraphModule(BaseModel):
    graph: Graph
    signature: Signature


class SchemaVersion(BaseModel):
    major: int


class ExportedProgram(BaseModel):
    graph_module: GraphModule
    schema_version: SchemaVersion


class Ref(str):
    """The name of a tensor, among arguments that are text or numbers."""


@dataclass(frozen=True)
class Node:
    """One operator: `kind` as in "aten.conv2d", arguments by the names of its schema, those left out at their defaults."""

    kind: str
    name: str
    args: dict[str, Any]
    outputs: tuple[str, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """Every tensor that it takes."""
        flat = [part for arg in self.args.values() for part in (arg if isinstance(arg, list) else [arg])]
        return tuple(part for part in flat if isinstance(part, Ref))


@dataclass
class Flat:
    """Operators in the order in which they run, with the shape of every tensor."""

    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    dynamic: dict[str, int] = field(default_factory=dict)  # symbols, with the size each had when it was exported
    unknown: set[str] = field(default_factory=set)  # sizes that only running it would tell


def flat(graph: Graph) -> Flat:
    found = Flat()
    _flatten(graph, found, {}, "")
    return found


def size(size: Size, found: Flat | None = None) -> int:
    """A size; of a symbolic one, what it was when the network was exported, or 1 where only running would tell."""
    if size.as_expr is None:
        return int(size.as_int or 0)
    hint, symbol = (size.as_expr.hint or {}).get("as_int"), _symbol(size.as_expr.expr_str)
    if found and not isinstance(hint, int):
        found.unknown.add(symbol)
    elif found and symbol.isidentifier():
        found.dynamic[symbol] = int(hint or 0)
    return hint if isinstance(hint, int) else 1


def _symbol(text: str) -> str:
    return re.sub(r"Symbol\('(\w+)'[^()]*\)", r"\1", text)


def _flatten(graph: Graph, found: Flat, renamed: dict[str, str], prefix: str) -> None:
    """Append the operators of a graph; `renamed` says which of its tensors have a name outside it."""
    for name, meta in graph.tensor_values.items():
        found.shapes[renamed.get(name, prefix + name)] = tuple(size(part, found) for part in meta.sizes)
    integers = {name: size(part) for name, part in graph.sym_int_values.items()}
    for node in graph.nodes:
        args = {entry.name or str(place): _value(entry.arg, integers) for place, entry in enumerate(node.inputs)}
        args = {name: _renamed(arg, renamed, prefix) for name, arg in args.items()}
        outputs = [part for output in node.outputs for part in _tensors(_value(output, integers))]
        if node.target in TRANSPARENT:
            _inline(list(args.values()), outputs, found, renamed, prefix)
        else:
            kind = ".".join(node.target.removeprefix("torch.ops.").split(".")[:2])
            names = tuple(prefix + name for name in outputs)
            found.nodes.append(Node(kind, prefix + (node.name or [*outputs, kind][0]), args, names))


def _inline(args: list[Any], outputs: list[Ref], found: Flat, renamed: dict[str, str], prefix: str) -> None:
    place = next(place for place, arg in enumerate(args) if isinstance(arg, Graph))
    graph, operands = args[place], args[place + 1 :]
    inside = f"{prefix}{outputs[0] if outputs else place}."
    inputs = [_value(part, {}) for part in graph.inputs]
    known = {name: str(outer) for name, outer in zip(inputs, operands, strict=True) if isinstance(outer, Ref)}
    _flatten(graph, found, known, inside)
    results = [part for output in graph.outputs for part in _tensors(_value(output, {}))]
    renamed |= {outer: known.get(name, inside + name) for outer, name in zip(outputs, results, strict=True)}


def _value(arg: dict[str, Any], integers: dict[str, int]) -> Any:
    """What a tagged union holds, such as {"as_ints": [1, 1]}."""
    ((tag, value),) = arg.items()
    match tag:
        case "as_tensor":
            return Ref(value["name"])
        case "as_tensors":
            return [Ref(part["name"]) for part in value]
        case "as_nested_tensors":
            return [Ref(part["name"]) for parts in value for part in parts]
        case "as_optional_tensor":
            return _value(value, integers)
        case "as_optional_tensors" | "as_sym_ints":
            return [_value(part, integers) for part in value]
        case "as_sym_int":
            return _value(value, integers)
        case "as_name":
            return integers.get(value)
        case "as_graph":
            return Graph.model_validate(value["graph"])
        case "as_none":
            return None
    return value


def _tensors(value: Any) -> list[Ref]:
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, Ref)]


def _renamed(value: Any, renamed: dict[str, str], prefix: str) -> Any:
    if isinstance(value, Ref):
        return Ref(renamed.get(value, prefix + value))
    return [_renamed(part, renamed, prefix) for part in value] if isinstance(value, list) else value


def check_version(program: ExportedProgram) -> None:
    if (major := program.schema_version.major) != SCHEMA_MAJOR:
        other = "an older" if major > SCHEMA_MAJOR else "a newer"
        raise InputError(f"schema version {major} is not understood, only {SCHEMA_MAJOR}", f"export it with {other} torch")
