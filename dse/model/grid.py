"""A grid of designs as rows and columns, and the inverse rates that those of a row, or of a column, share."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.model import jax_devices

COLUMNS = 2**14  # at most; what is evaluated at once is a number of whole rows


def cut(shape: Sequence[int], width: int = COLUMNS) -> int:
    """The first of the last axes that together make up no more than so many columns."""
    return len(shape) - int((np.cumprod(shape[::-1], dtype=float) <= width).sum())


@dataclass(frozen=True, eq=False)
class Grid:
    """Inverse rates: `constant` [execution, term] times one of `factors` [execution, term, value] for each axis, the last one fastest.

    The axes from `cut` on make up the columns, the others the rows, of which `at_once` are evaluated at a time. So a factor is
    multiplied out for rows or columns alone. What is evaluated is always of one shape: absent designs repeat others.
    """

    constant: Float[np.ndarray, "execution term"]
    factors: Sequence[Float[np.ndarray, "execution term _"]]
    cut: int
    width: int  # of a row, at most
    at_once: int
    precision: np.dtype

    @property
    def shape(self) -> list[int]:
        return [factor.shape[-1] for factor in self.factors]

    @property
    def columns(self) -> Float[np.ndarray, "execution term column"]:
        shape = self.shape[self.cut :]
        places = np.unravel_index(np.minimum(np.arange(self.width), math.prod(shape) - 1), shape) if shape else ()
        ones = np.ones((*self.constant.shape, self.width))
        return _multiplied(ones, self.factors[self.cut :], places).astype(self.precision)

    def chunks(self) -> Iterator[tuple[slice, Float[np.ndarray, "execution term row"]]]:
        """Numbers of the rows and their inverse rates."""
        shape = self.shape[: self.cut]
        total, ones = math.prod(shape), np.ones(self.at_once)
        for start in range(0, total, self.at_once):
            places = np.unravel_index(np.minimum(np.arange(start, start + self.at_once), total - 1), shape) if shape else ()
            rates = _multiplied(self.constant[:, :, None] * ones, self.factors[: self.cut], places)
            yield slice(start, min(start + self.at_once, total)), rates.astype(self.precision)

    def evaluated(self, function: Callable[[Any, Any], Any], outer: tuple[int, ...] = ()) -> np.ndarray:
        """`function` of rows and columns, which gives [*outer, row, column], on every design: [*outer, *shape]."""
        rows, width = math.prod(self.shape[: self.cut]), math.prod(self.shape[self.cut :])
        columns, found = self.columns, np.empty((*outer, rows, width), self.precision)
        for at, some in self.chunks():
            found[..., at, :] = np.asarray(function(jax_devices.over_all(some), columns))[..., : at.stop - at.start, :width]
        return found.reshape((*outer, *self.shape))


def _multiplied(rates: np.ndarray, factors: Sequence[np.ndarray], places: Any) -> np.ndarray:
    return reduce(mul, (factor[:, :, at] for factor, at in zip(factors, places, strict=True)), rates)
