"""What may vary: each axis of the specification as a dimension of the search, a design as a row of numbers.

A row holds, for a continuous dimension, its value in SI units; for any other, the number of its value. A dimension whose condition
(`when`) does not hold has the value of the description, listed or not, so that equal designs have equal rows. What is moved is
tabulated over on-chip capacities, so a continuous one is rounded down to a grid: what is moved there is moved by a schedule that fits.
So is what measured kernels make of a unit, over its processors and its issue rate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.units import Quantity
from dse.base.yaml_document import YamlDocument
from dse.model.efficiency.fitted import LAUNCH_LATENCY, slowdown_paths
from dse.model.levels import capacities
from dse.schema.accelerator import Accelerator
from dse.schema.axis_spec import RangeAxis
from dse.schema.sweep import SweepSpec
from dse.sweeping.axis import Axis, parse_axis

Points = Float[np.ndarray, "design dimension"]

OCTAVE = 16  # values to a factor of two on the grid of a continuous dimension that is tabulated
MOST_CAPACITIES = 1000
COUNTS = ".processors"


@dataclass(frozen=True, eq=False)
class Dimension:
    """`axis` has the values, or the two ends of a continuous dimension; those after the first `choices` only stand where the condition
    does not hold. `usual`: the number of the description's value (of a continuous dimension, the value); None where it gives none.
    `when`: (number of another dimension, one of its values)."""

    axis: Axis
    continuous: bool
    log: bool
    usual: float | None
    choices: int
    when: tuple[tuple[int, int], ...] = ()

    @property
    def path(self) -> str:
        return self.axis.path

    @property
    def categorical(self) -> bool:
        return self.axis.role == "categorical"

    @property
    def changes_rates_only(self) -> bool:
        """Whether it changes rates alone, and no work."""
        return not self.categorical and self.axis.role != "tabulated" and self.path != LAUNCH_LATENCY

    @cached_property
    def grid(self) -> np.ndarray | None:
        """The values that are tabulated, ascending; None where neither bytes nor what measured kernels make of them depend on the
        dimension."""
        if self.axis.role != "tabulated":
            return None
        low, high = np.min(self.axis.values), np.max(self.axis.values)
        if not self.continuous:
            return np.sort(self.axis.values)
        spaced = np.geomspace(low, high, 2 + int(OCTAVE * np.log2(high / low)))
        grid = np.unique(np.round(spaced)) if self.path.endswith(COUNTS) else spaced
        return grid if self.usual is None or not self.when else np.union1d(grid, [self.usual])

    def holds(self, points: Points) -> np.ndarray:
        """Whether the condition of the dimension holds [design]."""
        return np.all([points[:, other] == value for other, value in self.when], axis=0) if self.when else np.ones(len(points), bool)

    def chosen(self, column: np.ndarray) -> np.ndarray:
        """A column of designs with the nearest value that may be chosen in the place of the description's own [design]."""
        if self.continuous:
            return np.clip(column, *self.axis.values)
        return np.where(column < self.choices, column, self._nearest)

    @cached_property
    def _nearest(self) -> int:
        """The number of the listed value that is nearest to the description's; of labels the first."""
        values = self.axis.values
        return 0 if self.categorical or self.usual is None else int(np.abs(values[: self.choices] - values[int(self.usual)]).argmin())


