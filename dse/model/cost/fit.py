"""Coefficients of the cost model from published dies and design powers: `python -m dse.model.cost.fit > .../fitted.yaml`.

Least squares of log ratios, each coefficient drawn to its prior, so that all stay above 0 and a die that says little about
one of them moves it little. Parts of one die weigh as much as one device. Only single-die devices take part.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import least_squares

from dse.base.units import Quantity, parse_quantity
from dse.model.cost import area, power
from dse.model.cost.coefficients import AreaCoefficients, Fitted, PowerCoefficients, published
from dse.model.cost.devices import Device, devices

COMMAND = "python -m dse.model.cost.fit"


def fit_area(rows: Sequence[Device]) -> AreaCoefficients:
    """From the published areas of `rows`."""
    drivers = [area.drivers(row.design) for row in rows]
    return AreaCoefficients.model_validate(_solve(rows, drivers, np.sum, [row.area for row in rows], published().area_priors))


def fit_power(rows: Sequence[Device]) -> PowerCoefficients:
    """From the published powers of `rows`, given their published areas; memories take what is published of them."""
    drivers = [power.drivers(row.design, row.area) for row in rows]
    memory = np.array([power.memory(row.design) for row in rows])

    def total(parts: np.ndarray, axis: int) -> np.ndarray:
        return memory + parts.take(0, axis) + parts.take([1, 2], axis).max(axis)

    return PowerCoefficients.model_validate(_solve(rows, drivers, total, [row.tdp_w for row in rows], published().power_priors))


def _solve(
    rows: Sequence[Device],
    drivers: list[dict[str, float]],
    total: Callable[..., np.ndarray],
    stated: list[float],
    priors: AreaCoefficients | PowerCoefficients,
) -> dict[str, dict[str, str]]:
    names = list(drivers[0])
    matrix = np.array([[row[name] for name in names] for row in drivers])
    prior = np.log([getattr(priors, name).value for name in names])
    holds = np.array([published().prior_weights[name] for name in names])
    dies = [row.die for row in rows]
    weight = np.array([dies.count(die) for die in dies]) ** -0.5

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.concatenate([weight * np.log(total(matrix * np.exp(logs), axis=1) / stated), holds * (logs - prior)])

    found = np.exp(least_squares(residuals, prior, xtol=1e-12, ftol=1e-12).x)
    return {name: _written(value, type(getattr(priors, name))) for name, value in zip(names, found, strict=True)}


def _written(value: float, kind: type[Quantity]) -> dict[str, str]:
    unit = kind.example.split(" ", 1)[1]
    return {
        "value": f"{value / parse_quantity(f'1 {unit}', kind):.4g} {unit}",
        "kind": "derived",
        "source": f"fitted to published devices: {COMMAND}",
    }


def fit() -> Fitted:
    rows = [row for row in devices() if row.fitted == "yes"]
    return Fitted(command=COMMAND, area=fit_area(rows), power=fit_power(rows))


def as_yaml(found: Fitted) -> str:
    lines = [f"# Written by '{found.command}' from devices.csv and the priors in coefficients.yaml.", f"command: {found.command}"]
    for group in ("area", "power"):
        lines.append(f"{group}:")
        for name, quantity in getattr(found, group):
            lines.append(f'  {name}: {{value: {quantity.text}, kind: {quantity.kind}, source: "{quantity.source}"}}')
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_yaml(fit()))
