"""A sweep evaluated piece by piece, each of which is reduced to what is kept of it at once."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import xarray as xr

from dse.explore import piece as pieces_
from dse.explore import provenance
from dse.explore.keep.front import FrontKeeper
from dse.explore.keep.summary import Summary
from dse.explore.keep.top import TopKeeper
from dse.explore.piece import Piece
from dse.explore.plan import Plan
from dse.explore.prepared import Prepared
from dse.keep import Front, Top

WORKERS = 2  # pieces in the making: while one is compared, the other is computed
LARGER = 4  # times a piece that is written: results are in memory only until they are narrowed
COARSE = 10**5  # designs that are looked at before all others, at most

Evaluate = Callable[[Prepared], xr.Dataset]
In = TypeVar("In")
Out = TypeVar("Out")


class Keeper(Protocol):
    """What is kept; exact, whatever the pieces are."""

    def narrowed(self, piece: xr.Dataset, region: Mapping[str, slice], /) -> Any:
        """What may have to be kept of a piece; in any thread."""
        ...

    def take(self, found: Any, /) -> None:
        """Take in what `narrowed` gave, in the order of the pieces."""
        ...

    def result(self) -> xr.Dataset: ...


def run(prepared: Prepared, evaluate: Evaluate, bar: Any) -> xr.Dataset:
    """What is kept of a sweep; raises BadInput."""
    keeper, plan = _keeper(prepared, evaluate), prepared.plan

    def narrowed(piece: Piece) -> tuple[Piece, Any]:
        return piece, keeper.narrowed(evaluate(prepared.cut(piece)), piece.region)

    for piece, left in _ahead(narrowed, pieces_.pieces(plan, LARGER * pieces_.most_designs(plan))):
        keeper.take(left)
        bar.update(piece.designs)
    return keeper.result().assign_attrs(provenance.attributes(plan))


def _keeper(prepared: Prepared, evaluate: Evaluate) -> Keeper:
    wanted = prepared.plan.spec.keep
    if isinstance(wanted, Front | Top):
        coarse = evaluate(prepared.cut(_coarse(prepared.plan)))
        return FrontKeeper(wanted, coarse) if isinstance(wanted, Front) else TopKeeper(wanted, coarse)
    return Summary(prepared.plan)


def _coarse(plan: Plan) -> Piece:
    """A few values of each axis that is not taken in turn, of the first setting."""
    first = next(iter(pieces_.pieces(plan, 1)))
    axes = [axis for axis in plan.axes if not axis.taken_in_turn]
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
