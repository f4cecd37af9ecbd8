"""Build the space of a search from the axes of its specification, and report all errors at once."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dse.base.display_units import format_quantity
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.units import Quantity
from dse.base.yaml_document import YamlDocument
from dse.model.efficiency.fitted import LAUNCH_LATENCY, slowdown_paths
from dse.model.host_time import HOST_PATHS
from dse.model.memory_levels import capacity_paths
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import FreeAxis, RangeAxis, SweepSpec
from dse.searching.bracketed_networks import chosen_settings, list_dtypes
from dse.searching.space import VALUES_PER_OCTAVE, Dimension, LinkedGrid, Space
from dse.sweeping.axis import ROUNDING, Axis, parse_axis
from dse.sweeping.linked_axes import check_linked_values

MAX_ENUMERATED = 10**9  # designs of an exhaustive search
MAX_TABULATED = 1000  # values of an axis, or combinations of several


def build_space(spec: SweepSpec, document: YamlDocument, accelerator: Accelerator) -> Space:
    """The space that the axes of a specification span; raises InputError with every problem."""
    problems, dimensions = ProblemCollector(), dict[str, Dimension]()
    for path, axis_spec in spec.free_axes.items():
        with problems.collect(*document.locate(("axes", path))):
            dimensions[path] = _parse_dimension(path, axis_spec, accelerator, spec)
    problems.raise_if_any()
    for number, (path, axis_spec) in enumerate(spec.free_axes.items()):
        with problems.collect(*document.locate(("axes", path))):
            earlier = list(dimensions.values())[:number]
            dimensions[path] = _add_conditions(dimensions[path], getattr(axis_spec, "when", {}), earlier, accelerator)
    problems.raise_if_any()
    check_linked_values([dimension.axis for dimension in dimensions.values()], [accelerator], document, problems)
    problems.raise_if_any()
    dimensions |= _run_settings(spec)
    linked_grids = _linked_grids(list(dimensions.values()), spec, accelerator)
    marked = tuple(_mark_tables(dimension, linked_grids, accelerator) for dimension in dimensions.values())
    space = Space(accelerator, marked, linked_grids)
    _check_tabulated_combinations(space, document)
    if spec.search is not None and spec.search.sampler == "exhaustive":
        _check_enumerable(space, document)
    return space


def _run_settings(spec: SweepSpec) -> dict[str, Dimension]:
    """The batch sizes and the dtypes, where a search may choose among several; each changes the work of all layers."""
    labels = {"batch": np.array(spec.batch), "dtype": np.array([dtype.label for dtype in spec.dtype])}
    chosen = {path: labels[path] for path in chosen_settings(spec)}
    return {
        path: Dimension(Axis(path, getattr(spec, path), values, "", "categorical"), False, False, None, len(values))
        for path, values in chosen.items()
    }


def _tabulated_paths(accelerator: Accelerator, spec: SweepSpec) -> tuple[list[str], list[str]]:
    """Numbers that decide bytes, and those that decide the efficiency of measured kernels."""
    kernel_paths = slowdown_paths(accelerator, list_dtypes(spec), spec.free_axes) if spec.model.fidelity == "calibrated" else []
    return capacity_paths(accelerator, spec.model.fidelity), kernel_paths


def _linked_grids(dimensions: Sequence[Dimension], spec: SweepSpec, accelerator: Accelerator) -> dict[str, LinkedGrid]:
    """The values at which traffic and kernel efficiencies are tabulated for numbers that follow from dimensions by links.

    All values that discrete dimensions give, if these are few; else a grid between the smallest and the largest value.
    """
    numeric = {dimension.path: dimension for dimension in dimensions if not dimension.categorical}
    capacities, kernel_paths = _tabulated_paths(accelerator, spec)
    grids = {}
    for path in accelerator.links.dependents(numeric):
        if path in (*capacities, *kernel_paths):
            used = {name: numeric[name] for name in numeric if name in accelerator.links.sources(path, numeric)}
            grids[path] = LinkedGrid(_linked_values(accelerator, path, used), type(accelerator.at(path)).unit, frozenset(used))
    return grids


def _linked_values(accelerator: Accelerator, path: str, used: Mapping[str, Dimension]) -> np.ndarray:
    is_small = (
        not any(dimension.continuous for dimension in used.values()) and math.prod(len(d.axis) for d in used.values()) <= MAX_TABULATED
    )
    columns = [dimension.axis.values if is_small else _ends(dimension) for dimension in used.values()]
    columns = [np.append(column, dimension.described_value) for column, dimension in zip(columns, used.values(), strict=True)]
    combinations = np.array(list(itertools.product(*columns))).T
    values = accelerator.links.evaluate(dict(zip(used, combinations, strict=True)), accelerator.value)[path]
    if is_small:
        return np.unique(values)
    low, high = np.min(values), np.max(values)
    spaced = np.geomspace(low, high, 2 + int(VALUES_PER_OCTAVE * np.log2(high / low)))
    return np.unique(np.round(spaced)) if accelerator.at(path).is_whole else spaced


def _ends(dimension: Dimension) -> np.ndarray:
    return np.array([dimension.axis.values.min(), dimension.axis.values.max()])


def _mark_tables(dimension: Dimension, linked_grids: Mapping[str, LinkedGrid], accelerator: Accelerator) -> Dimension:
    is_source = any(dimension.path in grid.sources for grid in linked_grids.values())
    overheads = {LAUNCH_LATENCY, *HOST_PATHS} & set(accelerator.links.dependents([dimension.path]))
    return replace(dimension, changes_tables=is_source or bool(overheads))


def _parse_dimension(path: str, axis_spec: FreeAxis, accelerator: Accelerator, spec: SweepSpec) -> Dimension:
    continuous = isinstance(axis_spec, RangeAxis) and axis_spec.steps is None
    if isinstance(axis_spec, RangeAxis) and continuous:
        axis_spec = axis_spec.model_copy(update={"steps": 2})
    axis = parse_axis(path, axis_spec, [accelerator])
    capacities, kernel_paths = _tabulated_paths(accelerator, spec)
    if path in (*capacities, *kernel_paths):
        axis = replace(axis, role="tabulated")
        _check_tabulated(axis, "kernel efficiencies" if path in kernel_paths else "bytes")
    log = isinstance(axis_spec, RangeAxis) and axis_spec.scale == "log"
    if not continuous:
        return Dimension(axis, False, log, _index_of_described(axis, _parse_described(accelerator, axis)), len(axis))
    if axis.role == "categorical":
        raise InputError(f"'{path}' changes what is stored, so its values are evaluated separately", "add 'steps', or write a list")
    low, high = axis.values
    if low >= high:
        raise InputError(f"'{path}' goes from more to less", "write the smaller end first")
    return Dimension(axis, True, log, accelerator.value(path), len(axis))


def _parse_described(accelerator: Accelerator, axis: Axis) -> Axis | None:
    """The value of the description at the path of an axis, as an axis of one value; None where the description gives none."""
    value = accelerator.at(axis.path)
    if value is None:
        return None
    if isinstance(value, Quantity):
        yaml_value: object = f"{value.value!r} {value.unit}".strip()
    else:
        yaml_value = list(value) if isinstance(value, tuple) else value if isinstance(value, bool) else str(value)
    return parse_axis(axis.path, [yaml_value], [accelerator])


def _index_of_described(axis: Axis, described: Axis | None) -> int | None:
    """The index of the listed value that equals the description's."""
    equal = np.flatnonzero(axis.values == described.values[0]) if described is not None else []
    return int(equal[0]) if len(equal) else None


