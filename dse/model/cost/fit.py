"""Fit the coefficients of the cost model to published dies and design powers: `python -m dse.model.cost.fit > .../fitted.yaml`.

The dies and their design powers are in `devices.csv`. Least squares of log ratios with a prior on each coefficient: all coefficients stay
above 0, and a coefficient on which the dies have little evidence stays near its prior. All devices with one die together weigh as much as
one device. GPUs and accelerators are fitted separately; the area of a die to its most complete device, with the processors and the cache
that are switched off in it. Only single-die devices are fitted.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import field_validator
from scipy.optimize import least_squares

from dse.base.errors import did_you_mean
from dse.base.input_file import read_rows
from dse.base.strict_model import StrictModel, field_error
from dse.base.units import Quantity, parse_quantity
from dse.model.cost.area import area_drivers, fixed_share, interface_area, operations_per_cycle
from dse.model.cost.coefficients import (
    FOLDER,
    AreaCoefficients,
    AreaCoefficientsByFamily,
    FittedCoefficients,
    PowerCoefficients,
    PowerCoefficientsByFamily,
    published_coefficients,
)
from dse.model.cost.design import Design
from dse.model.cost.power import memory_power, power_drivers
from dse.schema.accelerator import Accelerator
from dse.schema.device import DesignFamily
from dse.schema.memory_technology import ON_CHIP

MATRIX_DTYPES = ("tf32", "fp16", "fp8", "int8", "fp4")
VECTOR_DTYPES = ("fp64", "fp32", "fp16")
OUTLIER = 0.3  # log error from which on a device counts less
FittedFamily = Literal["gpu", "accelerator"]
STARTS = (0.0, 0.7, -0.7)  # of the last coefficient over its prior, in logarithms: which unit sets the power is a choice with local minima
INSIDE_CORES = "1 GB/s"  # of SRAM whose traffic is part of the energy of operations: next to nothing
COMMAND = "python -m dse.model.cost.fit"


class PublishedDevice(StrictModel):
    """A row of `devices.csv`; rates in TFLOP/s or TOP/s. Devices with the same `die` are not independent evidence of its area.

    `processors` of the `processors_full` on the die are switched on, and `onchip_mb` of `onchip_full_mb`; where these are empty, all are.
    `unverified` names the columns whose numbers were not read at their source, separated by ';'.
    """

    device: str
    accelerator: str = ""
    die: str
    family: DesignFamily
    process_nm: float
    die_mm2: float
    tdp_w: float | None = None
    processors: int = 1
    processors_full: int = 1
    clock_ghz: float
    base_clock_ghz: float | None = None
    memory: str
    dram_gbs: float | None = None
    onchip_mb: float
    onchip_full_mb: float | None = None
    onchip_gbs: float | None = None
    vector_fp64: float | None = None
    vector_fp32: float | None = None
    vector_fp16: float | None = None
    matrix_tf32: float | None = None
    matrix_fp16: float | None = None
    matrix_fp8: float | None = None
    matrix_int8: float | None = None
    matrix_fp4: float | None = None
    sparse: str | None = None
    fitted: Literal["yes", "no"]
    note: str = ""
    unverified: str = ""
    source: str

    @field_validator("unverified")
    @classmethod
    def _check_columns(cls, value: str) -> str:
        for name in filter(None, value.split(";")):
            if name not in cls.model_fields:
                raise field_error(f"'{name}' is not a column", did_you_mean(name, cls.model_fields))
        return value

    @property
    def area(self) -> float:
        """Published area of the die [m^2]."""
        return self.die_mm2 * 1e-6

    @cached_property
    def design(self) -> Design:
        """The device as a design, without its published area and power."""
        clock = {"clock": f"{self.clock_ghz} GHz"}
        units: dict[str, Any] = {"matrix": clock | {"peak": self._peaks("matrix", MATRIX_DTYPES)}}
        if self.sparse:
            units["matrix"]["runs"] = {"sparse": {"pattern": self.sparse, "gain": 2}}
        if vector := self._peaks("vector", VECTOR_DTYPES):
            units["vector"] = clock | {"peak": vector}
        on_chip = {"capacity": f"{self.onchip_mb} MB"} | ({"bandwidth": f"{self.onchip_gbs} GB/s"} if self.onchip_gbs else {})
        if self.memory == ON_CHIP:
            memory = {"on_chip": {"technology": ON_CHIP, "bandwidth": INSIDE_CORES} | on_chip}
        else:
            memory = {"dram": {"technology": self.memory, "bandwidth": f"{self.dram_gbs} GB/s"}, "on_chip": on_chip}
        cost = {"process": f"{self.process_nm} nm", "family": self.family}
        if self.base_clock_ghz:
            cost["base_clock"] = f"{self.base_clock_ghz} GHz"
        description = {"name": self.device, "source": self.source, "units": units, "memory": memory, "cost": cost}
        return Design(Accelerator.from_dict(description))

    @property
    def whole_die(self) -> Design:
        """The design with all processors and the whole cache of its die switched on."""
        share, units = self.processors_full / self.processors, self.design.accelerator.units
        peaks = {f"units.{name}.peak.{key}": share * peak.value for name, unit in units.items() for key, peak in unit.peak.items()}
        cache = {} if self.onchip_full_mb is None else {"memory.on_chip.capacity": self.onchip_full_mb * 1e6}
        return Design(self.design.accelerator, {**peaks, **cache})

    def _peaks(self, unit: str, dtypes: tuple[str, ...]) -> dict[str, str]:
        return {name: f"{rate} TFLOP/s" for name in dtypes if (rate := getattr(self, f"{unit}_{name}", None))}


@cache
def load_published_devices() -> tuple[PublishedDevice, ...]:
    """All rows of `devices.csv`."""
    return tuple(row for _, row in read_rows(FOLDER / "devices.csv", PublishedDevice))


def complete_devices(devices: Iterable[PublishedDevice]) -> list[PublishedDevice]:
    """Of each die the device with the highest rate, in which the fewest of its circuits are switched off."""
    by_rate = sorted(devices, key=lambda device: operations_per_cycle(device.design, "matrix"))
    return list({device.die: device for device in by_rate}.values())


def select_family(devices: Iterable[PublishedDevice], family: FittedFamily) -> list[PublishedDevice]:
    """The devices of a family; blocks count as accelerators."""
    return [device for device in devices if (device.family == "gpu") == (family == "gpu")]


def fit_area(devices: Iterable[PublishedDevice], family: FittedFamily) -> AreaCoefficients:
    """Fit to the published areas of the dies of a family; blocks count as accelerators."""
    complete = complete_devices(select_family(devices, family))
    drivers = [area_drivers(device.whole_die) for device in complete]
    interfaces = np.array([interface_area(device.whole_die) for device in complete])

    def total(parts: np.ndarray, axis: int) -> np.ndarray:
        fixed = parts.take(0, axis)
        rest = interfaces + parts.sum(axis) - fixed
        return rest + fixed * fixed_share(rest)

    priors = getattr(published_coefficients().area_priors, family)
    return AreaCoefficients.model_validate(_fit(complete, drivers, total, [device.area for device in complete], priors, "area"))


def fit_power(devices: Iterable[PublishedDevice], family: FittedFamily) -> PowerCoefficients:
    """Fit to the published powers of the devices of a family, given their published areas; the power of memories is not fitted."""
    devices = [device for device in select_family(devices, family) if device.tdp_w is not None]
    drivers = [power_drivers(device.design, device.area) for device in devices]
    memory = np.array([memory_power(device.design) for device in devices])

    def total(parts: np.ndarray, axis: int) -> np.ndarray:
        leakage, units = parts.take(0, axis), parts.take([1, 2], axis)
        return memory + leakage + units.max(axis)

    priors = published_coefficients().power_priors
    return PowerCoefficients.model_validate(_fit(devices, drivers, total, [device.tdp_w or 0.0 for device in devices], priors, "power"))


def _fit(
    devices: Sequence[PublishedDevice],
    drivers: list[dict[str, float]],
    total: Callable[..., np.ndarray],
    published: list[float],
    priors: AreaCoefficients | PowerCoefficients,
    figure: Literal["area", "power"],
) -> dict[str, dict[str, str]]:
    """Fitted coefficients as YAML mappings; `total` combines the parts [device, coefficient] of each device."""
    names = list(drivers[0])
    matrix = np.array([[row[name] for name in names] for row in drivers])
    log_prior = np.log([getattr(priors, name).value for name in names])
    prior_weight = np.array([published_coefficients().prior_weights[figure][name] for name in names])
    dies = [device.die for device in devices]
    device_weight = np.array([dies.count(die) for die in dies]) ** -0.5

    def residuals(logs: Float[np.ndarray, "coefficient"]) -> Float[np.ndarray, "residual"]:
        errors = np.log(total(matrix * np.exp(logs), axis=1) / published)
        return np.concatenate([device_weight * errors, prior_weight * (logs - log_prior)])

    last = np.eye(len(names))[-1]
    fits = [least_squares(residuals, log_prior + start * last, loss="soft_l1", f_scale=OUTLIER, xtol=1e-12, ftol=1e-12) for start in STARTS]
    coefficients = np.exp(min(fits, key=lambda fit: fit.cost).x)
    return {name: _to_mapping(value, type(getattr(priors, name))) for name, value in zip(names, coefficients, strict=True)}


def _to_mapping(value: float, kind: type[Quantity]) -> dict[str, str]:
    unit = kind.example.split(" ", 1)[1]
    return {
        "value": f"{value / parse_quantity(f'1 {unit}', kind):.4g} {unit}",
        "kind": "derived",
        "source": f"fitted to published devices: {COMMAND}",
    }


def fit_coefficients() -> FittedCoefficients:
    """Fit to all devices that `devices.csv` marks as fitted."""
    devices = [device for device in load_published_devices() if device.fitted == "yes"]
    area = AreaCoefficientsByFamily(gpu=fit_area(devices, "gpu"), accelerator=fit_area(devices, "accelerator"))
    power = PowerCoefficientsByFamily(gpu=fit_power(devices, "gpu"), accelerator=fit_power(devices, "accelerator"))
    return FittedCoefficients(command=COMMAND, area=area, power=power)


def to_yaml(coefficients: FittedCoefficients) -> str:
    """The content of `fitted.yaml`."""
    command = coefficients.command
    lines = [f"# Written by '{command}' from devices.csv and the priors in coefficients.yaml.", f"command: {command}"]
    for figure, families in (("area", coefficients.area), ("power", coefficients.power)):
        lines.append(f"{figure}:")
        for family, group in families:
            lines.append(f"  {family}:")
            lines += [f'    {name}: {{value: {part.text}, kind: {part.kind}, source: "{part.source}"}}' for name, part in group]
    return "\n".join(lines)


if __name__ == "__main__":
    print(to_yaml(fit_coefficients()))
