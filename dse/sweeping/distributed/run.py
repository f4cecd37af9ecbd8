"""Doing what is left of a sweep: in this process, on the workers of an executor, or as one shard of many.

A worker is told where and the number of a part. It reads there what the sweep is, checks that its descriptions are the same, and keeps
what it prepared for the next part. So any `concurrent.futures.Executor` will do.
"""

import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, as_completed
from pathlib import Path

from tqdm import tqdm

from dse.base.errors import InputError, Problem, UnfinishedError
from dse.sweeping.chunk import split_range
from dse.sweeping.distributed import sink as sinks
from dse.sweeping.distributed.sink import Sink
from dse.sweeping.model_warnings import ModelWarning, collect_warnings
from dse.sweeping.plan import Plan
from dse.sweeping.prepared import Prepared

SHOWN = 10  # damaged files that are named
GO_ON = "what is written is kept: go on with --resume"


def fill(
    plan: Plan,
    path: Path,
    *,
    executor: Executor | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
    progress: bool = False,
) -> Sink:
    """Do what is left of a sweep whose results, or what is kept of them, go to `path`, shard i of n its own part.

    What is there already is gone on with if asked to (shards always do), and only by the very same sweep; raises InputError otherwise,
    and UnfinishedError if a disk is full or a worker fails.
    """
    number, of = shard or (1, 1)
    if not 1 <= number <= of:
        raise InputError(f"there is no shard {number} of {of}", "write one from 1 on, as in '1/8'")
    prepared, path = Prepared.of(plan, progress), path.absolute()
    for text in collect_warnings(prepared):
        warnings.warn(text, ModelWarning, stacklevel=3)
    sink = sinks.of(prepared, path)
    sink.begin(resume or shard is not None)
    before = sink.done()
    mine = split_range(len(before), number - 1, of)
    if damaged := sink.forget_damaged([one for one in mine if before[one]]):
        warnings.warn(_again(damaged), ModelWarning, stacklevel=3)
        before = sink.done()
    left = [one for one in mine if not before[one]]
    whole, rest = (sum(map(sink.designs, some)) for some in (mine, left))
    with tqdm(total=whole, initial=whole - rest, unit=" designs", unit_scale=True, delay=2, disable=not progress) as bar:
        try:
            for designs in sink.each(left) if executor is None else _elsewhere(executor, path, left):
                bar.update(designs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(GO_ON) from None
    if sink.done().all():
        sink.finish()
    return sink


def _again(damaged: list[Problem]) -> str:
    """Which files of parts that were done are damaged."""
    shown = "; ".join(f"{problem.file}: {problem.message}" for problem in damaged[:SHOWN])
    more = f"; and {len(damaged) - SHOWN} more" if len(damaged) > SHOWN else ""
    return f"damaged results are evaluated again: {shown}{more}"


def _elsewhere(executor: Executor, path: Path, left: Iterable[int]) -> Iterator[int]:
    """Designs of each part as soon as a worker has done it."""
    made, futures = sinks.made(path), list[Future[int]]()
    try:
        futures += [executor.submit(sinks.work, str(path), made, one) for one in left]
        for future in as_completed(futures):
            yield future.result()
    except (InputError, UnfinishedError):
        raise
    except CancelledError as error:
        raise UnfinishedError(f"the workers cannot be reached any more, as when a scheduler is lost; {GO_ON}") from error
    except Exception as error:  # whatever an executor raises that lost its workers
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UnfinishedError(f"a worker failed ({reason}); {GO_ON}") from error
    finally:
        for future in futures:
            future.cancel()
