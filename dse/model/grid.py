"""A grid of designs as rows and columns, and the inverse rates that those of a row, or of a column, share."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from jaxtyping import Float

COLUMNS = 2**14  # at most; a chunk is a number of whole rows


def trailing(shape: Sequence[int]) -> int:
    """How many of the last axes make up the columns: as many as fit."""
    return int((np.cumprod(shape[::-1], dtype=float) <= COLUMNS).sum())


@dataclass(frozen=True, eq=False)
class Grid:
    """Inverse rates: `constant` [execution, term] times one of `factors` [execution, term, value] for each axis, the last one fastest.

    The last `trailing` axes make up the columns, the others the rows, of which `at_once` are evaluated at a time. So a factor is
    multiplied out for rows or columns alone, and no result depends on which designs are evaluated together.
    """

    constant: Float[np.ndarray, "execution term"]
    factors: Sequence[Float[np.ndarray, "execution term _"]]
    trailing: int
    at_once: int
    precision: np.dtype

    @property
    def shape(self) -> list[int]:
        return [factor.shape[-1] for factor in self.factors]

    @property
    def columns(self) -> Float[np.ndarray, "execution term column"]:
        cut = len(self.shape) - self.trailing
        places = np.indices(self.shape[cut:]).reshape(self.trailing, math.prod(self.shape[cut:]))
        return _multiplied(np.ones((*self.constant.shape, 1)), self.factors[cut:], places).astype(self.precision)

    def chunks(self) -> Iterator[tuple[slice, Float[np.ndarray, "execution term row"]]]:
        """Numbers of the rows and their inverse rates, always of `at_once` rows: those beyond the slice repeat the last."""
        cut = len(self.shape) - self.trailing
        total, one = math.prod(self.shape[:cut]), np.ones(self.at_once)
        for start in range(0, total, self.at_once):
            at = np.minimum(np.arange(start, start + self.at_once), total - 1)
            places = np.unravel_index(at, self.shape[:cut]) if cut else ()
            rates = _multiplied(self.constant[:, :, None] * one, self.factors[:cut], places)
            yield slice(start, min(start + self.at_once, total)), rates.astype(self.precision)

    def evaluated(self, function: Callable[[Any, Any], Any], outer: tuple[int, ...] = ()) -> np.ndarray:
        """`function` of rows and columns, which gives [*outer, row, column], on every design: [*outer, *shape]."""
        columns = self.columns
        found = np.empty((*outer, math.prod(self.shape) // columns.shape[-1], columns.shape[-1]), self.precision)
        for at, rows in self.chunks():
            found[..., at, :] = np.asarray(function(rows, columns))[..., : at.stop - at.start, :]
        return found.reshape((*outer, *self.shape))


def _multiplied(rates: np.ndarray, factors: Sequence[np.ndarray], places: Any) -> np.ndarray:
    return reduce(mul, (factor[:, :, at] for factor, at in zip(factors, places, strict=True)), rates)
