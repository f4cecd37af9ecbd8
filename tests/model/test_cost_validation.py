"""Leave-one-die-out errors of the cost model: stated, documented, and independent of the predicted die."""

import json
from pathlib import Path

import pytest

from dse.cli import entry
from dse.model.cost import validate
from dse.model.cost.coefficients import published_coefficients
from dse.model.cost.fit import load_published_devices

TOP = Path(__file__).parents[2]
README, PAGE = TOP / "README.md", TOP / "docs" / "reference" / "validation.md"


@pytest.fixture(scope="module")
def rows():
    return {row["device"]: row for row in validate.leave_one_die_out()}


def test_published_devices_are_within_the_stated_error(rows):
    for key, error in validate.summarise_errors(list(rows.values())).items():
        assert error["mean"] <= published_coefficients().stated_error[key].value < 2 * error["mean"]  # stated, not padded


def test_the_documentation_has_the_errors_of_the_command(rows):
    pages = {page: " ".join(page.read_text().split()) for page in (PAGE, TOP / "docs" / "explanation" / "cost.md", README)}
    for row in rows.values():
        name = row["device"] + ("" if row["fitted"] == "yes" else " *")
        cells = f"{row['process [nm]']:g} nm", f"{row['area [mm^2]']:.0f} mm²", f"{row['area error']:+.0%}", f"{row['power [W]']:.0f} W"
        assert f"| {name} | {' | '.join(cells)} | {row['power error']:+.0%} |" in pages[PAGE]
    errors = validate.summarise_errors(list(rows.values()))
    for key, error in errors.items():
        stated = f"{key} {error['mean']:.0%}, {error['all']:.0%} with those that are not fitted"
        assert all(stated in text for page, text in pages.items() if page != README)
    assert f"Area and power of a die that was left out: {errors['area']['mean']:.0%} and {errors['power']['mean']:.0%}" in pages[README]


def test_errors_are_also_given_below_and_from_100_w(rows):
    """By hand, each die once: the T4 and the L4 are the fitted boards below 100 W."""
    small = [abs(rows[name]["power error"]) for name in ("T4", "L4")]
    summary = validate.summarise_errors(list(rows.values()))["power"]
    assert summary["below_100_w"] == pytest.approx(sum(small) / 2)
    assert summary["from_100_w"] < summary["mean"] < summary["below_100_w"]


def test_boards_far_below_the_predicted_power_attain_a_part_of_their_peak(rows):
    for row in rows.values():
        assert 0 < row["peak at power"] <= 1
        if row["predicted [W]"] < row["power [W]"]:
            assert row["peak at power"] == 1
    assert max(rows[name]["peak at power"] for name in ("T4", "L4", "H100 PCIe 80GB")) < 0.75


def test_a_die_is_left_out_with_all_of_its_devices():
    fitted = {row.die for row in load_published_devices() if row.fitted == "yes"}
    assert {row.die for row in validate.fitted_devices_without("GA100")} == fitted - {"GA100"}


def test_a_prediction_does_not_depend_on_the_predicted_die(rows, monkeypatch):
    """If the A100 had ten times the area and power, its prediction would be the same, and those of others would not."""
    changed = [
        row.model_copy(update={"die_mm2": row.die_mm2 * 10, "tdp_w": row.tdp_w * 10}) if row.die == "GA100" else row
        for row in load_published_devices()
    ]
    monkeypatch.setattr(validate, "load_published_devices", lambda: changed)
    repeated = {row["device"]: row for row in validate.leave_one_die_out()}
    assert repeated["A100 SXM4 80GB"]["predicted [mm^2]"] == pytest.approx(rows["A100 SXM4 80GB"]["predicted [mm^2]"], rel=1e-9)
    assert repeated["T4"]["predicted [mm^2]"] > 1.1 * rows["T4"]["predicted [mm^2]"]
    assert repeated["T4"]["predicted [W]"] > 1.1 * rows["T4"]["predicted [W]"]


def test_validate_cost_lists_every_device(capsys):
    assert entry.main(["validate", "cost"]) == 0
    table = capsys.readouterr().out
    assert "assumed: " in table
    assert all(row.device in table and row.note in table for row in load_published_devices())
    assert entry.main(["validate", "cost", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["devices"]) == len(load_published_devices())
    assert result["summary"]["area"]["mean"] < result["summary"]["area"]["stated"]


def test_validate_cost_fails_if_the_error_is_larger_than_stated(monkeypatch):
    smaller = {key: error.model_copy(update={"value": 0.01}) for key, error in published_coefficients().stated_error.items()}
    coefficients = published_coefficients().model_copy(update={"stated_error": smaller})
    monkeypatch.setattr(validate, "published_coefficients", lambda: coefficients)
    assert entry.main(["validate", "cost"]) == 1
