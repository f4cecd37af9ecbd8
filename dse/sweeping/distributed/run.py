"""Run the tasks of a sweep that are not complete: in this process, on the workers of an executor, or as one shard of many.

A worker gets a path, the id of the sweep, and the number of a task. It reads the specification at the path, checks that the descriptions
have not changed, and keeps what it compiled for the next task. So any `concurrent.futures.Executor` can be used; `worker_processes` is one
of processes on this machine, each with its share of the cores.
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from dse.base.errors import InputError, Problem, UnfinishedError
from dse.sweeping.chunk import split_range
from dse.sweeping.distributed.sink import Sink, make_sink, run_task, sweep_id
from dse.sweeping.model_warnings import ModelWarning
from dse.sweeping.plan import Plan
from dse.sweeping.run import compile_sweep

MAX_PROBLEMS_SHOWN = 10
RESUME = "what is written is kept: resume with --resume"


def run_distributed(
    plan: Plan,
    path: Path,
    *,
    executor: Executor | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
    progress: bool = False,
) -> Sink:
    """Run the tasks of a sweep that are not complete, and store their results or their reduction at `path`.

    `resume`: go on with what is stored there (shards always do), which must belong to the same sweep. `shard` (i, n): run the i-th of n
    ranges of tasks only.

    Raises:
        InputError: the path or the shard is invalid.
        UnfinishedError: a disk is full, or a worker failed.
    """
    number, count = shard or (1, 1)
    if not 1 <= number <= count:
        raise InputError(f"there is no shard {number} of {count}", "write one from 1 on, as in '1/8'")
    compiled, path = compile_sweep(plan, progress), path.absolute()
    sink = make_sink(compiled, path)
    sink.open(resume or shard is not None)
    completed = sink.completed_tasks()
    tasks = split_range(len(completed), number - 1, count)
    if damaged := sink.discard_damaged([task for task in tasks if completed[task]]):
        warnings.warn(_damage_warning(damaged), ModelWarning, stacklevel=3)
        completed = sink.completed_tasks()
    _run_tasks(sink, tasks, [task for task in tasks if not completed[task]], executor, path, progress)
    if sink.completed_tasks().all():
        sink.finish()
    return sink


def _run_tasks(sink: Sink, tasks: range, remaining: list[int], executor: Executor | None, path: Path, progress: bool) -> None:
    """Run the remaining ones of some tasks, with a progress bar over all of them."""
    total, designs_left = (sum(map(sink.count_designs, numbers)) for numbers in (tasks, remaining))
    with tqdm(total=total, initial=total - designs_left, unit=" designs", unit_scale=True, delay=2, disable=not progress) as bar:
        try:
            for designs in sink.run_tasks(remaining) if executor is None else _run_on_workers(executor, path, remaining):
                bar.update(designs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(RESUME) from None


def _run_on_workers(executor: Executor, path: Path, tasks: Iterable[int]) -> Iterator[int]:
    """Yield the number of designs of each task once a worker has completed it."""
    sweep, futures = sweep_id(path), list[Future[int]]()
    try:
        futures += [executor.submit(run_task, str(path), sweep, task) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
    except (InputError, UnfinishedError):
        raise
    except CancelledError as error:
        raise UnfinishedError(f"the workers are not reachable any more, for example because a scheduler was lost; {RESUME}") from error
    except Exception as error:  # executors that lost their workers raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UnfinishedError(f"a worker failed ({reason}); {RESUME}") from error
    finally:
        for future in futures:
            future.cancel()


def _damage_warning(damaged: list[Problem]) -> str:
    shown = "; ".join(f"{problem.file}: {problem.message}" for problem in damaged[:MAX_PROBLEMS_SHOWN])
    hidden = len(damaged) - MAX_PROBLEMS_SHOWN
    return f"damaged results are evaluated again: {shown}" + (f"; and {hidden} more" if hidden > 0 else "")


@contextmanager
def worker_processes(count: int) -> Iterator[Executor]:
    """An executor of `count` spawned processes (JAX does not survive a fork), which end with this process, even if it is killed."""
    existing = set(multiprocessing.active_children())
    threads = max(1, len(os.sched_getaffinity(0)) // count) if hasattr(os, "sched_getaffinity") else 1
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _initialise_worker, (threads,))
    try:
        yield pool
    except BaseException:  # do not wait for what they are evaluating
        for process in set(multiprocessing.active_children()) - existing:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _initialise_worker(threads: int) -> None:
    """Limit the threads of XLA, by `NPROC`, before JAX counts the cores."""
    os.environ["NPROC"] = str(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the first one terminates the others
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
