"""What a sweep is like as a whole: range, mean and histogram of every result, and how they go along each axis."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from dse.explore.plan import Plan
from dse.explore.results import ATTRS

BINS = 20  # of a histogram, a decade
EDGES = 10.0 ** (np.arange(-25 * BINS, 25 * BINS + 1) / BINS)  # in SI units; what lies beyond them is not in a histogram
FOLD = {"min": np.minimum, "max": np.maximum, "sum": np.add, "count": np.add}
START = {"min": np.inf, "max": -np.inf, "sum": 0.0, "count": 0.0}

Key = tuple[str, str, str]  # result, statistic, axis or nothing


@dataclass
class Summary:
    """For each accelerator, batch, dtype and variant, statistics of each result over all designs and over those at each value of an
    axis. What is not finite does not count."""

    plan: Plan
    found: dict[Key, xr.DataArray] = field(default_factory=dict)

    @property
    def axes(self) -> list[str]:
        return [axis.path for axis in self.plan.axes]

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice]) -> tuple[Mapping[str, slice], dict[Key, xr.DataArray]]:
        """The statistics of a piece, and where they belong."""
        plain = [
            found for found in piece.data_vars.values() if found.dtype.kind == "f" and set(map(str, found.dims)) <= self.plan.dims.keys()
        ]
        return region, {key: part for found in plain for key, part in self._statistics(found)}

    def _statistics(self, values: xr.DataArray) -> Iterator[tuple[Key, xr.DataArray]]:
        name, known = str(values.name), np.isfinite(values)
        numbers = {"min": values.where(known, np.inf), "max": values.where(known, -np.inf), "sum": values.where(known, 0.0), "count": known}
        present = [axis for axis in self.axes if axis in values.dims]
        for kept in ("", *present):
            for statistic, column in numbers.items():
                reduce = "sum" if statistic == "count" else statistic
                yield (name, statistic, kept), getattr(column, reduce)([axis for axis in present if axis != kept])
        yield (name, "histogram", ""), self._histogram(values.where(known, 0.0), present)

    def _histogram(self, values: xr.DataArray, present: list[str]) -> xr.DataArray:
        others = [dim for dim in values.dims if dim not in present]
        rows = values.transpose(*others, *present).values
        flat = rows.reshape(int(np.prod(rows.shape[: len(others)])), -1)
        counts = np.stack([np.histogram(row, EDGES)[0] for row in flat]).astype(float)
        return xr.DataArray(counts.reshape(*rows.shape[: len(others)], -1), dims=[*others, "bin"])

    def take(self, narrowed: tuple[Mapping[str, slice], dict[Key, xr.DataArray]]) -> None:
        region, statistics = narrowed
        for key, part in statistics.items():
            if key not in self.found:
                sizes = self.plan.dims | {"bin": len(EDGES) - 1}
                self.found[key] = xr.DataArray(np.full([sizes[str(dim)] for dim in part.dims], START.get(key[1], 0.0)), dims=part.dims)
            at = tuple(region.get(str(dim), slice(None)) for dim in part.dims)
            whole = self.found[key].values
            whole[at] = FOLD.get(key[1], np.add)(whole[at], part.values)

    def result(self) -> xr.Dataset:
        """`NAME_min`, `_mean`, `_max` and `_count`, and the same along each axis as `NAME_mean_by_AXIS`; `NAME_histogram` along `bin`,
        whose lower edges are its coordinate."""
        found = {}
        for (name, statistic, kept), values in self.found.items():
            if statistic == "sum":
                statistic, values = "mean", values / self.found[name, "count", kept]
            found[f"{name}_{statistic}" + (f"_by_{kept}" if kept else "")] = values.assign_attrs(_attrs(name, statistic, kept))
        return _trimmed(xr.Dataset(found).assign_coords(bin=("bin", EDGES[:-1])))


def _attrs(name: str, statistic: str, kept: str) -> dict[str, str]:
    counted = statistic in ("count", "histogram")
    what = f"{'designs' if counted else statistic} of: {ATTRS.get(name, {}).get('long_name', name)}"
    return {"units": "1" if counted else ATTRS.get(name, {}).get("units", "1"), "long_name": what + (f", at each {kept}" if kept else "")}


def _trimmed(found: xr.Dataset) -> xr.Dataset:
    """Without empty bins at either end."""
    filled = [np.flatnonzero(value.sum([dim for dim in value.dims if dim != "bin"])) for value in found.values() if "bin" in value.dims]
    ends = np.concatenate([*filled, np.zeros(0, int)])
    return found.isel(bin=slice(int(ends.min()), int(ends.max()) + 1) if len(ends) else slice(0))
