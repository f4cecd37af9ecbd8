"""Leave-one-die-out error of the cost model: the devices of each die are predicted by coefficients fitted without that die."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dse.base.table_format import Row
from dse.model.cost.area import modelled_area
from dse.model.cost.coefficients import describe_uncertain_coefficients, published_coefficients
from dse.model.cost.fit import PublishedDevice, fit_area, fit_power, load_published_devices
from dse.model.cost.power import modelled_power, peak_share_at_power

SMALL_POWER = 100  # W: below it, boards attain their peaks only for a moment


def fitted_devices_without(die: str) -> list[PublishedDevice]:
    """The devices in the fit that predicts `die`."""
    return [device for device in load_published_devices() if device.fitted == "yes" and device.die != die]


def leave_one_die_out() -> list[Row]:
    """Published and predicted area [mm^2] and power [W] of each device, and the relative errors [1].

    `peak at power` is the share of its peak that a device attains at its published power, by the same coefficients.
    """
    rows = []
    for die in dict.fromkeys(device.die for device in load_published_devices()):
        others = fitted_devices_without(die)
        area_coefficients, power_coefficients = fit_area(others), fit_power(others)
        for device in (device for device in load_published_devices() if device.die == die):
            area_mm2 = modelled_area(device.design, area_coefficients) * 1e6
            power_w = modelled_power(device.design, device.area, power_coefficients)
            peak_share = peak_share_at_power(device.design, device.tdp_w, device.area, power_coefficients)
            rows.append(_row(device, area_mm2, power_w, float(peak_share)))
    return rows


def _row(device: PublishedDevice, area_mm2: float, power_w: float, peak_share: float) -> Row:
    return {
        "device": device.device,
        "die": device.die,
        "process [nm]": device.process_nm,
        "area [mm^2]": device.die_mm2,
        "predicted [mm^2]": area_mm2,
        "area error": area_mm2 / device.die_mm2 - 1,
        "power [W]": device.tdp_w,
        "predicted [W]": power_w,
        "power error": power_w / device.tdp_w - 1,
        "peak at power": peak_share,
        "fitted": device.fitted,
        "note": device.note,
    }


def summarise_errors(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Mean absolute errors of area and power, each die counted once: `mean` over the fitted dies, `below_100_w` and `from_100_w` over those
    of them with such a power, `all` over all dies, and `stated`, the documented error of the fitted dies."""
    dies = [row["die"] for row in rows]
    weight = np.array([1 / dies.count(die) for die in dies])
    fitted = np.array([row["fitted"] == "yes" for row in rows])
    is_small = np.array([row["power [W]"] < SMALL_POWER for row in rows])
    errors = {key: np.abs([row[f"{key} error"] for row in rows]) for key in ("area", "power")}
    return {
        key: {
            "mean": float(np.average(sizes, weights=weight * fitted)),
            "below_100_w": float(np.average(sizes, weights=weight * fitted * is_small)),
            "from_100_w": float(np.average(sizes, weights=weight * fitted * ~is_small)),
            "all": float(np.average(sizes, weights=weight)),
            "stated": published_coefficients().stated_error[key].value,
        }
        for key, sizes in errors.items()
    }


def report_errors(as_json: bool) -> tuple[str, bool]:
    """The table of errors as text or JSON, and whether the mean errors are within the stated ones."""
    rows = leave_one_die_out()
    summary = summarise_errors(rows)
    is_within_stated = all(error["mean"] <= error["stated"] for error in summary.values())
    text = json.dumps({"devices": rows, "summary": summary}, indent=2) if as_json else _format_table(rows, summary)
    return text, is_within_stated


def _format_table(rows: Sequence[Row], summary: dict[str, dict[str, float]]) -> str:
    labelled = [{**row, "fitted": "" if row["fitted"] == "yes" else "not fitted: " + row["note"]} for row in rows]
    columns = [key for key in labelled[0] if key != "note"]
    cells = [[key.replace("fitted", "") for key in columns], *([_format_cell(key, row[key]) for key in columns] for row in labelled)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    for key, error in summary.items():
        mean, of_all, stated, small, large = (f"{error[name]:.0%}" for name in ("mean", "all", "stated", "below_100_w", "from_100_w"))
        lines.append(
            f"{key}: mean error {mean} (stated: {stated}), {small} below {SMALL_POWER} W, {large} above, {of_all} with the dies that are "
            "not fitted; each die counted once"
        )
    lines.append("peak at power: the share of its peak that a device attains at its published power, memories idle")
    lines.append(describe_uncertain_coefficients())
    return "\n".join(lines)


def _format_cell(key: str, value: Any) -> str:
    if key.endswith("error"):
        return f"{value:+.0%}"
    if key == "peak at power":
        return f"{value:.0%}"
    return f"{value:.0f}" if isinstance(value, float) else str(value)
