"""Fitted attention kernels as they are stored: the section `attention` of a file of fitted kernels. Reading it needs no JAX."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, model_validator

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import did_you_mean
from dse.base.strict_model import StrictModel, field_error
from dse.model.efficiency import interval
from dse.model.efficiency.attention.launches import AttentionKey, AttentionLaunches, PerLaunch, Phase
from dse.model.efficiency.attention.parameters import ATTENTION_PARAMETERS, TILINGS, attention_theta
from dse.model.efficiency.parameter import Estimate, Theta

if TYPE_CHECKING:
    from dse.model.efficiency.attention.model import AttentionModel

MEASURED_RANGES = ("sequences", "queries", "keys", "heads", "size")


class AttentionRecord(StrictModel):
    """One fitted attention kernel: its identity, tiling and parameters, and what it was fitted to."""

    device: str
    kernel: str
    release: str = ""
    phase: Phase = Field(description="prefill: causal, several queries; decode: one query of a sequence; encoder: bidirectional")
    dtype: str = Field(description="of queries and outputs")
    cache_dtype: str = Field(description="of keys and values")
    tiling: str
    launches: int = Field(gt=0, description="to which the parameters were fitted")
    error: float = Field(ge=0, description="mean relative error of launches that the fit did not see")
    half_width: float = Field(ge=0, description="of the 90% interval of the logarithm of a time, from launches that the fit did not see")
    sources: tuple[str, ...]
    ranges: dict[str, tuple[float, float]] = Field(description="least and greatest measured sizes")
    parameters: dict[str, Estimate]

    @model_validator(mode="after")
    def _check_parameters(self) -> "AttentionRecord":
        if self.parameters.keys() != {p.name for p in ATTENTION_PARAMETERS}:
            raise field_error("not the parameters of an attention kernel", "write " + ", ".join(p.name for p in ATTENTION_PARAMETERS))
        for p in ATTENTION_PARAMETERS:
            if not p.low * 0.999 <= self.parameters[p.name].value <= p.high * 1.001:
                message = f"{p.name}: {self.parameters[p.name].value:g} is out of range"
                raise field_error(message, f"write a number from {p.low:g} to {p.high:g}")
        return self

    @model_validator(mode="after")
    def _check_names(self) -> "AttentionRecord":
        if self.tiling not in TILINGS:
            raise field_error(f"'{self.tiling}' is not a tiling of attention", did_you_mean(self.tiling, TILINGS))
        for name in (self.dtype, self.cache_dtype):
            if storage_dtype(name) not in BITS_PER_ELEMENT:
                raise field_error(f"unknown dtype '{name}'", did_you_mean(name, BITS_PER_ELEMENT))
        if unknown := sorted(self.ranges.keys() - set(MEASURED_RANGES)):
            raise field_error(f"'{unknown[0]}' is not a size of attention", did_you_mean(unknown[0], MEASURED_RANGES))
        return self

    def __str__(self) -> str:
        return str(self.key)

    @property
    def key(self) -> AttentionKey:
        """The identity of the kernel."""
        return AttentionKey(self.device, self.kernel, self.release, self.phase, self.dtype, self.cache_dtype)

    @property
    def bits(self) -> tuple[int, int]:
        """Width of an element of queries, and of keys and values [bit]."""
        return BITS_PER_ELEMENT[storage_dtype(self.dtype)], BITS_PER_ELEMENT[storage_dtype(self.cache_dtype)]

    @cached_property
    def theta(self) -> Theta:
        """The parameters in the order of `ATTENTION_PARAMETERS`, as fits work on them."""
        return attention_theta({name: estimate.value for name, estimate in self.parameters.items()})

    def interval_half_width(self, launches: AttentionLaunches, log_deviation: float = 0.0) -> PerLaunch:
        """Half width of the 90% interval of the logarithm of the time of each launch, wider outside the measured sizes.

        `log_deviation`: further standard deviation, for a kernel of another device.
        """
        distance = np.zeros(len(launches))
        for name, measured_range in self.ranges.items():
            distance = distance + interval.log_distance(getattr(launches, name), *measured_range)
        return np.hypot(interval.widen_half_width(self.half_width, distance), interval.Z_SCORE * log_deviation)

    @cached_property
    def model(self) -> "AttentionModel":
        """The model that predicts its times; it imports JAX, which reading a file does not need."""
        from dse.model.efficiency.attention.model import AttentionModel

        return AttentionModel(self.key, self.tiling, self.theta)
