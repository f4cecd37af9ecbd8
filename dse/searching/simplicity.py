"""How simple a design is, and the simplest design that is equivalent to one: what a search reports of several equal designs."""

import numpy as np
from jaxtyping import Float

from dse.searching.evaluator import Evaluator
from dse.searching.space import Dimension, Points, Space

LESS_IS_BETTER = ("area", "power", "energy", "edp")
EQUAL = 1e-12  # relative


def complexity(space: Space, points: Points) -> Float[np.ndarray, "design 3"]:
    """Runs that are switched on, axes that differ from the description, and the sum of the logarithms of the ratios to it; designs are
    compared by the first number, then by the next ones."""
    found = np.zeros((len(points), 3))
    for number, dimension in enumerate(space.dimensions):
        values, own = _labels(dimension, points[:, number]), space.accelerator.value(dimension.path)
        if _is_switch(dimension):
            found[:, 0] += values
        found[:, 1] += points[:, number] != (np.nan if dimension.usual is None else dimension.usual)
        if not dimension.categorical and own:
            found[:, 2] += np.abs(np.log(values / own))
    return found


def simplified(evaluator: Evaluator, points: Points) -> Points:
    """Equivalent designs [design]: runs that no network uses switched off, then every axis that changes no result at the description's
    value, one axis after the other in their order."""
    points = points.copy()
    results, objectives, _ = evaluator.evaluated(points)
    for number, dimension in enumerate(evaluator.space.dimensions):
        if (simplest := _simplest(dimension)) is None:
            continue
        changed = points.copy()
        changed[:, number] = simplest
        changed = evaluator.space.canonical(changed)
        rows = np.flatnonzero((changed != points).any(axis=1))
        if not len(rows):
            continue
        after, new, excess = evaluator.evaluated(changed[rows])
        accepted = _no_worse({name: values[rows] for name, values in results.items()}, after)
        accepted &= (excess <= 0).all(axis=1) & (new <= objectives[rows] + EQUAL * np.abs(objectives[rows])).all(axis=1)
        taken = rows[accepted]
        points[taken], objectives[taken] = changed[taken], new[accepted]
        for name, values in after.items():
            results[name][taken] = values[accepted]
    return points


def _simplest(dimension: Dimension) -> float | None:
    """The row entry of the simplest value of a dimension that may be chosen; None where there is none."""
    if _is_switch(dimension):
        off = np.flatnonzero(~dimension.axis.values[: dimension.choices].astype(bool))
        return float(off[0]) if len(off) else None
    if dimension.usual is None:
        return None
    if dimension.continuous:
        low, high = dimension.axis.values
        return dimension.usual if low <= dimension.usual <= high else None
    return float(dimension.usual) if dimension.usual < dimension.choices else None


def _no_worse(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> np.ndarray:
    """Which designs keep every result as it is, costs that fall aside [design]."""
    same = np.ones(len(next(iter(after.values()))), bool)
    for name, values in before.items():
        tolerance = EQUAL * np.abs(values)
        same &= np.asarray(after[name] <= values + tolerance if name in LESS_IS_BETTER else np.abs(after[name] - values) <= tolerance)
    return same


def _labels(dimension: Dimension, column: np.ndarray) -> np.ndarray:
    return column if dimension.continuous else dimension.axis.values[column.astype(int)]


def _is_switch(dimension: Dimension) -> bool:
    return dimension.path.endswith(".enabled")
