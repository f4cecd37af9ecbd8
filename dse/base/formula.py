"""Formulas over numbers with units: `units.matrix.peak.int8 / 2`, `memory.dram.channels * 64 bit * 8.533 GT/s`.

The grammar is that of `dse.base.expression`, extended by dotted paths and by quantities. Dimensions are checked when a formula is parsed:
terms of a sum have the same one, and the result has that of the number that it defines. Values are then computed from plain arrays.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

from dse.base.errors import InputError
from dse.base.expression import Expression, fold_constants, parse_arithmetic, source_of
from dse.base.units import Quantity, base_unit

_NUMBER = r"(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_UNIT = r"[A-Za-z]+(?:\^[1-9])?(?:[*/][A-Za-z]+(?:\^[1-9])?)*"
_TOKEN = re.compile(rf"(?P<path>[A-Za-z_]\w*(?:\.\w+)+)|(?<![\w.])(?P<number>{_NUMBER})\s*(?P<unit>{_UNIT})(?![\w.(])", re.ASCII)
_SYMBOLS = {"[information]": "bit", "[work]": "FLOP", "[time]": "s", "[length]": "m", "[energy]": "J"}
EXAMPLE = "as in 'units.matrix.peak.int8 / 2' or 'memory.dram.channels * 64 bit * 8.533 GT/s'"

Value = TypeVar("Value")  # a number, or an array of NumPy or JAX
Dimension = dict[str, float]  # exponent of each base dimension, without zeros
FindKind = Callable[[str], type[Quantity]]  # the kind of number at a dotted path; raises InputError


@dataclass(frozen=True)
class Formula:
    """A formula: its text, and its value in the SI unit of the number that it defines, by the SI values of the numbers that it uses."""

    text: str
    expression: Expression

    @property
    def names(self) -> list[str]:
        """The dotted paths that the formula uses, each once."""
        return self.expression.names

    def evaluate(self, values: Mapping[str, Value], array_module: ModuleType) -> Value:
        """The value from numbers or arrays by dotted path; infinite or NaN where it is not a real number."""
        return self.expression.evaluate(values, array_module)


def parse_formula(text: str, kind: type[Quantity], find_kind: FindKind) -> Formula:
    """Parse the formula of a number of some kind; raises InputError for a path, a unit or a dimension that does not fit."""
    written = text.strip().replace("µ", "u")
    tokens = {match.start(): match for match in _TOKEN.finditer(written)}
    tree = parse_arithmetic(_TOKEN.sub(_placeholder, written), written, EXAMPLE)
    units = {position: _unit_of(match, find_kind) for position, match in tokens.items()}
    dimensions = {position: each for position, (_, each) in units.items()}
    dimension, (size, wanted) = _dimension(tree, dimensions, written), _base(kind.unit)
    if dimension != wanted:
        message = f"'{written}' is {_describe(dimension)}, and this number is {_describe(wanted)}"
        raise InputError(message, f"write a formula whose result is {_describe(wanted)}, or give numbers their units")
    scaled = _to_si_values(tree, tokens, {position: factor for position, (factor, _) in units.items()})
    if size != 1:
        scaled = ast.BinOp(scaled, ast.Div(), ast.Constant(size))
    return Formula(text.strip(), Expression(text.strip(), fold_constants(scaled, written)))


def joined_variables(
    formula: Formula, depends: Callable[[str], frozenset[str]], joined: Callable[[str], Iterable[frozenset[str]]]
) -> set[frozenset[str]]:
    """Sets of variables of which a formula is not a product of functions of one variable each.

    `depends`: the variables that the number at a path depends on; `joined`: these sets of the number at a path.
    """
    return _joined_sets(formula.expression.tree, depends, joined)


def _placeholder(match: re.Match[str]) -> str:
    """A Python name as long as a path or quantity, so that positions in errors stay those of the text."""
    return match["path"].replace(".", "_") if match["path"] else "q".ljust(len(match[0]), "_")


def _unit_of(match: re.Match[str], find_kind: FindKind) -> tuple[float, Dimension]:
    """Size in base units, and dimension: of the SI value at a path, or of a whole quantity."""
    if match["path"]:
        return _base(find_kind(match["path"]).unit)
    size, dimension = _base(match["unit"])
    return float(match["number"].replace("_", "")) * size, dimension


def _base(unit: str) -> tuple[float, Dimension]:
    size, dimension = base_unit(unit)
    return size, dict(dimension)


def _dimension(node: ast.expr, dimensions: Mapping[int, Dimension], text: str) -> Dimension:
    """The dimension of a part of a formula; raises InputError where it has none."""
    match node:
        case ast.Name(id=name):
            if node.col_offset not in dimensions:
                raise InputError(f"'{name}' in '{text}' is not a dotted path", f"write a whole path, {EXAMPLE}")
            return dimensions[node.col_offset]
        case ast.UnaryOp(operand=operand):
            return _dimension(operand, dimensions, text)
        case ast.BinOp(left=left, op=op, right=right):
            return _operation_dimension(op, [(part, _dimension(part, dimensions, text)) for part in (left, right)], text)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _function_dimension(name, [(part, _dimension(part, dimensions, text)) for part in arguments], text)
    return {}


def _operation_dimension(op: ast.operator, operands: list[tuple[ast.expr, Dimension]], text: str) -> Dimension:
    (_, left), (right_node, right) = operands
    match op:
        case ast.Mult():
            return _product(left, right, 1)
        case ast.Div():
            return _product(left, right, -1)
        case ast.Pow():
            _check_plain(right_node, right, text)
            if not left:
                return {}
            if not isinstance(right_node, ast.Constant):
                raise InputError(f"the exponent '{source_of(right_node, text)}' is not a number", "write a number")
            return _product({}, left, float(right_node.value))  # type: ignore[arg-type]
    return _common(operands, text)


def _function_dimension(name: str, operands: list[tuple[ast.expr, Dimension]], text: str) -> Dimension:
    if name in ("minimum", "maximum"):
        return _common(operands, text)
    ((node, dimension),) = operands
    if name == "sqrt":
        return _product({}, dimension, 0.5)
    if name != "abs":
        _check_plain(node, dimension, text)
    return dimension


def _common(operands: list[tuple[ast.expr, Dimension]], text: str) -> Dimension:
    (left_node, left), (right_node, right) = operands
    if left != right:
        left_text, right_text = source_of(left_node, text), source_of(right_node, text)
        message = f"'{left_text}' is {_describe(left)}, and '{right_text}' is {_describe(right)}"
        raise InputError(message, "add or compare numbers of the same dimension")
    return left


def _check_plain(node: ast.expr, dimension: Dimension, text: str) -> None:
    if dimension:
        raise InputError(
            f"'{source_of(node, text)}' is {_describe(dimension)}, not a plain number", "divide it by a quantity of that dimension"
        )


def _product(left: Dimension, right: Dimension, power: float) -> Dimension:
    exponents = {name: left.get(name, 0.0) + power * right.get(name, 0.0) for name in {**left, **right}}
    return {name: exponent for name, exponent in exponents.items() if exponent}


def _describe(dimension: Dimension) -> str:
    """A dimension as a unit: 'in bit/s'."""
    above = [_power(name, exponent) for name, exponent in sorted(dimension.items()) if exponent > 0]
    below = [_power(name, -exponent) for name, exponent in sorted(dimension.items()) if exponent < 0]
    return "in " + "/".join(["*".join(above) or "1", *below]) if dimension else "a plain number"


def _power(name: str, exponent: float) -> str:
    return _SYMBOLS[name] + ("" if exponent == 1 else f"^{exponent:g}")


def _to_si_values(node: ast.expr, tokens: Mapping[int, re.Match[str]], factors: Mapping[int, float]) -> ast.expr:
    """The tree with dotted paths as names, each times its size in base units, and quantities as numbers in base units."""
    match node:
        case ast.Name():
            path, factor = tokens[node.col_offset]["path"], ast.Constant(factors[node.col_offset])
            if path is None:
                return factor
            name = ast.Name(path)
            name.col_offset = node.col_offset
            return name if factor.value == 1 else ast.BinOp(factor, ast.Mult(), name)
        case ast.UnaryOp(op=op, operand=operand):
            return ast.UnaryOp(op, _to_si_values(operand, tokens, factors))
        case ast.BinOp(left=left, op=op, right=right):
            return ast.BinOp(_to_si_values(left, tokens, factors), op, _to_si_values(right, tokens, factors))
        case ast.Call(func=func, args=arguments):
            return ast.Call(func, [_to_si_values(argument, tokens, factors) for argument in arguments], [])
    return node


def _joined_sets(
    node: ast.expr, depends: Callable[[str], frozenset[str]], joined: Callable[[str], Iterable[frozenset[str]]]
) -> set[frozenset[str]]:
    match node:
        case ast.Constant():
            return set()
        case ast.Name(id=name):
            return set(joined(name))
        case ast.UnaryOp(operand=operand) | ast.Call(func=ast.Name(id="sqrt" | "abs"), args=[operand]):
            return _joined_sets(operand, depends, joined)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return _joined_sets(left, depends, joined) | _joined_sets(right, depends, joined)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant()):
            return _joined_sets(left, depends, joined)
    functions = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in functions]
    variables = frozenset[str]().union(*(depends(name) for name in names))
    return {variables} if len(variables) > 1 else set()
