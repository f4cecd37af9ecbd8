"""Axes of a sweep: a dotted path of the accelerator description and the values it takes.

A *rate* axis only scales 1 / (P * E), so all its values are evaluated at once. A *structure* axis (a run's
pattern, format, dtypes or switch) changes the work itself, so its values are taken in turn. Any other axis
leaves the latency alone.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dse.accelerator import Accelerator
from dse.errors import BadInput
from dse.spec import Range
from dse.units import Quantity

Role = Literal["rate", "structure", "idle"]

_STRUCTURE = re.compile(r"units\.\w+\.runs\.\w+\.(pattern|dtypes|enabled|format(\.\w+)?)")


@dataclass(frozen=True)
class Axis:
    """`raw` as it stands in a description; `values` in SI `unit` (floats), or as labels (text, bools)."""

    path: str
    raw: tuple[Any, ...]
    values: np.ndarray
    unit: str
    role: Role = "idle"

    def __len__(self) -> int:
        return len(self.values)


def parse(path: str, written: Range | Sequence[Any], accelerators: Sequence[Accelerator]) -> Axis:
    """The axis at `path`, checked on every accelerator; raises BadInput (with a suggestion for an unknown path)."""
    ends = (written.start, written.stop) if isinstance(written, Range) else tuple(written)
    found, *_ = [[_at(accelerator, path, raw) for raw in ends] for accelerator in accelerators]
    if not all(isinstance(value, Quantity) for value in found):
        if isinstance(written, Range):
            raise BadInput.one(f"'{path}' is no number", "write a list of values, as in '[true, false]'")
        return Axis(path, ends, np.array([value if isinstance(value, bool) else _label(value) for value in found]), "", "structure")
    unit, numbers = type(found[0]).unit, [value.value for value in found]
    if isinstance(written, Range):
        numbers = _spaced(written, *numbers)
    if len(set(numbers)) < len(numbers):
        raise BadInput.one(f"'{path}' takes a value twice", "give different values")
    role: Role = "structure" if _STRUCTURE.fullmatch(path) else "idle"
    return Axis(path, tuple(f"{number!r} {unit}".strip() for number in numbers), np.array(numbers), unit, role)


def _at(accelerator: Accelerator, path: str, raw: Any) -> Any:
    """`raw` as the schema reads it at `path`; its problems are placed by the caller, who knows the sweep's file."""
    try:
        return accelerator.replace({path: raw}).at(path)
    except BadInput as error:
        raise BadInput(replace(problem, file=None, line=None, path="") for problem in error.problems) from error


def _label(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _spaced(written: Range, start: float, stop: float) -> list[float]:
    space = np.geomspace if written.scale == "log" else np.linspace
    return [float(value) for value in space(start, stop, written.steps)]


def with_rates(axes: Sequence[Axis], rate_paths: set[str]) -> tuple[Axis, ...]:
    """The axes, those that some rate depends on marked as such."""
    return tuple(replace(axis, role="rate") if axis.path in rate_paths else axis for axis in axes)


def structures(axes: Sequence[Axis]) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """Each combination of the structure axes: the position on each, and the values to put into a description."""
    structural = [axis for axis in axes if axis.role == "structure"]
    for positions in itertools.product(*(range(len(axis)) for axis in structural)):
        chosen = list(zip(structural, positions, strict=True))
        yield {axis.path: n for axis, n in chosen}, {axis.path: axis.raw[n] for axis, n in chosen}
