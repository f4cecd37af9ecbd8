"""`results.dse`: the analyses of this package as methods of an xarray dataset of results.

`import dse` registers the accessor; this module is imported when it is first used.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from dse import plot
from dse.base.display_units import select_unit
from dse.base.errors import InputError
from dse.explaining.explain import explain_sides
from dse.explaining.explanation import Explanation
from dse.explaining.side import Side
from dse.report.best_designs import best_designs, make_ranking, with_all_dims
from dse.report.result_kind import result_kind
from dse.report.result_table import Format, render
from dse.report.show_results import ShowOptions, allowed_drop, front_objectives, result_tables
from dse.schema.figures import FigureKind
from dse.sweeping import provenance
from dse.sweeping.axis import Axis
from dse.sweeping.iso_speedup import iso_speedup
from dse.sweeping.pareto import pareto
from dse.sweeping.plan import Plan
from dse.sweeping.select_values import select_values

Selection = Mapping[str, object]  # values of coordinates by name: numbers in SI units, or text with a unit
EXPLAINED_LABELS = ("accelerator", "batch", "dtype", "variant")


class ResultsAccessor:
    """Analyses of the results of a sweep, `results.dse`.

    Every method raises InputError if the dataset does not hold what it needs.

    Examples:
        >>> import dse
        >>> results = dse.sweep({
        ...     "name": "bandwidth", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16", "batch": [1, 32],
        ...     "axes": {"memory.dram.bandwidth": ["1 TB/s", "2 TB/s", "4 TB/s"]},
        ... })
        >>> results.dse.best(top=1)[["batch", "memory.dram.bandwidth", "pattern"]]
           batch  memory.dram.bandwidth pattern
        0      1           4.000000e+12     2:4
        1     32           4.000000e+12     2:4
    """

    def __init__(self, dataset: xr.Dataset):
        self.dataset = dataset

    def best(
        self,
        top: int = 10,
        *,
        maximize: str | None = None,
        minimize: str | None = None,
        drop: float | None = None,
        any_accuracy: bool = False,
    ) -> pd.DataFrame:
        """The best designs of each network and batch size, each with the best variant that loses little enough accuracy.

        Args:
            top: rows of each network and batch size.
            maximize: the result that designs are ranked by, instead of the lowest latency.
            minimize: the result that designs are ranked by.
            drop: allowed loss of accuracy, in points of the metric (default: that of the specification).
            any_accuracy: rank all variants, at any loss of accuracy.

        Returns:
            One row for each design in SI units; `attrs["units"]` of the table names them.

        Examples:
            >>> fastest = results.dse.best(top=3, maximize="speedup")
        """
        if result_kind(self.dataset) != "sweep":
            raise InputError("the dataset does not hold all results of a sweep", "give a dataset of 'dse.sweep' with 'keep: all'")
        dataset = with_all_dims(self.dataset)
        limit = allowed_drop(dataset, ShowOptions(drop=drop, any_accuracy=any_accuracy))
        return best_designs(dataset, make_ranking(dataset, maximize, minimize, limit), top)

    def show(self, top: int | None = None, style: Format = "table") -> str:
        """The tables that `dse show` prints: best designs, bounds and front, in units that people use.

        Args:
            top: rows of each network and batch size (default: 10 of one, 3 of up to 4, else 1).
            style: `table`, `csv`, `json` or `markdown`.

        Examples:
            >>> text = results.dse.show(top=3, style="markdown")
        """
        return render(result_tables(self.dataset, ShowOptions(top=top)), style)

    def select(self, values: Selection) -> xr.Dataset:
        """The results at values of coordinates; numbers may be text with a unit. Every dim stays.

        Examples:
            >>> part = results.dse.select({"batch": 32, "memory.dram.bandwidth": "2 TB/s"})
        """
        return select_values(self.dataset, {name: str(value) for name, value in values.items()})

    def pareto(
        self,
        maximize: Sequence[str] = (),
        minimize: Sequence[str] = (),
        reference: Mapping[str, float] | None = None,
        ties: bool = True,
        pool: bool = False,
    ) -> xr.Dataset:
        """The Pareto fronts, as `dse.pareto` finds them; without objectives: latency and area or power, else speedup and loss of accuracy.

        Examples:
            >>> front = results.dse.pareto(maximize=["speedup"], minimize=["memory.dram.bandwidth"])
        """
        if not maximize and not minimize:
            maximize, minimize = front_objectives(self.dataset)
        return pareto(self.dataset, maximize, minimize, reference, ties, pool)

    def iso_speedup(self, drop: float = 1.0, relative: bool = False) -> xr.Dataset:
        """The best speedup within a loss of accuracy, as `dse.iso_speedup` finds it.

        Examples:
            >>> best = results.dse.iso_speedup(drop=1.0)
        """
        return iso_speedup(self.dataset, drop, relative)

    def explain(self, a: Selection | int, b: Selection | int | None = None, quantity: str | None = None) -> Explanation:
        """Why two results differ, or, of one, why the network is not as fast as its pattern allows, as `dse.explain` answers.

        Args:
            a: values of coordinates that select one result; of a dataset of points, the index of a point.
            b: the other result, in the same form; what it does not state is as in `a`.
            quantity: `latency` (default for two results), `speedup`, `energy`, `area` or `power`.

        Raises:
            InputError: a selection leaves several results, or a description has changed since the sweep.

        Examples:
            >>> why = results.dse.explain(
            ...     {"batch": 1, "variant": 0, "memory.dram.bandwidth": "1 TB/s"}, {"memory.dram.bandwidth": "4 TB/s"}
            ... )
        """
        plan = provenance.rebuild_plan(self.dataset)
        first = self._one_result(a)
        if b is None:
            return explain_sides(_make_side(first, plan), quantity=quantity)
        second = self._one_result(b if isinstance(b, int) or isinstance(a, int) else {**a, **b})
        return explain_sides(_make_side(first, plan), _make_side(second, plan), quantity)

    @property
    def plot(self) -> "ResultsPlots":
        """The figures: `results.dse.plot.roofline()`, and so on for every kind of `dse plot`."""
        return ResultsPlots(self.dataset)

    def _one_result(self, selection: Selection | int) -> xr.Dataset:
        """The labels of the one result that a selection leaves."""
        labels = self.dataset.drop_vars(list(self.dataset.data_vars)).drop_vars(["resource", "execution"], errors="ignore")
        if isinstance(selection, int):
            if "point" not in labels.dims or not -labels.sizes["point"] <= selection < labels.sizes["point"]:
                raise InputError(f"there is no point {selection}", "give the index of a point of a front, or values of coordinates")
            return labels.isel(point=selection)
        part = select_values(labels, {name: str(value) for name, value in selection.items()})
        several = [str(dim) for dim, size in part.sizes.items() if size > 1]
        if several:
            raise InputError(f"the selection leaves several values of {', '.join(several)}", f"add a value, as in '{several[0]}=...'")
        return part.squeeze()


def _make_side(labels: xr.Dataset, plan: Plan) -> Side:
    """One side of an explanation from the labels of one result."""
    if missing := [name for name in EXPLAINED_LABELS if name not in labels.coords]:
        raise InputError(f"the dataset has no '{missing[0]}', so single results cannot be explained", "give a dataset of 'dse.sweep'")
    values = {axis.path: _description_value(axis, labels[axis.path].item()) for axis in plan.axes}
    accelerator = next(each for each in plan.accelerators if each.name == labels.accelerator.item()).replace(values)
    dtype = next(each for each in plan.spec.dtype if each.label == str(labels.dtype.item()))
    return Side(accelerator, plan.variants[int(labels.variant)], int(labels.batch), dtype, plan.spec.model)


def _description_value(axis: Axis, value: object) -> object:
    """A value of an axis as a description states it, numbers in a unit that people use: '4 TB/s'."""
    if isinstance(value, float):
        unit = select_unit(axis.unit, [value])
        return f"{float(unit.convert(value)):.12g} {unit.text}".strip()
    return axis.yaml_values[int(np.flatnonzero(axis.values == value)[0])]


class ResultsPlots:
    """The figures of a dataset of results, `results.dse.plot`.

    Examples:
        >>> figure = results.dse.plot.speedup()
        >>> figure.savefig("speedup.pdf")
    """

    def __init__(self, dataset: xr.Dataset):
        self.dataset = dataset

    def sparsity_roofline(self) -> Figure:
        """Accuracy against speedup, a curve for each pruning method and pattern."""
        return self._draw("sparsity_roofline")

    def speedup(self) -> Figure:
        """Speedup against sparsity, a curve for each pattern."""
        return self._draw("speedup")

    def axis(self, x: str | None = None, y: str | None = None) -> Figure:
        """A result `y` against a swept axis `x`, a curve for each variant."""
        return self._draw("axis", x, y)

    def inputs(self, x: str | None = None, y: str | None = None) -> Figure:
        """The gain, or a result `y`, against a number `x` that the networks run on."""
        return self._draw("inputs", x, y)

    def pareto(self, x: str | None = None, y: str | None = None) -> Figure:
        """The Pareto fronts of two results over all points."""
        return self._draw("pareto", x, y)

    def roofline(self) -> Figure:
        """Performance against operational intensity, a marker for each layer."""
        return self._draw("roofline")

    def layers(self) -> Figure:
        """Speedup of each layer, a column for each variant."""
        return self._draw("layers")

    def capacity(self) -> Figure:
        """Speedup at each on-chip capacity, relative to that at the largest."""
        return self._draw("capacity")

    def efficiency(self) -> Figure:
        """Speedup against the ratio of sparse to dense kernel efficiency."""
        return self._draw("efficiency")

    def _draw(self, kind: FigureKind, x: str | None = None, y: str | None = None) -> Figure:
        return plot.draw_figure(kind, self.dataset, x, y)[0]
