"""Filling a Zarr store piece by piece: in this process, on the workers of an executor, or as one shard of many.

A worker is told a store and the number of a piece. It reads from the store what the sweep is, checks that its descriptions are the
same, and keeps what it prepared for the next piece. So any `concurrent.futures.Executor` will do, and a piece done twice is the same twice.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path

import xarray as xr
from tqdm import tqdm

from dse.errors import BadInput, UnfinishedError
from dse.explore import provenance, results, store, sweep, zarr_store
from dse.explore.piece import Piece, chunks, most_designs, pieces
from dse.explore.plan import Plan
from dse.explore.prepared import Prepared

MOST_PIECES = 10**6


def fill(
    plan: Plan,
    path: Path,
    *,
    executor: Executor | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
    progress: bool = False,
) -> bool:
    """Evaluate what is left of a sweep into the store at `path`, shard i of n its own part; whether all of the store is done.

    A store that exists is gone on with if asked to (shards always are), and only by the very same sweep; raises BadInput otherwise,
    and UnfinishedError if a disk is full or a worker fails.
    """
    number, of = shard or (1, 1)
    if not 1 <= number <= of:
        raise BadInput.one(f"there is no shard {number} of {of}", "write one from 1 on, as in '1/8'")
    if plan.spec.keep != "all":
        raise BadInput([plan.document.problem(("keep",), "a store holds all results", "write to a .nc file or a folder, or 'keep: all'")])
    prepared = Prepared.of(plan)
    for remark in sweep.remarks(prepared):
        warnings.warn(remark, sweep.ModelWarning, stacklevel=3)
    path = path.absolute()
    _begin(prepared, path, resume or shard is not None)
    listed = list(pieces(plan, zarr_store.most_designs(path)))
    mine, before = listed[_part(len(listed), number, of)], zarr_store.done(path)
    left = [piece for piece in mine if not before[piece.number]]
    designs = [sum(piece.designs for piece in some) for some in (mine, left)]
    with tqdm(total=designs[0], initial=designs[0] - designs[1], unit=" designs", unit_scale=True, delay=2, disable=not progress) as bar:
        for piece in _here(prepared, path, left) if executor is None else _elsewhere(executor, path, left):
            bar.update(piece.designs)
    complete = bool(zarr_store.done(path).all())
    if complete:
        zarr_store.tidy(path)
    return complete


def _begin(prepared: Prepared, path: Path, join: bool) -> None:
    """Lay the store out, or check that the one that is there is of the same sweep."""
    if not path.exists() and _lay_out(prepared, path):
        return
    if not zarr_store.is_store(path):
        raise BadInput.one(f"'{path}' is there already, and is no store of a sweep", "give another place")
    if not join:
        raise BadInput.one(f"'{path}' is there already", "go on with it by --resume (in Python resume=True), or give another place")
    provenance.check_same(zarr_store.opened(path), prepared.plan)


def _lay_out(prepared: Prepared, path: Path) -> bool:
    plan = prepared.plan
    store.check_writable(path.with_suffix(".part"))
    most = most_designs(plan)
    lengths = chunks(plan, most)
    count = math.prod(math.ceil(size / lengths[dim]) for dim, size in plan.dims.items())
    if count > MOST_PIECES:
        what = f"the results would take {plan.result_bytes / 1e9:.3g} GB, in {count} pieces"
        raise BadInput([plan.document.problem(("axes",), what, f"stay below {MOST_PIECES} pieces: fewer values or variables")])
    sample = results.described(sweep.evaluate(prepared.cut(next(pieces(plan, 1)))), plan)
    labels = results.labels(plan, prepared.resources, prepared.executions, prepared.kernels)
    return zarr_store.create(path, labels[[*sample.coords]], sample, lengths, most)


def _part(count: int, number: int, of: int) -> slice:
    """Where part `number` (from 1 on) of some `count` things lies."""
    return slice(count * (number - 1) // of, count * number // of)


def _here(prepared: Prepared, path: Path, left: list[Piece]) -> Iterator[Piece]:
    """Each piece as soon as it is written, which is done while the next one is evaluated."""
    with ThreadPoolExecutor(1) as writer:
        before: Future[Piece] | None = None
        for piece in left:
            found = sweep.evaluate(prepared.cut(piece))
            if before is not None:
                yield before.result()
            before = writer.submit(_written, path, piece, found)
        if before is not None:
            yield before.result()


def _written(path: Path, piece: Piece, found: xr.Dataset) -> Piece:
    zarr_store.write(path, piece, found)
    return piece


def _elsewhere(executor: Executor, path: Path, left: list[Piece]) -> Iterator[Piece]:
    """Each piece as soon as a worker has written it."""
    made = hashlib.sha256(json.dumps(zarr_store.opened(path).attrs).encode()).hexdigest()
    futures: dict[Future[None], Piece] = {}
    try:
        futures |= {executor.submit(work, str(path), made, piece.number): piece for piece in left}
        for future in as_completed(futures):
            future.result()
            yield futures[future]
    except (BadInput, UnfinishedError):
        raise
    except Exception as error:  # whatever an executor raises that lost its workers
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UnfinishedError(f"a worker failed ({reason}); what is written is kept: go on with --resume") from error
    finally:
        for future in futures:
            future.cancel()


def work(path: str, made: str, number: int) -> None:
    """Evaluate and write one piece of the store at `path`; `made`, a hash of its attributes, tells it from a later one there."""
    prepared, listed = _opened(path, made)
    zarr_store.write(Path(path), listed[number], sweep.evaluate(prepared.cut(listed[number])))


@lru_cache(maxsize=2)
def _opened(path: str, made: str) -> tuple[Prepared, list[Piece]]:
    dataset = zarr_store.opened(Path(path))
    plan = provenance.plan_of(dataset)
    provenance.check_same(dataset, plan)
    return Prepared.of(plan), list(pieces(plan, zarr_store.most_designs(Path(path))))
