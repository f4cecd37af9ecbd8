"""Progress and notes on stderr: bars, notes, and the name of a step that takes long.

The logger `dse` decides what is shown. Its level is that of Python (warnings) until the command line sets it: INFO shows progress and
notes, WARNING (`-q`) neither, DEBUG (`-v`) also what is read and written.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic

DELAY = 1.0  # seconds until a bar is shown
STEP_DELAY = 2.0  # seconds until the name of a step is shown

logger = logging.getLogger("dse")


def shows_progress() -> bool:
    """Whether progress is shown: on the command line without `-q`, and where stderr is a terminal, so that no bar fills a log file."""
    return logger.isEnabledFor(logging.INFO) and sys.stderr.isatty()


def print_line(text: str) -> None:
    """Print a line to stderr, above the bar if one is shown."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is not None and getattr(tqdm.tqdm, "_instances", None):
        tqdm.tqdm.write(text, file=sys.stderr)
    else:
        print(text, file=sys.stderr)


class LineHandler(logging.Handler):
    """Prints notes to stderr, each on a line of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        print_line(self.format(record))


def no_progress(count: int = 1) -> None:
    """Takes the place of a bar's `update` where no bar is shown."""


@contextmanager
def progress_bar(description: str, total: int, shown: bool) -> Iterator[Callable[..., object]]:
    """Show a progress bar, if `shown`, which vanishes at the end; yields `update(count)`, to be called as parts of `total` are done.

    Where nothing is shown, there is no bar: a bar of tqdm holds a lock, which a killed worker would never release.
    """
    if not shown:
        yield no_progress
        return
    from tqdm import tqdm  # imported late, because 'dse check' answers at once

    with tqdm(desc=description, total=total, delay=DELAY, leave=False) as bar:
        yield bar.update


@contextmanager
def announced_step(description: str) -> Iterator[None]:
    """Name a step on stderr once it has taken two seconds, and the time that it took at its end."""
    start, timer = monotonic(), Timer(STEP_DELAY, logger.info, (f"{description} ...",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if (seconds := monotonic() - start) > STEP_DELAY:
            logger.info(f"{description}: {seconds:.1f} s")