def _add_conditions(dimension: Dimension, when: Mapping[str, object], earlier: Sequence[Dimension], accelerator: Accelerator) -> Dimension:
    """The dimension with its conditions, and with the description's value among the values of its axis."""
    if not when:
        return dimension
    conditions = _parse_conditions(dimension.path, when, earlier, accelerator)
    described = _parse_described(accelerator, dimension.axis)
    if described is None:
        message = f"'{accelerator.name}' gives no '{dimension.path}' for the designs in which its condition does not hold"
        raise InputError(message, "add it to the accelerator, or leave 'when' out")
    if dimension.continuous or dimension.described is not None:
        return replace(dimension, conditions=conditions)
    axis = dimension.axis
    extended = replace(
        axis, yaml_values=(*axis.yaml_values, *described.yaml_values), values=np.concatenate([axis.values, described.values])
    )
    return replace(dimension, axis=extended, described=len(axis), conditions=conditions)


def _parse_conditions(
    path: str, when: Mapping[str, object], earlier: Sequence[Dimension], accelerator: Accelerator
) -> tuple[tuple[int, int], ...]:
    """Indices of dimensions and of their required values. Dimensions come before those that depend on them, so there are no cycles."""
    names, conditions = [dimension.path for dimension in earlier], []
    for other, value in when.items():
        if other not in names:
            raise InputError(f"'{path}' depends on '{other}', which is not an axis before it", did_you_mean(other, names))
        number = names.index(other)
        conditions.append((number, _index_of_value(earlier[number], value, accelerator)))
    return tuple(conditions)


