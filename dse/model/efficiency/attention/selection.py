"""Which fitted kernel predicts a fused attention: one of the device itself, or the mean of the kernels of other devices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float

from dse.model.efficiency import interval
from dse.model.efficiency.attention.launches import AttentionLaunches, Phase
from dse.model.efficiency.attention.parameters import ATTENTION_PARAMETERS, TRANSFERRED_TILING, attention_values
from dse.model.efficiency.attention.record import AttentionRecord
from dse.model.efficiency.parameter import Estimate, Theta

MIN_REPRESENTATIVE_LAUNCHES = 200  # of a kernel that represents a device; kernels with fewer are those of a library for rare shapes
# Standard deviation of the logarithm of a time that is predicted by kernels of other devices: root mean squares of the errors of 17 kernels
# on three GPUs, encoders on two (leave-one-device-out; ai-dynamo/aiconfigurator@095f58a51c4c).
BETWEEN_DEVICES: dict[Phase, float] = {"prefill": 0.35, "decode": 0.41, "encoder": 0.49}


@dataclass(frozen=True, eq=False)
class AttentionSelection:
    """The fitted kernel that predicts a fused attention, `measured` on this device or `transferred` from others.

    `log_deviation`: standard deviation of the logarithm of the times that the differences between devices add.
    """

    record: AttentionRecord
    is_measured: bool
    log_deviation: float = 0.0

    @property
    def label(self) -> str:
        """Name of the kernel, and whether it was measured on this device."""
        return f"{self.record} ({'measured' if self.is_measured else 'transferred'})"

    def half_width(self, launches: AttentionLaunches) -> np.ndarray:
        """Half width of the 90% interval of the logarithm of the time of each launch."""
        return self.record.interval_half_width(launches, self.log_deviation)

    def sample_time_factors(self, launches: AttentionLaunches) -> Float[np.ndarray, "sample launch"]:
        """Samples of actual over predicted time; the first is 1."""
        return interval.sample_factors(str(self.record), self.half_width(launches))


def select_attention(records: Sequence[AttentionRecord], device: str, phase: Phase, cache_bits: int) -> AttentionSelection | None:
    """The kernel of the newest release on a device, of several the one fitted to most launches; else the mean over other devices.

    None if no kernel of the phase was fitted.
    """
    own = [record for record in records if (record.device, record.phase, record.bits[1]) == (device, phase, cache_bits)]
    if own:
        return AttentionSelection(max(own, key=lambda record: (_version(record.release), record.launches)), True)
    return select_transferred(records, phase)


def select_transferred(records: Sequence[AttentionRecord], phase: Phase) -> AttentionSelection | None:
    """The mean over the devices of the kernels of a phase, of all cache dtypes; None if there are none."""
    population = [record for record in records if record.phase == phase and record.launches >= MIN_REPRESENTATIVE_LAUNCHES]
    return AttentionSelection(_mean_record(population), False, BETWEEN_DEVICES[phase]) if population else None


def _version(release: str) -> list[int]:
    """Numbers of a release: 0, 24 and 0 of `vllm/0.24.0`, which is newer than `vllm/0.9.2`."""
    return [int(number) for number in re.findall(r"\d+", release)]


def _mean_record(population: Sequence[AttentionRecord]) -> AttentionRecord:
    """A kernel with the mean parameters of a population, in which devices count equally, with the tiling that transfers best."""
    by_device = groupby(sorted(population, key=_device_of), key=_device_of)
    means = {device: np.mean([record.theta for record in of_device], axis=0) for device, of_device in by_device}
    names, first = population[0].ranges.keys(), population[0]
    ends = {name: [record.ranges[name] for record in population if name in record.ranges] for name in names}
    return AttentionRecord(
        device="mean", kernel="of " + ", ".join(means), phase=first.phase, dtype=first.dtype, cache_dtype=first.cache_dtype,
        tiling=TRANSFERRED_TILING[first.phase], launches=sum(record.launches for record in population),
        error=float(np.mean([record.error for record in population])),
        half_width=float(np.mean([record.half_width for record in population])),
        sources=tuple(sorted({source for record in population for source in record.sources})),
        ranges={name: (min(low for low, _ in each), max(high for _, high in each)) for name, each in ends.items()},
        parameters=_estimates(np.mean(list(means.values()), axis=0)),
    )  # fmt: skip


def _estimates(theta: Theta) -> dict[str, Estimate]:
    values = attention_values(theta)
    return {p.name: Estimate(value=v, low=v, high=v, unit=p.unit, kind="derived") for p in ATTENTION_PARAMETERS if (v := values[p.name])}


def _device_of(record: AttentionRecord) -> str:
    return record.device
