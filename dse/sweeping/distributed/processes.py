"""Workers on this machine: processes of which each has its share of the cores."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """So many, spawned, since JAX does not survive a fork. They end with this process, whatever ends it."""
    before = set(multiprocessing.active_children())
    share = max(1, len(os.sched_getaffinity(0)) // count) if hasattr(os, "sched_getaffinity") else 1
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin, (share,))
    try:
        yield pool
    except BaseException:  # what they are doing is not waited for
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(threads: int) -> None:
    """In a worker, before JAX looks for the cores: `NPROC` is how many threads XLA takes."""
    os.environ["NPROC"] = str(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, which sends it to all; the first process tells the others
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
