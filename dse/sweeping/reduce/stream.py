"""A sweep evaluated piece by piece, each of which is reduced to what is kept of it at once.

Pieces follow each other in groups, the same ones however many work on them: what is kept of a group may come from any process, at any time.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import xarray as xr

from dse.base.errors import InputError
from dse.schema.reduction import FrontReduction, TopReduction
from dse.sweeping import chunk
from dse.sweeping.chunk import Chunk, ChunkGrid
from dse.sweeping.plan import Plan
from dse.sweeping.prepared import Prepared
from dse.sweeping.reduce import summary
from dse.sweeping.reduce.cells import Frame, Kept
from dse.sweeping.reduce.front import FrontKeeper
from dse.sweeping.reduce.summary import Summary
from dse.sweeping.reduce.top import TopKeeper
from dse.sweeping.results import label_dataset, set_attributes

WORKERS = 2  # pieces in the making: while one is compared, the other is computed
LARGER = 4  # times a piece that is written: results are in memory only until they are narrowed
COARSE = 10**5  # designs that are looked at before all others, at most
MOST_SUMMARY = 10**9  # bytes of a summary; several times as much is held while two are added up
MOST_GROUPS = 1024  # more than most clusters have workers, few enough for what is kept of each to be a file
AT_ONCE = 64  # groups that are put together at once
AT_ONCE_BYTES = 2**26  # that they take, or as much as what is kept already

Evaluate = Callable[[Prepared], xr.Dataset]
In = TypeVar("In")
Out = TypeVar("Out")


class Keeper(Protocol):
    """What is kept; exact, whatever the pieces are."""

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice], /) -> Kept:
        """What may have to be kept of a piece; in any thread."""
        ...

    def together(self, parts: Sequence[Kept], /) -> Kept:
        """What is kept of several parts, in the order of their pieces."""
        ...

    def learn(self, part: Kept, /) -> None:
        """Narrow later pieces by what was found in one."""
        ...

    def result(self, kept: Kept, /) -> xr.Dataset: ...


@dataclass(frozen=True, eq=False)
class Stream:
    prepared: Prepared
    evaluate: Evaluate
    keeper: Keeper
    pieces: ChunkGrid

    @classmethod
    def of(cls, prepared: Prepared, evaluate: Evaluate) -> Self:
        """Raises InputError."""
        plan = prepared.plan
        return cls(prepared, evaluate, _keeper(prepared, evaluate), ChunkGrid(plan, LARGER * chunk.max_chunk_designs(plan)))

    @property
    def groups(self) -> int:
        return min(len(self.pieces), MOST_GROUPS)

    def group(self, number: int) -> range:
        """The pieces of a group."""
        return chunk.split_range(len(self.pieces), number, self.groups)

    def walk(self, groups: Iterable[int]) -> Iterator[tuple[int, Chunk, Kept | None]]:
        """Each group and each of its pieces as soon as it is looked at; with the last one comes what is kept of the group."""
        found: list[Kept] = []
        for group, piece, part in _ahead(self._narrowed, ((one, self.pieces[n]) for one in groups for n in self.group(one))):
            self.keeper.learn(part)
            found = [self.keeper.together([*found, part])]
            last = piece.number == self.group(group)[-1]
            yield group, piece, found.pop() if last else None

    def _narrowed(self, item: tuple[int, Chunk]) -> tuple[int, Chunk, Kept]:
        group, piece = item
        return group, piece, self.keeper.narrowed(self.evaluate(self.prepared.cut(piece)), piece.region)

    def result(self, parts: Iterable[Kept]) -> xr.Dataset:
        """What is kept of all groups, given in their order; raises InputError."""
        found, more = list[Kept](), 0
        for part in parts:
            found.append(part)
            more += _size(part)
            if len(found) > AT_ONCE or more > max(AT_ONCE_BYTES, _size(found[0])):
                found, more = [self.keeper.together(found)], 0
        return self.keeper.result(self.keeper.together(found))


def run(prepared: Prepared, evaluate: Evaluate, advance: Callable[[int], object]) -> xr.Dataset:
    """What is kept of a sweep; raises InputError."""
    stream = Stream.of(prepared, evaluate)

    def parts() -> Iterator[Kept]:
        for _, piece, kept in stream.walk(range(stream.groups)):
            advance(piece.designs)
            if kept is not None:
                yield kept

    return stream.result(parts())


def _keeper(prepared: Prepared, evaluate: Evaluate) -> Keeper:
    plan, wanted = prepared.plan, prepared.plan.spec.keep
    sample = set_attributes(evaluate(prepared.cut(ChunkGrid(plan, 1)[0])), plan)
    labels = label_dataset(plan, prepared.resources, prepared.executions, prepared.kernels)
    frame = Frame(plan.dims, labels[[*sample.coords]], sample)
    if isinstance(wanted, FrontReduction):
        return FrontKeeper(wanted, frame, evaluate(prepared.cut(_coarse(plan))))
    if isinstance(wanted, TopReduction):
        return TopKeeper(wanted, frame)
    _check_size(plan, sample)
    return Summary(frame)


def _check_size(plan: Plan, sample: xr.Dataset) -> None:
    """Raises InputError where the statistics along the axes would take too much memory."""
    size = summary.size(plan.dims, sample)
    if size > MOST_SUMMARY:
        axis = max((axis.path for axis in plan.axes), key=lambda path: plan.dims[path])
        what = f"the statistics at each of {plan.dims[axis]} values of '{axis}' would take {size / 1e9:.3g} GB"
        fix = f"write fewer steps or variables, below {MOST_SUMMARY / 1e9:g} GB, or keep 'top' or 'front'"
        raise InputError.from_problems([plan.document.make_problem(("keep",), what, fix)])


def _size(kept: Kept) -> int:
    return sum(values.nbytes for values in kept.values())


def _coarse(plan: Plan) -> Chunk:
    """A few values of each axis that is not taken in turn, of the first setting."""
    first = ChunkGrid(plan, 1)[0]
    axes = [axis for axis in plan.axes if not axis.is_outer_loop]
    values = max(2, int(COARSE ** (1 / max(1, len(axes)))))
    return replace(first, region={**first.region, **{axis.path: slice(None, None, math.ceil(len(axis) / values)) for axis in axes}})


def _ahead(function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """`function` of each item, in order, some of them begun before they are asked for."""
    waiting: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
