"""Overlapping windows: how a unit that runs n:m executes a sparser or denser Z:M, as n:m over an expanded k.

Each aligned group of M columns is covered by L windows of m consecutive columns. A window stores n of its columns, and every nonzero is
stored in one window that contains its column. The weights [m, k] become an n:m matrix [m, k L m / M], and the activations are expanded by
the same factor: a column that lies in two windows is repeated. SlideSparse (arXiv 2603.05232) runs (2N - 2):2N on 2:4 units so, by N - 1
windows that overlap by two columns: k grows by 2 - 2 / N. Windows do not cross groups.

**When every mask fits.** Let the windows start at a_0 <= a_1 <= ... <= a_{L-1} and cover all columns; let a_{-1} = -m and a_L = M stand for
what is left and right of the group, and let t = ceil(Z / n). Every mask of at most Z nonzeros fits if and only if

    a_{i+j} - a_i <= m + n (j - 1)        for all j = 1 ... t                                                           (1)

Proof. The windows of one column are consecutive, so by Hall's theorem (with n copies of each window) a mask fits if and only if no run of w
consecutive windows has more than n w nonzeros in columns that no other window contains. (A set of windows with gaps is a union of runs, and
each column's windows belong to one run, so runs suffice.) These columns lie between the end of the window before the run and the start of
the window after it: a_{i+w+1} - a_i - m of them, if that is positive. A mask may put min(Z, that many) nonzeros there. So the condition is
min(Z, a_{i+w+1} - a_i - m) <= n w, which binds where n w < Z, that is for w = 0 ... t - 1. With j = w + 1 it is (1).

**Fewest windows.** The smallest number of windows is the smallest L with

    M <= n L + (m - n) floor(L / t)                                                                                     (2)

Proof. From a_{-1} to a_L there are L + 1 steps. Split them into ceil((L + 1) / t) = floor(L / t) + 1 jumps of at most t steps, and add (1)
up: M + m <= n (L + 1) + (m - n) (floor(L / t) + 1), which is (2). Conversely a_i = n i + (m - n) floor(i / t) satisfies (1), because j <= t
steps cross at most one multiple of t; it has a_{-1} = -m, and (2) says that a_L = M is not further. Starts above M - m may be moved back to
it: no difference grows then, except a_L - a_i = m, which (1) allows.

Windows that wrap around the ends of a group may be fewer where t does not divide L: three of them instead of four consecutive ones cover
4:9 on a 2:4 unit. Only consecutive columns are considered here, which hardware and kernels load as they lie in memory.

So windows form chains of t: n apart within a chain, and without overlap between chains. A chain covers m + n (t - 1) columns. A Z:M with
Z = n t and M = m + n (t - 1) stores no padding: Z : (m - n + Z). For 2:4 these are 4:6, 6:8, 8:10, ...; for 1:4 they are 2:5, 3:6, 4:7, ...
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int, Shaped

from dse.base.errors import InputError
from dse.sparsity.grammar import as_pattern
from dse.sparsity.kinds import NM
from dse.sparsity.mask import legal
from dse.sparsity.pattern import FloatOrArray, Pattern


@dataclass(frozen=True)
class WindowCover:
    """Windows of the n:m pattern `unit` that cover each group of `group` columns, with at most `kept` nonzeros in each row."""

    unit: NM
    kept: int
    group: int

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First column of each window in its group; as few windows as possible. A window wider than the group ends in padding."""
        n, m = self.unit.n, self.unit.m
        chain = -(-self.kept // n)
        chains, rest = divmod(self.group, m + n * (chain - 1))
        count = chains * chain + min(-(-rest // n), chain)  # the solution of (2) above
        last = max(self.group - m, 0)
        return tuple(min(n * i + (m - n) * (i // chain), last) for i in range(count))

    @property
    def expansion(self) -> float:
        """Columns of all windows over the columns of the group [1]."""
        return len(self.starts) * self.unit.m / self.group

    @property
    def stored_share(self) -> float:
        """Elements that the windows store over the elements of the group [1]."""
        return len(self.starts) * self.unit.n / self.group

    def expanded_columns(self, k: FloatOrArray) -> FloatOrArray:
        """Columns of a matrix of `k` columns after expansion; the last group is padded."""
        return np.ceil(k / self.group) * (len(self.starts) * self.unit.m)


def window_cover(pattern: Pattern, unit: Pattern) -> WindowCover | None:
    """The windows of the pattern that a unit lists with the fewest stored elements for `pattern`.

    None if `unit` is not an N:M, or if no limit of `pattern` lets windows store less than all elements.
    """
    if not isinstance(unit, NM) or pattern.granularity[0] % unit.v:
        return None
    limits = [limit for limit in pattern.group_limits if limit.rows % unit.v == 0]
    covers = [WindowCover(unit, limit.max_occupied * limit.columns, limit.group_size * limit.columns) for limit in limits]
    return min((cover for cover in covers if cover.stored_share < 1), key=lambda cover: (cover.stored_share, cover.group), default=None)


def expand_weights(
    weights: Shaped[np.ndarray, "m k"], pattern: Pattern | str, unit: Pattern | str
) -> tuple[Shaped[np.ndarray, "m expanded"], Int[np.ndarray, "expanded"]]:
    """Write `weights`, whose mask is legal in `pattern`, as a matrix of the pattern that a unit lists, over an expanded k.

    Returns the expanded weights, and the column of `weights` (the row of the other operand) that each of their columns takes:
    `weights @ b == expanded @ b[columns]`. The windows are filled from left to right, each with its leftmost nonzeros that no window before
    it stores: whichever nonzero can wait least comes first, so this fails for no mask that fits.

    Raises InputError if the windows do not exist, or if the mask is not legal.
    """
    pattern, unit = as_pattern(pattern), as_pattern(unit)
    cover = window_cover(pattern, unit)
    if cover is None:
        raise InputError(f"windows of '{unit}' store no less than all of '{pattern}'", "take a sparser pattern and a unit that runs N:M")
    if not legal(weights != 0, pattern):
        raise InputError(f"the nonzeros are not a legal mask of '{pattern}'", "apply the pattern to the weights first")
    columns = np.array(cover.starts)[:, None] + np.arange(cover.unit.m)  # of one group [window, place]
    groups = -(-weights.shape[1] // cover.group)
    padded = _split_groups(weights, cover, groups, int(columns.max()) + 1)
    remaining = _shared_by_rows(padded != 0, cover.unit.v)
    windows = np.zeros((len(weights), groups, *columns.shape), weights.dtype)
    for number, window in enumerate(columns):
        waiting = remaining[..., window]
        stored = waiting & (waiting.cumsum(axis=-1) <= cover.unit.n)
        windows[:, :, number] = np.where(stored, padded[..., window], 0)
        remaining[..., window] = waiting & ~stored
    sources = np.arange(groups)[:, None, None] * cover.group + np.minimum(columns, cover.group - 1)
    return windows.reshape(len(weights), -1), np.minimum(sources, weights.shape[1] - 1).ravel()


def _split_groups(weights: np.ndarray, cover: WindowCover, groups: int, width: int) -> np.ndarray:
    """The weights as [m, group, column]; groups narrower than `width` columns, and the last one, are padded with zeros."""
    whole = np.pad(weights, [(0, 0), (0, groups * cover.group - weights.shape[1])]).reshape(len(weights), groups, cover.group)
    return np.pad(whole, [(0, 0), (0, 0), (0, max(width - cover.group, 0))])


def _shared_by_rows(mask: np.ndarray, rows: int) -> np.ndarray:
    """The columns that any of each `rows` neighbouring rows keeps."""
    if rows == 1:
        return mask
    padded = np.pad(mask, [(0, -len(mask) % rows), (0, 0), (0, 0)])
    shared = padded.reshape(-1, rows, *mask.shape[1:]).any(axis=1)
    return np.repeat(shared, rows, axis=0)[: len(mask)]
