"""A sweep falls into pieces: regions of its results that are evaluated, written and redone on their own.

A piece has one accelerator, one combination of structures and capacities, one batch and one dtype - its *setting* - with all variants,
and a block of the grid of all other axes. Blocks lie on a regular grid, as the chunks of a Zarr array do: the last axes are whole, one is
cut, and those before it stand at one value.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dse.explore.plan import Plan

PIECE_BYTES = 2**24  # of the results in one piece: enough to hide what each costs beside its evaluation, few enough to lose


@dataclass(frozen=True)
class Piece:
    """`setting`: its place on the dims that it has one value of; `region`: what it covers of every dim but `variant`."""

    number: int  # in the order of the sweep's pieces
    setting: Mapping[str, int]
    region: Mapping[str, slice]

    @property
    def designs(self) -> int:
        return math.prod(covered.stop - covered.start for covered in self.region.values())


def most_designs(plan: Plan) -> int:
    """How many designs one piece may have for its results to take `PIECE_BYTES`."""
    design = plan.result_bytes * len(plan.variants) // math.prod(plan.dims.values())
    return max(1, PIECE_BYTES // design)


def chunks(plan: Plan, most: int) -> dict[str, int]:
    """Length of a piece of at most `most` designs along each dim of the results, the last piece of a dim excepted."""
    lengths = dict.fromkeys(plan.dims, 1) | {"variant": len(plan.variants)}
    room = most
    for axis in reversed([axis for axis in plan.axes if not axis.taken_in_turn]):
        parts = math.ceil(len(axis) / max(1, room))
        lengths[axis.path] = math.ceil(len(axis) / parts)
        room = room // len(axis)
    return lengths


def pieces(plan: Plan, most: int) -> Iterator[Piece]:
    """Pieces of at most `most` designs that cover the results once; those of one setting follow each other."""
    lengths = chunks(plan, most)
    grid = [axis.path for axis in plan.axes if not axis.taken_in_turn]
    taken = [dim for dim in plan.dims if dim not in (*grid, "variant")]
    number = itertools.count()
    for places in itertools.product(*(range(plan.dims[dim]) for dim in taken)):
        setting = dict(zip(taken, places, strict=True))
        for blocks in itertools.product(*(_blocks(plan.dims[dim], lengths[dim]) for dim in grid)):
            region = {dim: slice(place, place + 1) for dim, place in setting.items()} | dict(zip(grid, blocks, strict=True))
            yield Piece(next(number), setting, {dim: region[dim] for dim in plan.dims if dim != "variant"})


def _blocks(size: int, length: int) -> list[slice]:
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]


def cut(plan: Plan, piece: Piece) -> Plan:
    """The plan of a piece alone, whose results are that region of the whole ones."""
    chosen = {"batch": plan.spec.batch[piece.region["batch"]], "dtype": plan.spec.dtype[piece.region["dtype"]]}
    return replace(
        plan,
        spec=plan.spec.model_copy(update=chosen),
        accelerators=plan.accelerators[piece.region["accelerator"]],
        kernels=plan.kernels[piece.region["accelerator"]],
        axes=tuple(axis[piece.region[axis.path]] for axis in plan.axes),
    )