@dataclass(frozen=True, eq=False)
class Space:
    accelerator: Accelerator
    dimensions: tuple[Dimension, ...]

    @property
    def continuous(self) -> list[int]:
        return [number for number, dimension in enumerate(self.dimensions) if dimension.continuous]

    @cached_property
    def sizes(self) -> list[int]:
        """How many values each dimension is chosen from."""
        return [dimension.choices for dimension in self.dimensions]

    @property
    def size(self) -> int | None:
        """How many designs there are, conditions aside; None where some dimension is continuous."""
        return None if self.continuous else int(np.prod(self.sizes, dtype=object))

    def canonical(self, points: Points) -> Points:
        """The same designs, dimensions whose condition does not hold at the description's value, continuous capacities on their grids."""
        points = points.copy()
        for number, dimension in enumerate(self.dimensions):
            if dimension.when and dimension.usual is not None:
                points[:, number] = np.where(dimension.holds(points), dimension.chosen(points[:, number]), dimension.usual)
            if dimension.continuous and dimension.grid is not None:
                points[:, number] = dimension.grid[position(dimension.grid, points[:, number])]
        return points

    def grid(self, start: int, stop: int) -> Points:
        """Designs number `start` to `stop` of all; those that a condition makes equal to another one are left out."""
        points = np.stack(np.unravel_index(np.arange(start, stop), self.sizes), axis=1).astype(float)
        found = self.canonical(points)
        first = [(points[:, number] == 0) | dimension.holds(found) for number, dimension in enumerate(self.dimensions)]
        return found[np.all(first, axis=0)]

    def random(self, number: int, draw: np.random.Generator) -> Points:
        columns = [_random(dimension, number, draw) for dimension in self.dimensions]
        return self.canonical(np.stack(columns, axis=1))

    def values(self, points: Any) -> dict[str, Any]:
        """What each dimension that is a number has at each design, in SI units."""
        numeric = [(number, d) for number, d in enumerate(self.dimensions) if not d.categorical]
        return {d.path: points[:, n] if d.continuous else d.axis.values[points[:, n].astype(int)] for n, d in numeric}

    def structure(self, point: np.ndarray) -> dict[str, Any]:
        """What the structural dimensions put into the description."""
        return {d.path: d.axis.yaml_values[int(point[n])] for n, d in enumerate(self.dimensions) if d.categorical}

    def described(self, points: Points) -> dict[str, np.ndarray]:
        """Each dimension's values as they are labelled in results."""
        return {d.path: points[:, n] if d.continuous else d.axis.values[points[:, n].astype(int)] for n, d in enumerate(self.dimensions)}

    def accelerator_at(self, point: np.ndarray) -> Accelerator:
        """The description of one design."""
        units = {dimension.path: dimension.axis.unit for dimension in self.dimensions}
        numbers = {path: f"{float(values[0])!r} {units[path]}".strip() for path, values in self.values(point[None]).items()}
        return self.accelerator.replace({**self.structure(point), **numbers})


def position(grid: np.ndarray, values: Any) -> np.ndarray:
    """The number of the next smaller capacity of a grid, or of an equal one."""
    return np.maximum(np.searchsorted(grid, values, side="right") - 1, 0)


def _random(dimension: Dimension, number: int, draw: np.random.Generator) -> np.ndarray:
    if not dimension.continuous:
        return draw.integers(dimension.choices, size=number).astype(float)
    low, high = dimension.axis.values
    return np.exp(draw.uniform(np.log(low), np.log(high), number)) if dimension.log else draw.uniform(low, high, number)


def load(spec: SweepSpec, document: YamlDocument, accelerator: Accelerator) -> Space:
    """The space that the axes of a specification span; raises InputError with every problem."""
    problems, found = ProblemCollector(), dict[str, Dimension]()
    for path, written in spec.axes.items():
        with problems.collect(*document.locate(("axes", path))):
            found[path] = _dimension(path, written, accelerator, spec)
    problems.raise_if_any()
    for number, (path, written) in enumerate(spec.axes.items()):
        with problems.collect(*document.locate(("axes", path))):
            before = list(found.values())[:number]
            found[path] = _conditional(found[path], getattr(written, "when", {}), before, accelerator)
    problems.raise_if_any()
    _check_combinations(list(found.values()), document)
    return Space(accelerator, tuple(found.values()))


def _dimension(path: str, written: Any, accelerator: Accelerator, spec: SweepSpec) -> Dimension:
    continuous = isinstance(written, RangeAxis) and written.steps is None
    axis = parse_axis(path, written.model_copy(update={"steps": 2}) if continuous else written, [accelerator])
    slows = slowdown_paths(accelerator, spec.dtype, spec.axes) if spec.model.fidelity == "calibrated" else []
    if path in (*capacities(accelerator, spec.model.fidelity), *slows):
        axis = replace(axis, role="tabulated")
        _check_tabulated(axis, "kernels" if path in slows else "bytes")
    log = isinstance(written, RangeAxis) and written.scale == "log"
    if not continuous:
        return Dimension(axis, False, log, _listed_at(axis, _described(accelerator, axis)), len(axis))
    if axis.role == "categorical":
        raise InputError(f"'{path}' changes what is stored, so its values are evaluated separately", "add 'steps', or write a list")
    low, high = axis.values
    if low >= high:
        raise InputError(f"'{path}' goes from more to less", "write the smaller end first")
    return Dimension(axis, True, log, accelerator.value(path), len(axis))


