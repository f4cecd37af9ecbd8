"""Bounds of constraints, with their units and prefixes."""

import pytest

from dse.schema.search import SearchSpec


def constraint(text):
    return SearchSpec.model_validate({"constraints": [text]}).constraints[0]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("throughput >= 1000", 1e3),
        ("throughput >= 1000/s", 1e3),
        ("throughput >= 1e3 / s", 1e3),
        ("throughput >= 1000 tokens/s", 1e3),
        ("throughput >= 20 ktokens/s", 2e4),
        ("throughput >= 1k/s", 1e3),
        ("throughput >= 1.5 M images / s", 1.5e6),
        ("throughput[bert-base] >= 2 Gtokens/s", 2e9),
        ("energy <= 5 mJ", 5e-3),
        ("energy[batch=4] <= 1 kJ", 1e3),
        ("edp <= 1e-6", 1e-6),
        ("power <= 0.4 kW", 400),
    ],
)
def test_a_bound_is_read_with_its_unit(text, bound):
    assert constraint(text).bound == pytest.approx(bound, rel=1e-15)


@pytest.mark.parametrize(
    "bound", ["20k", "20 kilotokens/s", "20 km/s", "20 Ttokens/s", "k/s", "20 tokens", "infk/s", "1" + " " * 100_000 + "x/s"]
)
def test_a_throughput_in_another_unit_is_refused(bound):
    with pytest.raises(ValueError, match="write a number per second, as in '1000 tokens/s' or '20 ktokens/s'"):
        constraint(f"throughput >= {bound}")


@pytest.mark.parametrize("bound", ["5", "5 mW"])
def test_a_bound_of_energy_is_a_quantity(bound):
    with pytest.raises(ValueError, match=f"'{bound}' is not a valid bound of 'energy'; write a quantity in J, as in '5 mJ'"):
        constraint(f"energy <= {bound}")
