"""The space of a search: its axes as dimensions, and designs as rows of numbers.

A design has, for a continuous dimension, the value in SI units and, for any other, the index of the value. A dimension whose condition
(`when` in the specification) does not hold has the value of the accelerator's description, listed or not, so equal designs have equal
rows. Traffic is tabulated over on-chip capacities, and the efficiency of measured kernels over the numbers that it depends on. So
continuous values of these are rounded down to a grid: the traffic is then that of a schedule that fits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from dse.model.efficiency.fitted import LAUNCH_LATENCY
from dse.model.host_time import HOST_PATHS
from dse.schema.accelerator import Accelerator
from dse.sparsity.pattern import FloatOrArray
from dse.sweeping.axis import Axis

RUN_SETTINGS = ("batch", "dtype")  # paths of dimensions that say how a network is run, and are no part of an accelerator

DesignMatrix = Float[np.ndarray, "design dimension"]

VALUES_PER_OCTAVE = 16  # of the grid of a continuous tabulated dimension


@dataclass(frozen=True, eq=False)
class Dimension:
    """One axis of a search.

    `axis` has the values, or the two ends of a continuous dimension. Only the first `choices` values may be chosen; others are there
    where the condition does not hold. `described`: the index of the description's value (of a continuous dimension, the value), None
    where the description gives none. `conditions`: pairs of the index of another dimension and the index of its required value.
    `changes_tables`: a number that follows from it by a link is tabulated, or is an overhead.
    """

    axis: Axis
    continuous: bool
    log: bool
    described: float | None
    choices: int
    conditions: tuple[tuple[int, int], ...] = ()
    changes_tables: bool = False

    @property
    def path(self) -> str:
        return self.axis.path

    @property
    def categorical(self) -> bool:
        return self.axis.role == "categorical"

    @property
    def changes_rates_only(self) -> bool:
        """Whether it changes rates and neither work nor overhead."""
        return not (self.categorical or self.axis.role == "tabulated" or self.path in (LAUNCH_LATENCY, *HOST_PATHS) or self.changes_tables)

    @property
    def described_value(self) -> Float[np.ndarray, "value"]:
        """The description's value of a number, in an array; empty where it gives none that the dimension has."""
        if self.described is None:
            return np.zeros(0)
        return np.array([self.described if self.continuous else self.axis.values[int(self.described)]])

    @cached_property
    def grid(self) -> Float[np.ndarray, "value"] | None:
        """The tabulated values, ascending; None for a dimension that is not tabulated."""
        if self.axis.role != "tabulated":
            return None
        low, high = np.min(self.axis.values), np.max(self.axis.values)
        if not self.continuous:
            return np.sort(self.axis.values)
        spaced = np.geomspace(low, high, 2 + int(VALUES_PER_OCTAVE * np.log2(high / low)))
        grid = np.unique(np.round(spaced)) if self.axis.is_whole else spaced
        return grid if self.described is None or not self.conditions else np.union1d(grid, [self.described])

    def is_active(self, designs: DesignMatrix) -> Bool[np.ndarray, "design"]:
        """Whether the condition of the dimension holds."""
        conditions = [designs[:, other] == value for other, value in self.conditions]
        return np.all(conditions, axis=0) if conditions else np.ones(len(designs), bool)

    def nearest_choice(self, column: Float[np.ndarray, "*design"]) -> Float[np.ndarray, "*design"]:
        """A column with values that may be chosen: the description's own value is replaced by the nearest choice."""
        if self.continuous:
            return np.clip(column, *self.axis.values)
        return np.where(column < self.choices, column, self._choice_nearest_to_description)

    @cached_property
    def _choice_nearest_to_description(self) -> int:
        """The index of the choice that is nearest to the description's value; of labels the first."""
        values = self.axis.values
        if self.categorical or self.described is None:
            return 0
        return int(np.abs(values[: self.choices] - values[int(self.described)]).argmin())

    def decode(self, column: Float[np.ndarray, "design"]) -> Shaped[np.ndarray, "design"]:
        """Values in SI units, or labels, of a column of designs."""
        return column if self.continuous else self.axis.values[column.astype(int)]

    def random_column(self, count: int, generator: np.random.Generator) -> Float[np.ndarray, "design"]:
        if not self.continuous:
            return generator.integers(self.choices, size=count).astype(float)
        low, high = self.axis.values
        return np.exp(generator.uniform(np.log(low), np.log(high), count)) if self.log else generator.uniform(low, high, count)

    def from_unit(self, positions: Float[np.ndarray, "design"]) -> Float[np.ndarray, "design"]:
        """The column at positions in [0, 1] along the dimension: on its scale, or each choice on an equal share."""
        if not self.continuous:
            return np.minimum(np.floor(positions * self.choices), self.choices - 1)
        low, high = self.axis.values
        column = np.exp(np.log(low) + positions * np.log(high / low)) if self.log else low + positions * (high - low)
        return np.clip(column, low, high)

    def to_unit(self, column: Float[np.ndarray, "design"]) -> Float[np.ndarray, "design"]:
        """Positions in [0, 1] of a column; a choice is in the middle of its share."""
        if not self.continuous:
            return (self.nearest_choice(column) + 0.5) / self.choices
        low, high = self.axis.values
        column = self.nearest_choice(column)
        return np.log(column / low) / np.log(high / low) if self.log else (column - low) / (high - low)


