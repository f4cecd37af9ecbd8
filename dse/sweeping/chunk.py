"""A sweep falls into pieces: regions of its results that are evaluated, written and redone on their own.

A piece has one accelerator, one combination of structures and capacities, one batch and one dtype - its *setting* - with all variants,
and a block of the grid of all other axes. Blocks lie on a regular grid, as the chunks of a Zarr array do: the last axes are whole, one is
cut, and those before it stand at one value.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dse.sweeping.plan import Plan

CHUNK_BYTES = 2**24  # of the results in one piece: enough to hide what each costs beside its evaluation, few enough to lose


@dataclass(frozen=True)
class Chunk:
    """`setting`: its place on the dims that it has one value of; `region`: what it covers of every dim but `variant`."""

    number: int  # in the order of the sweep's pieces
    setting: Mapping[str, int]
    region: Mapping[str, slice]

    @property
    def designs(self) -> int:
        return math.prod(covered.stop - covered.start for covered in self.region.values())


def max_chunk_designs(plan: Plan) -> int:
    """How many designs one piece may have for its results to take `CHUNK_BYTES`."""
    design = plan.result_bytes * len(plan.variants) // math.prod(plan.dims.values())
    return max(1, CHUNK_BYTES // design)


def chunk_lengths(plan: Plan, most: int) -> dict[str, int]:
    """Length of a piece of at most `most` designs along each dim of the results, the last piece of a dim excepted."""
    lengths = dict.fromkeys(plan.dims, 1) | {"variant": len(plan.variants)}
    room = most
    for axis in reversed([axis for axis in plan.axes if not axis.is_outer_loop]):
        parts = math.ceil(len(axis) / max(1, room))
        lengths[axis.path] = math.ceil(len(axis) / parts)
        room = room // len(axis)
    return lengths


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """Pieces of at most `most` designs that cover the results of a sweep once; those of one setting follow each other."""

    plan: Plan
    most: int

    @cached_property
    def grid(self) -> list[str]:
        return [axis.path for axis in self.plan.axes if not axis.is_outer_loop]

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Of a piece, along each dim; those of the grid come last."""
        found = chunk_lengths(self.plan, self.most)
        setting = [dim for dim in self.plan.dims if dim not in (*self.grid, "variant")]
        return {dim: found[dim] for dim in [*setting, *self.grid]}

    @cached_property
    def counts(self) -> tuple[int, ...]:
        return tuple(math.ceil(self.plan.dims[dim] / length) for dim, length in self.lengths.items())

    def __len__(self) -> int:
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[Chunk]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> Chunk:
        region = {}
        for (dim, length), place in zip(self.lengths.items(), np.unravel_index(number, self.counts), strict=True):
            start = int(place) * length
            region[dim] = slice(start, min(start + length, self.plan.dims[dim]))
        setting = {dim: covered.start for dim, covered in region.items() if dim not in self.grid}
        return Chunk(number, setting, {dim: region[dim] for dim in self.plan.dims if dim != "variant"})


def restrict_plan(plan: Plan, piece: Chunk) -> Plan:
    """The plan of a piece alone, whose results are that region of the whole ones."""
    chosen = {"batch": plan.spec.batch[piece.region["batch"]], "dtype": plan.spec.dtype[piece.region["dtype"]]}
    return replace(
        plan,
        spec=plan.spec.model_copy(update=chosen),
        accelerators=plan.accelerators[piece.region["accelerator"]],
        fitted_kernels=plan.fitted_kernels[piece.region["accelerator"]],
        axes=tuple(axis[piece.region[axis.path]] for axis in plan.axes),
    )


def split_range(count: int, number: int, of: int) -> range:
    """Part `number` (from 0 on) of `of` even ones of some `count` things in a row."""
    return range(count * number // of, count * (number + 1) // of)
