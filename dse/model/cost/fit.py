"""Fit the coefficients of the cost model to published dies and design powers: `python -m dse.model.cost.fit > .../fitted.yaml`.

The dies and their design powers are in `devices.csv`. Least squares of log ratios with a prior on each coefficient: all coefficients stay
above 0, and a coefficient on which the dies have little evidence stays near its prior. All devices with one die together weigh as much as
one device. Only single-die devices are fitted.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from dse.base.input_file import read_rows
from dse.base.strict_model import StrictModel
from dse.base.units import Quantity, parse_quantity
from dse.model.cost.area import area_drivers
from dse.model.cost.coefficients import FOLDER, AreaCoefficients, FittedCoefficients, PowerCoefficients, published_coefficients
from dse.model.cost.design import Design
from dse.model.cost.power import memory_power, power_drivers
from dse.schema.accelerator import Accelerator

MATRIX_DTYPES = ("tf32", "fp16", "fp8", "int8", "fp4")
VECTOR_DTYPES = ("fp32", "fp16")
COMMAND = "python -m dse.model.cost.fit"


class PublishedDevice(StrictModel):
    """A row of `devices.csv`; rates in TFLOP/s or TOP/s. Devices with the same `die` are not independent evidence of its area."""

    device: str
    accelerator: str = ""
    die: str
    process_nm: float
    die_mm2: float
    tdp_w: float
    dram_gbs: float
    onchip_mb: float
    onchip_gbs: float | None = None
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

    @property
    def area(self) -> float:
        """Published area of the die [m^2]."""
        return self.die_mm2 * 1e-6

    @property
    def design(self) -> Design:
        """The device as a design, without its published area and power."""
        units: dict[str, Any] = {"matrix": {"peak": self._peaks("matrix", MATRIX_DTYPES)}}
        if self.sparse:
            units["matrix"]["runs"] = {"sparse": {"pattern": self.sparse, "gain": 2}}
        if vector := self._peaks("vector", VECTOR_DTYPES):
            units["vector"] = {"peak": vector}
        l2 = {"capacity": f"{self.onchip_mb} MB"} | ({"bandwidth": f"{self.onchip_gbs} GB/s"} if self.onchip_gbs else {})
        memory = {"dram": {"bandwidth": f"{self.dram_gbs} GB/s"}, "l2": l2}
        cost = {"process": f"{self.process_nm} nm"}
        description = {"name": self.device, "source": self.source, "units": units, "memory": memory, "cost": cost}
        return Design(Accelerator.model_validate(description))

    def _peaks(self, unit: str, dtypes: tuple[str, ...]) -> dict[str, str]:
        return {name: f"{rate} TFLOP/s" for name in dtypes if (rate := getattr(self, f"{unit}_{name}", None))}


@cache
def load_published_devices() -> tuple[PublishedDevice, ...]:
    """All rows of `devices.csv`."""
    return tuple(row for _, row in read_rows(FOLDER / "devices.csv", PublishedDevice))


def fit_area(devices: Sequence[PublishedDevice]) -> AreaCoefficients:
    """Fit to the published areas of devices."""
    drivers = [area_drivers(device.design) for device in devices]
    coefficients = _fit(devices, drivers, np.sum, [device.area for device in devices], published_coefficients().area_priors)
    return AreaCoefficients.model_validate(coefficients)


def fit_power(devices: Sequence[PublishedDevice]) -> PowerCoefficients:
    """Fit to the published powers of devices, given their published areas; the power of memories is not fitted."""
    drivers = [power_drivers(device.design, device.area) for device in devices]
    memory = np.array([memory_power(device.design) for device in devices])

    def total(parts: np.ndarray, axis: int) -> np.ndarray:
        leakage, units = parts.take(0, axis), parts.take([1, 2], axis)
        return memory + leakage + units.max(axis)

    coefficients = _fit(devices, drivers, total, [device.tdp_w for device in devices], published_coefficients().power_priors)
    return PowerCoefficients.model_validate(coefficients)


def _fit(
    devices: Sequence[PublishedDevice],
    drivers: list[dict[str, float]],
    total: Callable[..., np.ndarray],
    published: list[float],
    priors: AreaCoefficients | PowerCoefficients,
) -> dict[str, dict[str, str]]:
    """Fitted coefficients as YAML mappings; `total` combines the parts [device, coefficient] of each device."""
    names = list(drivers[0])
    matrix = np.array([[row[name] for name in names] for row in drivers])
    log_prior = np.log([getattr(priors, name).value for name in names])
    prior_weight = np.array([published_coefficients().prior_weights[name] for name in names])
    dies = [device.die for device in devices]
    device_weight = np.array([dies.count(die) for die in dies]) ** -0.5

    def residuals(logs: Float[np.ndarray, "coefficient"]) -> Float[np.ndarray, "residual"]:
        errors = np.log(total(matrix * np.exp(logs), axis=1) / published)
        return np.concatenate([device_weight * errors, prior_weight * (logs - log_prior)])

    coefficients = np.exp(least_squares(residuals, log_prior, xtol=1e-12, ftol=1e-12).x)
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
    return FittedCoefficients(command=COMMAND, area=fit_area(devices), power=fit_power(devices))


def to_yaml(coefficients: FittedCoefficients) -> str:
    """The content of `fitted.yaml`."""
    command = coefficients.command
    lines = [f"# Written by '{command}' from devices.csv and the priors in coefficients.yaml.", f"command: {command}"]
    for group in ("area", "power"):
        lines.append(f"{group}:")
        for name, quantity in getattr(coefficients, group):
            lines.append(f'  {name}: {{value: {quantity.text}, kind: {quantity.kind}, source: "{quantity.source}"}}')
    return "\n".join(lines)


if __name__ == "__main__":
    print(to_yaml(fit_coefficients()))
