"""Cells of a dataset by limits of its results."""

import numpy as np
import pytest
import xarray as xr

from dse.base.display_units import format_quantity
from dse.base.errors import InputError
from dse.base.units import KIND_BY_UNIT
from dse.sweeping.select_values import limit_values, select_values

POWER = xr.DataArray([50.0, 75.0, 100.0], dims="axis", attrs={"units": "W"})
LATENCY = xr.DataArray([[3e-3, 2e-3, 1e-3]], dims=("variant", "axis"), attrs={"units": "s"})
RESULTS = xr.Dataset({"power": POWER, "latency": LATENCY, "speedup": LATENCY / 1e-3, "fits": LATENCY > 0})


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (["power <= 75 W"], [3, 2]),
        (["power>=0.075 kW"], [2, 1]),
        (["power <= 75"], [3, 2]),
        (["power <= 75 W", "latency <= 2 ms"], [2]),
    ],
)
def test_values_of_an_axis_beyond_a_limit_are_left_out(limits, expected):
    limited = limit_values(RESULTS, limits)
    np.testing.assert_allclose(limited.speedup.isel(variant=0), expected)
    assert limited.speedup.dims == RESULTS.speedup.dims
    assert limited.latency.attrs["units"] == "s"


@pytest.mark.parametrize("kind", KIND_BY_UNIT.values())
def test_a_value_of_each_unit_is_selected_as_it_is_written_and_as_it_is_suggested(kind):
    value = kind.model_validate(kind.example).value
    results = xr.Dataset(coords={"axis": ("axis", [value, 3 * value], {"units": kind.unit})})
    for text in (kind.example, format_quantity(value, kind.unit)):
        assert select_values(results, {"axis": text}).axis.values == [value]


def test_results_beyond_a_limit_are_missing_where_others_of_their_row_and_column_are_not():
    grid = xr.Dataset({"power": (("x", "y"), [[1.0, 2.0], [3.0, 4.0], [8.0, 9.0]]), "area": ("x", [1.0, 2.0, 3.0])})
    limited = limit_values(grid, ["power <= 3"])
    np.testing.assert_array_equal(limited.power, [[1, 2], [3, np.nan]])
    np.testing.assert_array_equal(limited.area, [1, 2])


def test_all_limits_that_are_wrong_are_reported_at_once():
    with pytest.raises(InputError) as error:
        limit_values(RESULTS, ["power <= 5 W", "pwer <= 75 W"])
    assert len(error.value.problems) == 2
    with pytest.raises(InputError, match="no result meets 'power <= 50 W' and 'latency <= 2 ms' together"):
        limit_values(RESULTS, ["power <= 50 W", "latency <= 2 ms"])


def test_points_beyond_a_limit_are_left_out():
    points = xr.Dataset({"power": POWER.rename(axis="point"), "latency": LATENCY.isel(variant=0).rename(axis="point")})
    assert list(limit_values(points, ["latency <= 2 ms"]).power.values) == [75, 100]


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("power < 75 W", "is not a limit"),
        ("pwer <= 75 W", "did you mean 'power'"),
        ("power <= 75 m", "'m' is the wrong unit"),
        ("power <= much", "is not a value of 'power'"),
        ("fits <= 1", "no number 'fits'"),
        ("power <= 5 W", "no result meets 'power <= 5 W'; 'power' is 50 W to 100 W"),
    ],
)
def test_limits_that_cannot_be_met_or_read_are_errors(limit, message):
    with pytest.raises(InputError, match=message):
        limit_values(RESULTS, [limit])
