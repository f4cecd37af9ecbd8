"""Area, power and energy: laws, cases by hand, and what ships."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base import catalog
from dse.base.errors import InputError
from dse.base.units import Quantity
from dse.model.cost import area, energy, fit, power, scaling, selection
from dse.model.cost.coefficients import fitted, published
from dse.model.cost.design import DRIVER, Design
from dse.model.cost.devices import devices
from dse.model.cost.energy import Counts
from dse.sparsity.grammar import parse
from tests.model.test_laws import described

A100 = dse.load_accelerator("a100-sxm4-80gb")
PATHS = [path for path in A100.quantities() if DRIVER.fullmatch(path) and not path.startswith("cost.")]

positive = st.floats(0.01, 100)


def chip(runs=(), vector=None):
    """100 TFLOP/s of 16 bit operands and 1 TB/s at 7 nm, nothing published."""
    units = {"one": {"peak": {"fp16": 1e14}, "runs": list(runs)}}
    if vector:
        units["two"] = {"peak": {"fp32": vector}, "runs": [{"pattern": "unstructured"}]}
    return described({"units": units, "bandwidth": 1e12}).replace({"cost.process": "7 nm"})


def test_area_by_hand():
    known = fitted().area
    expected = known.fixed.value + known.matrix.value * 1e14 + known.interface.value * 1e12
    assert area.modelled(Design(chip())) == pytest.approx(expected, rel=1e-12)
    with_vector = expected + known.vector.value * 2 * 5e12  # an fp32 operand is two of 16 bit
    assert area.modelled(Design(chip(vector=5e12))) == pytest.approx(with_vector, rel=1e-12)
    more = area.modelled(Design(A100, {"memory.l2.capacity": 50e6})) - area.modelled(Design(A100))
    assert more == pytest.approx(known.sram.value * 10e6, rel=1e-9)


def test_a_chip_of_today_is_hundreds_of_square_millimetres_and_watts():
    """Units: no factor of a thousand is lost."""
    assert 100e-6 < area.modelled(Design(A100)) < 2000e-6
    assert 50 < power.modelled(Design(A100), 826e-6) < 2000


@given(st.sampled_from(PATHS), positive, st.floats(1, 10))
def test_more_of_anything_costs_no_less(path, scale, factor):
    """Whatever the other numbers are, and whether or not something is published."""
    at = {path: A100.value(path) * scale}
    if path.endswith("gain"):
        at = {path: 1 + scale}
    more = {path: at[path] * factor}
    for function in (area.area, area.modelled, power.power, power.static):
        assert function(Design(A100, more)) >= function(Design(A100, at)) * (1 - 1e-12) > 0


@pytest.mark.parametrize("name", ["l4", "h100-sxm5-80gb", "a100-sxm4-80gb"])  # l4 and h100 are overestimated
@pytest.mark.parametrize("factor", [1e-6, 0.1, 0.5])
def test_less_of_everything_still_costs_something(name, factor):
    accelerator = dse.load_accelerator(name)
    numbers = [path for path in accelerator.quantities() if DRIVER.fullmatch(path) and not path.startswith("cost.")]
    design = Design(accelerator, {path: accelerator.value(path) * factor for path in numbers if not path.endswith("gain")})
    assert 0 < area.area(design) < accelerator.value("cost.area")
    assert 0 < power.power(design) < accelerator.value("cost.power")


@given(positive, positive, positive)
def test_parts_add_up_and_do_not_know_of_each_other(bandwidth, capacity, peak):
    given = {"memory.dram.bandwidth": bandwidth * 1e12, "memory.l2.capacity": capacity * 1e7}
    both = area.modelled(Design(A100, given))
    alone = [area.modelled(Design(A100, {path: value})) for path, value in given.items()]
    assert both == pytest.approx(sum(alone) - area.modelled(Design(A100)), rel=1e-9)
    assert sum(area.parts(Design(A100, given)).values()) == pytest.approx(both, rel=1e-12)


def test_precisions_share_their_multipliers():
    """156 TFLOP/s of tf32, 312 of fp16 and 624 of int8 are one array; it grows once one of them passes the others."""
    before = area.modelled(Design(A100))
    path = "units.tensor_core.peak.fp16"
    assert area.modelled(Design(A100, {path: 100e12})) == before
    assert area.modelled(Design(A100, {path: 624e12})) > before


@pytest.mark.parametrize(
    ("process", "logic", "sram"), [(7e-9, 1, 1), (5e-9, 96.3 / 138.2, 0.021 / 0.027), (16e-9, 96.3 / 28.9, 0.074 / 0.027)]
)
def test_scaling_with_the_process_as_published(process, logic, sram):
    design = Design(A100, {"cost.process": process})
    assert scaling.logic(design) == pytest.approx(logic, rel=1e-3)
    assert scaling.sram(design) == pytest.approx(sram, rel=1e-3)


@given(st.floats(3e-9, 27e-9), st.floats(1, 1.5))
def test_a_finer_process_is_never_larger_nor_hungrier(process, coarser):
    coarse = min(process * coarser, 28e-9)
    for function in (scaling.logic, scaling.sram, area.modelled, power.power):
        assert function(Design(A100, {"cost.process": process})) <= function(Design(A100, {"cost.process": coarse})) * (1 + 1e-12)


def test_memory_interfaces_do_not_shrink():
    parts = [area.parts(Design(A100, {"cost.process": process})) for process in (7e-9, 5e-9)]
    assert parts[0]["interface"] == parts[1]["interface"]
    assert parts[0]["matrix"] > parts[1]["matrix"]


def test_a_process_that_is_missing_or_unknown_is_told():
    with pytest.raises(InputError, match="'tpu-v5p' has no process, on which area, power and energy depend; add 'cost:"):
        area.area(Design(dse.load_accelerator("tpu-v5p")))
    with pytest.raises(InputError, match="no sizes are known; write one from 3 to 28 nm"):
        area.area(Design(A100, {"cost.process": np.array([7e-9, 2e-9])}))


def test_a_published_device_has_its_published_figures_and_its_variations_the_models_difference():
    for name in catalog.list_names("accel_models"):
        accelerator = dse.load_accelerator(name)
        for key, function in (("area", area.area), ("power", power.power)):
            if (
                accelerator.value(f"cost.{key}") is not None
                and accelerator.value("cost.process") is not None
                and accelerator.value("cost.area")
            ):
                assert function(Design(accelerator)) == pytest.approx(accelerator.value(f"cost.{key}"), rel=1e-12)
    given = {"memory.dram.bandwidth": 3e12}
    more = area.modelled(Design(A100, given)) - area.modelled(Design(A100))
    assert area.area(Design(A100, given)) == pytest.approx(826e-6 + more, rel=1e-12)


@pytest.mark.parametrize(("name", "today"), [("a100-native-1m", "a100-sxm4-80gb"), ("h100-quarter-vector", "h100-sxm5-80gb")])
def test_what_does_not_exist_ships_with_what_the_model_says(name, today):
    tomorrow = Design(dse.load_accelerator(name), base=dse.load_accelerator(today))
    plain = Design(tomorrow.accelerator, {f"cost.{key}": tomorrow.own.value(f"cost.{key}") for key in ("area", "power")}, tomorrow.base)
    assert tomorrow.value("cost.area") == pytest.approx(area.area(plain), rel=2e-3)
    assert tomorrow.value("cost.power") == pytest.approx(power.power(plain), rel=1e-2)


@given(st.lists(positive, min_size=1, max_size=4), st.lists(positive, min_size=1, max_size=4))
def test_arrays_of_values_are_each_value(bandwidths, peaks):
    paths = ("memory.dram.bandwidth", "units.cuda_core.peak.fp16")
    arrays = (np.array(bandwidths)[:, None] * 1e12, np.array(peaks)[None, :] * 1e13)
    for function in (area.area, power.power):
        together = function(Design(A100, dict(zip(paths, arrays, strict=True))))
        for n, m in np.ndindex(len(bandwidths), len(peaks)):
            one = function(Design(A100, {paths[0]: arrays[0][n, 0], paths[1]: arrays[1][0, m]}))
            assert np.broadcast_to(together, (len(bandwidths), len(peaks)))[n, m] == pytest.approx(one, rel=1e-12)


def test_jax_differentiates():
    with jax.enable_x64(True):
        slope = jax.grad(lambda b: area.area(Design(A100, {"memory.dram.bandwidth": b})))(2e12)
        steps = jax.grad(lambda p: area.area(Design(A100, {"cost.process": p})))(6.5e-9)
    assert float(slope) == pytest.approx(fitted().area.interface.value, rel=1e-9)
    assert float(steps) > 0


@pytest.mark.parametrize(
    ("pattern", "inputs"),
    [
        ("2:4", 2),
        ("1:2", 1),
        ("1:16", 15),
        ("2:4x8", 2 / 8),
        ("64:2:8", 4 / 64 + 2),
        ("64:2:*", 2),
        ("3:4/2:4", 1 + 2),
        ("dense", 0),
        ("row", 0),
    ],
)
def test_the_selection_network_by_hand(pattern, inputs):
    assert selection.network(parse(pattern)) == pytest.approx(published().selection.value * inputs, rel=1e-12)


def test_blocks_share_what_single_elements_need_and_hierarchies_cost_less_than_flat_groups():
    single = selection.network(parse("unstructured"))
    assert selection.network(parse("block:16x16*")) == pytest.approx(single / 256)
    assert selection.network(parse("vector:8")) == pytest.approx(single / 8)
    assert selection.network(parse("3:4/2:4")) < selection.network(parse("6:16"))
    assert selection.network(parse("2:4")) < selection.network(parse("4:8")) < single


def test_the_widest_run_of_the_matrix_unit_counts_and_vector_units_need_none():
    two, eight, unstructured = ({"pattern": pattern} for pattern in ("2:4", "1:8", "unstructured"))
    cost = {key: selection.overhead(Design(chip(runs))) for key, runs in {"": (), "2": (two,), "8": (eight,), "28": (two, eight)}.items()}
    assert 0 == cost[""] < cost["2"] < cost["8"] == cost["28"] < selection.overhead(Design(chip([unstructured])))
    assert selection.overhead(Design(chip([eight | {"enabled": False}]))) == 0
    assert selection.overhead(Design(chip(vector=1e13))) == 0
    assert selection.overhead(Design(chip([two | {"gain": 1.5}]))) < cost["2"]


counts = st.floats(0, 1e12)


@given(counts, counts, counts, counts, counts, st.floats(0, 1))
def test_energy_by_hand(done, gated, skipped, moved, cached, time):
    design = Design(A100)
    known, spent = published(), Counts(done, gated, skipped, {"dram": moved, "l2": cached})
    operations = done + known.gated.value * gated + known.skipped.value * skipped
    on_chip = known.sram.value * (7 / 45) ** known.energy_exponent.value
    work = fitted().power.matrix.value * operations + known.dram.value * moved + on_chip * cached
    assert energy.dynamic(design, "tensor_core", "fp16", spent) == pytest.approx(work, rel=1e-9)
    leakage = fitted().power.leakage.value * 826e-6 * time
    assert energy.energy(design, "tensor_core", "fp16", spent, time) == pytest.approx(work + leakage, rel=1e-9)


def test_narrow_operands_take_less_and_vector_units_more():
    design = Design(A100)
    assert energy.operation(design, "tensor_core", "int8") == energy.operation(design, "tensor_core", "fp16") / 2
    assert energy.operation(design, "cuda_core", "fp16") > energy.operation(design, "tensor_core", "fp16")
    assert energy.byte(design, "dram") > energy.byte(design, "l2")


def test_every_coefficient_says_where_it_is_from():
    for group in (published(), published().area_priors, published().power_priors, fitted().area, fitted().power):
        for name, quantity in group:
            if isinstance(quantity, Quantity):
                assert quantity.source, name
                assert quantity.kind in ("derived", "assumed") or name in ("dram", "sram_process")
    assert all(node.source for node in published().scaling)
    assert published().unstructured.unverified


def test_what_ships_is_what_the_fit_makes():
    again = fit.fit()
    for group in ("area", "power"):
        for name, quantity in getattr(fitted(), group):
            assert quantity.value == pytest.approx(getattr(getattr(again, group), name).value, rel=1e-3), name
    assert fit.as_yaml(again).splitlines()[1] == f"command: {fit.COMMAND}"


def test_devices_agree_with_the_catalogue():
    known = {row.accelerator: row for row in devices() if row.accelerator}
    for name, row in known.items():
        accelerator = dse.load_accelerator(name)
        assert accelerator.value("cost.area") == pytest.approx(row.area)
        assert accelerator.value("cost.power") == row.tdp_w
        assert accelerator.value("cost.process") == pytest.approx(row.process_nm * 1e-9)
        assert Design(accelerator).bandwidth == pytest.approx(row.dram_gbs * 1e9)
        rates = row.design.rates
        for kind, rate in Design(accelerator).rates.items():
            assert rates[kind] == pytest.approx(rate), (name, kind)
