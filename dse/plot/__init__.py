"""Figures of a dataset, each with the table that it draws as a CSV beside it.

`FIGURES[kind](dataset)` returns a matplotlib figure and that table. No global style is touched and pyplot is
not imported; the `draw` functions take an axes and a table, for figures of one's own.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from dse.base import atomic_write
from dse.base.errors import InputError, UnfinishedError
from dse.plot import capacity, efficiency, layers, roofline, sparsity_roofline, speedup
from dse.sweeping import provenance
from dse.sweeping.plan import MAX_VARIANTS_IN_LAYERS_PLOT

FIGURES: dict[str, Callable[..., tuple[Figure, pd.DataFrame]]] = {
    "sparsity_roofline": sparsity_roofline.figure,
    "speedup": speedup.figure,
    "roofline": roofline.figure,
    "layers": layers.figure,
    "capacity": capacity.figure,
    "efficiency": efficiency.figure,
}


def kinds_of(dataset: xr.Dataset) -> tuple[str, ...]:
    """The figures that the dataset's specification asks for, else all that can be drawn of it."""
    asked = provenance.specification(dataset).plots
    possible = {"sparsity_roofline": "speedup" in dataset and bool(dataset.accuracy.notnull().any()), "speedup": "speedup" in dataset}
    possible["layers"] = dataset.variant.size <= MAX_VARIANTS_IN_LAYERS_PLOT
    possible["capacity"] = "speedup" in dataset and any(str(dim).endswith(".capacity") and dataset.sizes[dim] > 1 for dim in dataset.dims)
    possible["efficiency"] = "speedup" in dataset and bool(efficiency.efficiencies(dataset))
    return asked or tuple(kind for kind in FIGURES if possible.get(kind, True))


def save_all(dataset: xr.Dataset, kinds: Iterable[str], folder: Path, prefix: str = "", **options: Any) -> list[Path]:
    """Draw each kind of figure as PREFIX + KIND + .png and .csv in `folder`; returns the paths. Raises NotDrawnError if some cannot be
    drawn, after the others are.
    """
    _check_whole(dataset)
    stems = {kind: folder / f"{prefix}{kind}" for kind in kinds}
    atomic_write.check_writable(*(file for stem in stems.values() for file in files(stem)))
    written, failed = list[Path](), dict[str, InputError]()
    for kind, stem in stems.items():
        try:
            figure, table = FIGURES[kind](dataset, **options)
        except InputError as error:
            failed[kind] = error
        else:
            written += save(figure, table, stem)
    if failed:
        raise NotDrawnError(written, failed)
    return written


class NotDrawnError(UnfinishedError):
    """Some figures of a dataset cannot be drawn; `written` has the files of the others."""

    def __init__(self, written: list[Path], failed: Mapping[str, InputError]):
        super().__init__("\n".join(f"{kind} was not drawn: {error}" for kind, error in failed.items()))
        self.written = written
        self.problems = tuple(problem for error in failed.values() for problem in error.problems)


def _check_whole(dataset: xr.Dataset) -> None:
    """Raises InputError for a dataset of single points, as a front is, or without the labels of a sweep's results."""
    missing = [name for name in ("accelerator", "batch", "dtype", "variant") if name not in dataset.coords]
    if "point" in dataset.dims or missing:
        what = f"has no '{missing[0]}'" if missing else "holds single points"
        raise InputError(f"the dataset {what}: figures need all results of a sweep", "give what 'dse sweep' writes with 'keep: all'")


def files(stem: Path) -> list[Path]:
    """Of a figure and its table: STEM.png and STEM.csv."""
    return [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "csv")]


def save(figure: Figure, table: pd.DataFrame, stem: Path) -> list[Path]:
    """Write STEM.png and STEM.csv; returns the paths."""
    png, csv = files(stem)
    atomic_write.replace_file(png, lambda path: figure.savefig(path, dpi=150, format="png"))
    atomic_write.replace_file(csv, lambda path: table.to_csv(path, index=False))
    return [png, csv]
