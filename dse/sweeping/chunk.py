"""Divide a sweep into chunks: regions of its results that are evaluated, written and resumed independently.

A chunk has one accelerator, one combination of the outer-loop axes, one batch and one dtype: its *setting*. It covers all variants, and
a block of the grid of the inner axes. Blocks are aligned like the chunks of a Zarr array: the last axes are covered completely, one axis
is split, and the axes before it have one value.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dse.sweeping.plan import Plan

CHUNK_BYTES = 2**26  # of results: large enough to hide the overhead of a chunk, small enough to lose when a process is killed


@dataclass(frozen=True)
class Chunk:
    """One region of the results; `number` is its place in the order of the chunks.

    `setting`: position along the dimensions in which a chunk has size 1; `region`: slice of every dimension but `variant`.
    """

    number: int
    setting: Mapping[str, int]
    region: Mapping[str, slice]

    @property
    def design_count(self) -> int:
        return math.prod(covered.stop - covered.start for covered in self.region.values())


def max_chunk_designs(plan: Plan) -> int:
    """Number of designs whose results take `CHUNK_BYTES`, at least one."""
    bytes_per_design = plan.result_bytes * len(plan.variants) // math.prod(plan.dims.values())
    return max(1, CHUNK_BYTES // bytes_per_design)


def chunk_lengths(plan: Plan, max_designs: int) -> dict[str, int]:
    """Length of a chunk of at most `max_designs` along each dimension of the results; the last chunk of a dimension may be shorter."""
    lengths = dict.fromkeys(plan.dims, 1) | {"variant": len(plan.variants)}
    designs_left = max_designs
    for axis in reversed(plan.inner_axes):
        chunks = math.ceil(len(axis) / max(1, designs_left))
        lengths[axis.path] = math.ceil(len(axis) / chunks)
        designs_left = designs_left // len(axis)
    return lengths


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """The chunks of a sweep, of at most `max_designs` each; chunks of the same setting are consecutive."""

    plan: Plan
    max_designs: int

    @cached_property
    def inner_dims(self) -> list[str]:
        return [axis.path for axis in self.plan.inner_axes]

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Length of a chunk along each dimension but `variant`; the inner dimensions come last."""
        lengths = chunk_lengths(self.plan, self.max_designs)
        setting = [dim for dim in self.plan.dims if dim not in (*self.inner_dims, "variant")]
        return {dim: lengths[dim] for dim in [*setting, *self.inner_dims]}

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of chunks along each dimension of `lengths`."""
        return tuple(math.ceil(self.plan.dims[dim] / length) for dim, length in self.lengths.items())

    def __len__(self) -> int:
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[Chunk]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> Chunk:
        region = {}
        for (dim, length), position in zip(self.lengths.items(), np.unravel_index(number, self.counts), strict=True):
            start = int(position) * length
            region[dim] = slice(start, min(start + length, self.plan.dims[dim]))
        setting = {dim: covered.start for dim, covered in region.items() if dim not in self.inner_dims}
        return Chunk(number, setting, {dim: region[dim] for dim in self.plan.dims if dim != "variant"})


def region_in_chunk(dims: Sequence[Hashable], chunk: Chunk) -> tuple[slice, ...] | None:
    """The part of a variable with these dimensions that a chunk covers; None where an earlier chunk has the same values, as of the area
    at another batch."""
    if any(covered.start and dim not in dims for dim, covered in chunk.region.items()):
        return None
    return tuple(chunk.region.get(str(dim), slice(None)) for dim in dims)


def restrict_plan(plan: Plan, chunk: Chunk) -> Plan:
    """The plan of one chunk: its results are that region of the results of the whole plan."""
    region = chunk.region
    spec = plan.spec.model_copy(update={"batch": plan.spec.batch[region["batch"]], "dtype": plan.spec.dtype[region["dtype"]]})
    return replace(
        plan,
        spec=spec,
        accelerators=plan.accelerators[region["accelerator"]],
        fitted_kernels=plan.fitted_kernels[region["accelerator"]],
        axes=tuple(axis[region[axis.path]] for axis in plan.axes),
    )


def split_range(length: int, number: int, count: int) -> range:
    """Range `number` (from 0) of `count` consecutive ranges of nearly equal size that cover `range(length)`."""
    return range(length * number // count, length * (number + 1) // count)
