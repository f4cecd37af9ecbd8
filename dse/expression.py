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

from dse.errors import BadInput, suggestion

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS = ("log", "exp", "sqrt", "abs", "minimum", "maximum")
MOST_CHARACTERS = 500
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

    def value(self, of: Mapping[str, Any], arrays: Any = np) -> Any:
        """The value where names stand for the arrays `of` them; `arrays` is numpy, or what takes its place."""
        return _walk(self.tree, of, arrays)


def parse(text: str, known: Iterable[str]) -> Expression:
    """The expression that `text` is, over `known` names; raises BadInput with what is wrong and where."""
    if len(text) > MOST_CHARACTERS:
        raise BadInput.one(f"the expression has {len(text)} characters", f"write at most {MOST_CHARACTERS}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" (see character {error.offset})" if isinstance(error, SyntaxError) and error.offset else ""
        raise BadInput.one(f"'{text}' is no expression{place}", f"write arithmetic, {EXAMPLE}") from error
    _check(tree, text)
    found = Expression(text.strip(), tree)
    for name in found.names:
        if name not in known:
            raise BadInput.one(f"'{name}' in '{text}' is no result", suggestion(name, known))
    return found


def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return None
        case ast.Name():
            return None
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _check(inner, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _check(left, text)
            return _check(right, text)
        case ast.Call(func=ast.Name(id=name), args=[first, *rest], keywords=[]) if name in _FUNCTIONS and len(rest) == name.endswith("mum"):
            for argument in (first, *rest):
                _check(argument, text)
            return None
    written = ast.get_source_segment(text.strip(), node) or text
    raise BadInput.one(f"'{written}' cannot stand in an expression", f"write numbers, results, + - * / ** and {', '.join(_FUNCTIONS)}")


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
