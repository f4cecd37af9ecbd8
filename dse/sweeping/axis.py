"""Axes of a sweep: a dotted path of the accelerator description and the values it takes.

A *rate* axis only scales 1 / (P * E), so all its values are evaluated at once. A *structure* axis (a run's
pattern, format, dtypes or switch) changes the work itself, so its values are taken in turn; so are those of a *capacity* axis,
which changes the bytes alone, or what measured kernels make of a layer. Any other axis leaves the latency alone.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import numpy as np

from dse.base.errors import InputError, did_you_mean
from dse.schema.accelerator import Accelerator
from dse.schema.axis_spec import ListAxis, RangeAxis
from dse.sparsity import grammar

Role = Literal["rate", "categorical", "tabulated", "unused"]

_CATEGORICAL = re.compile(r"units\.\w+\.runs\.\w+\.(pattern|dtypes|enabled|format\.\w+)")


class QuantityTexts(Sequence[str]):
    """Numbers with their unit as a description has them, each made when it is asked for: an axis may have millions."""

    def __init__(self, values: np.ndarray, unit: str):
        self.values, self.unit = values, unit

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> "QuantityTexts": ...
    def __getitem__(self, at: int | slice) -> "str | QuantityTexts":
        if isinstance(at, slice):
            return QuantityTexts(self.values[at], self.unit)
        return f"{float(self.values[at])!r} {self.unit}".strip()


@dataclass(frozen=True, eq=False)
class Axis:
    """`yaml_values` as a description states them; `values` in SI `unit` (floats), or as labels (text, bools)."""

    path: str
    yaml_values: Sequence[Any]
    values: np.ndarray
    unit: str
    role: Role = "unused"

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> "Axis":
        return replace(self, yaml_values=self.yaml_values[part], values=self.values[part])

    @property
    def is_outer_loop(self) -> bool:
        """Whether a job has one of its values, not all."""
        return self.role in ("categorical", "tabulated")


def parse_axis(path: str, written: RangeAxis | ListAxis | Sequence[Any], accelerators: Sequence[Accelerator]) -> Axis:
    """The axis at `path`; raises InputError (with a suggestion for an unknown path).

    Numbers are checked on every accelerator. What is no number is only read: whether a pattern goes with a format is
    known when all axes are put together (`plan`).
    """
    written = written.values if isinstance(written, ListAxis) else written
    if isinstance(written, RangeAxis) and written.steps is None:
        raise InputError(f"'{path}' has no steps", "add 'steps: 16', or take it as a range in a search ('dse search')")
    for accelerator in accelerators:
        if path not in accelerator.paths():
            raise InputError(f"'{accelerator.name}' has no '{path}'", did_you_mean(path, accelerator.paths()))
    role: Role = "categorical" if _CATEGORICAL.fullmatch(path) else "unused"
    if role == "categorical" and not path.endswith((".index", ".pointer")):
        return _labelled(path, written)
    ends = (written.start, written.stop) if isinstance(written, RangeAxis) else tuple(written)
    if role == "categorical" and isinstance(written, RangeAxis) and (written.steps or 0) > 1000:
        raise InputError(f"'{path}' changes what is stored, so its values are taken one by one", "write at most 1000 steps")
    if None in ends:
        raise InputError(f"'{path}' takes a value that is empty", "write a number with its unit each time")
    found, *_ = [[_at(accelerator, path, raw) for raw in ends] for accelerator in accelerators]
    unit, numbers = type(found[0]).unit, np.array([value.value for value in found])
    if isinstance(written, RangeAxis):
        numbers = _spaced(written, *numbers)
    if len(np.unique(numbers)) < len(numbers):
        raise _taken_twice(path)
    return Axis(path, QuantityTexts(numbers, unit), numbers, unit, role)


def _labelled(path: str, written: RangeAxis | Sequence[Any]) -> Axis:
    """An axis of texts or switches; a list (of dtypes) is labelled by its items."""
    if isinstance(written, RangeAxis):
        raise InputError(f"'{path}' is no number", "write a list of values, as in '[true, false]'")
    if any(isinstance(raw, dict) or raw is None for raw in written):
        raise InputError(f"'{path}' takes one plain value at a time", "write texts, switches or lists")
    if path.endswith(".enabled") and not all(isinstance(raw, bool) for raw in written):
        raise InputError(f"'{path}' is a switch", "write true and false")
    labels = [raw if isinstance(raw, bool) else _label(path, raw) for raw in written]
    _check_different(path, labels)
    return Axis(path, tuple(written), np.array(labels), "", "categorical")


def _label(path: str, raw: Any) -> str:
    if path.endswith(".pattern") and isinstance(raw, str):
        return str(grammar.parse(raw))
    return ",".join(map(str, raw)) if isinstance(raw, list) else str(raw)


def _check_different(path: str, values: Sequence[Any]) -> None:
    if len(set(values)) < len(values):
        raise _taken_twice(path)


def _taken_twice(path: str) -> InputError:
    return InputError(f"'{path}' takes a value twice", "give different values")


def _at(accelerator: Accelerator, path: str, raw: Any) -> Any:
    """`raw` as the schema reads it at `path`; its problems are placed by the caller, who knows the sweep's file."""
    try:
        return accelerator.replace({path: raw}).at(path)
    except InputError as error:
        raise InputError.from_problems(replace(problem, file=None, line=None, key="") for problem in error.problems) from error


def _spaced(written: RangeAxis, start: float, stop: float) -> np.ndarray:
    space = np.geomspace if written.scale == "log" else np.linspace
    return space(start, stop, written.steps or 2)


def mark_rate_axes(axes: Sequence[Axis], rate_paths: set[str]) -> tuple[Axis, ...]:
    """The axes, those that some rate depends on marked as such, unless more than a rate does."""
    return tuple(replace(axis, role="rate") if axis.path in rate_paths and axis.role == "unused" else axis for axis in axes)


def iterate_combinations(axes: Sequence[Axis], role: Role) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """Each combination of the axes of one role: the position on each, and the values to put into a description."""
    those = [axis for axis in axes if axis.role == role]
    for positions in itertools.product(*(range(len(axis)) for axis in those)):
        chosen = list(zip(those, positions, strict=True))
        yield {axis.path: n for axis, n in chosen}, {axis.path: axis.yaml_values[n] for axis, n in chosen}
