"""The share of its activations that a run uses: which pattern holds them, and which zeros the tokens that it computes together share.

Zeros that several tokens share are counted where a trace recorded activations; otherwise tokens are taken as independent.
"""

import numpy as np
from jaxtyping import Float, Int

from dse.networks.layers import PerLayer
from dse.schema.unit_run import Activations
from dse.sparsity.expectation import any_of
from dse.sparsity.kinds import UNSTRUCTURED
from dse.sparsity.pattern import Pattern
from dse.workload import Variant


def used_share(activations: Activations, variant: Variant, columns: PerLayer) -> PerLayer:
    """Share of the inputs of each layer that a run uses if it leaves out those that are zero in all of `columns` consecutive columns [1].

    Of an N:M pattern, each column has N of M inputs at random places.
    """
    share, index = fit_activation_pattern(activations.patterns, variant.input_density)
    unstructured = np.array([pattern == UNSTRUCTURED for pattern in (*activations.patterns, None)])  # index -1: no pattern fits
    return np.where(unstructured[index], union_density(variant, columns), any_of(share, columns))


def fit_activation_pattern(patterns: tuple[Pattern, ...], density: PerLayer) -> tuple[PerLayer, Int[np.ndarray, "layer"]]:
    """Fit the sparsest pattern that can hold activations of a density.

    Returns the share of the activations that it keeps and its index in `patterns` (-1: none fits, all are kept). An N:M pattern holds
    densities up to N/M, as if nonzeros were evenly spread. Hardware that prunes activations to N:M on the fly (S2TA, Liu et al. 2022,
    arXiv 2107.07983) enforces that, at an unknown cost in accuracy.
    """
    share, index = np.ones(len(density)), np.full(len(density), -1)
    for number, pattern in enumerate(patterns):
        pattern_share = density if pattern.density is None else np.full(len(density), pattern.density)
        better = (density <= pattern_share) & (pattern_share < share)
        share, index = np.where(better, pattern_share, share), np.where(better, number, index)
    return share, index


def union_density(variant: Variant, columns: PerLayer) -> PerLayer:
    """Share of the inputs of each layer that any of so many consecutive columns needs [1].

    It is linear between the counted numbers of columns, and what exceeds the largest consists of independent groups of that many. Layers
    without a count have independent zeros.
    """
    union = any_of(variant.input_density, columns)
    for layer in np.flatnonzero(_is_counted(variant)):
        sizes, densities = _counted_unions(variant, int(layer))
        within = np.interp(columns[layer], sizes, densities)
        union[layer] = any_of(densities[-1], columns[layer] / sizes[-1]) if columns[layer] > sizes[-1] else within
    return union


def _is_counted(variant: Variant) -> np.ndarray:
    """Layers of which a union of several columns was counted."""
    counted = [np.isfinite(densities) for columns, densities in variant.union_densities.items() if columns > 1]
    return np.logical_or.reduce([np.zeros(len(variant.layers), bool), *counted])


def _counted_unions(variant: Variant, layer: int) -> tuple[Float[np.ndarray, " size"], Float[np.ndarray, " size"]]:
    """Numbers of columns of a layer, ascending from 1, and the union density of each.

    More columns need no fewer inputs. Counts may decrease, where a recording ends with an incomplete group.
    """
    counted = {1: variant.input_density[layer]}
    counted |= {size: each[layer] for size, each in sorted(variant.union_densities.items()) if size > 1 and np.isfinite(each[layer])}
    return np.array(list(counted), float), np.maximum.accumulate(list(counted.values()))
