"""In which direction an expression moves with the latency and the energy of a network variant: read off its tree.

Every result is positive. A direction is a set: empty where the expression does not depend on the quantity, {1} where it grows with it,
{-1} where it falls, both where it may do either or where this analysis cannot tell.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from dse.base.expression import Expression

Directions = frozenset[int]
NONE, UP, DOWN, EITHER = frozenset[int](), frozenset({1}), frozenset({-1}), frozenset({1, -1})
_OF_RESULTS = {  # (with latency, with energy); a result that is not listed depends on the hardware alone
    "latency": (UP, NONE), "performance": (DOWN, NONE), "speedup": (DOWN, NONE), "energy": (NONE, UP), "edp": (UP, UP),
}  # fmt: skip


@dataclass(frozen=True)
class Trend:
    """How a value moves with latency and with energy, and its sign (0: unknown)."""

    latency: Directions = NONE
    energy: Directions = NONE
    sign: int = 0

    def __neg__(self) -> "Trend":
        return Trend(_times(self.latency, -1), _times(self.energy, -1), -self.sign)

    def __add__(self, other: "Trend") -> "Trend":
        return Trend(self.latency | other.latency, self.energy | other.energy, self.sign if self.sign == other.sign else 0)

    def __mul__(self, other: "Trend") -> "Trend":
        moved = self._scaled(other.sign) + other._scaled(self.sign)
        return Trend(moved.latency, moved.energy, self.sign * other.sign)

    def inverse(self) -> "Trend":
        """Of 1 / value: it falls where the value grows, as long as the value keeps its sign."""
        return Trend(_times(self.latency, -1), _times(self.energy, -1), self.sign) if self.sign else self._unknown()

    def raised(self, exponent: float | None) -> "Trend":
        """Of value ** exponent; None: the exponent is not a number."""
        if exponent is None or self.sign != 1:
            return self._unknown()
        direction = (exponent > 0) - (exponent < 0)
        return Trend(_times(self.latency, direction), _times(self.energy, direction), 1)

    def absolute(self) -> "Trend":
        return Trend(_times(self.latency, self.sign), _times(self.energy, self.sign), 1) if self.sign else self._unknown()

    def _scaled(self, sign: int) -> "Trend":
        """Times a factor of a known sign; of an unknown one it may move either way."""
        return Trend(_times(self.latency, sign), _times(self.energy, sign)) if sign else self._unknown()

    def _unknown(self) -> "Trend":
        return Trend(EITHER if self.latency else NONE, EITHER if self.energy else NONE)


def _times(directions: Directions, sign: int) -> Directions:
    return frozenset(sign * direction for direction in directions if sign)


def trend(expression: Expression) -> Trend:
    """How an objective or the left side of a constraint moves with the latency and the energy of one variant."""
    return _of(expression.tree)


def together(trends: Sequence[Trend]) -> Trend:
    """How the latency and the energy of a variant move any of several values that are all to be small."""
    found = Trend()
    for each in trends:
        found += each
    return found


def _of(node: ast.expr) -> Trend:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Trend(sign=(number > 0) - (number < 0))
        case ast.Name(id=name):
            return Trend(*_OF_RESULTS.get(name, (NONE, NONE)), 1)
        case ast.UnaryOp(operand=inner):
            return -_of(inner)
        case ast.BinOp(left=left, op=op, right=right):
            return _of_operation(op, _of(left), _of(right), _number(right))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _of_function(name, [_of(argument) for argument in arguments])
    raise AssertionError(node)


def _of_operation(op: ast.operator, left: Trend, right: Trend, exponent: float | None) -> Trend:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left + -right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left * right.inverse()
    depends = right.latency | right.energy
    return left.raised(exponent) if not depends else Trend(EITHER, EITHER)


def _of_function(name: str, arguments: Sequence[Trend]) -> Trend:
    first, *rest = arguments
    match name:
        case "abs":
            return first.absolute()
        case "minimum" | "maximum":
            return first + rest[0]
        case "exp" | "sqrt":
            return Trend(first.latency, first.energy, 1)
    return Trend(first.latency, first.energy)  # the logarithm: of either sign


def _number(node: ast.expr) -> float | None:
    """What a literal is worth, with its sign."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(operand=inner):
            found = _number(inner)
            return None if found is None else -found
    return None
