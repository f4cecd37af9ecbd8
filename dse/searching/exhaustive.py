"""Every design of a grid, in pieces: exact, in constant memory."""

from typing import Any

from dse.base.errors import InputError
from dse.searching.archive import Archive

MOST = 10**9
CHUNK = 65536  # designs that are judged before what is worth keeping is picked


def run(archive: Archive, bar: Any) -> None:
    """Judge all designs; raises InputError where there is no end of them."""
    space = archive.evaluator.space
    if space.size is None:
        path = space.dimensions[space.continuous[0]].path
        raise InputError(f"'{path}' is continuous, so its designs can't be exhausted", "give it 'steps', or take another sampler")
    if space.size > MOST:
        raise InputError(f"{space.size:.3g} designs are too many to exhaust", f"stay below {MOST:g}, or take another sampler")
    bar.reset(total=space.size)
    for start in range(0, space.size, CHUNK):
        points = space.grid(start, min(start + CHUNK, space.size))
        if len(points):
            archive.judge(points)
        bar.update(min(CHUNK, space.size - start))
