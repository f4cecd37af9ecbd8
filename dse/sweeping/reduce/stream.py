"""Evaluate a sweep chunk by chunk, and reduce each chunk at once.

Consecutive chunks form groups. The groups do not depend on the number of workers, so the partial of a group may come from any process,
at any time.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import xarray as xr

from dse.base.errors import InputError
from dse.schema.stored_results import FrontReduction, TopReduction
from dse.sweeping import chunk
from dse.sweeping.chunk import Chunk, ChunkGrid
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.plan import Plan
from dse.sweeping.reduce import summary
from dse.sweeping.reduce.front import FrontReducer
from dse.sweeping.reduce.reducer import Partial, Reducer, ResultFrame
from dse.sweeping.reduce.summary import SummaryReducer
from dse.sweeping.reduce.top import TopReducer
from dse.sweeping.results import label_dataset, set_attributes

WORKERS = 2  # threads: while one chunk is reduced, the next one is evaluated
COARSE_DESIGNS = 10**5  # that are evaluated before the first chunk, at most
MAX_SUMMARY_BYTES = 10**9  # several times as much is in use while two are merged
MAX_GROUPS = 1024  # more than most clusters have workers, and few enough for each to be a file
MERGED_GROUPS = 64  # at once
MERGED_BYTES = 2**26  # of groups that are merged at once, or as much as is kept already

Evaluate = Callable[[CompiledSweep], xr.Dataset]
In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, eq=False)
class ReductionStream:
    """A sweep in chunks, with the reducer of its specification."""

    compiled: CompiledSweep
    evaluate: Evaluate
    reducer: Reducer
    chunks: ChunkGrid

    @classmethod
    def of(cls, compiled: CompiledSweep, evaluate: Evaluate) -> Self:
        """Raises InputError if the sweep cannot be reduced as specified."""
        plan = compiled.plan
        return cls(compiled, evaluate, _make_reducer(compiled, evaluate), ChunkGrid(plan, chunk.max_chunk_designs(plan)))

    @property
    def group_count(self) -> int:
        return min(len(self.chunks), MAX_GROUPS)

    def chunk_numbers(self, group: int) -> range:
        """Numbers of the chunks of a group."""
        return chunk.split_range(len(self.chunks), group, self.group_count)

    def reduce_groups(self, groups: Iterable[int]) -> Iterator[tuple[int, Chunk, Partial | None]]:
        """Yield each chunk of the groups once it is reduced, with the partial of its group after the last chunk of a group."""
        merged: list[Partial] = []
        items = ((group, self.chunks[number]) for group in groups for number in self.chunk_numbers(group))
        for group, done, partial in _map_ahead(self._reduce, items):
            self.reducer.learn_from_chunk(partial)
            merged = [self.reducer.merge([*merged, partial])]
            is_last = done.number == self.chunk_numbers(group)[-1]
            yield group, done, merged.pop() if is_last else None

    def _reduce(self, item: tuple[int, Chunk]) -> tuple[int, Chunk, Partial]:
        group, current = item
        return group, current, self.reducer.reduce_chunk(self.evaluate(self.compiled.restrict(current)), current.region)

    def to_dataset(self, partials: Iterable[Partial]) -> xr.Dataset:
        """The result of all groups, given in their order, in constant memory; raises InputError."""
        pending, pending_bytes = list[Partial](), 0
        for partial in partials:
            pending.append(partial)
            pending_bytes += _count_bytes(partial)
            if len(pending) > MERGED_GROUPS or pending_bytes > max(MERGED_BYTES, _count_bytes(pending[0])):
                pending, pending_bytes = [self.reducer.merge(pending)], 0
        return self.reducer.to_dataset(self.reducer.merge(pending))


def run_reduced(compiled: CompiledSweep, evaluate: Evaluate, advance: Callable[[int], object]) -> xr.Dataset:
    """Evaluate a sweep and reduce it, in memory; `advance` is called with the number of designs of each chunk. Raises InputError."""
    stream = ReductionStream.of(compiled, evaluate)

    def partials() -> Iterator[Partial]:
        for _, done, partial in stream.reduce_groups(range(stream.group_count)):
            advance(done.design_count)
            if partial is not None:
                yield partial

    return stream.to_dataset(partials())


def _make_reducer(compiled: CompiledSweep, evaluate: Evaluate) -> Reducer:
    plan, spec = compiled.plan, compiled.plan.spec.keep
    sample = set_attributes(evaluate(compiled.restrict(ChunkGrid(plan, 1)[0])), plan)
    labels = label_dataset(compiled)
    frame = ResultFrame(plan.dims, labels[[*sample.coords]], sample)
    if isinstance(spec, FrontReduction):
        return FrontReducer(spec, frame, evaluate(compiled.restrict(_coarse_chunk(plan))))
    if isinstance(spec, TopReduction):
        return TopReducer(spec, frame)
    _check_summary_size(plan, sample)
    return SummaryReducer(frame)


def _check_summary_size(plan: Plan, sample: xr.Dataset) -> None:
    """Raise InputError if the statistics along the axes would take too much memory."""
    size = summary.count_bytes(plan.dims, sample)
    if size > MAX_SUMMARY_BYTES:
        axis = max((axis.path for axis in plan.axes), key=lambda path: plan.dims[path])
        message = f"the statistics at each of {plan.dims[axis]} values of '{axis}' would take {size / 1e9:.3g} GB"
        fix = f"write fewer steps or variables, below {MAX_SUMMARY_BYTES / 1e9:g} GB, or keep 'top' or 'front'"
        raise InputError.from_problems([plan.document.make_problem(("keep",), message, fix)])


def _count_bytes(partial: Partial) -> int:
    return sum(values.nbytes for values in partial.values())


def _coarse_chunk(plan: Plan) -> Chunk:
    """A few values of each inner axis, in the first setting."""
    first, axes = ChunkGrid(plan, 1)[0], plan.inner_axes
    values = max(2, int(COARSE_DESIGNS ** (1 / max(1, len(axes)))))
    strides = {axis.path: slice(None, None, math.ceil(len(axis) / values)) for axis in axes}
    return replace(first, region={**first.region, **strides})


def _map_ahead(function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Map like `Executor.map`, but submit only a few items ahead of the one that is consumed."""
    pending: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > WORKERS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
