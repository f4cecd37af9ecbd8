"""The cloud of all points behind a Pareto front; of very many, one point for each cell of a fine grid."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float, Int

from dse.plot.selection import Table
from dse.sweeping.objectives import objective_columns, with_accuracy_drop
from dse.sweeping.pareto import group_cells, select_cells

LOG_SCALE_RATIO = 30  # ratio of the largest to the smallest value from which an axis is logarithmic
MAX_POINTS = 200_000  # of a cloud that is drawn point by point
CELLS = 1000  # of a larger one along each axis: about as many as a panel has pixels
CHUNK = 2**17


def visible_points(dataset: xr.Dataset, group: Mapping[str, object], names: Sequence[str], pair: tuple[str, str]) -> Table:
    """The points of a group of cells that are finite in all of some results, with two of these as columns.

    `group`: values of the coordinates of `group_cells` that the points have; empty for all points.
    """
    dims, columns = objective_columns(with_accuracy_drop(dataset, names), names)
    groups = group_cells(dataset, dims, pool=not group)
    indices = next((indices for labels, indices in groups if all(labels[name] == group[name] for name in labels)), {})
    values = [select_cells(column, dims, indices).ravel().astype(float, copy=False) for column in columns]
    finite = np.logical_and.reduce([np.isfinite(column) for column in values])
    if not finite.all():
        values = [column[finite] for column in values]
    x, y = (values[names.index(name)] for name in pair)
    shown = select_visible(x, y)
    return pd.DataFrame({name: column[shown] for name, column in zip(pair, (x, y), strict=True)})


def is_wide(low: float, high: float) -> bool:
    """Whether an axis from `low` to `high` is logarithmic."""
    return low > 0 and high > LOG_SCALE_RATIO * low


def select_visible(x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"]) -> Int[np.ndarray, " shown"]:
    """Indices of all points, or of one for each occupied cell of a fine grid, and of those at the ends of both axes."""
    if len(x) <= MAX_POINTS:
        return np.arange(len(x))
    shown = np.full(CELLS * CELLS, -1)
    ends = [(column.min(), column.max()) for column in (x, y)]
    for start in range(0, len(x), CHUNK):
        rows, columns = (_cell(column[start : start + CHUNK], *limits) for column, limits in zip((x, y), ends, strict=True))
        shown[rows * CELLS + columns] = np.arange(start, start + len(rows))
    ends_of_axes = np.array([x.argmin(), x.argmax(), y.argmin(), y.argmax()])
    return np.unique(np.concatenate([shown[shown >= 0], ends_of_axes]))


def _cell(values: Float[np.ndarray, " point"], low: float, high: float) -> Int[np.ndarray, " point"]:
    if is_wide(low, high):
        values, low, high = np.log(values), np.log(low), np.log(high)
    share = (values - low) * ((CELLS - 1) / (high - low or 1.0))
    return np.clip(share, 0, CELLS - 1).astype(int)
