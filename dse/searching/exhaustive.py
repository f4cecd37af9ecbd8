"""Evaluate every design of a grid, chunk by chunk in constant memory: the exact optimum."""

from collections.abc import Callable

from dse.base.errors import InputError
from dse.base.progress import no_progress
from dse.searching.archive import Archive

MAX_DESIGNS = 10**9
CHUNK_DESIGNS = 65536  # evaluated before the archive is updated


def evaluate_all(archive: Archive, advance: Callable[[int], object] = no_progress) -> None:
    """Evaluate all designs of a space; raises InputError if it is continuous or too large."""
    space = archive.evaluator.space
    if space.size is None:
        path = space.dimensions[space.continuous[0]].path
        raise InputError(f"'{path}' is continuous, so its designs cannot be enumerated", "give it 'steps', or choose another sampler")
    if space.size > MAX_DESIGNS:
        raise InputError(
            f"{space.size:.3g} designs are too many for 'exhaustive'", f"stay below {MAX_DESIGNS:g}, or choose another sampler"
        )
    for start in range(0, space.size, CHUNK_DESIGNS):
        stop = min(start + CHUNK_DESIGNS, space.size)
        designs = space.grid_designs(start, stop)
        if len(designs):
            archive.evaluate(designs)
        advance(stop - start)
