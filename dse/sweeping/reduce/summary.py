"""What a sweep is like as a whole: range, mean and histogram of every result, and how they go along each axis."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from dse.sweeping.reduce.cells import Frame, Kept
from dse.sweeping.variables import ATTRIBUTES

BINS = 20  # of a histogram, a decade
EDGES = 10.0 ** (np.arange(-25 * BINS, 25 * BINS + 1) / BINS)  # in SI units; what lies beyond them is not in a histogram
FOLD = {"min": np.minimum, "max": np.maximum, "sum": np.add, "count": np.add, "histogram": np.add}
START = {"min": np.inf, "max": -np.inf, "sum": 0.0, "count": 0.0, "histogram": 0.0}
SETTING = ("accelerator", "batch", "dtype", "variant")

Key = tuple[str, str, str]  # result, statistic, axis or nothing


def size(dims: Mapping[str, int], sample: xr.Dataset) -> int:
    """Bytes of the statistics of all results along each axis, over a sweep of these dims."""
    found = 0
    for value in sample.values():
        sizes = {str(dim): dims.get(str(dim), 1) for dim in value.dims}
        settings = int(np.prod([length for dim, length in sizes.items() if dim in SETTING]))
        found += settings * sum(length for dim, length in sizes.items() if dim not in SETTING)
    return found * 4 * 8  # min, max, sum and count


class Summary:
    """For each accelerator, batch, dtype and variant, statistics of each result over all designs and over those at each value of an
    axis. What is not finite does not count.

    Kept of some pieces, by key: the statistic over a region of its dims, and where that begins (`@` before the key). Sums are
    rounded, so their order counts: pieces are added to what is kept of a group of them, groups to the whole, always one by one.
    """

    def __init__(self, frame: Frame):
        self.frame = frame
        self.plain = [
            str(name) for name, found in frame.sample.items() if found.dtype.kind in "fb" and set(map(str, found.dims)) <= frame.dims.keys()
        ]

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice]) -> Kept:
        """The statistics of a piece."""
        kept = {}
        for key, part in self._statistics(piece):
            if self._counted_before(key[0], region):
                continue
            name, starts = " ".join(key), [region[str(dim)].start if dim in region else 0 for dim in part.dims]
            filled = np.flatnonzero(part.values.reshape(-1, part.shape[-1]).any(axis=0)) if key[1] == "histogram" else []
            if len(filled):
                starts[-1], part = int(filled[0]), part.isel(bin=slice(filled[0], filled[-1] + 1))
            kept |= {name: part.values.astype(float), f"@{name}": np.array(starts, int)}
        return kept

    def _counted_before(self, name: str, region: Mapping[str, slice]) -> bool:
        """Whether an earlier chunk held the same values: a result without some dim, as an area has no batch, is counted in the first."""
        return any(covered.start > 0 for dim, covered in region.items() if dim not in self.frame.sample[name].dims)

    def _statistics(self, piece: xr.Dataset) -> Iterator[tuple[Key, xr.DataArray]]:
        for name in self.plain:
            values, known = piece[name].astype(float), np.isfinite(piece[name])
            numbers = {
                "min": values.where(known, np.inf), "max": values.where(known, -np.inf), "sum": values.where(known, 0.0), "count": known
            }  # fmt: skip
            present = [dim for dim in values.dims if dim not in SETTING]
            for kept in ("", *map(str, present)):
                for statistic, column in numbers.items():
                    reduce = "sum" if statistic == "count" else statistic
                    yield (name, statistic, kept), getattr(column, reduce)([axis for axis in present if axis != kept])
            yield (name, "histogram", ""), _histogram(numbers["sum"])

    def together(self, parts: Sequence[Kept]) -> Kept:
        """In their order; the arrays of the first one may be taken over."""
        whole, *others = parts
        for part in others:
            for name in part:
                if name not in whole:
                    whole[name] = part[name]
                elif not name.startswith("@"):
                    first, second = ((one[name], one[f"@{name}"]) for one in (whole, part))
                    whole[name], whole[f"@{name}"] = _folded(first, second, name.split(" ")[1])
        return whole

    def learn(self, part: Kept) -> None:
        """Nothing: all of every piece counts."""

    def result(self, kept: Kept) -> xr.Dataset:
        """`NAME_min`, `_mean`, `_max` and `_count`, and the same along each axis as `NAME_mean_by_AXIS`; `NAME_histogram` along `bin`,
        whose lower edges are its coordinate."""
        found, sizes = {}, {**self.frame.dims, "bin": len(EDGES) - 1}
        for key, sample in self._statistics(self.frame.sample):
            name, start = " ".join(key), START[key[1]]
            shape = [sizes[str(dim)] for dim in sample.dims]
            empty = (np.full(shape, start), np.zeros(len(shape), int))
            part = (kept[name], kept[f"@{name}"]) if name in kept else empty  # of a sweep that is not complete
            found[key] = (sample.dims, _folded(empty, part, key[1])[0])
        whole = self.frame.labels.drop_vars(["resource", "execution"], errors="ignore").assign_coords(bin=("bin", EDGES[:-1]))
        return _trimmed(whole.assign(dict(_described(found))))


def _histogram(values: xr.DataArray) -> xr.DataArray:
    others, axes = [dim for dim in values.dims if dim in SETTING], [dim for dim in values.dims if dim not in SETTING]
    rows = values.transpose(*others, *axes).values
    flat = rows.reshape(int(np.prod(rows.shape[: len(others)])), -1)
    counts = np.stack([np.histogram(row, EDGES)[0] for row in flat]).astype(float)
    return xr.DataArray(counts.reshape(*rows.shape[: len(others)], -1), dims=[*others, "bin"])


Block = tuple[np.ndarray, np.ndarray]  # values, and where they begin along each dim of the whole


def _folded(first: Block, second: Block, statistic: str) -> Block:
    """The block that holds both; the first is taken over if it does."""
    (values, start), (others, begin) = first, second
    low, high = np.minimum(start, begin), np.maximum(start + values.shape, begin + others.shape)
    if (low < start).any() or (high > start + values.shape).any():
        wider = np.full(high - low, START[statistic])
        wider[_at(start - low, values.shape)] = values
        values = wider
    there = values[_at(begin - low, others.shape)]
    FOLD[statistic](there, others, out=there)
    return values, low


def _at(start: np.ndarray, shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(first, first + length) for first, length in zip(start.tolist(), shape, strict=True))


def _described(found: dict[Key, tuple[tuple, np.ndarray]]) -> Iterator[tuple[str, tuple]]:
    for (name, statistic, kept), (dims, values) in found.items():
        if statistic in ("min", "max", "sum"):
            count = found[name, "count", kept][1]
            values = np.where(count > 0, values / (np.maximum(count, 1) if statistic == "sum" else 1), np.nan)
        statistic = "mean" if statistic == "sum" else statistic
        yield f"{name}_{statistic}" + (f"_by_{kept}" if kept else ""), (dims, values, _attrs(name, statistic, kept))


def _attrs(name: str, statistic: str, kept: str) -> dict[str, str]:
    counted = statistic in ("count", "histogram")
    what = f"{'designs' if counted else statistic} of: {ATTRIBUTES.get(name, {}).get('long_name', name)}"
    return {
        "units": "1" if counted else ATTRIBUTES.get(name, {}).get("units", "1"),
        "long_name": what + (f", at each {kept}" if kept else ""),
    }


def _trimmed(found: xr.Dataset) -> xr.Dataset:
    """Without empty bins at either end."""
    filled = [np.flatnonzero(value.sum([dim for dim in value.dims if dim != "bin"])) for value in found.values() if "bin" in value.dims]
    ends = np.concatenate([*filled, np.zeros(0, int)])
    return found.isel(bin=slice(int(ends.min()), int(ends.max()) + 1) if len(ends) else slice(0))
