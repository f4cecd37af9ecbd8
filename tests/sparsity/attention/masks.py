"""Boolean masks of attention patterns, for small sizes."""

import numpy as np
from jaxtyping import Bool

from dse.sparsity.attention.chosen import ChosenPattern
from dse.sparsity.attention.kinds import Full
from dse.sparsity.attention.pattern import AttentionPattern, FixedPattern


def score_mask(pattern: AttentionPattern, queries: int, keys: int, generator: np.random.Generator | None = None) -> Bool[np.ndarray, "q k"]:
    """The scores that the last `queries` positions of a context of `keys` tokens compute; chosen keys are random."""
    if isinstance(pattern, Full):
        return np.ones((queries, keys), bool)
    mask, number = np.zeros((queries, keys), bool), np.arange(keys)
    generator = np.random.default_rng(0) if generator is None else generator
    choices: dict[int, np.ndarray] = {}  # by group of queries: its blocks
    for row, position in enumerate(range(keys - queries, keys)):
        if isinstance(pattern, ChosenPattern):
            choice = pattern.choice_at(position)
            blocks = choices.setdefault(choice.group, generator.permutation(choice.available)[: choice.chosen])
            mask[row] = (number <= position) & (np.isin(number // choice.size, blocks) | (number >= choice.available * choice.size))
        elif isinstance(pattern, FixedPattern):
            start, stop = pattern.key_ranges(np.int64(position), np.int64(position))
            mask[row] = np.any((number[:, None] >= start) & (number[:, None] < stop), axis=1)
    return mask
