"""The steps that lead from the dense network to a pattern and sparsity: each prunes at most half of the weights that are left.

The masks of each step are legal in its pattern, and each is part of the one before: what is pruned has no saliency left. The path depends
on its end alone, and not on what else a study measures: paths with the same first steps share them.

    unstructured at 87.5%    50%, 75%, 87.5%
    1:8                      4:8, 2:8, 1:8
    16:2:16                  8:16x16, 4:16x16 (4 of 16 columns for each 16 rows), 16:2:16
    block:16x16/2:4 at 75%   50% (2:4 alone), 75%
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dse.base.errors import InputError
from dse.sparsity.hierarchy import inner_density
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, BlockFamily, Dense, VNMFamily
from dse.sparsity.pattern import Pattern

SAME = 1e-9  # sparsities that differ by less are the same


@dataclass(frozen=True)
class PruningStep:
    """A pattern, and the share of the prunable weights that it leaves out [1]."""

    pattern: Pattern
    sparsity: float

    def __str__(self) -> str:
        return f"{self.pattern} {self.sparsity:g}"

    @property
    def label(self) -> str:
        """The step as the name of a file."""
        return str(self).translate(str.maketrans({":": "-", "/": "+", " ": "_"}))


PruningPath = tuple[PruningStep, ...]


def make_step(pattern: Pattern, sparsity: float | None = None) -> PruningStep:
    """A step whose sparsity the pattern can have; a pattern that fixes its density needs none. Raises InputError."""
    if isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(f"'{pattern}' is a family of patterns", "name one of its members")
    if isinstance(pattern, Dense):
        raise InputError("'dense' prunes nothing", "leave it out: the dense network is always trained")
    if pattern.density is not None:
        own = 1 - pattern.density
        if sparsity is not None and abs(sparsity - own) > SAME:
            raise InputError(f"'{pattern}' is {own:g} sparse and cannot be {sparsity:g} sparse", f"write {own:g}, or leave it out")
        return PruningStep(pattern, own)
    if sparsity is None:
        raise InputError(f"'{pattern}' may have any sparsity", "give sparsities, as in '--sparsities 0.5 0.75'")
    if not 0 < sparsity < 1:
        raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number above 0 and below 1")
    if sparsity < 1 - inner_density(pattern) - SAME:
        least = 1 - inner_density(pattern)
        raise InputError(f"'{pattern}' is at least {least:g} sparse and cannot be {sparsity:g} sparse", f"write {least:g} or more")
    return PruningStep(pattern, sparsity)


def pruning_path(step: PruningStep) -> PruningPath:
    """The steps that end in `step`."""
    return (*_steps_before(step), step)


def _steps_before(step: PruningStep) -> Iterator[PruningStep]:
    pattern = step.pattern
    if isinstance(pattern, NM):
        yield from (_fixed_step(NM(n, pattern.m, pattern.v)) for n in _doublings(pattern.n, pattern.m))
    elif isinstance(pattern, VNM):
        columns = NM(VNM_COLUMNS, pattern.m, pattern.v)
        yield from pruning_path(_fixed_step(columns))
        yield from (_fixed_step(VNM(pattern.v, n, pattern.m)) for n in _doublings(pattern.n, VNM_COLUMNS))
    elif pattern.density is None:
        density = inner_density(pattern)
        density = density / 2 if density == 1 else density
        while density > (1 - step.sparsity) * (1 + SAME):
            yield PruningStep(pattern, 1 - density)
            density /= 2


def _fixed_step(pattern: NM | VNM) -> PruningStep:
    return PruningStep(pattern, 1 - pattern.density)


def _doublings(n: int, limit: int) -> list[int]:
    """2 n, 4 n, ... below `limit`, the largest first."""
    doublings = []
    while (n := 2 * n) < limit:
        doublings.append(n)
    return doublings[::-1]
