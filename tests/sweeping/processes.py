"""Start sweeps as separate processes, and real Dask clusters."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 300  # seconds, on a slow machine
# Runs its arguments with the default action of an interrupt, which background jobs inherit as ignored.
DEFAULT_INTERRUPT = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"


def start_sweep(spec: Path, *arguments: object, before: str = "") -> subprocess.Popen[str]:
    """Start `dse sweep` in the folder of its specification; `before`: shell text that precedes the command."""
    shell = ["bash", "-c", f'{before} exec "$0" -m dse.cli sweep "$@"', sys.executable, str(spec), *map(str, arguments)]
    text = [sys.executable, "-c", DEFAULT_INTERRUPT, *shell]
    return subprocess.Popen(text, cwd=spec.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for a condition while the process runs."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if reached():
            return
        time.sleep(0.002)
    raise AssertionError(f"{process.poll()}: {wait_for_end(process)}")


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], subprocess.Popen[bytes]]]:
    """The address of a scheduler, its workers, and its process."""
    scheduler_file, options = folder / "scheduler.json", {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    worker = [*dask, "worker", "--scheduler-file", scheduler_file, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    started = [subprocess.Popen([*dask, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", scheduler_file], **options)]
    try:
        started += [subprocess.Popen(worker, **options) for _ in range(workers)]
        deadline = time.monotonic() + PATIENCE
        while not scheduler_file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield json.loads(scheduler_file.read_text())["address"], started[1:], started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()
