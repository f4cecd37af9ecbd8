"""Weights after the constant operators of a program: a stored tensor and the steps applied to it before it multiplies.

An exported program transposes, splits, casts and masks its weights by operators. Following these gives the weights as they
multiply; the numbers are read only when they are counted.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Shaped

from dse.base.errors import InputError
from dse.readers.parsed_network import Shape, WeightTensor, array_slabs, check_computed_size
from dse.readers.pytorch import aten
from dse.readers.pytorch.program import Argument, Node

UNKNOWN = "unknown"  # a step that cannot be followed; its argument is the kind of the operator


@dataclass(frozen=True)
class Step:
    """One operation on a tensor, and the shape that the tensor has afterwards."""

    operation: str  # a key of _APPLY, or UNKNOWN
    argument: Any
    shape: Shape


@dataclass(frozen=True)
class Constant:
    """A tensor that no input of the network changes: the one stored as `stored` (its name in the program), after some steps."""

    stored: str
    stored_shape: Shape
    is_parameter: bool = True
    steps: tuple[Step, ...] = ()

    @property
    def shape(self) -> Shape:
        return self.steps[-1].shape if self.steps else self.stored_shape

    @property
    def distinct_elements(self) -> int:
        """Elements before the tensor is expanded, which only repeats them."""
        expanded = (place for place, step in enumerate(self.steps) if step.operation == "expand")
        return prod(replace(self, steps=self.steps[: next(expanded, len(self.steps))]).shape)

    @property
    def unknown_operator(self) -> str | None:
        """The first operator that cannot be followed, if there is one."""
        return next((step.argument for step in self.steps if step.operation == UNKNOWN), None)

    def reshape(self, shape: Shape) -> "Constant":
        return self if shape == self.shape else self._append("reshape", shape, shape)

    def permute(self, order: tuple[int, ...]) -> "Constant":
        if order == tuple(range(len(order))):
            return self
        if self.steps and self.steps[-1].operation == "permute":  # two in a row are one, or none if they cancel
            before = replace(self, steps=self.steps[:-1])
            return before.permute(tuple(self.steps[-1].argument[axis] for axis in order))
        return self._append("permute", order, tuple(self.shape[axis] for axis in order))

    def transpose(self) -> "Constant":
        """Swap the last two dimensions."""
        *leading, rows, columns = range(len(self.shape))
        return self.permute((*leading, columns, rows))

    def as_row(self) -> "Constant":
        """A vector as a matrix of one row; a matrix as it is."""
        return self if len(self.shape) > 1 else self.reshape((1, *self.shape))

    def take_slice(self, axis: int, part: slice) -> "Constant":
        length = len(range(*part.indices(self.shape[axis])))
        if length == self.shape[axis]:
            return self
        return self._append("slice", (axis, part.start, part.stop, part.step), (*self.shape[:axis], length, *self.shape[axis + 1 :]))

    def select(self, axis: int, index: int) -> "Constant":
        """One index of an axis, which is removed."""
        index %= self.shape[axis]
        return self.take_slice(axis, slice(index, index + 1)).reshape(self.shape[:axis] + self.shape[axis + 1 :])

    def expand(self, shape: Shape) -> "Constant":
        return self if shape == self.shape else self._append("expand", shape, shape)

    def multiply(self, factor: "Constant | float", shape: Shape) -> "Constant":
        return self._append("multiply", factor, shape)

    def apply_unknown(self, kind: str, shape: Shape) -> "Constant":
        """Apply an operator that cannot be followed."""
        return self._append(UNKNOWN, self.unknown_operator or kind, shape)

    def _append(self, operation: str, argument: Any, shape: Shape) -> "Constant":
        return replace(self, steps=(*self.steps, Step(operation, argument, shape)))

    def distinct_matrices(self) -> "Constant":
        """The different matrices in it [..., rows, columns], without the last steps that only repeat them for each sample."""
        count = len(self.steps)
        while count and self.steps[count - 1].operation in ("expand", "reshape"):
            before = replace(self, steps=self.steps[: count - 1]).shape
            if len(before) < 2 or before[-2:] != self.shape[-2:]:
                break
            count -= 1
        return replace(self, steps=self.steps[:count])


def fold(node: Node, constants: Mapping[str, Constant], shapes: Mapping[str, Shape]) -> tuple[Constant, ...]:
    """The outputs of an operator on constants alone; they follow the first parameter among its operands, if there is one."""
    operands, name = [constants[operand] for operand in node.operands], aten.plain_name(node.kind.rpartition(".")[2])
    constant = next((operand for operand in operands if operand.is_parameter), operands[0])
    outputs = [shapes[output] for output in node.outputs]
    if constant.unknown_operator or ("dtype" in node.args and name == "view"):  # a view as another number type
        return tuple(constant.apply_unknown(node.kind, shape) for shape in outputs)
    if name in aten.SPLITS:
        return tuple(_split(constant, int(node.args.get("dim", 0)) % len(constant.shape), outputs))
    if name in ("unbind", "unbind_copy"):
        axis = int(node.args.get("dim", 0)) % len(constant.shape)
        return tuple(constant.select(axis, index) for index in range(len(outputs)))
    if name == "mul":
        factors = [operand for operand in operands if operand is not constant] or [node.args.get("other", 1)]
        return (constant.multiply(factors[0], outputs[0]),)
    return tuple(_apply_operator(name, node, constant, shape) for shape in outputs)


def _apply_operator(name: str, node: Node, constant: Constant, shape: Shape) -> Constant:
    if name in aten.COPIES:
        return constant
    if name in aten.RESHAPES:
        return constant.reshape(shape)
    if name in aten.TRANSPOSITIONS:
        return constant.permute(_transposed_order(name, node.args, len(shape)))
    if name in aten.EXPANSIONS:
        return constant.expand(shape)
    if name == "slice":
        part = slice(node.args.get("start"), node.args.get("end"), node.args.get("step", 1))
        return constant.take_slice(int(node.args.get("dim", 0)) % len(shape), part)
    if name == "select":
        return constant.select(int(node.args["dim"]) % len(constant.shape), int(node.args["index"]))
    return constant.apply_unknown(node.kind, shape)


def _transposed_order(name: str, args: Mapping[str, Argument], rank: int) -> tuple[int, ...]:
    """The order in which one of the transpositions puts the dimensions."""
    if name.startswith("permute"):
        return tuple(int(axis) % rank for axis in args["dims"])
    order = list(range(rank))
    if name == "numpy_T":
        return tuple(reversed(order))
    axes = [args.get(f"dim{side}", args.get(f"axis{side}", side - 2)) for side in (0, 1)]
    if rank >= 2:
        first, second = (int(axis) % rank for axis in axes)
        order[first], order[second] = order[second], order[first]
    return tuple(order)


def _split(constant: Constant, axis: int, shapes: list[Shape]) -> Iterator[Constant]:
    start = 0
    for shape in shapes:
        yield constant.take_slice(axis, slice(start, start + shape[axis]))
        start += shape[axis]


_APPLY: dict[str, Callable[[np.ndarray, Any], np.ndarray]] = {
    "reshape": lambda array, shape: array.reshape(shape),
    "permute": lambda array, order: array.transpose(order),
    "slice": lambda array, part: array[(slice(None),) * part[0] + (slice(*part[1:]),)],
    "expand": np.broadcast_to,
    "multiply": lambda array, factor: array * factor,
}


def constant_weights(constant: Constant, stored: Mapping[str, WeightTensor]) -> WeightTensor | None:
    """The weights of a constant: read in slabs if it is as stored, otherwise computed in memory. None if a step cannot be followed."""
    if _is_unreadable(constant, stored):
        return None
    source = stored[constant.stored]
    if not constant.steps:
        return source
    for step in constant.steps:
        check_computed_size(prod(step.shape), prod(constant.stored_shape))
    return WeightTensor(constant.shape, source.dtype, lambda: _computed_slabs(constant, stored))


def _computed_slabs(constant: Constant, stored: Mapping[str, WeightTensor]) -> Iterator[Shaped[np.ndarray, "row ..."]]:
    try:
        array = _compute(constant, stored)
    except InputError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        fix = "export the network again: its shapes contradict each other"
        raise InputError(f"the weights that depend on '{constant.stored}' cannot be computed ({error})", fix) from error
    yield from array_slabs(array)


def _is_unreadable(constant: Constant, stored: Mapping[str, WeightTensor]) -> bool:
    factors = (step.argument for step in constant.steps if isinstance(step.argument, Constant))
    missing = constant.unknown_operator is not None or constant.stored not in stored
    return missing or any(_is_unreadable(factor, stored) for factor in factors)


def _compute(constant: Constant, stored: Mapping[str, WeightTensor]) -> Shaped[np.ndarray, "..."]:
    array = np.concatenate([np.atleast_1d(slab) for slab in stored[constant.stored].slabs()]).reshape(constant.stored_shape)
    for step in constant.steps:
        argument = _compute(step.argument, stored) if isinstance(step.argument, Constant) else step.argument
        if step.operation == "multiply" and np.broadcast_shapes(array.shape, np.shape(argument)) != step.shape:
            raise ValueError(f"a product of {array.shape} and {np.shape(argument)} is not {step.shape}")
        with np.errstate(all="ignore"):  # a product that overflows is infinite, which is reported when it is counted
            array = _APPLY[step.operation](array, argument)
    return array