def _described(accelerator: Accelerator, axis: Axis) -> Axis | None:
    """The value of the description at the path of an axis, as an axis of one value; None where the description gives none."""
    value = accelerator.at(axis.path)
    if value is None:
        return None
    if isinstance(value, Quantity):
        raw: Any = f"{value.value!r} {value.unit}".strip()
    else:
        raw = list(value) if isinstance(value, tuple) else value if isinstance(value, bool) else str(value)
    return parse_axis(axis.path, [raw], [accelerator])


def _listed_at(axis: Axis, described: Axis | None) -> int | None:
    """The number of the listed value that the description has."""
    equal = np.flatnonzero(axis.values == described.values[0]) if described is not None else []
    return int(equal[0]) if len(equal) else None


def _conditional(dimension: Dimension, when: Mapping[str, Any], before: Sequence[Dimension], accelerator: Accelerator) -> Dimension:
    """The dimension with its condition, and with the description's value among the values of its axis."""
    if not when:
        return dimension
    conditions = _conditions(dimension.path, when, before)
    described = _described(accelerator, dimension.axis)
    if described is None:
        what = f"'{accelerator.name}' gives no '{dimension.path}' for the designs in which its condition does not hold"
        raise InputError(what, "add it to the accelerator, or leave 'when' out")
    if dimension.continuous or dimension.usual is not None:
        return replace(dimension, when=conditions)
    known = dimension.axis
    axis = replace(known, yaml_values=(*known.yaml_values, *described.yaml_values), values=np.concatenate([known.values, described.values]))
    return replace(dimension, axis=axis, usual=len(known), when=conditions)


def _check_tabulated(axis: Axis, what: str) -> None:
    if len(axis) > MOST_CAPACITIES:
        raise InputError(f"{what} are tabulated for each of '{axis.path}'", f"write at most {MOST_CAPACITIES} steps, or none")
    if axis.path.endswith(COUNTS) and (axis.values % 1).any():
        what = f"'{axis.path}' takes {axis.values[axis.values % 1 > 0][0]:.6g}, which is no count"
        raise InputError(what, "list whole numbers, or leave 'steps' out")


def _check_combinations(dimensions: Sequence[Dimension], document: YamlDocument) -> None:
    """What slows units is tabulated for all combinations of it."""
    grids = {d.path: d.grid for d in dimensions if d.grid is not None and d.path.startswith("units.")}
    if (number := math.prod(map(len, grids.values()))) > MOST_CAPACITIES:
        what = f"kernels are tabulated for each of {number} combinations of {', '.join(grids)}"
        fix = f"write lists or fewer steps: at most {MOST_CAPACITIES} combinations"
        raise InputError.from_problems([document.make_problem(("axes", path), what, fix) for path in list(grids)[:1]])


def _conditions(path: str, when: Mapping[str, Any], before: Sequence[Dimension]) -> tuple[tuple[int, int], ...]:
    """Each condition as the number of a dimension and of its value; on dimensions before this one, so that none is circular."""
    names, conditions = [dimension.path for dimension in before], []
    for other, value in when.items():
        if other not in names:
            raise InputError(f"'{path}' depends on '{other}', which is no axis before it", did_you_mean(other, names))
        dimension = before[names.index(other)]
        labels = [str(label) for label in dimension.axis.values]
        if dimension.continuous or str(value) not in labels:
            raise InputError(f"'{other}' never is '{value}'", f"write one of its values: {', '.join(labels)}")
        conditions.append((names.index(other), labels.index(str(value))))
    return tuple(conditions)
