"""The cost model against published devices: what is left out, what is told, what fails."""

import json
from pathlib import Path

import pytest

from dse.cli import entry
from dse.model.cost import devices as tables
from dse.model.cost import validate
from dse.model.cost.coefficients import published

TOP = Path(__file__).parents[2]
README, PAGE = TOP / "README.md", TOP / "docs" / "reference" / "validation.md"


@pytest.fixture(scope="module")
def rows():
    return {row["device"]: row for row in validate.leave_one_out()}


def test_published_devices_are_within_the_stated_error(rows):
    for key, error in validate.summary(list(rows.values())).items():
        assert error["mean"] <= published().stated_error[key].value < 2 * error["mean"]  # stated, not padded


def test_the_documentation_has_the_errors_of_the_command(rows):
    pages = {page: " ".join(page.read_text().split()) for page in (PAGE, TOP / "docs" / "explanation" / "cost.md", README)}
    for row in rows.values():
        name = row["device"] + ("" if row["fitted"] == "yes" else " *")
        cells = f"{row['process [nm]']:g} nm", f"{row['area [mm^2]']:.0f} mm²", f"{row['area error']:+.0%}", f"{row['power [W]']:.0f} W"
        assert f"| {name} | {' | '.join(cells)} | {row['power error']:+.0%} |" in pages[PAGE]
    errors = validate.summary(list(rows.values()))
    for key, error in errors.items():
        stated = f"{key} {error['mean']:.0%}, {error['all']:.0%} with those that are not fitted"
        assert all(stated in text for page, text in pages.items() if page != README)
    assert f"Area and power of a die that was left out: {errors['area']['mean']:.0%} and {errors['power']['mean']:.0%}" in pages[README]


def test_a_die_is_left_out_with_every_part_made_of_it():
    assert {row.die for row in validate.without("GA100")} == {row.die for row in tables.devices() if row.fitted == "yes"} - {"GA100"}


def test_a_prediction_does_not_know_what_it_predicts(rows, monkeypatch):
    """Had the A100 been ten times as large and as hot, it would be predicted the same, and others would not."""
    changed = [
        row.model_copy(update={"die_mm2": row.die_mm2 * 10, "tdp_w": row.tdp_w * 10}) if row.die == "GA100" else row
        for row in tables.devices()
    ]
    monkeypatch.setattr(validate, "devices", lambda: changed)
    again = {row["device"]: row for row in validate.leave_one_out()}
    assert again["A100 SXM4 80GB"]["predicted [mm^2]"] == pytest.approx(rows["A100 SXM4 80GB"]["predicted [mm^2]"], rel=1e-9)
    assert again["T4"]["predicted [mm^2]"] > 1.1 * rows["T4"]["predicted [mm^2]"]
    assert again["T4"]["predicted [W]"] > 1.1 * rows["T4"]["predicted [W]"]


def test_validate_cost_tells_each_device(capsys):
    assert entry.main(["validate", "cost"]) == 0
    told = capsys.readouterr().out
    assert "assumed: " in told
    assert all(row.device in told and row.remark in told for row in tables.devices())
    assert entry.main(["validate", "cost", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["devices"]) == len(tables.devices())
    assert found["summary"]["area"]["mean"] < found["summary"]["area"]["stated"]


def test_validate_cost_fails_where_the_model_is_worse_than_stated(monkeypatch):
    better = {key: error.model_copy(update={"value": 0.01}) for key, error in published().stated_error.items()}
    monkeypatch.setattr(validate, "published", lambda: published().model_copy(update={"stated_error": better}))
    assert entry.main(["validate", "cost"]) == 1
