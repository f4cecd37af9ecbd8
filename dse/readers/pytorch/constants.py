"""Tensors that no input of the network changes: a stored one and what the program does to it before it multiplies.

An exported program transposes, splits, casts and masks its weights by operators of their own. Following them gives the
weights as they multiply, read only when asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from dse.base.errors import InputError
from dse.readers.parsed_network import WeightTensor, check_computed, slabs_of
from dse.readers.pytorch import aten
from dse.readers.pytorch.program import Node, Shape


@dataclass(frozen=True)
class Step:
    """One operation on the array so far, and the shape that it has afterwards."""

    operation: str  # a function of _APPLY, or "unknown"
    argument: Any
    shape: Shape


@dataclass(frozen=True)
class Constant:
    """The tensor `stored` (by its name in the program), after some steps."""

    stored: str
    original: Shape
    parameter: bool = True
    steps: tuple[Step, ...] = ()

    @property
    def shape(self) -> Shape:
        return self.steps[-1].shape if self.steps else self.original

    @property
    def elements(self) -> int:
        """Different ones: repeating them makes no more."""
        expanded = (place for place, step in enumerate(self.steps) if step.operation == "expand")
        return prod(replace(self, steps=self.steps[: next(expanded, len(self.steps))]).shape)

    @property
    def unknown(self) -> str | None:
        """The operator that nothing here can follow, if there is one."""
        return next((step.argument for step in self.steps if step.operation == "unknown"), None)

    def reshaped(self, shape: Shape) -> "Constant":
        return self if shape == self.shape else self._then("reshape", shape, shape)

    def permuted(self, order: tuple[int, ...]) -> "Constant":
        if order == tuple(range(len(order))):
            return self
        if self.steps and self.steps[-1].operation == "permute":  # twice is once, and there and back is not at all
            before = replace(self, steps=self.steps[:-1])
            return before.permuted(tuple(self.steps[-1].argument[axis] for axis in order))
        return self._then("permute", order, tuple(self.shape[axis] for axis in order))

    def transposed(self) -> "Constant":
        """With its last two dimensions exchanged."""
        *leading, rows, columns = range(len(self.shape))
        return self.permuted((*leading, columns, rows))

    def sliced(self, axis: int, part: slice) -> "Constant":
        length = len(range(*part.indices(self.shape[axis])))
        if length == self.shape[axis]:
            return self
        return self._then("slice", (axis, part.start, part.stop, part.step), (*self.shape[:axis], length, *self.shape[axis + 1 :]))

    def selected(self, axis: int, index: int) -> "Constant":
        index %= self.shape[axis]
        return self.sliced(axis, slice(index, index + 1)).reshaped(self.shape[:axis] + self.shape[axis + 1 :])

    def expanded(self, shape: Shape) -> "Constant":
        return self if shape == self.shape else self._then("expand", shape, shape)

    def times(self, other: "Constant | float", shape: Shape) -> "Constant":
        return self._then("times", other, shape)

    def after(self, kind: str, shape: Shape) -> "Constant":
        """What an operator makes of it that is not followed here."""
        return self._then("unknown", self.unknown or kind, shape)

    def _then(self, operation: str, argument: Any, shape: Shape) -> "Constant":
        return replace(self, steps=(*self.steps, Step(operation, argument, shape)))

    def matrices(self) -> "Constant":
        """The different matrices in it [..., rows, columns]: without the steps that only repeat them for each sample."""
        kept = len(self.steps)
        while kept and self.steps[kept - 1].operation in ("expand", "reshape"):
            before = replace(self, steps=self.steps[: kept - 1]).shape
            if len(before) < 2 or before[-2:] != self.shape[-2:]:
                break
            kept -= 1
        return replace(self, steps=self.steps[:kept])


def fold(node: Node, known: Mapping[str, Constant], shapes: Mapping[str, Shape]) -> tuple[Constant, ...]:
    """What an operator on constants alone gives, one for each of its outputs: what it makes of a parameter, if it takes one."""
    taken, name = [known[operand] for operand in node.operands], aten.plain(node.kind.rpartition(".")[2])
    constant = next((one for one in taken if one.parameter), taken[0])
    outputs = [shapes[output] for output in node.outputs]
    if constant.unknown or ("dtype" in node.args and name == "view"):  # a view as another number type
        return tuple(constant.after(node.kind, shape) for shape in outputs)
    if name in aten.SPLITS:
        return tuple(_pieces(constant, int(node.args.get("dim", 0)) % len(constant.shape), outputs))
    if name in ("unbind", "unbind_copy"):
        axis = int(node.args.get("dim", 0)) % len(constant.shape)
        return tuple(constant.selected(axis, index) for index in range(len(outputs)))
    if name == "mul":
        factors = [one for one in taken if one is not constant] or [node.args.get("other", 1)]
        return (constant.times(factors[0], outputs[0]),)
    return tuple(_step(name, node, constant, shape) for shape in outputs)


def _step(name: str, node: Node, constant: Constant, shape: Shape) -> Constant:
    if name in aten.COPIES:
        return constant
    if name in aten.RESHAPES:
        return constant.reshaped(shape)
    if name in aten.TRANSPOSITIONS:
        return constant.permuted(_order(name, node.args, len(shape)))
    if name in aten.EXPANSIONS:
        return constant.expanded(shape)
    if name == "slice":
        part = slice(node.args.get("start"), node.args.get("end"), node.args.get("step", 1))
        return constant.sliced(int(node.args.get("dim", 0)) % len(shape), part)
    if name == "select":
        return constant.selected(int(node.args["dim"]) % len(constant.shape), int(node.args["index"]))
    return constant.after(node.kind, shape)


def _order(name: str, args: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    """The order that a transposition of any name puts the dimensions in."""
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


def _pieces(constant: Constant, axis: int, shapes: list[Shape]) -> Iterator[Constant]:
    start = 0
    for shape in shapes:
        yield constant.sliced(axis, slice(start, start + shape[axis]))
        start += shape[axis]


_APPLY = {
    "reshape": lambda array, shape: array.reshape(shape),
    "permute": lambda array, order: array.transpose(order),
    "slice": lambda array, part: array[(slice(None),) * part[0] + (slice(*part[1:]),)],
    "expand": np.broadcast_to,
    "times": lambda array, factor: array * factor,
}


def weights(constant: Constant, stored: Mapping[str, WeightTensor]) -> WeightTensor | None:
    """Its numbers, read when asked for: in pieces if it is as stored, else through memory. None if nothing here can follow."""
    if _unreadable(constant, stored):
        return None
    source = stored[constant.stored]
    if not constant.steps:
        return source
    for step in constant.steps:
        check_computed(prod(step.shape), prod(constant.original))
    return WeightTensor(constant.shape, source.dtype, lambda: _computed(constant, stored))


def _computed(constant: Constant, stored: Mapping[str, WeightTensor]) -> Iterator[np.ndarray]:
    try:
        array = _array(constant, stored)
    except InputError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        fix = "export the network again: its shapes contradict each other"
        raise InputError(f"the weights made of '{constant.stored}' cannot be computed ({error})", fix) from error
    yield from slabs_of(array)


def _unreadable(constant: Constant, stored: Mapping[str, WeightTensor]) -> bool:
    masks = (step.argument for step in constant.steps if isinstance(step.argument, Constant))
    return constant.unknown is not None or constant.stored not in stored or any(_unreadable(mask, stored) for mask in masks)


def _array(constant: Constant, stored: Mapping[str, WeightTensor]) -> np.ndarray:
    array = np.concatenate([np.atleast_1d(piece) for piece in stored[constant.stored].slabs()]).reshape(constant.original)
    for step in constant.steps:
        argument = _array(step.argument, stored) if isinstance(step.argument, Constant) else step.argument
        if step.operation == "times" and np.broadcast_shapes(array.shape, np.shape(argument)) != step.shape:
            raise ValueError(f"a product of {array.shape} and {np.shape(argument)} is not {step.shape}")
        with np.errstate(all="ignore"):  # a product that overflows is infinite, which is told where it is counted
            array = _APPLY[step.operation](array, argument)
    return array
