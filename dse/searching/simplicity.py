"""The complexity of a design, and the simplest design with the same results: which of several equal designs a search reports."""

import numpy as np
from jaxtyping import Bool, Float

from dse.searching.evaluator import Evaluator
from dse.searching.space import RUN_SETTINGS, DesignMatrix, Dimension, Space

LESS_IS_BETTER = ("area", "power", "energy", "edp")
TOLERANCE = 1e-12  # relative difference of results that count as equal


def complexity(space: Space, designs: DesignMatrix) -> Float[np.ndarray, "design 3"]:
    """Measures of complexity, compared in their order.

    These are the number of enabled runs, the number of axes that differ from the description, and the sum of the absolute logarithms of
    the ratios to the description.
    """
    measures = np.zeros((len(designs), 3))
    for number, dimension in enumerate(space.dimensions):
        values = dimension.decode(designs[:, number])
        described = None if dimension.path in RUN_SETTINGS else space.accelerator.value(dimension.path)
        if _is_switch(dimension):
            measures[:, 0] += values
        measures[:, 1] += designs[:, number] != (np.nan if dimension.described is None else dimension.described)
        if not dimension.categorical and described:
            measures[:, 2] += np.abs(np.log(values / described))
    return measures


def simplify_designs(evaluator: Evaluator, designs: DesignMatrix) -> DesignMatrix:
    """The simplest equivalent of each design.

    Runs that no network uses are disabled; then every axis that changes no result gets the value of the description, one axis after the
    other.
    """
    designs = designs.copy()
    results, objectives, _ = evaluator.evaluate_and_score(designs)
    for number, dimension in enumerate(evaluator.space.dimensions):
        if (simplest := _simplest_value(dimension)) is None:
            continue
        changed = designs.copy()
        changed[:, number] = simplest
        changed = evaluator.space.canonicalize(changed)
        rows = np.flatnonzero((changed != designs).any(axis=1))
        if not len(rows):
            continue
        new_results, new_objectives, excess = evaluator.evaluate_and_score(changed[rows])
        is_equivalent = _are_no_worse({name: values[rows] for name, values in results.items()}, new_results)
        is_equivalent &= (excess <= 0).all(axis=1)
        is_equivalent &= (new_objectives <= objectives[rows] + TOLERANCE * np.abs(objectives[rows])).all(axis=1)
        accepted = rows[is_equivalent]
        designs[accepted], objectives[accepted] = changed[accepted], new_objectives[is_equivalent]
        for name, values in new_results.items():
            results[name][accepted] = values[is_equivalent]
    return designs


def _simplest_value(dimension: Dimension) -> float | None:
    """The encoded simplest value that a dimension may have; None if there is none."""
    if _is_switch(dimension):
        disabled = np.flatnonzero(~dimension.axis.values[: dimension.choices].astype(bool))
        return float(disabled[0]) if len(disabled) else None
    if dimension.described is None:
        return None
    if dimension.continuous:
        low, high = dimension.axis.values
        return dimension.described if low <= dimension.described <= high else None
    return float(dimension.described) if dimension.described < dimension.choices else None


def _are_no_worse(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> Bool[np.ndarray, "design"]:
    """Which designs keep every result, except for costs that decrease."""
    no_worse = np.ones(len(next(iter(after.values()))), bool)
    for name, values in before.items():
        tolerance = TOLERANCE * np.abs(values)
        no_worse &= np.asarray(after[name] <= values + tolerance if name in LESS_IS_BETTER else np.abs(after[name] - values) <= tolerance)
    return no_worse


def _is_switch(dimension: Dimension) -> bool:
    return dimension.path.endswith(".enabled")
