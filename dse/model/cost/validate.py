"""Leave-one-die-out error of the cost model: the devices of each die are predicted by coefficients fitted without that die."""

import json
from collections.abc import Sequence
from typing import get_args

import numpy as np

from dse.base.table_format import Row
from dse.model.cost.area import modelled_area
from dse.model.cost.coefficients import PowerCoefficients, describe_uncertain_coefficients, published_coefficients
from dse.model.cost.fit import PublishedDevice, complete_devices, fit_area, fit_power, load_published_devices
from dse.model.cost.power import modelled_power, peak_share_at_power
from dse.schema.device import DesignFamily

SMALL_POWER = 100  # W
GROUP_LABELS = {
    "gpu": "of GPUs",
    "accelerator": "of accelerators",
    "block": "of blocks",
    "below_100_w": f"below {SMALL_POWER} W",
    "from_100_w": f"from {SMALL_POWER} W on",
    "all": "with the dies that are not fitted",
}


def fitted_devices_without(die: str) -> list[PublishedDevice]:
    """The devices in the fit that predicts `die`."""
    return [device for device in load_published_devices() if device.fitted == "yes" and device.die != die]


def leave_one_die_out() -> list[Row]:
    """Published and predicted area [mm^2] and power [W] of each device, and the relative errors [1]; None where nothing is published.

    The area of a die is compared for its most complete device, with the circuits that are switched off in it. `peak at power` is the share
    of its peak that a device attains at its published power, by the same coefficients.
    """
    rows, published = list[Row](), load_published_devices()
    compared = [device for device in published if device.fitted == "no"]
    compared += complete_devices(device for device in published if device.fitted == "yes")
    for die in dict.fromkeys(device.die for device in published):
        others = fitted_devices_without(die)
        devices = [device for device in published if device.die == die]
        family = "gpu" if devices[0].family == "gpu" else "accelerator"
        area_coefficients, power_coefficients = fit_area(others, family), fit_power(others, family)
        for device in devices:
            area_mm2 = modelled_area(device.whole_die, area_coefficients) * 1e6 if device in compared else None
            rows.append(_row(device, area_mm2, modelled_power(device.design, device.area, power_coefficients), power_coefficients))
    return rows


def _row(device: PublishedDevice, area_mm2: float | None, power_w: float, coefficients: PowerCoefficients) -> Row:
    limit = device.tdp_w
    return {
        "device": device.device,
        "die": device.die,
        "family": device.family,
        "process [nm]": device.process_nm,
        "area [mm^2]": device.die_mm2,
        "predicted [mm^2]": area_mm2,
        "area error": None if area_mm2 is None else area_mm2 / device.die_mm2 - 1,
        "power [W]": limit,
        "predicted [W]": power_w,
        "power error": None if limit is None else power_w / limit - 1,
        "peak at power": None if limit is None else peak_share_at_power(device.design, limit, device.area, coefficients),
        "fitted": device.fitted,
        "note": device.note,
        "unverified": device.unverified,
    }


def summarise_errors(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Mean absolute errors of area and power, each die counted once.

    `mean` is that of the fitted dies, followed by those of each family and range of power; `all` is that of all dies, and `stated` the
    documented value of it.
    """
    fitted = [row for row in rows if row["fitted"] == "yes"]
    groups = {"mean": fitted} | {family: [row for row in fitted if row["family"] == family] for family in get_args(DesignFamily)}
    groups["below_100_w"] = [row for row in fitted if row["power [W]"] is None or row["power [W]"] < SMALL_POWER]
    groups["from_100_w"] = [row for row in fitted if row not in groups["below_100_w"]]
    groups["all"] = list(rows)
    return {
        key: {name: _mean_error(group, f"{key} error") for name, group in groups.items()}
        | {"stated": published_coefficients().stated_error[key].value}
        for key in ("area", "power")
    }


def _mean_error(rows: Sequence[Row], key: str) -> float:
    """Mean absolute error over dies; the devices of a die are averaged first."""
    errors: dict[str, list[float]] = {}
    for row in rows:
        if row[key] is not None:
            errors.setdefault(row["die"], []).append(abs(row[key]))
    return float(np.mean([np.mean(of_die) for of_die in errors.values()])) if errors else float("nan")


def report_errors(as_json: bool) -> tuple[str, bool]:
    """The table of errors as text or JSON, and whether the mean errors are within the stated ones."""
    rows = leave_one_die_out()
    summary = summarise_errors(rows)
    is_within_stated = all(error["mean"] <= error["stated"] for error in summary.values())
    text = json.dumps({"devices": rows, "summary": summary}, indent=2) if as_json else _format_table(rows, summary)
    return text, is_within_stated


def _format_table(rows: Sequence[Row], summary: dict[str, dict[str, float]]) -> str:
    labelled = [{**row, "fitted": row["note"] if row["fitted"] == "yes" else "not fitted: " + row["note"]} for row in rows]
    columns = [key for key in labelled[0] if key not in ("note", "unverified")]
    cells = [[key.replace("fitted", "") for key in columns], *([_format_cell(key, row[key]) for key in columns] for row in labelled)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.append("mean absolute errors of the fitted dies, each die counted once:")
    for key, error in summary.items():
        groups = ", ".join(f"{error[name]:.0%} {label}" for name, label in GROUP_LABELS.items())
        lines.append(f"{key}: {error['mean']:.0%} (stated: {error['stated']:.0%}); {groups}")
    lines.append("peak at power: the share of its peak that a device attains at its published power, memories idle")
    lines.append(describe_uncertain_coefficients())
    return "\n".join(lines)


def _format_cell(key: str, value: object) -> str:
    if value is None:
        return ""
    if key.endswith("error"):
        return f"{value:+.0%}"
    if key == "peak at power":
        return f"{value:.0%}"
    return f"{value:.0f}" if isinstance(value, float) and value >= 10 else f"{value:.3g}" if isinstance(value, float) else str(value)
