"""Launches of one fused attention kernel as arrays: sizes of each, FLOPs, bytes, and the rates of the device that they run on."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.model.efficiency.device_rates import DeviceRates
from dse.schema.accelerator import Accelerator

Phase = Literal["prefill", "decode", "encoder"]
PHASES: tuple[Phase, ...] = ("prefill", "decode", "encoder")
PerLaunch = Float[np.ndarray, "launch"]
LARGEST_PROCESSOR = 15.25e12  # FLOP/s in 16 bit: that of a B200, the largest on which attention was measured
AttentionShape = tuple[int, ...]  # sequences, queries, keys, heads, key heads, head size, window (0: none)


@dataclass(frozen=True, order=True)
class AttentionKey:
    """Identity of a fused attention kernel: one release, phase and precision on one device.

    `phase`: `prefill` (causal, several queries of a sequence), `decode` (one query of a sequence) or `encoder` (bidirectional). `dtype` is
    that of queries and outputs, `cache_dtype` that of keys and values.
    """

    device: str
    kernel: str
    release: str
    phase: Phase
    dtype: str
    cache_dtype: str

    @property
    def precision(self) -> str:
        """The dtypes as text: 'bf16', or 'bf16 cache=fp8'."""
        return self.dtype if self.cache_dtype == self.dtype else f"{self.dtype} cache={self.cache_dtype}"

    def __str__(self) -> str:
        return " ".join(filter(None, (self.device, self.kernel, self.release, self.phase, self.precision)))


@dataclass(frozen=True)
class AttentionRates:
    """Rates of a device: `peak` of the dtype of queries and `cache_peak` of that of the cache [FLOP/s], `bandwidth` [B/s], `cache` [B]."""

    peak: float
    cache_peak: float
    bandwidth: float
    cache: float
    processors: float

    @classmethod
    def from_accelerator(cls, device: Accelerator, unit_name: str, dtype: str, cache_dtype: str) -> "AttentionRates":
        """The rates that a description states; a unit without the dtype of the cache computes in that of the queries.

        A processor that is larger than every measured one works on several tiles at once, so it counts as several.
        """
        rates, peaks = DeviceRates.from_accelerator(device, unit_name, dtype), device.units[unit_name].peak
        cache_peak = peaks[cache_dtype].value if cache_dtype in peaks else rates.peak
        return cls(rates.peak, cache_peak, rates.bandwidth, rates.cache, max(rates.processors, rates.peak / LARGEST_PROCESSOR))


@dataclass(frozen=True, eq=False)
class AttentionLaunches:
    """Launches of softmax(Q K^T) V: `sequences` of `queries` that attend to `keys`, in `heads` of which groups share `kv_heads`.

    `size`: elements of a head. `window`: keys that a query attends to, itself included; infinite without one. With `is_causal` the last
    query is at the last key, and no query attends to later keys. `query_bytes`, `cache_bytes`: of one element of queries and outputs, and
    of keys and values. `writes_cache`: the time includes the write of the new keys and values. `time`: measured [s], NaN if unmeasured.
    """

    key: AttentionKey
    rates: AttentionRates
    sequences: PerLaunch
    queries: PerLaunch
    keys: PerLaunch
    heads: PerLaunch
    kv_heads: PerLaunch
    size: PerLaunch
    window: PerLaunch
    is_causal: Bool[np.ndarray, "launch"]
    writes_cache: Bool[np.ndarray, "launch"]
    time: PerLaunch

    def __len__(self) -> int:
        return len(self.time)

    @property
    def query_bytes(self) -> float:
        """Bytes of an element of queries and outputs."""
        return BITS_PER_ELEMENT[storage_dtype(self.key.dtype)] / 8

    @property
    def cache_bytes(self) -> float:
        """Bytes of an element of keys and values."""
        return BITS_PER_ELEMENT[storage_dtype(self.key.cache_dtype)] / 8

    @cached_property
    def shapes(self) -> list[AttentionShape]:
        """Sizes of each launch, from sequences to the window."""
        window = np.where(np.isfinite(self.window), self.window, 0)
        columns = self.sequences, self.queries, self.keys, self.heads, self.kv_heads, self.size, window
        return [tuple(map(int, row)) for row in zip(*columns, strict=True)]

    @property
    def scores(self) -> PerLaunch:
        """Scores of one head and sequence that are not masked: of causal queries, those of the keys up to each query in its window."""
        window = np.minimum(self.window, self.keys)
        last, first = self.keys, self.keys - self.queries + 1  # keys up to the last and up to the first query
        growing_last = np.clip(window, first - 1, last)  # queries before see all keys up to themselves, the others a whole window
        growing = (growing_last * (growing_last + 1) - (first - 1) * first) / 2
        return np.where(self.is_causal, growing + (last - growing_last) * window, self.queries * self.keys)

    @property
    def flops(self) -> PerLaunch:
        """FLOPs of both products for the scores that are not masked."""
        return 4 * self.sequences * self.heads * self.size * self.scores

    @property
    def keys_read(self) -> PerLaunch:
        """Keys of a sequence that some query attends to."""
        return np.where(self.is_causal, np.minimum(self.keys, self.window + self.queries - 1), self.keys)

    @property
    def kv_bytes(self) -> PerLaunch:
        """Bytes of the keys and values that are read, each once."""
        return 2 * self.sequences * self.kv_heads * self.size * self.keys_read * self.cache_bytes

    @property
    def query_and_output_bytes(self) -> PerLaunch:
        """Bytes of queries and outputs."""
        return 2 * self.sequences * self.heads * self.size * self.queries * self.query_bytes

    @property
    def compulsory_bytes(self) -> PerLaunch:
        """Bytes of all operands and outputs, each once."""
        return self.kv_bytes + self.query_and_output_bytes

    def take(self, index: Int[np.ndarray, "taken"] | Bool[np.ndarray, "launch"]) -> "AttentionLaunches":
        """The launches at an index or under a mask."""
        arrays = {name: value[index] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)


def phase_of(queries: float, is_causal: bool) -> Phase:
    """The phase that a launch belongs to."""
    if not is_causal:
        return "encoder"
    return "decode" if queries == 1 else "prefill"
