"""How an expression changes with the latency and the energy of a network variant, derived from its syntax tree.

All results are positive. A set of directions says how a value changes with a quantity: empty if it does not depend on it, {1} if it
increases, {-1} if it decreases, and both if it may do either or this analysis cannot decide.
"""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dse.base.expression import Expression, split_brackets

Directions = frozenset[int]
NONE, UP, DOWN, EITHER = frozenset[int](), frozenset({1}), frozenset({-1}), frozenset({1, -1})
_RESULT_DIRECTIONS = {  # (with latency, with energy); results that are not listed depend on the hardware only
    "latency": (UP, NONE),
    "performance": (DOWN, NONE),
    "speedup": (DOWN, NONE),
    "energy": (NONE, UP),
    "edp": (UP, UP),
    "throughput": (DOWN, NONE),
    "occupancy": (EITHER, EITHER),  # depends on the variant, but on neither of both
}


@dataclass(frozen=True)
class Trend:
    """How a value changes with latency and with energy, and its sign (0: unknown)."""

    latency: Directions = NONE
    energy: Directions = NONE
    sign: int = 0

    def __neg__(self) -> "Trend":
        return Trend(_times(self.latency, -1), _times(self.energy, -1), -self.sign)

    def __add__(self, other: "Trend") -> "Trend":
        return Trend(self.latency | other.latency, self.energy | other.energy, self.sign if self.sign == other.sign else 0)

    def __mul__(self, other: "Trend") -> "Trend":
        product = self._scaled(other.sign) + other._scaled(self.sign)
        return Trend(product.latency, product.energy, self.sign * other.sign)

    def inverse(self) -> "Trend":
        """The trend of 1 / value, which decreases where the value increases, as long as the value keeps its sign."""
        return Trend(_times(self.latency, -1), _times(self.energy, -1), self.sign) if self.sign else self._unknown()

    def power(self, exponent: float | None) -> "Trend":
        """The trend of value ** exponent; None: the exponent is not a number."""
        if exponent is None or self.sign != 1:
            return self._unknown()
        direction = (exponent > 0) - (exponent < 0)
        return Trend(_times(self.latency, direction), _times(self.energy, direction), 1)

    def absolute(self) -> "Trend":
        return Trend(_times(self.latency, self.sign), _times(self.energy, self.sign), 1) if self.sign else self._unknown()

    def _scaled(self, sign: int) -> "Trend":
        """The trend of the value times a factor of this sign; with an unknown sign it may change either way."""
        return Trend(_times(self.latency, sign), _times(self.energy, sign)) if sign else self._unknown()

    def _unknown(self) -> "Trend":
        return Trend(EITHER if self.latency else NONE, EITHER if self.energy else NONE)


def _times(directions: Directions, sign: int) -> Directions:
    return frozenset(sign * direction for direction in directions if sign)


def expression_trend(expression: Expression) -> Trend:
    """How an objective or the left side of a constraint changes with the latency and the energy of one variant."""
    return _node_trend(expression.tree)


def joint_trend(trends: Iterable[Trend]) -> Trend:
    """How the latency and the energy of a variant change several values that are all to be minimised."""
    joint = Trend()
    for trend in trends:
        joint += trend
    return joint


def _node_trend(node: ast.expr) -> Trend:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Trend(sign=(number > 0) - (number < 0))
        case ast.Name(id=name):
            return Trend(*_RESULT_DIRECTIONS.get(split_brackets(name)[0], (NONE, NONE)), 1)
        case ast.UnaryOp(operand=operand):
            return -_node_trend(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _operation_trend(op, _node_trend(left), _node_trend(right), _literal_value(right))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _function_trend(name, [_node_trend(argument) for argument in arguments])
    raise AssertionError(node)


def _operation_trend(op: ast.operator, left: Trend, right: Trend, exponent: float | None) -> Trend:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left + -right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left * right.inverse()
    exponent_depends = right.latency | right.energy
    return Trend(EITHER, EITHER) if exponent_depends else left.power(exponent)


def _function_trend(name: str, arguments: Sequence[Trend]) -> Trend:
    first, *rest = arguments
    match name:
        case "abs":
            return first.absolute()
        case "minimum" | "maximum":
            return first + rest[0]
        case "exp" | "sqrt":
            return Trend(first.latency, first.energy, 1)
    return Trend(first.latency, first.energy)  # the logarithm has either sign


def _literal_value(node: ast.expr) -> float | None:
    """The value of a number with its sign; None for anything else."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(operand=operand):
            value = _literal_value(operand)
            return None if value is None else -value
    return None
