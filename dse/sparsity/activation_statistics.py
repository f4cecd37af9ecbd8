"""Exact statistics of recorded activations [token, channel]: densities of tokens and channels, zeros that tokens share, and N:M.

Activations are read in slabs of tokens and never held in memory as a whole. Nonzeros of 1, 2, 4, ... consecutive tokens are counted
together, so that one pass shows what units of every size need.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from dse.base.errors import InputError
from dse.sparsity.kinds import NM

CHUNK = 2**21  # elements of a slab that are counted at a time
MAX_GROUP = 64  # channels of the largest group whose N:M are counted


@dataclass(frozen=True)
class DensitySpread:
    """Densities of the tokens (or channels) of a layer: standard deviation, and the share that is entirely zero [1]."""

    deviation: float
    empty: float


@dataclass(frozen=True)
class TokenGroups:
    """Mean over aligned groups of `tokens` consecutive tokens; an incomplete last group is left out.

    `union_density`: share of the channels that any token of a group needs [1]. `imbalance`: nonzeros of the fullest token of a group over
    the mean [1], by which a unit is slower if its tokens wait for the fullest; NaN without nonzeros.
    """

    tokens: int
    groups: int
    union_density: float
    imbalance: float


@dataclass(frozen=True)
class GroupedChannels:
    """How groups of M consecutive channels of a token fit a pattern N:M; an incomplete last group counts as filled up with zeros.

    `over`: share of the groups with more than N nonzeros [1]; where it is 0, the pattern loses nothing. `l1_share` and `l2_share`: share of
    the sum of |x| and of x^2 that the best mask, the N largest of each group, keeps [1]; NaN without nonzeros.
    """

    pattern: NM
    over: float
    l1_share: float
    l2_share: float


@dataclass(frozen=True)
class ActivationStatistics:
    """Statistics of the recorded inputs of a layer, of shape [tokens, channels]."""

    tokens: int
    channels: int
    density: float
    over_tokens: DensitySpread
    over_channels: DensitySpread
    token_groups: tuple[TokenGroups, ...]
    channel_groups: tuple[GroupedChannels, ...]


def count_activations(
    slabs: Iterable[Shaped[np.ndarray, "token channel"]], groups: Iterable[int], tolerance: float
) -> ActivationStatistics:
    """Count activations that are given in slabs of tokens; an element is zero if |x| <= tolerance.

    `groups`: the M of the N:M patterns, of which those above MAX_GROUP are left out: each has M - 1 patterns. Raises InputError for the
    first number that is not finite, and if there are no elements.
    """
    tokens, in_groups = _TokenCounter(), [_GroupCounter(size) for size in dict.fromkeys(groups) if size <= MAX_GROUP]
    for slab in _chunks(slabs):
        magnitudes = _magnitudes(slab, tolerance, tokens.tokens)
        tokens.add(magnitudes > 0)
        for counter in in_groups:
            counter.add(magnitudes)
    if not tokens.tokens or not len(tokens.channels):
        raise InputError("the array is empty", "record at least one token")
    channel_groups = tuple(each for counter in in_groups for each in counter.finish())
    return tokens.finish(channel_groups)


def _chunks(slabs: Iterable[Shaped[np.ndarray, "token channel"]]) -> Iterator[Shaped[np.ndarray, "part channel"]]:
    """The slabs in parts of about CHUNK elements."""
    for slab in slabs:
        rows = max(1, CHUNK // max(slab.shape[1], 1))
        yield from (slab[start : start + rows] for start in range(0, len(slab), rows))


def _magnitudes(slab: Shaped[np.ndarray, "token channel"], tolerance: float, first_token: int) -> Float[np.ndarray, "token channel"]:
    """|x|, and 0 where it is not above the tolerance; raises InputError if a number is not finite."""
    if slab.dtype.kind == "c":
        raise InputError("the activations are complex numbers", "record real ones")
    magnitudes = np.abs(slab.astype(np.float64 if slab.dtype.itemsize > 2 and slab.dtype != np.float32 else np.float32))
    finite = np.isfinite(magnitudes)
    if not finite.all():
        token, channel = map(int, np.argwhere(~finite)[0])
        what = f"the activation of token {first_token + token}, channel {channel} is {slab[token, channel]}"
        raise InputError(what, "record finite activations: those of a network that does not overflow")
    return np.where(magnitudes > tolerance, magnitudes, 0.0) if tolerance else magnitudes


@dataclass
class _TokenCounter:
    """Nonzeros of tokens, of channels, and of groups of 1, 2, 4, ... consecutive tokens."""

    tokens: int = 0
    empty: int = 0
    squares: int = 0  # sum of the squared nonzeros of a token
    channels: Int[np.ndarray, " channel"] = field(default_factory=lambda: np.zeros(0, np.int64))
    levels: list["_UnionCounter"] = field(default_factory=list)

    def add(self, mask: Bool[np.ndarray, "token channel"]) -> None:
        nonzeros = mask.sum(axis=1, dtype=np.int64)
        self.tokens += len(mask)
        self.empty += int((nonzeros == 0).sum())
        self.squares += int((nonzeros**2).sum())
        self.channels = mask.sum(axis=0, dtype=np.int64) + (self.channels if len(self.channels) else 0)
        groups, level = _Groups(mask, nonzeros, nonzeros), 0
        while len(groups.total):
            if level == len(self.levels):
                self.levels.append(_UnionCounter(2**level))
            groups, level = self.levels[level].add(groups), level + 1

    def finish(self, channel_groups: tuple[GroupedChannels, ...]) -> ActivationStatistics:
        width, mean = len(self.channels), self.channels.sum() / self.tokens
        token_deviation = np.sqrt(max(self.squares / self.tokens - mean**2, 0.0)) / width
        over_channels = DensitySpread(float(self.channels.std() / self.tokens), float((self.channels == 0).mean()))
        return ActivationStatistics(
            self.tokens, width, float(mean / width), DensitySpread(float(token_deviation), self.empty / self.tokens), over_channels,
            tuple(level.finish(width) for level in self.levels), channel_groups,
        )  # fmt: skip


@dataclass(frozen=True)
class _Groups:
    """Groups of tokens: which channels any token needs, and the nonzeros of the fullest token and of all."""

    union: Bool[np.ndarray, "group channel"]
    fullest: Int[np.ndarray, " group"]
    total: Int[np.ndarray, " group"]

    def after(self, others: "_Groups") -> "_Groups":
        """Other groups, then these."""
        return _Groups(*(np.concatenate([getattr(others, name), getattr(self, name)]) for name in ("union", "fullest", "total")))

    def pairs(self) -> "_Groups":
        """Groups of two neighbours; a single last one is left out."""
        first, second = (slice(start, len(self.total) // 2 * 2, 2) for start in (0, 1))
        union, fullest = self.union[first] | self.union[second], np.maximum(self.fullest[first], self.fullest[second])
        return _Groups(union, fullest, self.total[first] + self.total[second])


@dataclass
class _UnionCounter:
    """Sums over all groups of a size; a last group without a neighbour waits for the next slab."""

    tokens: int
    groups: int = 0
    needed: int = 0
    fullest: int = 0
    total: int = 0
    waiting: _Groups | None = None

    def add(self, groups: _Groups) -> _Groups:
        """Count groups; returns those of twice the size that are complete with them."""
        self.groups += len(groups.total)
        self.needed += int(np.count_nonzero(groups.union))
        self.fullest += int(groups.fullest.sum())
        self.total += int(groups.total.sum())
        if self.waiting is not None:
            groups = groups.after(self.waiting)
        single = slice(len(groups.total) // 2 * 2, None)
        self.waiting = _Groups(groups.union[single], groups.fullest[single], groups.total[single])
        return groups.pairs()

    def finish(self, channels: int) -> TokenGroups:
        imbalance = self.tokens * self.fullest / self.total if self.total else np.nan
        return TokenGroups(self.tokens, self.groups, self.needed / (self.groups * channels), imbalance)


class _GroupCounter:
    """Nonzeros and magnitudes of groups of channels: how many groups have 0, 1, ... nonzeros, and the sums of their ranked elements."""

    def __init__(self, size: int):
        self.size = size
        self.histogram = np.zeros(size + 1, np.int64)
        self.sums = np.zeros((2, size))  # of |x| and x^2, by rank

    def add(self, magnitudes: Float[np.ndarray, "token channel"]) -> None:
        filled = np.pad(magnitudes, ((0, 0), (0, -magnitudes.shape[1] % self.size)))
        ranked = np.sort(filled.reshape(-1, self.size), axis=1)[:, ::-1]
        self.histogram += np.bincount(np.count_nonzero(ranked, axis=1), minlength=self.size + 1)
        exact = ranked.astype(np.float64)
        self.sums += np.stack([np.ones(len(exact)) @ exact, np.einsum("gr,gr->r", exact, exact)])

    def finish(self) -> Iterator[GroupedChannels]:
        """What every N:M of this M, with N < M, would keep."""
        with np.errstate(invalid="ignore"):
            kept = self.sums.cumsum(axis=1) / self.sums.sum(axis=1, keepdims=True)
        over = 1 - self.histogram.cumsum() / self.histogram.sum()
        for n, (l1_share, l2_share) in enumerate(kept.T[:-1], start=1):
            yield GroupedChannels(NM(n, self.size), float(over[n]), float(l1_share), float(l2_share))
