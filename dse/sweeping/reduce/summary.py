"""Summarise a sweep: range, mean and histogram of every result, and the range and mean at each value of every axis."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from dse.schema.stored_results import ATTRIBUTES
from dse.sweeping.reduce.reducer import Partial, Region, ResultFrame

BINS_PER_DECADE = 20
EDGES = 10.0 ** (np.arange(-25 * BINS_PER_DECADE, 25 * BINS_PER_DECADE + 1) / BINS_PER_DECADE)  # in SI units; values beyond are not counted
MERGE = {"min": np.minimum, "max": np.maximum, "sum": np.add, "count": np.add, "histogram": np.add}
EMPTY = {"min": np.inf, "max": -np.inf, "sum": 0.0, "count": 0.0, "histogram": 0.0}
SETTING_DIMS = ("accelerator", "batch", "dtype", "variant")  # statistics are separate for each value of these

Key = tuple[str, str, str]  # result, statistic, and the axis along which it is given or ""
Block = tuple[np.ndarray, np.ndarray]  # values of a region, and where it begins along each dimension


def count_bytes(dims: Mapping[str, int], sample: xr.Dataset) -> int:
    """Size of the statistics of all results along each axis, for a sweep of these dimensions."""
    values = 0
    for variable in sample.values():
        sizes = {str(dim): dims.get(str(dim), 1) for dim in variable.dims}
        settings = int(np.prod([size for dim, size in sizes.items() if dim in SETTING_DIMS]))
        values += settings * sum(size for dim, size in sizes.items() if dim not in SETTING_DIMS)
    return values * 4 * 8  # min, max, sum and count


class SummaryReducer:
    """Statistics of each result, for each accelerator, batch, dtype and variant: over all designs, and at each value of an axis.

    Values that are not finite do not count. A partial holds for each key the statistic over a region of its dimensions and, with the
    prefix `@`, where the region begins. Sums are rounded, so their order matters: chunks are added to their group, and groups to the
    total, always in order.
    """

    def __init__(self, frame: ResultFrame):
        self.frame = frame
        self.summarised = [
            str(name)
            for name, variable in frame.template.items()
            if variable.dtype.kind in "fb" and set(map(str, variable.dims)) <= frame.dims.keys()
        ]

    def reduce_chunk(self, chunk: xr.Dataset, region: Region) -> Partial:
        partial: Partial = {}
        for key, statistic in self._statistics(chunk):
            if self._is_counted_before(key[0], region):
                continue
            name, starts = " ".join(key), [region[str(dim)].start if dim in region else 0 for dim in statistic.dims]
            values = statistic.values.astype(float)
            if key[1] == "histogram" and len(filled := np.flatnonzero(values.reshape(-1, values.shape[-1]).any(axis=0))):
                starts[-1], values = int(filled[0]), values[..., filled[0] : filled[-1] + 1]
            partial |= {name: values, f"@{name}": np.array(starts, int)}
        return partial

    def merge(self, partials: Sequence[Partial]) -> Partial:
        """Merge partials in their order; the arrays of the first one may be reused."""
        total, *others = partials
        for partial in others:
            for name in partial:
                if name not in total:
                    total[name] = partial[name]
                elif not name.startswith("@"):
                    first, second = ((one[name], one[f"@{name}"]) for one in (total, partial))
                    total[name], total[f"@{name}"] = _merge_blocks(first, second, name.split(" ")[1])
        return total

    def learn_from_chunk(self, partial: Partial) -> None:
        """Do nothing: every chunk counts completely."""

    def to_dataset(self, partial: Partial) -> xr.Dataset:
        """`NAME_min`, `_mean`, `_max` and `_count`, and the same along each axis as `NAME_mean_by_AXIS`.

        `NAME_histogram` is along `bin`, whose coordinate holds the lower edges.
        """
        statistics, sizes = {}, {**self.frame.dims, "bin": len(EDGES) - 1}
        for key, sample in self._statistics(self.frame.template):
            name, shape = " ".join(key), [sizes[str(dim)] for dim in sample.dims]
            empty = (np.full(shape, EMPTY[key[1]]), np.zeros(len(shape), int))
            block = (partial[name], partial[f"@{name}"]) if name in partial else empty  # missing in an incomplete sweep
            statistics[key] = (sample.dims, _merge_blocks(empty, block, key[1])[0])
        labels = self.frame.labels.drop_vars(["resource", "execution"], errors="ignore").assign_coords(bin=("bin", EDGES[:-1]))
        return _trim_histograms(labels.assign(dict(_variables(statistics))))

    def _is_counted_before(self, name: str, region: Region) -> bool:
        """Whether an earlier chunk had the same values: a result without some dimension, as an area without batch, is counted once."""
        return any(covered.start > 0 for dim, covered in region.items() if dim not in self.frame.template[name].dims)

    def _statistics(self, chunk: xr.Dataset) -> Iterator[tuple[Key, xr.DataArray]]:
        for name in self.summarised:
            values, finite = chunk[name].astype(float), np.isfinite(chunk[name])
            columns = {
                "min": values.where(finite, np.inf),
                "max": values.where(finite, -np.inf),
                "sum": values.where(finite, 0.0),
                "count": finite,
            }
            axes = [dim for dim in values.dims if dim not in SETTING_DIMS]
            for along in ("", *map(str, axes)):
                for statistic, column in columns.items():
                    method = "sum" if statistic == "count" else statistic
                    yield (name, statistic, along), getattr(column, method)([axis for axis in axes if axis != along])
            yield (name, "histogram", ""), _histogram(columns["sum"])


def _histogram(values: xr.DataArray) -> xr.DataArray:
    settings = [dim for dim in values.dims if dim in SETTING_DIMS]
    ordered = values.transpose(*settings, *(dim for dim in values.dims if dim not in SETTING_DIMS)).values
    shape = ordered.shape[: len(settings)]
    rows = ordered.reshape(int(np.prod(shape)), -1)
    counts = np.stack([np.histogram(row, EDGES)[0] for row in rows]).astype(float)
    return xr.DataArray(counts.reshape(*shape, -1), dims=[*settings, "bin"])


def _merge_blocks(first: Block, second: Block, statistic: str) -> Block:
    """The block that covers both; the first is reused if it does."""
    (values, start), (added, added_start) = first, second
    low, high = np.minimum(start, added_start), np.maximum(start + values.shape, added_start + added.shape)
    if (low < start).any() or (high > start + values.shape).any():
        wider = np.full(high - low, EMPTY[statistic])
        wider[_slices(start - low, values.shape)] = values
        values = wider
    overlap = values[_slices(added_start - low, added.shape)]
    MERGE[statistic](overlap, added, out=overlap)
    return values, low


def _slices(start: np.ndarray, shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(first, first + length) for first, length in zip(start.tolist(), shape, strict=True))


def _variables(statistics: dict[Key, tuple[tuple, np.ndarray]]) -> Iterator[tuple[str, tuple]]:
    """The variables of the dataset: sums become means, and statistics of no values become NaN."""
    for (name, statistic, along), (dims, values) in statistics.items():
        if statistic in ("min", "max", "sum"):
            count = statistics[name, "count", along][1]
            values = np.where(count > 0, values / (np.maximum(count, 1) if statistic == "sum" else 1), np.nan)
        statistic = "mean" if statistic == "sum" else statistic
        yield f"{name}_{statistic}" + (f"_by_{along}" if along else ""), (dims, values, _attributes(name, statistic, along))


def _attributes(name: str, statistic: str, along: str) -> dict[str, str]:
    is_count, attributes = statistic in ("count", "histogram"), ATTRIBUTES.get(name, {})
    long_name = f"{'number of designs' if is_count else statistic} of: {attributes.get('long_name', name)}"
    units = "1" if is_count else attributes.get("units", "1")
    return {"units": units, "long_name": long_name + (f", at each {along}" if along else "")}


def _trim_histograms(dataset: xr.Dataset) -> xr.Dataset:
    """Remove the bins at both ends that are empty in all histograms."""
    histograms = [variable for variable in dataset.values() if "bin" in variable.dims]
    filled = [np.flatnonzero(variable.sum([dim for dim in variable.dims if dim != "bin"])) for variable in histograms]
    bins = np.concatenate([*filled, np.zeros(0, int)])
    return dataset.isel(bin=slice(int(bins.min()), int(bins.max()) + 1) if len(bins) else slice(0))
