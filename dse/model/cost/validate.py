"""How far off the cost model is: each device predicted by coefficients that were fitted without its die."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dse.model.cost import area, power
from dse.model.cost.coefficients import doubtful, published
from dse.model.cost.devices import Device, devices
from dse.model.cost.fit import fit_area, fit_power

Row = dict[str, Any]


def without(die: str) -> list[Device]:
    """The devices that are fitted to when `die` is to be predicted."""
    return [row for row in devices() if row.fitted == "yes" and row.die != die]


def leave_one_out() -> list[Row]:
    """Published and predicted area [mm^2] and power [W] of each device, and the relative errors [1]."""
    found = []
    for die in dict.fromkeys(row.die for row in devices()):
        rest = without(die)
        for_area, for_power = fit_area(rest), fit_power(rest)
        for row in (row for row in devices() if row.die == die):
            areas = area.modelled(row.design, for_area) * 1e6
            watts = power.modelled(row.design, row.area, for_power)
            found.append(_row(row, areas, watts))
    return found


def _row(device: Device, areas: float, watts: float) -> Row:
    return {
        "device": device.device,
        "die": device.die,
        "process [nm]": device.process_nm,
        "area [mm^2]": device.die_mm2,
        "predicted [mm^2]": areas,
        "area error": areas / device.die_mm2 - 1,
        "power [W]": device.tdp_w,
        "predicted [W]": watts,
        "power error": watts / device.tdp_w - 1,
        "fitted": device.fitted,
        "remark": device.remark,
    }


def summary(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Mean sizes of the errors, each die counted once: over the dies that are fitted to, over all, and what is stated of the first."""
    dies = [row["die"] for row in rows]
    weight = np.array([1 / dies.count(die) for die in dies])
    fitted = np.array([row["fitted"] == "yes" for row in rows])
    errors = {key: np.abs([row[f"{key} error"] for row in rows]) for key in ("area", "power")}
    return {
        key: {
            "mean": float(np.average(sizes, weights=weight * fitted)),
            "all": float(np.average(sizes, weights=weight)),
            "stated": published().stated_error[key].value,
        }
        for key, sizes in errors.items()
    }


def run(as_json: bool) -> tuple[str, bool]:
    """The table, and whether the mean errors are within the stated ones."""
    rows = leave_one_out()
    found = summary(rows)
    holds = all(error["mean"] <= error["stated"] for error in found.values())
    return (json.dumps({"devices": rows, "summary": found}, indent=2) if as_json else _table(rows, found)), holds


def _table(rows: Sequence[Row], found: dict[str, dict[str, float]]) -> str:
    shown = [{**row, "fitted": "" if row["fitted"] == "yes" else "not fitted: " + row["remark"]} for row in rows]
    columns = [key for key in shown[0] if key != "remark"]
    cells = [[key.replace("fitted", "") for key in columns], *([_cell(key, row[key]) for key in columns] for row in shown)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    for key, error in found.items():
        mean, everything, stated = (f"{error[name]:.0%}" for name in ("mean", "all", "stated"))
        lines.append(f"{key}: mean error {mean} (stated: {stated}), {everything} with those not fitted; each die counted once")
    lines.append(doubtful())
    return "\n".join(lines)


def _cell(key: str, value: Any) -> str:
    if key.endswith("error"):
        return f"{value:+.0%}"
    return f"{value:.0f}" if isinstance(value, float) else str(value)
