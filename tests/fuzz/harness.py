"""Runs the cases of a fuzzer in worker processes, each case within limits of time and memory.

A case that hangs or takes too much memory is ended with its process, and the next case gets a new one.
"""

import contextlib
import faulthandler
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

SECONDS = 20.0  # of processor time; of the clock, thirty times as many, since the machine may be busy
CLOCK = 30
BYTES = 4 * 10**9
_CONTEXT = multiprocessing.get_context("spawn")  # forked processes deadlock once JAX has started its threads
_PAGE, _TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


def names() -> list[str]:
    """The fuzzers: modules of this folder that say how many cases the test suite runs."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\nCASES = " in path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Failure:
    """One case that neither accepted nor refused its input; `python -m tests.fuzz NAME --seed SEED --only NUMBER` repeats it."""

    name: str
    seed: int
    number: int
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        repeat = f"python -m tests.fuzz {self.name} --seed {self.seed} --only {self.number}"
        shown = [line if len(line) <= 300 else f"{line[:300]}..." for line in (self.reason, *self.detail.splitlines()[-40:])]
        return "\n".join([f"{self.name}, case {self.number}: {shown[0]}  ({repeat})", *shown[1:]]).rstrip()


@dataclass
class Report:
    """How often each label was returned, and every failure."""

    labels: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def generator(name: str, seed: int, number: int) -> Random:
    """The random numbers of one case: the same whichever cases run before it."""
    return Random(f"{name}/{seed}/{number}")


def run(
    name: str,
    seed: int,
    numbers: Iterable[int],
    workers: int = 1,
    save: Path | None = None,
    seconds: float = SECONDS,
    memory: int = BYTES,
    notify: Callable[[Failure], object] = lambda failure: None,
) -> Report:
    """Run the cases `numbers` of a fuzzer; inputs of failed cases are copied below the folder `save`, `notify` is called for each."""
    report, waiting = Report(), iter(numbers)
    pool = [_Worker(name, seed, seconds, memory) for _ in range(workers)]
    try:
        busy = [worker for worker in pool if worker.take(waiting)]
        while busy:
            wait([worker.connection for worker in busy], timeout=0.1)
            for worker in [worker for worker in busy if worker.finished()]:
                if failure := worker.collect(report, save):
                    notify(failure)
                if not worker.take(waiting):
                    busy.remove(worker)
    finally:
        for worker in pool:
            worker.stop()
    report.failures.sort(key=lambda failure: failure.number)
    return report


class _Worker:
    """A process that runs one case after the other, and what is known of its present one."""

    def __init__(self, name: str, seed: int, seconds: float, memory: int):
        self.name, self.seed, self.seconds, self.memory = name, seed, seconds, memory
        self.folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
        self.number, self.stopped = -1, ""
        self._start()

    def _start(self) -> None:
        self.log = self.folder / "log"
        self.connection, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(self.name, self.seed, other, self.log), daemon=True)
        self.process.start()
        other.close()
        self.ready = False

    @property
    def inputs(self) -> Path:
        return self.folder / "case"

    def take(self, waiting: Iterator[int]) -> bool:
        """Begin the next case; False if there is none."""
        number = next(waiting, None)
        if number is None:
            return False
        self.number, self.stopped = number, ""
        shutil.rmtree(self.inputs, ignore_errors=True)
        self.inputs.mkdir()
        with contextlib.suppress(OSError):  # a process that died meanwhile is noticed by finished()
            self.connection.send((number, self.inputs))
        self._begin()
        return True

    def _begin(self) -> None:
        self.began, self.used = time.monotonic(), _processor_time(self.process.pid)

    def finished(self) -> bool:
        """Whether there is an outcome; a case beyond its limits is stopped, which is one."""
        if not self.ready and self.process.is_alive() and self.connection.poll():
            with contextlib.suppress(EOFError):
                self.ready = self.connection.recv() == "ready"
                self._begin()  # imports do not count
        if self.connection.poll() or not self.process.is_alive():
            return True
        if self.ready and self._late():
            self.stopped = f"no end within {self.seconds:g} s"
        elif (used := _resident(self.process.pid)) > self.memory:
            self.stopped = f"{used / 1e9:.1f} GB of memory"
        if self.stopped:
            self._end()
        return bool(self.stopped)

    def _late(self) -> bool:
        used, passed = _processor_time(self.process.pid) - self.used, time.monotonic() - self.began
        return used > self.seconds or passed > CLOCK * self.seconds

    def _end(self) -> None:
        """Stop the process; its stack is written to the log first."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGUSR1)
            time.sleep(0.2)
        self.process.kill()
        self.process.join()

    def collect(self, report: Report, save: Path | None) -> Failure | None:
        """Note the outcome of the present case and return it if it is a failure; start a new process if it ended this one."""
        kind, text = self._outcome()
        if kind == "label":
            report.labels[text] += 1
            return None
        detail = self.log.read_text(errors="replace")[-4000:] if kind == "dead" else text
        reason = text if kind == "dead" else text.strip().splitlines()[-1][:300]
        report.failures.append(Failure(self.name, self.seed, self.number, reason, detail))
        if save is not None:
            shutil.copytree(self.inputs, save / f"{self.name}-{self.seed}-{self.number}", dirs_exist_ok=True, symlinks=True)
        if kind == "dead":
            self._start()
        return report.failures[-1]

    def _outcome(self) -> tuple[str, str]:
        if not self.stopped:
            with contextlib.suppress(EOFError, ConnectionError):
                return self.connection.recv()
            self.process.join()
        return "dead", self.stopped or f"the process ended with {self._exit()}"

    def _exit(self) -> str:
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def _resident(process: int | None) -> int:
    """Bytes of memory that a process holds; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _processor_time(process: int | None) -> float:
    """Seconds that a process has computed; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError):
        return 0.0


def _work(name: str, seed: int, connection: Connection, log: Path) -> None:
    """What a worker does: import the fuzzer, call its `prepare()` if it has one, then run each case that it receives."""
    written = log.open("w")
    os.dup2(written.fileno(), sys.stderr.fileno())
    os.dup2(written.fileno(), sys.stdout.fileno())
    faulthandler.enable(written)
    faulthandler.register(signal.SIGUSR1, written)
    fuzzer: Any = importlib.import_module(f"tests.fuzz.{name}")
    if hasattr(fuzzer, "prepare"):
        fuzzer.prepare()
    connection.send("ready")
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            number, folder = connection.recv()
            os.chdir(folder)
            try:
                outcome = "label", str(fuzzer.case(generator(name, seed, number), folder))
            except Exception:  # whatever a case raises is its failure
                outcome = "failure", traceback.format_exc()
            connection.send(outcome)
