"""Launches of one measured module as arrays, with the exact work of each of its parts.

projections   all products with weights, in the dtype of the weights: latents or queries, keys and values, of the indexer, and the output
absorbed      products of queries and outputs with the two parts of `kv_b_proj`, for each head in bf16 (DSA alone)
scores        of the indexer: sum over index heads of w ReLU(q k) for each earlier token, in fp8 (DSA) or bf16 (MSA)
selection     of the keys or blocks with the highest scores
attention     both products for the chosen keys, in bf16
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from dse.calibrate.modules.measurement import CacheDtype, ModulePhase, WeightDtype
from dse.calibrate.modules.shapes import MODULE_SHAPES, LatentShape, ModuleShape
from dse.calibrate.tables.sanity_checks import fastest_unit
from dse.model.efficiency.device_rates import DeviceRates
from dse.schema.accelerator import Accelerator

PerLaunch = Float[np.ndarray, "launch"]
COMPUTE_DTYPES: dict[WeightDtype, str] = {"bf16": "bf16", "fp8_block": "fp8", "nvfp4": "fp4"}
WEIGHT_BYTES: dict[WeightDtype, float] = {"bf16": 2, "fp8_block": 1 + 4 / 128**2, "nvfp4": 4.5 / 8}  # scales included
BF16_BYTES = 2
CACHE_ELEMENT_BYTES: dict[CacheDtype, float] = {"bf16": 2, "fp8": 1}  # FlashMLA's scales (14%) are not counted
INDEX_ENTRY_BYTES = 128 + 4  # of a token of DSA: fp8 and one fp32 scale


@dataclass(frozen=True, order=True)
class ModuleKey:
    """Identity of a measured module: one network, release, phase and precision on one device."""

    device: str
    kernel: str
    release: str
    phase: ModulePhase
    network: str
    weight_dtype: WeightDtype
    cache_dtype: CacheDtype

    @property
    def precision(self) -> str:
        """The dtypes as text: 'bf16', or 'fp8_block cache=fp8'."""
        return self.weight_dtype if self.cache_dtype == "bf16" else f"{self.weight_dtype} cache={self.cache_dtype}"

    @property
    def shape(self) -> ModuleShape:
        """Sizes of the network."""
        return MODULE_SHAPES[self.network]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.device, self.kernel, self.release, self.phase, self.network, self.precision)))


@dataclass(frozen=True)
class ModuleRates:
    """Rates of a device: peaks of the dense unit by dtype [FLOP/s], bandwidth of the memory [B/s], cache [B], processors."""

    peak: dict[str, float]
    bandwidth: float
    cache: float
    processors: float

    @classmethod
    def from_accelerator(cls, device: Accelerator) -> "ModuleRates | None":
        """The rates that a description states; None if no unit computes in bf16 or that unit states no processors."""
        unit_name = fastest_unit({name: unit for name, unit in device.units.items() if unit.processors}, "bf16")
        if unit_name is None:
            return None
        rates = DeviceRates.from_accelerator(device, unit_name, "bf16")
        peak = {dtype: quantity.value for dtype, quantity in device.units[unit_name].peak.items()}
        return cls(peak, rates.bandwidth, rates.cache, rates.processors)


@dataclass(frozen=True, eq=False)
class ModuleLaunches:
    """Launches of a module: `sequences` of `queries` new tokens and `keys` tokens in all, with `heads` query heads on the device.

    `time`: measured [s], NaN if unmeasured. FLOPs count a multiply-add as 2.
    """

    key: ModuleKey
    rates: ModuleRates
    heads: PerLaunch
    sequences: PerLaunch
    queries: PerLaunch
    keys: PerLaunch
    time: PerLaunch

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Heads, sequences, queries and keys of each launch."""
        return [tuple(map(int, row)) for row in zip(self.heads, self.sequences, self.queries, self.keys, strict=True)]

    @property
    def tokens(self) -> PerLaunch:
        """New tokens of all sequences."""
        return self.sequences * self.queries

    @property
    def kv_heads(self) -> PerLaunch:
        """Heads of keys on the device, at least one; latents are shared by all heads."""
        shape = self.key.shape
        return np.ones(len(self)) if isinstance(shape, LatentShape) else np.maximum(np.floor(self.heads / shape.group), 1)

    @property
    def index_heads(self) -> PerLaunch:
        """Index heads on the device: all of them (DSA), or one for each head of keys (MSA)."""
        shape = self.key.shape
        return np.full(len(self), float(shape.index_heads)) if isinstance(shape, LatentShape) else self.kv_heads

    @property
    def projection_sizes(self) -> list[tuple[PerLaunch, PerLaunch]]:
        """Outputs and inputs of each product with weights."""
        shape, one = self.key.shape, np.ones(len(self))
        if not isinstance(shape, LatentShape):
            width = (self.heads + 2 * self.kv_heads) * shape.size + (self.index_heads + 1) * shape.index_size
            return [(width, shape.hidden * one), (shape.hidden * one, self.heads * shape.size)]
        return [
            ((shape.query_rank + shape.entry) * one, shape.hidden * one),
            (self.heads * (shape.content + shape.rotary), shape.query_rank * one),
            (shape.index_heads * shape.index_size * one, shape.query_rank * one),
            ((shape.index_size + shape.index_heads) * one, shape.hidden * one),
            (shape.hidden * one, self.heads * shape.value),
        ]

    @property
    def projection_weights(self) -> PerLaunch:
        """Weights of all projections."""
        return sum((outputs * inputs for outputs, inputs in self.projection_sizes), np.zeros(len(self)))

    @property
    def indexer_weights(self) -> PerLaunch:
        """Weights of the projections of the indexer."""
        shape = self.key.shape
        if isinstance(shape, LatentShape):
            return sum((outputs * inputs for outputs, inputs in self.projection_sizes[2:4]), np.zeros(len(self)))
        return (self.index_heads + 1) * shape.index_size * shape.hidden

    @property
    def projection_flops(self) -> PerLaunch:
        """FLOPs of all projections."""
        return 2 * self.tokens * self.projection_weights

    @property
    def absorbed_weights(self) -> PerLaunch:
        """Weights of `kv_b_proj`: its parts for keys and for values."""
        shape = self.key.shape
        return self.heads * shape.latent * (shape.content + shape.value) if isinstance(shape, LatentShape) else np.zeros(len(self))

    @property
    def absorbed_flops(self) -> PerLaunch:
        """FLOPs of the products with `kv_b_proj`."""
        return 2 * self.tokens * self.absorbed_weights

    @property
    def scored_keys(self) -> PerLaunch:
        """Pairs of a query and a key up to it, of all sequences."""
        return self.sequences * self.queries * (self.keys - (self.queries - 1) / 2)

    @property
    def score_flops(self) -> PerLaunch:
        """FLOPs of the indexer's scores."""
        return 2 * self.index_heads * self.key.shape.index_size * self.scored_keys

    @property
    def attended_keys(self) -> PerLaunch:
        """Pairs of a query and a key that it attends to, of one head of keys and all sequences."""
        last = self.keys - self.queries
        return self.sequences * (self._attended_up_to(self.keys) - self._attended_up_to(last))

    def _attended_up_to(self, position: PerLaunch) -> PerLaunch:
        """Keys attended to by the queries at the first `position` positions of a sequence."""
        shape = self.key.shape
        growing = np.minimum(position, shape.chosen)
        full = position - growing
        if isinstance(shape, LatentShape):
            return growing * (growing + 1) / 2 + full * shape.chosen
        blocks, rest = np.divmod(full, shape.block)  # of a query's own block, only the keys up to it
        own = blocks * shape.block * (shape.block + 1) / 2 + rest * (rest + 1) / 2
        return growing * (growing + 1) / 2 + full * (shape.chosen - shape.block) + own

    @property
    def attention_flops(self) -> PerLaunch:
        """FLOPs of both products of the attention to the chosen keys."""
        shape = self.key.shape
        width = shape.entry + shape.latent if isinstance(shape, LatentShape) else 2 * shape.size
        return 2 * self.heads * width * self.attended_keys

    @property
    def key_bytes(self) -> PerLaunch:
        """Bytes of the keys and values of one token on the device."""
        shape = self.key.shape
        elements = shape.entry * np.ones(len(self)) if isinstance(shape, LatentShape) else 2 * self.kv_heads * shape.size
        return elements * CACHE_ELEMENT_BYTES[self.key.cache_dtype]

    @property
    def index_key_bytes(self) -> float:
        """Bytes of the indexer's key of one token."""
        shape = self.key.shape
        return INDEX_ENTRY_BYTES if isinstance(shape, LatentShape) else BF16_BYTES * shape.index_size

    @property
    def weight_bytes(self) -> PerLaunch:
        """Bytes of all weights, those of `kv_b_proj` in bf16."""
        return WEIGHT_BYTES[self.key.weight_dtype] * self.projection_weights + BF16_BYTES * self.absorbed_weights

    @property
    def compulsory_bytes(self) -> PerLaunch:
        """Bytes that every schedule moves: weights, inputs and outputs of the module, the indexer's keys, and each chosen key once."""
        chosen = np.minimum(self.keys, self.queries * self.key.shape.chosen)
        cache = self.sequences * (chosen * self.key_bytes + self.keys * self.index_key_bytes)
        return self.weight_bytes + 2 * BF16_BYTES * self.tokens * self.key.shape.hidden + cache

    @property
    def compute_time(self) -> PerLaunch:
        """Time of all FLOPs at the peaks of their dtypes [s]."""
        peak = self.rates.peak
        scores = self.score_flops / (peak["fp8"] if isinstance(self.key.shape, LatentShape) else peak["bf16"])
        in_bf16 = (self.absorbed_flops + self.attention_flops) / peak["bf16"]
        return self.projection_flops / peak[COMPUTE_DTYPES[self.key.weight_dtype]] + scores + in_bf16

    @property
    def sol(self) -> PerLaunch:
        """Time at the speed of light [s]: the larger of `compute_time` and compulsory bytes over bandwidth."""
        return np.maximum(self.compute_time, self.compulsory_bytes / self.rates.bandwidth)

    def take(self, index: Int[np.ndarray, "taken"] | Bool[np.ndarray, "launch"]) -> "ModuleLaunches":
        """The launches at an index or under a mask."""
        arrays = {name: getattr(self, name)[index] for name in ("heads", "sequences", "queries", "keys", "time")}
        return replace(self, **arrays)