def _index_of_value(dimension: Dimension, value: object, accelerator: Accelerator) -> int:
    """The index of a value of a dimension, which is written as in a description."""
    path, axis = dimension.path, dimension.axis
    if dimension.continuous:
        raise InputError(f"'{path}' takes any value of a range, and a condition is about single ones", "give it 'steps', or write a list")
    (required,) = parse_axis(path, [value], [accelerator]).values
    is_equal = np.isclose(axis.values, required, rtol=ROUNDING, atol=0) if axis.values.dtype.kind == "f" else axis.values == required
    if not is_equal.any():
        texts = [format_quantity(label, axis.unit or "1") if isinstance(label, float) else str(label) for label in axis.values.tolist()]
        raise InputError(f"'{path}' is never '{value}'", f"write one of its values: {', '.join(texts)}")
    return int(np.flatnonzero(is_equal)[0])


def _check_tabulated(axis: Axis, what: str) -> None:
    if len(axis) > MAX_TABULATED:
        raise InputError(f"{what} are tabulated for each value of '{axis.path}'", f"write at most {MAX_TABULATED} steps, or none")


def _check_enumerable(space: Space, document: YamlDocument) -> None:
    """Raise InputError if the designs of an exhaustive search are continuous or too many."""
    message, fix = "is continuous, so its designs cannot be enumerated", "give it 'steps', or choose another sampler"
    paths = [space.dimensions[number].path for number in space.continuous]
    problems = [document.make_problem(("axes", path), message, fix) for path in paths]
    if space.size is not None and space.size > MAX_ENUMERATED:
        message, fix = (
            f"{space.size:.3g} designs are too many for 'exhaustive'",
            f"stay below {MAX_ENUMERATED:g}, or choose another sampler",
        )
        problems.append(document.make_problem(("search", "sampler"), message, fix))
    if problems:
        raise InputError.from_problems(problems)


def _check_tabulated_combinations(space: Space, document: YamlDocument) -> None:
    """The efficiency of measured kernels is tabulated for all combinations of the numbers that it depends on."""
    grids = {path: grid for path, grid in space.grids.items() if path.startswith("units.")}
    if (count := math.prod(map(len, grids.values()))) > MAX_TABULATED:
        message = f"kernel efficiencies are tabulated for each of {count} combinations of {', '.join(grids)}"
        fix = f"write lists or fewer steps: at most {MAX_TABULATED} combinations"
        raise InputError.from_problems([document.make_problem(("axes", next(iter(grids))), message, fix)])
