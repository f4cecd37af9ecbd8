"""Leave-one-die-out errors of the cost model: stated, documented, and independent of the predicted die."""

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dse.cli import entry
from dse.model.cost import validate
from dse.model.cost.area import area_by_part
from dse.model.cost.coefficients import published_coefficients
from dse.model.cost.fit import PublishedDevice, load_published_devices

TOP = Path(__file__).parents[2]
README, PAGE = TOP / "README.md", TOP / "docs" / "reference" / "validation.md"


@pytest.fixture(scope="module")
def rows():
    return {row["device"]: row for row in validate.leave_one_die_out()}


def test_published_devices_are_within_the_stated_error(rows):
    for key, error in validate.summarise_errors(list(rows.values())).items():
        stated = published_coefficients().stated_error[key].value
        assert error["mean"] <= stated
        assert stated == pytest.approx(error["all"], abs=0.005)  # the figure that results print


def test_the_documentation_has_the_errors_of_the_command(rows):
    pages = {page: " ".join(page.read_text().split()) for page in (PAGE, TOP / "docs" / "explanation" / "cost.md", README)}
    for row in rows.values():
        name = row["device"] + ("" if row["fitted"] == "yes" else " *")
        area_error = "-" if row["area error"] is None else f"{row['area error']:+.0%}"
        cells = [name, row["family"], f"{row['process [nm]']:g} nm", f"{row['area [mm^2]']:.3g} mm²", area_error]
        if row["power [W]"] is None:
            cells += ["-", "-", "-"]
        else:
            cells += [f"{row['power [W]']:.3g} W", f"{row['power error']:+.0%}", f"{row['peak at power']:.0%}"]
        assert f"| {' | '.join(cells)} |" in pages[PAGE]
    errors = validate.summarise_errors(list(rows.values()))
    for key, error in errors.items():
        stated = f"{key} {error['mean']:.0%} ({error['gpu']:.0%} of GPUs, {error['accelerator']:.0%} of accelerators)"
        assert all(stated in text for page, text in pages.items() if page != README)
    assert f"Area and power of a die that was left out: {errors['area']['mean']:.0%} and {errors['power']['mean']:.0%}" in pages[README]


def test_errors_are_also_given_below_and_from_100_w(rows):
    """By hand, each die once, of three devices: two boards of one die, and a small one."""
    names = ("RTX 4060", "RTX 2000 Ada", "MTIA v1")
    larger, small, other = (abs(rows[name]["power error"]) for name in names)
    summary = validate.summarise_errors([rows[name] for name in names])["power"]
    assert summary["mean"] == pytest.approx(((larger + small) / 2 + other) / 2)
    assert summary["below_100_w"] == pytest.approx((small + other) / 2)
    assert summary["from_100_w"] == pytest.approx(larger)
    assert summary["gpu"] == pytest.approx((larger + small) / 2)
    assert summary["accelerator"] == pytest.approx(other)
    assert np.isnan(summary["block"])


def test_base_clocks_explain_the_power_of_boards_with_one_die(rows):
    """TU104 takes 70 W as T4 and 230 W as Quadro RTX 5000: every board of five dies is predicted within 40%, without the die in the fit."""
    for die in ("TU104", "AD102", "AD104", "GA102", "GA100"):
        errors = [row["power error"] for row in rows.values() if row["die"] == die]
        assert len(errors) >= 2
        assert max(map(abs, errors)) < 0.405


def test_boards_far_below_the_predicted_power_attain_a_part_of_their_peak(rows):
    for row in rows.values():
        assert row["power [W]"] is None or 0 <= row["peak at power"] <= 1
    assert max(rows[name]["peak at power"] for name in ("T4", "L4", "A10")) < 0.75


def test_a_die_is_compared_with_all_of_its_circuits(rows):
    """108 of the 128 processors and 40 of the 48 MB of a GA100 are switched on in an A100: its area is that of all of them."""
    a100 = next(row for row in load_published_devices() if row.device == "A100 PCIe 80GB")
    on, whole = area_by_part(a100.design), area_by_part(a100.whole_die)
    assert {part: whole[part] / on[part] for part in on if part != "fixed"} == pytest.approx(
        {"matrix": 128 / 108, "vector": 128 / 108, "sram": 48 / 40, "interface": 1}, rel=1e-12
    )


def test_no_family_of_dies_is_further_off_than_30_percent(rows):
    errors = validate.summarise_errors(list(rows.values()))["area"]
    assert max(errors[family] for family in ("gpu", "accelerator", "block")) < 0.3


def test_a_die_is_left_out_with_all_of_its_devices():
    fitted = {row.die for row in load_published_devices() if row.fitted == "yes"}
    assert {row.die for row in validate.fitted_devices_without("GA100")} == fitted - {"GA100"}


def test_a_prediction_does_not_depend_on_the_predicted_die(rows, monkeypatch):
    """If the A100 had ten times the area and power, its prediction would be the same, and those of others would not."""
    changed = [
        row.model_copy(update={"die_mm2": row.die_mm2 * 10, "tdp_w": row.tdp_w and row.tdp_w * 10}) if row.die == "GA100" else row
        for row in load_published_devices()
    ]
    monkeypatch.setattr(validate, "load_published_devices", lambda: changed)
    repeated = {row["device"]: row for row in validate.leave_one_die_out()}
    assert repeated["A100 PCIe 80GB"]["predicted [mm^2]"] == pytest.approx(rows["A100 PCIe 80GB"]["predicted [mm^2]"], rel=1e-9)
    assert repeated["RTX 2080 Ti"]["predicted [mm^2]"] > 1.01 * rows["RTX 2080 Ti"]["predicted [mm^2]"]
    assert repeated["T4"]["predicted [W]"] > 1.01 * rows["T4"]["predicted [W]"]


def test_validate_cost_lists_every_device(capsys):
    assert entry.main(["validate", "cost"]) == 0
    table = capsys.readouterr().out
    assert "assumed: " in table
    assert all(row.device in table and row.note in table for row in load_published_devices())
    assert entry.main(["validate", "cost", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["devices"]) == len(load_published_devices())
    assert result["summary"]["area"]["mean"] < result["summary"]["area"]["stated"]
    marks = {row["device"]: row["unverified"].split(";") for row in result["devices"]}
    assert all("processors" in marks[row.device] for row in load_published_devices() if row.processors > 1)  # recalled
    assert "processors" not in marks["Wormhole n150"]


def test_what_is_unverified_is_a_column():
    device = load_published_devices()[0]
    with pytest.raises(ValidationError, match="'processor' is not a column; did you mean 'processors'"):
        PublishedDevice.model_validate({**device.model_dump(), "unverified": "die_mm2;processor"})


def test_validate_cost_fails_if_the_error_is_larger_than_stated(monkeypatch):
    smaller = {key: error.model_copy(update={"value": 0.01}) for key, error in published_coefficients().stated_error.items()}
    coefficients = published_coefficients().model_copy(update={"stated_error": smaller})
    monkeypatch.setattr(validate, "published_coefficients", lambda: coefficients)
    assert entry.main(["validate", "cost"]) == 1
