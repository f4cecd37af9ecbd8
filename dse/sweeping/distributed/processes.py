"""Worker processes on this machine, each with its share of the cores."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager


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