@dataclass(frozen=True)
class LinkedGrid:
    """The values, ascending, at which a number that follows from dimensions by links is tabulated; `sources`: paths of these dimensions."""

    values: Float[np.ndarray, "value"]
    unit: str
    sources: frozenset[str]


@dataclass(frozen=True, eq=False)
class Space:
    """The designs that the dimensions span, starting from an accelerator.

    `linked_grids`: of the tabulated numbers that follow from dimensions by links.
    """

    accelerator: Accelerator
    dimensions: tuple[Dimension, ...]
    linked_grids: Mapping[str, LinkedGrid] = field(default_factory=dict)

    @cached_property
    def grids(self) -> dict[str, Float[np.ndarray, "value"]]:
        """The tabulated values of each number on which traffic or kernel efficiencies depend, by path."""
        own = {dimension.path: dimension.grid for dimension in self.dimensions if dimension.grid is not None}
        return own | {path: grid.values for path, grid in self.linked_grids.items()}

    @cached_property
    def units(self) -> dict[str, str]:
        """The SI unit of each dimension, and of each tabulated number."""
        return {d.path: d.axis.unit for d in self.dimensions} | {path: grid.unit for path, grid in self.linked_grids.items()}

    @property
    def continuous(self) -> list[int]:
        """Indices of the continuous dimensions."""
        return [number for number, dimension in enumerate(self.dimensions) if dimension.continuous]

    @cached_property
    def shape(self) -> list[int]:
        """Number of choices of each dimension."""
        return [dimension.choices for dimension in self.dimensions]

    @property
    def size(self) -> int | None:
        """Number of designs, regardless of conditions; None where some dimension is continuous."""
        return None if self.continuous else int(np.prod(self.shape, dtype=object))

    def canonicalize(self, designs: DesignMatrix) -> DesignMatrix:
        """The same designs with the description's value where a condition does not hold, and tabulated values rounded down to the grid."""
        designs = designs.copy()
        for number, dimension in enumerate(self.dimensions):
            if dimension.continuous and dimension.axis.is_whole:
                designs[:, number] = np.round(designs[:, number])
            column = designs[:, number]
            if dimension.conditions and dimension.described is not None:
                designs[:, number] = np.where(dimension.is_active(designs), dimension.nearest_choice(column), dimension.described)
            if dimension.continuous and dimension.grid is not None:
                designs[:, number] = dimension.grid[grid_index(dimension.grid, designs[:, number])]
        return designs

    def grid_designs(self, start: int = 0, stop: int | None = None) -> DesignMatrix:
        """Designs number `start` to `stop` (default: the last) of a grid, without those that a condition makes equal to another one."""
        stop = self.size if stop is None else stop
        assert stop is not None, "no dimension of a grid is continuous"
        indices = np.stack(np.unravel_index(np.arange(start, stop), self.shape), axis=1).astype(float)
        designs = self.canonicalize(indices)
        is_first = [(indices[:, number] == 0) | dimension.is_active(designs) for number, dimension in enumerate(self.dimensions)]
        return designs[np.all(is_first, axis=0)]

    def random_designs(self, count: int, generator: np.random.Generator) -> DesignMatrix:
        return self.canonicalize(np.stack([dimension.random_column(count, generator) for dimension in self.dimensions], axis=1))

    def from_unit(self, positions: Float[np.ndarray, "design dimension"]) -> DesignMatrix:
        """Designs from positions in [0, 1] along each dimension."""
        columns = [dimension.from_unit(positions[:, number]) for number, dimension in enumerate(self.dimensions)]
        return self.canonicalize(np.stack(columns, axis=1))

    def to_unit(self, designs: DesignMatrix) -> Float[np.ndarray, "design dimension"]:
        """Positions in [0, 1] of designs along each dimension."""
        return np.stack([dimension.to_unit(designs[:, number]) for number, dimension in enumerate(self.dimensions)], axis=1)

    def decode(self, designs: DesignMatrix) -> dict[str, Shaped[np.ndarray, "design"]]:
        """Values in SI units, or labels, of all dimensions."""
        return {dimension.path: dimension.decode(designs[:, number]) for number, dimension in enumerate(self.dimensions)}

    def numeric_values(self, designs: DesignMatrix) -> dict[str, Float[np.ndarray, "design"]]:
        """Values in SI units of the dimensions that are numbers."""
        numeric = [(number, dimension) for number, dimension in enumerate(self.dimensions) if not dimension.categorical]
        return {dimension.path: dimension.decode(designs[:, number]) for number, dimension in numeric}

    def all_values(
        self, values: Mapping[str, FloatOrArray], accelerator: Accelerator, array_module: ModuleType = np
    ) -> dict[str, FloatOrArray]:
        """Values of the numeric dimensions, and of all numbers that follow from them on a categorical configuration, by path."""
        return {**values, **accelerator.links.evaluate(values, accelerator.value, array_module)}

    @cached_property
    def unstated_numbers(self) -> dict[str, object]:
        """A value of each numeric dimension that the description does not state, so that executions have a rate for it."""
        unstated = [d for d in self.dimensions if not d.categorical and self.accelerator.at(d.path) is None]
        return {d.path: d.axis.yaml_values[0] for d in unstated}

    def categorical_values(self, design: Float[np.ndarray, "dimension"]) -> dict[str, object]:
        """Values of the categorical dimensions of an accelerator, as a description states them."""
        categorical = [(number, d) for number, d in enumerate(self.dimensions) if d.categorical and d.path not in RUN_SETTINGS]
        return {d.path: d.axis.yaml_values[int(design[number])] for number, d in categorical}

    def run_settings(self, design: Float[np.ndarray, "dimension"]) -> dict[str, object]:
        """The batch size and the dtype of a design, as far as the search may choose them."""
        chosen = [(number, d) for number, d in enumerate(self.dimensions) if d.path in RUN_SETTINGS]
        return {d.path: d.axis.yaml_values[int(design[number])] for number, d in chosen}

    def accelerator_at(self, design: Float[np.ndarray, "dimension"]) -> Accelerator:
        """The description of one design."""
        numbers: Mapping[str, str] = {
            path: f"{float(values[0])!r} {self.units[path]}".strip() for path, values in self.numeric_values(design[None]).items()
        }
        return self.accelerator.replace({**self.categorical_values(design), **numbers})


def grid_index(grid: Float[np.ndarray, "value"], values: Float[np.ndarray, "design"]) -> Int[np.ndarray, "design"]:
    """Index of the largest value of a grid that is no larger than a given one, at least 0."""
    return np.maximum(np.searchsorted(grid, values, side="right") - 1, 0)
