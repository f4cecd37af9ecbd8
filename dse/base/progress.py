"""Progress on stderr, of work that takes longer than a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY = 1.0  # seconds until it is shown


def no_progress(count: int = 1) -> None:
    """Progress that is not shown."""


@contextmanager
def progress_bar(what: str, total: int, shown: bool) -> Iterator[Callable[..., object]]:
    """Report how much of `total` is done by calls `advance(count)` of what this yields; what is shown vanishes at the end.

    Nothing is created where nothing is shown: a bar of tqdm holds a lock, which a killed worker leaves behind.
    """
    if not shown:
        yield no_progress
        return
    from tqdm import tqdm  # not imported where nothing is shown: 'dse check' answers at once

    with tqdm(desc=what, total=total, delay=DELAY, leave=False) as bar:
        yield bar.update
