"""The steps that lead from the dense network to a pattern and sparsity: each prunes at most half of the weights that are left.

The masks of each step are legal in its pattern, and each is part of the one before: what is pruned has no saliency left. The path depends
on its end alone, and not on what else a study measures: paths with the same first steps share them.

    unstructured at 87.5%    50%, 75%, 87.5%
    1:8                      4:8, 2:8, 1:8
    16:2:16                  8:16x16, 4:16x16 (4 of 16 columns for each 16 rows), 16:2:16
    block:16x16/2:4 at 75%   50% (2:4 alone), 75%
"""

from collections.abc import Iterator

from dse.sparsity.hierarchy import inner_density
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS
from dse.sparsity.pruned_pattern import SAME, PrunedPattern

PruningPath = tuple[PrunedPattern, ...]


def pruning_path(step: PrunedPattern) -> PruningPath:
    """The steps that end in `step`."""
    return (*_steps_before(step), step)


def _steps_before(step: PrunedPattern) -> Iterator[PrunedPattern]:
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
            yield PrunedPattern(pattern, 1 - density)
            density /= 2


def _fixed_step(pattern: NM | VNM) -> PrunedPattern:
    return PrunedPattern(pattern, 1 - pattern.density)


def _doublings(n: int, limit: int) -> list[int]:
    """2 n, 4 n, ... below `limit`, the largest first."""
    doublings = []
    while (n := 2 * n) < limit:
        doublings.append(n)
    return doublings[::-1]
