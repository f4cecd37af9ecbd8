"""Arithmetic over named results: `speedup / area`, `log(performance) - 0.1 * power`.

A grammar of numbers, names, + - * / **, parentheses and a few functions. Python's parser reads it; what it read is walked here and
never run, so an expression can do nothing but arithmetic.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.base.errors import InputError, did_you_mean

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS = ("log", "exp", "sqrt", "abs", "minimum", "maximum")
MAX_CHARACTERS = 500
EXAMPLE = "as in 'performance / area' or 'log(speedup) - 0.01 * power'"


@dataclass(frozen=True)
class Expression:
    """`text` as written, and its tree."""

    text: str
    tree: ast.expr

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> list[str]:
        """What it speaks of, once each."""
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and id(node) not in called]
        return list(dict.fromkeys(node.id for node in sorted(found, key=lambda node: node.col_offset)))

    def evaluate(self, of: Mapping[str, Any], arrays: Any = np) -> Any:
        """The value where names stand for the arrays `of` them; `arrays` is numpy, or what takes its place.

        It is infinite or NaN where it is not a real number, as log(-1) and 1 / 0.
        """
        known = {name: np.float64(found) if isinstance(found := of[name], int | float) else found for name in self.names}
        with np.errstate(all="ignore"):
            return _walk(self.tree, known, arrays)


def parse_expression(text: str, known: Iterable[str]) -> Expression:
    """The expression that `text` is, over `known` names; raises InputError with what is wrong and where."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the expression has {len(text)} characters", f"write at most {MAX_CHARACTERS}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" (see character {error.offset})" if isinstance(error, SyntaxError) and error.offset else ""
        raise InputError(f"'{text}' is no expression{place}", f"write arithmetic, {EXAMPLE}") from error
    found = Expression(text.strip(), _folded(tree, text))
    if not found.names:
        raise InputError(f"'{text}' does not depend on any result", f"write arithmetic over results, {EXAMPLE}")
    for name in found.names:
        if name not in known:
            raise InputError(f"'{name}' in '{text}' is no result", did_you_mean(name, known))
    return found


def _folded(node: ast.expr, text: str) -> ast.expr:
    """`node` with each part that names no result as one number; raises InputError for what is not arithmetic, or not a finite number."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return _number(node, text, node)
        case ast.Name(id=name) if name not in _FUNCTIONS:
            return node
        case ast.UnaryOp(op=ast.USub() as sign, operand=inner):
            return _number(ast.UnaryOp(sign, _folded(inner, text)), text, node)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _number(ast.BinOp(_folded(left, text), op, _folded(right, text)), text, node)
        case ast.Call(func=ast.Name(id=name) as func, args=[_, *rest], keywords=[]) if name in _FUNCTIONS and len(rest) == name.endswith(
            "mum"
        ):
            return _number(ast.Call(func, [_folded(argument, text) for argument in node.args], []), text, node)
    fix = f"write numbers, results, + - * / ** and {', '.join(_FUNCTIONS)}"
    raise InputError(f"'{_source(node, text)}' cannot stand in an expression", fix)


def _number(folded: ast.expr, text: str, written: ast.expr) -> ast.expr:
    """`folded` as a constant if its operands are; raises InputError where that is not a finite, real number."""
    if any(isinstance(node, ast.Name) and node.id not in _FUNCTIONS for node in ast.walk(folded)):
        return folded
    try:
        with np.errstate(all="ignore"):
            value = _walk(folded, {}, np)
    except ArithmeticError:
        value = np.nan
    if isinstance(value, complex) or not np.isfinite(value):
        raise InputError(f"'{_source(written, text)}' is not a finite, real number", "write another number")
    return ast.Constant(float(value))


def _source(node: ast.expr, text: str) -> str:
    return ast.get_source_segment(text.strip(), node) or text


def _walk(node: ast.expr, of: Mapping[str, Any], arrays: Any) -> Any:
    match node:
        case ast.Constant(value=number):
            return float(number)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return of[name]
        case ast.UnaryOp(operand=inner):
            return -_walk(inner, of, arrays)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_walk(left, of, arrays), _walk(right, of, arrays))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return getattr(arrays, name)(*(_walk(argument, of, arrays) for argument in arguments))
    raise AssertionError(node)
