"""The masks of a pruning step: in every layer the legal mask of the largest squared magnitude, with exactly the sparsity requested.

A pattern with free tiles may keep any number of them. With scope `layer` every layer keeps the same share. Numbers of tiles are rounded so
that their total is the nearest to the request: each layer keeps the whole part of its share, and the layers with the largest remainders one
tile more. With scope `global` the tiles of all layers compete.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

from dse.base.errors import InputError, ProblemCollector
from dse.sparsity.hierarchy import inner_density
from dse.sparsity.kinds import Structured
from dse.sparsity.mask import check_matrix_size, legal
from dse.sparsity.pattern import Pattern
from dse.sparsity.pruned_pattern import PrunedPattern
from dse.sparsity.pruning import Scope, apply

Sizes = Mapping[str, tuple[int, int]]  # m and k of each prunable matrix
Masks = dict[str, Bool[np.ndarray, "m k"]]


def choose_masks(weights: Mapping[str, Float[np.ndarray, "m k"]], step: PrunedPattern, scope: Scope = "layer") -> Masks:
    """The mask of each matrix for a step."""
    if step.pattern.density is not None:
        masks = apply(weights, step.pattern)
    elif scope == "global":
        masks = apply(weights, step.pattern, step.sparsity, scope="global")
    else:
        sparsities = layer_sparsities({name: matrix.shape for name, matrix in weights.items()}, step)
        masks = {name: apply(matrix, step.pattern, sparsities[name]) for name, matrix in weights.items()}
    assert all(legal(mask, step.pattern) for mask in masks.values())
    return masks


def layer_sparsities(sizes: Sizes, step: PrunedPattern) -> dict[str, float]:
    """The sparsity of each layer that leaves it its number of tiles."""
    density, counts = inner_density(step.pattern), remaining_tiles(sizes, step)
    return {name: 1 - density * counts[name] / tile_count(step.pattern, *sizes[name]) for name in sizes}


def remaining_tiles(sizes: Sizes, step: PrunedPattern) -> dict[str, int]:
    """Tiles that each layer keeps: its share, rounded so that the total is the nearest to the requested one (largest remainders)."""
    share = (1 - step.sparsity) / inner_density(step.pattern)
    quotas = np.array([share * tile_count(step.pattern, *size) for size in sizes.values()])
    quotas = np.where(np.abs(quotas - np.round(quotas)) < 1e-6, np.round(quotas), quotas)
    counts = np.floor(quotas).astype(int)
    missing = int(np.floor(quotas.sum() + 0.5 + 1e-6)) - counts.sum()
    counts[np.argsort(counts - quotas, kind="stable")[:missing]] += 1
    return dict(zip(sizes, counts.tolist(), strict=True))


def tile_count(pattern: Pattern, m: int, k: int) -> int:
    """Tiles of a matrix, of which a pattern with free tiles keeps some; whole rows or columns for structured patterns."""
    if isinstance(pattern, Structured):
        return m if pattern.axis == "row" else k
    return int(pattern.tile_count(m, k))


def check_step(step: PrunedPattern, sizes: Sizes) -> None:
    """Raise InputError with every layer for which a pattern is too coarse."""
    problems, pattern = ProblemCollector(), step.pattern
    for name, (m, k) in sizes.items():
        with problems.collect(key=name):
            check_matrix_size(pattern, m, k)
            if pattern.tile[1] > k:
                raise InputError(f"the groups of '{pattern}' are wider than the {m}x{k} matrix", "take a smaller one")
    problems.raise_if_any()
    if pattern.density is None and sum(remaining_tiles(sizes, step).values()) == 0:
        raise InputError(f"'{pattern}' at sparsity {step.sparsity:g} keeps no weight", "take a lower sparsity, or smaller blocks")
