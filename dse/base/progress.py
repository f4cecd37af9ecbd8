"""Progress bars on stderr for work that takes longer than a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY = 1.0  # seconds until a bar is shown


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
