"""Arithmetic expressions over named results: `speedup / area`, `log(performance) - 0.1 * power`.

The grammar has numbers, names, + - * / **, parentheses and a few functions. Brackets select what a result is of, as in
`latency[llama-3.1-8b/decode]`; such a name with its brackets is one name. Python's parser reads the text; the syntax tree is walked here
and never executed, so an expression can do nothing but arithmetic.
"""

import ast
import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from dse.base.errors import InputError, did_you_mean

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
Value = TypeVar("Value")  # a number, or an array of NumPy or JAX
_ARGUMENTS = {"log": 1, "exp": 1, "sqrt": 1, "abs": 1, "minimum": 2, "maximum": 2}  # of each function
MAX_CHARACTERS = 500
_BRACKETED = re.compile(r"([A-Za-z_]\w*)\s*\[([^\[\]]*)\]")
EXAMPLE = "as in 'performance / area' or 'log(speedup) - 0.01 * power'"


@dataclass(frozen=True)
class Expression:
    """An expression: its text and its syntax tree."""

    text: str
    tree: ast.expr

    def __str__(self) -> str:
        return self.text

    @cached_property
    def names(self) -> list[str]:
        """The results that the expression uses, each once, in the order of the text."""
        functions = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        used = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and id(node) not in functions]
        return list(dict.fromkeys(node.id for node in sorted(used, key=lambda node: node.col_offset)))

    def evaluate(self, results: Mapping[str, Value], array_module: ModuleType = np) -> Value:
        """Compute the value from arrays by name, with the functions of `array_module` (numpy or jax.numpy).

        The value is infinite or NaN where it is not a real number, as for log(-1) and 1 / 0.
        """
        values = {name: np.float64(value) if isinstance(value := results[name], int | float) else value for name in self.names}
        with np.errstate(all="ignore"):
            return _evaluate(self.tree, values, array_module)


def parse_expression(text: str, known: Iterable[str], selectable: Container[str] = ()) -> Expression:
    """Parse an expression over `known` results, of which the `selectable` ones may have brackets; raises InputError that says what is
    wrong and where."""
    bracketed: dict[str, str] = {}

    def replace_brackets(match: re.Match[str]) -> str:
        """A name that Python can parse, as long as what it replaces."""
        placeholder = f"_{len(bracketed)}".ljust(len(match[0]), "_")
        bracketed[placeholder] = f"{match[1]}[{match[2].strip()}]"
        return placeholder

    expression = Expression(text.strip(), parse_arithmetic(_BRACKETED.sub(replace_brackets, text), text, EXAMPLE))
    for node in ast.walk(expression.tree):
        if isinstance(node, ast.Name):
            node.id = bracketed.get(node.id, node.id)
    if not expression.names:
        raise InputError(f"'{text}' does not depend on any result", f"write arithmetic over results, {EXAMPLE}")
    for name in expression.names:
        result, selector = split_brackets(name)
        if result not in known:
            raise InputError(f"'{result}' in '{text}' is not a result", did_you_mean(result, known))
        if selector is not None and (result not in selectable or not selector):
            raise InputError(f"'{name}' is not a result of a network", "write a result of networks, as in 'latency[resnet50]'")
    return expression


def split_brackets(name: str) -> tuple[str, str | None]:
    """A name and what is in its brackets, if it has any: 'latency[resnet50]' is ('latency', 'resnet50')."""
    result, bracket, selector = name.partition("[")
    return result, selector.removesuffix("]") if bracket else None


def parse_arithmetic(code: str, text: str, example: str) -> ast.expr:
    """Parse arithmetic over names, with its constant parts computed; raises InputError.

    `text` is what the user wrote, `code` the same with names that Python can parse, as long as what they stand for.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the expression has {len(text)} characters", f"write at most {MAX_CHARACTERS}")
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" (see character {error.offset})" if isinstance(error, SyntaxError) and error.offset else ""
        raise InputError(f"'{text}' is not a valid expression{place}", f"write arithmetic, {example}") from error
    return fold_constants(tree, text)


def fold_constants(node: ast.expr, text: str) -> ast.expr:
    """Compute each part of the tree that uses no result; raises InputError for what is not arithmetic, or not a finite number."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return _fold(node, text, node)
        case ast.Name(id=name) if name not in _ARGUMENTS:
            return node
        case ast.UnaryOp(op=ast.USub() as sign, operand=operand):
            return _fold(ast.UnaryOp(sign, fold_constants(operand, text)), text, node)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _fold(ast.BinOp(fold_constants(left, text), op, fold_constants(right, text)), text, node)
        case ast.Call(func=ast.Name(id=name) as func, args=arguments, keywords=[]) if _ARGUMENTS.get(name) == len(arguments):
            return _fold(ast.Call(func, [fold_constants(argument, text) for argument in arguments], []), text, node)
    fix = f"write numbers, results, + - * / ** and {', '.join(_ARGUMENTS)}"
    raise InputError(f"'{source_of(node, text)}' is not allowed in an expression", fix)


def _fold(node: ast.expr, text: str, written: ast.expr) -> ast.expr:
    """Replace `node` by a constant if it uses no result; raises InputError, with the text of `written`, if that is not finite and real."""
    if any(isinstance(part, ast.Name) and part.id not in _ARGUMENTS for part in ast.walk(node)):
        return ast.copy_location(node, written)
    try:
        with np.errstate(all="ignore"):
            value = _evaluate(node, {}, np)
    except ArithmeticError:
        value = np.nan
    if isinstance(value, complex) or not np.isfinite(value):
        raise InputError(f"'{source_of(written, text)}' is not a finite, real number", "write another number")
    return ast.copy_location(ast.Constant(float(value)), written)


def source_of(node: ast.expr, text: str) -> str:
    """The part of the text that a node was parsed from."""
    return ast.get_source_segment(text.strip(), node) or text


def _evaluate(node: ast.expr, values: Mapping[str, Any], array_module: ModuleType) -> Any:
    match node:
        case ast.Constant(value=number):
            return float(number)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, values, array_module)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, values, array_module), _evaluate(right, values, array_module))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return getattr(array_module, name)(*(_evaluate(argument, values, array_module) for argument in arguments))
    raise AssertionError(node)
