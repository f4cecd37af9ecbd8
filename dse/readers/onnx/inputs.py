"""Resolve the sizes that the inputs of an ONNX file leave open (batch, tokens, pixels), before shapes are inferred."""

from collections.abc import Sequence
from pathlib import Path

from onnx import GraphProto, ValueInfoProto

from dse.base.errors import InputError
from dse.readers.parsed_network import Shape

Dim = int | str  # a size, its symbol, or '?' for a size without a symbol
OPEN = 0  # a size that stays open; the exporter's symbols mean nothing to the shape inference


def resolve_inputs(graph: GraphProto, shape: Shape | None, path: Path) -> tuple[int, list[str]]:
    """Write the sizes of all inputs into the graph; returns the batch that the graph is then for, and notes of assumptions.

    `shape` is that of the first input, where the file leaves it open. Raises InputError.
    """
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in initializers and value.type.HasField("tensor_type")]
    if not inputs:
        return 1, []
    first, notes = inputs[0], list[str]()
    sizes = _resolve_first(first, shape, path, notes)
    batch = sizes[0] if len(sizes) > 1 else 1  # a vector is one sample
    symbols: dict[Dim, int] = {dim: size for dim, size in zip(_dims(first) or (), sizes, strict=False) if dim != "?"}
    _write_sizes(first, sizes)
    for value in inputs[1:]:
        _resolve_other(value, batch, symbols, notes)
    for value in [*graph.value_info, *graph.output]:
        if (dims := _dims(value)) is not None:
            _write_sizes(value, [symbols.get(dim, OPEN) if isinstance(dim, str) else dim for dim in dims])
    return batch, notes


def _resolve_first(value: ValueInfoProto, shape: Shape | None, path: Path, notes: list[str]) -> Shape:
    """The sizes of the first input, whose first dimension is the batch."""
    dims = _dims(value)
    if shape is not None:
        _check_shape(value, dims, shape, path)
        return shape
    if dims is None or any(isinstance(dim, str) for dim in dims[1:]):
        what = f"input '{value.name}' {_format_dims(dims)} leaves sizes open"
        raise InputError(what, f"give its whole shape, as in '--shape {_example_shape(dims)}'", path)
    if dims and isinstance(dims[0], str):
        notes.append(f"input '{value.name}' {_format_dims(dims)} leaves the batch open: 1 is taken")
    return tuple(1 if isinstance(dim, str) else dim for dim in dims)


def _check_shape(value: ValueInfoProto, dims: list[Dim] | None, shape: Shape, path: Path) -> None:
    """Raise InputError if the shape that the user gives contradicts the file."""
    fits = dims is None or (len(dims) == len(shape) and all(isinstance(d, str) or d == s for d, s in zip(dims, shape, strict=True)))
    if not fits or min(shape, default=1) < 1:
        what = f"input '{value.name}' {_format_dims(dims)} cannot have the shape {'x'.join(map(str, shape))}"
        raise InputError(what, f"write one that fits, as in '--shape {_example_shape(dims)}'", path)


def _resolve_other(value: ValueInfoProto, batch: int, symbols: dict[Dim, int], notes: list[str]) -> None:
    """Resolve the symbols that an input shares with the first; sizes that stay open make operators unknown, not the whole model."""
    if (dims := _dims(value)) is None:
        notes.append(f"input '{value.name}' has no shape: what depends on it may be skipped")
        return
    leading = [symbols.get(dim, batch) if isinstance(dim, str) else dim for dim in dims[:1]]
    sizes = leading + [symbols.get(dim, OPEN) if isinstance(dim, str) else dim for dim in dims[1:]]
    if OPEN in sizes:
        notes.append(f"input '{value.name}' {_format_dims(dims)} leaves sizes open: what depends on them may be skipped")
    _write_sizes(value, sizes)


def _dims(value: ValueInfoProto) -> list[Dim] | None:
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.dim_value > 0 else dim.dim_param or "?" for dim in value.type.tensor_type.shape.dim]


def _write_sizes(value: ValueInfoProto, sizes: Sequence[int]) -> None:
    dims = value.type.tensor_type.shape.dim
    del dims[:]
    for size in sizes:
        dim = dims.add()
        if size != OPEN:
            dim.dim_value = size


def _format_dims(dims: list[Dim] | None) -> str:
    return "of unknown shape" if dims is None else f"[{', '.join(map(str, dims))}]"


def _example_shape(dims: list[Dim] | None) -> str:
    """The known sizes, and usual ones for the others: one image of 224 x 224 pixels, 128 tokens."""
    if dims is None:
        return "1x3x224x224"
    usual = 224 if len(dims) > 3 else 128
    return "x".join(str(dim if isinstance(dim, int) else usual if place else 1) for place, dim in enumerate(dims))
