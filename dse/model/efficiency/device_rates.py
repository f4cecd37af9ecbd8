"""Rates of the unit and the memory that the time of a launch depends on, as an accelerator states them."""

from dataclasses import dataclass

import numpy as np

from dse.model.cost.coefficients import energy_scale
from dse.model.cost.design import relative_width
from dse.model.memory_levels import memory_levels
from dse.schema.accelerator import Accelerator
from dse.schema.compute_unit import Unit

UNIT_NUMBERS = ("processors", "scratchpad", "issue", "max_clock")  # of a unit, besides its peaks, that times of kernels depend on
SLOWER_DTYPE = 1.05  # ratio of rates from which a unit counts as slower in one dtype than in another


@dataclass(frozen=True, eq=False)
class DeviceRates:
    """Rates of one unit and the outermost memory of a device; NaN where the description states none, 0 without a cache.

    `peak` and `issue` in FLOP/s, `bandwidth` in B/s, `cache` and `scratchpad` (of one processor) in B, `launch` in s. `energy_budget` in
    J/FLOP: the energy that a FLOP may take, scaled to 16 bit and 7 nm, without exceeding the power limit at the peak. `max_clock`: highest
    clock over that of the peak. `latency_scale`: latency of instructions over that of the device that kernels were fitted on. `slots` in
    FLOP/s: one fp32 multiply-add for each issue slot, the same in all dtypes. `memory`: kind of the outermost memory, such as `hbm`.
    """

    peak: float
    issue: float
    bandwidth: float
    cache: float
    processors: float = np.nan
    launch: float = np.nan
    scratchpad: float = np.nan
    energy_budget: float = np.nan
    max_clock: float = 1.0
    latency_scale: float = 1.0
    slots: float = np.nan
    memory: str = ""

    @classmethod
    def from_accelerator(cls, device: Accelerator, unit_name: str, dtype: str) -> "DeviceRates":
        """The rates that a description states."""
        unit, cache = device.units[unit_name], memory_levels(device, "capacity")[0].reuse_capacity
        return cls(
            peak=unit.peak[dtype].value,
            issue=_issue_rate(unit, dtype),
            bandwidth=device.value(f"memory.{device.outermost}.bandwidth"),
            cache=device.value(cache) if cache else 0.0,
            processors=unit.processors.value if unit.processors else np.nan,
            launch=device.overhead.launch.value if device.overhead.launch else np.nan,
            scratchpad=unit.scratchpad.value if unit.scratchpad else np.nan,
            energy_budget=_energy_budget(device, unit.peak[dtype].value, dtype),
            max_clock=unit.clock_headroom(unit),
            memory=memory_kind(device),
            slots=unit.issue.value if unit.issue else unit.peak.get("fp32", unit.peak[dtype]).value,
        )


def memory_kind(device: Accelerator) -> str:
    """Technology of the outermost memory without its generation, such as `hbm` or `gddr`; empty if it is not described."""
    technology = device.memory[device.outermost].technology or ""
    return technology.rstrip("x").rstrip("0123456789e") if technology else ""


def _issue_rate(unit: Unit, dtype: str) -> float:
    """Rate at which a unit takes operands and instructions [FLOP/s], where that is above its peak in a dtype; NaN where it is the peak.

    It counts for fp32, where a description states it, and for dtypes that a unit runs slower than their width requires, such as fp16 with
    an fp32 accumulator on GPUs that accumulate in fp16 at twice the rate.
    """
    if dtype == "fp32":
        return unit.issue.value if unit.issue else np.nan
    rate = max(peak.value * relative_width(name) for name, peak in unit.peak.items() if name != "fp32") / relative_width(dtype)
    return rate if rate > SLOWER_DTYPE * unit.peak[dtype].value else np.nan


def _energy_budget(device: Accelerator, peak: float, dtype: str) -> float:
    """Power limit over peak [J/FLOP], scaled to operations of 16 bit at 7 nm; NaN if the power or the process is not described."""
    power, process = device.value("cost.power"), device.value("cost.process")
    return np.nan if power is None or process is None else power / (peak * relative_width(dtype) * energy_scale(process))
