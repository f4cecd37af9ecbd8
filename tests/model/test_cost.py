"""Area, power and energy: laws, cases by hand, shipped coefficients and shipped devices."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base import catalog
from dse.base.errors import InputError
from dse.base.units import Quantity
from dse.model.cost.area import (
    area,
    area_by_part,
    modelled_area,
    relative_multiplier_area,
    selection_network_share,
    sparsity_area_share,
)
from dse.model.cost.clock import supply_voltage
from dse.model.cost.coefficients import fitted_coefficients, logic_area_scale, published_coefficients, sram_area_scale
from dse.model.cost.design import COST_PATH, Design
from dse.model.cost.energy import ActionCounts, dynamic_energy, energy_per_byte, energy_per_operation, total_energy
from dse.model.cost.fit import COMMAND, fit_coefficients, load_published_devices, to_yaml
from dse.model.cost.power import modelled_power, power, static_power
from dse.schema.memory_technology import memory_technologies
from dse.sparsity.grammar import parse
from tests.model.test_laws import described

A100 = dse.load_accelerator("a100-sxm4-80gb")
PATHS = [path for path in A100.quantities() if COST_PATH.fullmatch(path) and not path.startswith("cost.") and not path.endswith("clock")]
HBM2E = memory_technologies()["hbm2e"]

positive = st.floats(0.01, 100)


def chip(runs=(), vector=None):
    """100 TFLOP/s on 16-bit operands and 1 TB/s at 7 nm, without published figures."""
    units = {"one": {"peak": {"fp16": 1e14}, "runs": list(runs)}}
    if vector:
        units["two"] = {"peak": {"fp32": vector}, "runs": [{"pattern": "unstructured"}]}
    return described({"units": units, "bandwidth": 1e12}).replace({"cost.process": "7 nm", "units.one.clock": "1 GHz"})


def test_area_by_hand():
    """100 TFLOP/s at 1 GHz are 1e5 operations a cycle; 1 TB/s are 2.2 stacks of HBM2E at 460.8 GB/s."""
    coefficients = fitted_coefficients().area.accelerator

    def with_fixed(rest: float) -> float:
        return rest + coefficients.fixed.value * rest / (rest + 80e-6)

    rest = coefficients.matrix.value * 1e5 + HBM2E.interface.value * 1e12 / HBM2E.bandwidth.value
    assert modelled_area(Design(chip())) == pytest.approx(with_fixed(rest), rel=1e-12)
    with_vector = rest + coefficients.vector.value * 2 * 5e3  # an fp32 operand counts as two of 16 bits
    assert modelled_area(Design(chip(vector=5e12).replace({"units.two.clock": "1 GHz"}))) == pytest.approx(
        with_fixed(with_vector), rel=1e-12
    )


@given(positive)
def test_the_fixed_area_grows_with_the_die(peak):
    """From nothing to that of a large die, half of it where the other parts take 80 mm^2; one that is stated stays."""
    large = fitted_coefficients().area.accelerator.fixed.value
    parts, more = (area_by_part(Design(chip().replace({"units.one.peak.fp16": f"{scale * peak} TFLOP/s"}))) for scale in (1, 2))
    assert 0 < parts["fixed"] < more["fixed"] < large
    rest = sum(parts.values()) - parts["fixed"]
    assert (parts["fixed"] < large / 2) == (rest < 80e-6)
    assert area_by_part(Design(chip().replace({"cost.fixed": "7 mm^2"})))["fixed"] == pytest.approx(7e-6)
    stated = A100.replace({"cost.fixed": "50 mm^2"})
    more = modelled_area(Design(stated, {"memory.l2.capacity": 50e6})) - modelled_area(Design(stated))
    assert more == pytest.approx(fitted_coefficients().area.gpu.sram.value * 10e6, rel=1e-9)


def test_families_by_hand():
    """A block has no fixed share, and its integer units count by width; memory on the die has no interface but counts as SRAM."""
    coefficients = fitted_coefficients().area.accelerator
    int8 = described({"units": {"one": {"peak": {"int8": 2e14}, "runs": []}}, "bandwidth": 1e12})
    int8 = int8.replace({"cost.process": "7 nm", "units.one.clock": "1 GHz"})
    parts = {family: area_by_part(Design(int8.replace({"cost.family": family})))["matrix"] for family in ("accelerator", "block")}
    assert parts["accelerator"] == pytest.approx(coefficients.matrix.value * 0.14 * 2e5, rel=1e-12)
    assert parts["block"] == pytest.approx(coefficients.matrix.value * 0.5 * 2e5, rel=1e-12)
    areas = {family: area_by_part(Design(chip().replace({"cost.family": family}))) for family in ("gpu", "accelerator", "block")}
    assert areas["block"] == areas["accelerator"] | {"fixed": 0.0}
    assert areas["gpu"]["matrix"] == pytest.approx(fitted_coefficients().area.gpu.matrix.value * 1e5, rel=1e-12)
    memory = f"memory.{chip().outermost}"
    on_die = area_by_part(Design(chip().replace({f"{memory}.technology": "sram", f"{memory}.capacity": "10 MB"})))
    assert on_die["interface"] == 0
    assert on_die["sram"] == pytest.approx(coefficients.sram.value * 10e6, rel=1e-12)


def test_a_lower_clock_needs_more_multipliers_and_less_power():
    fast, slow = (Design(chip().replace({"units.one.clock": clock})) for clock in ("1.6 GHz", "0.8 GHz"))
    assert area_by_part(slow)["matrix"] == pytest.approx(2 * area_by_part(fast)["matrix"], rel=1e-12)
    assert energy_per_operation(slow, "one", "fp16") < energy_per_operation(fast, "one", "fp16")
    assert modelled_power(slow, 1e-4) < modelled_power(fast, 1e-4)


@pytest.mark.parametrize(("clock", "voltage"), [(1.75, 1.0), (0.875, 0.75), (0.35, 0.6), (0.01, 0.6)])
def test_the_supply_voltage_by_hand(clock, voltage):
    """At 7 nm it is 1 at 1.75 GHz, falls by half of the share by which the clock falls, and has a floor."""
    at_peak = Design(chip().replace({"units.one.clock": f"{clock} GHz"}))
    under_load = Design(chip().replace({"units.one.clock": "3 GHz", "cost.sustained_clock": f"{clock} GHz"}))
    assert supply_voltage(at_peak) == pytest.approx(voltage, rel=1e-9)
    assert supply_voltage(under_load) == pytest.approx(voltage, rel=1e-9)
    between = Design(chip().replace({"units.one.clock": "3 GHz", "cost.base_clock": f"{clock**2 / 3} GHz"}))
    assert supply_voltage(between) == pytest.approx(voltage, rel=1e-9)


@pytest.mark.parametrize(
    ("dtype", "relative"), [("fp16", 1), ("fp8", 0.5), ("fp32", 2), ("tf32", 2), ("int8", 0.14), ("int16", 0.56), ("int4", 0.035)]
)
def test_integer_multipliers_are_small(dtype, relative):
    """Horowitz (2014), 45 nm: a multiply-add of int8 takes 419 um^2, one of fp16 3000."""
    assert relative_multiplier_area(dtype) == pytest.approx(relative, rel=1e-9)


def test_a_current_chip_has_hundreds_of_square_millimetres_and_watts():
    """No unit conversion is missing."""
    assert 100e-6 < modelled_area(Design(A100)) < 2000e-6
    assert 50 < modelled_power(Design(A100), 826e-6) < 2000


@given(st.sampled_from(PATHS), positive, st.floats(1, 10))
def test_area_and_power_increase_with_every_number(path, scale, factor):
    """By the model alone and anchored to published figures; wider and faster channels are fewer at the same bandwidth."""
    at = {path: A100.value(path) * scale}
    if path.endswith("gain"):
        at = {path: 1 + scale}
    more = {path: at[path] * factor}
    smaller, larger = (more, at) if path.endswith((".width", ".rate")) else (at, more)
    for function in (area, modelled_area, power, static_power):
        assert function(Design(A100, larger)) >= function(Design(A100, smaller)) * (1 - 1e-12) > 0


@pytest.mark.parametrize("name", ["l4", "h100-sxm5-80gb", "a100-sxm4-80gb"])  # the model overestimates l4 and h100
@pytest.mark.parametrize("factor", [1e-6, 0.1, 0.5])
def test_area_and_power_stay_positive_for_small_designs(name, factor):
    accelerator = dse.load_accelerator(name)
    numbers = [path for path in accelerator.quantities() if COST_PATH.fullmatch(path) and not path.startswith("cost.")]
    design = Design(accelerator, {path: accelerator.value(path) * factor for path in numbers if not path.endswith("gain")})
    assert 0 < area(design) < accelerator.value("cost.area")
    assert 0 < power(design) < accelerator.value("cost.power")


@given(positive, positive, positive)
def test_area_is_the_sum_of_independent_parts(bandwidth, capacity, peak):
    given = {"memory.dram.bandwidth": bandwidth * 1e12, "memory.l2.capacity": capacity * 1e7}
    a100 = A100.replace({"cost.fixed": "50 mm^2"})  # which otherwise depends on the other parts
    both = modelled_area(Design(a100, given))
    separate = [modelled_area(Design(a100, {path: value})) for path, value in given.items()]
    assert both == pytest.approx(sum(separate) - modelled_area(Design(a100)), rel=1e-9)
    assert sum(area_by_part(Design(A100, given)).values()) == pytest.approx(modelled_area(Design(A100, given)), rel=1e-12)


def test_precisions_share_multipliers():
    """156 TFLOP/s of tf32, 312 of fp16 and 624 of int8 are one array, which grows only if one of them exceeds the others."""
    before = modelled_area(Design(A100))
    path = "units.tensor_core.peak.fp16"
    assert modelled_area(Design(A100, {path: 312e12, "units.tensor_core.peak.int8": 1e12})) == before
    assert modelled_area(Design(A100, {path: 624e12})) > before


@pytest.mark.parametrize(
    ("process", "logic", "sram"), [(7e-9, 1, 1), (5e-9, 96.3 / 138.2, 0.021 / 0.027), (16e-9, 96.3 / 28.9, 0.074 / 0.027)]
)
def test_process_scaling_equals_published_densities(process, logic, sram):
    design = Design(A100, {"cost.process": process})
    assert logic_area_scale(design) == pytest.approx(logic, rel=1e-3)
    assert sram_area_scale(design) == pytest.approx(sram, rel=1e-3)


@given(st.floats(3e-9, 27e-9), st.floats(1, 1.5))
def test_a_smaller_process_never_needs_more_area_or_power(process, coarser):
    coarse = min(process * coarser, 28e-9)
    for function in (logic_area_scale, sram_area_scale, modelled_area, power):
        assert function(Design(A100, {"cost.process": process})) <= function(Design(A100, {"cost.process": coarse})) * (1 + 1e-12)


def test_memory_interfaces_do_not_shrink():
    parts = [area_by_part(Design(A100, {"cost.process": process})) for process in (7e-9, 5e-9)]
    assert parts[0]["interface"] == parts[1]["interface"]
    assert parts[0]["matrix"] > parts[1]["matrix"]


def test_a_missing_or_unknown_process_is_an_error():
    with pytest.raises(InputError, match="'tpu-v5p' has no process, on which area, power and energy depend; add 'cost:"):
        area(Design(dse.load_accelerator("tpu-v5p")))
    with pytest.raises(InputError, match="no circuit sizes are known; write one from 3 to 28 nm"):
        area(Design(A100, {"cost.process": np.array([7e-9, 2e-9])}))


def test_a_published_device_has_its_published_figures_and_variations_add_the_modelled_difference():
    for name in catalog.list_names("accel_models"):
        accelerator = dse.load_accelerator(name)
        for key, function in (("area", area), ("power", power)):
            if (
                accelerator.value(f"cost.{key}") is not None
                and accelerator.value("cost.process") is not None
                and accelerator.value("cost.area")
            ):
                assert function(Design(accelerator)) == pytest.approx(accelerator.value(f"cost.{key}"), rel=1e-12)
    given = {"memory.dram.bandwidth": 3e12}
    more = modelled_area(Design(A100, given)) - modelled_area(Design(A100))
    assert area(Design(A100, given)) == pytest.approx(826e-6 + more, rel=1e-12)


@pytest.mark.parametrize(("name", "existing"), [("a100-native-1m", "a100-sxm4-80gb"), ("h100-quarter-vector", "h100-sxm5-80gb")])
def test_hypothetical_devices_ship_with_modelled_figures(name, existing):
    shipped = Design(dse.load_accelerator(name), base=dse.load_accelerator(existing))
    anchored = Design(
        shipped.accelerator, {f"cost.{key}": shipped.published.value(f"cost.{key}") for key in ("area", "power")}, shipped.base
    )
    assert shipped.value("cost.area") == pytest.approx(area(anchored), rel=2e-3)
    assert shipped.value("cost.power") == pytest.approx(power(anchored), rel=1e-2)


@given(st.lists(positive, min_size=1, max_size=4), st.lists(positive, min_size=1, max_size=4))
def test_arrays_of_values_equal_single_values(bandwidths, peaks):
    paths = ("memory.dram.bandwidth", "units.cuda_core.peak.fp16")
    arrays = (np.array(bandwidths)[:, None] * 1e12, np.array(peaks)[None, :] * 1e13)
    for function in (area, power):
        together = function(Design(A100, dict(zip(paths, arrays, strict=True))))
        for n, m in np.ndindex(len(bandwidths), len(peaks)):
            one = function(Design(A100, {paths[0]: arrays[0][n, 0], paths[1]: arrays[1][0, m]}))
            assert np.broadcast_to(together, (len(bandwidths), len(peaks)))[n, m] == pytest.approx(one, rel=1e-12)


def test_jax_differentiates_area():
    with jax.enable_x64(True):
        slope = jax.grad(lambda b: area(Design(A100, {"memory.dram.bandwidth": b})))(2e12)
        steps = jax.grad(lambda p: area(Design(A100, {"cost.process": p})))(6.5e-9)
    assert float(slope) == pytest.approx(HBM2E.interface.value / HBM2E.bandwidth.value, rel=1e-9)
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
    assert selection_network_share(parse(pattern)) == pytest.approx(published_coefficients().selection.value * inputs, rel=1e-12)


def test_blocks_share_a_selection_network_and_hierarchies_cost_less_than_flat_groups():
    single = selection_network_share(parse("unstructured"))
    assert selection_network_share(parse("block:16x16*")) == pytest.approx(single / 256)
    assert selection_network_share(parse("vector:8")) == pytest.approx(single / 8)
    assert selection_network_share(parse("3:4/2:4")) < selection_network_share(parse("6:16"))
    assert selection_network_share(parse("2:4")) < selection_network_share(parse("4:8")) < single


def test_the_widest_run_of_the_matrix_unit_counts_and_vector_units_need_no_selection_network():
    two, eight, unstructured = ({"pattern": pattern} for pattern in ("2:4", "1:8", "unstructured"))
    cost = {key: sparsity_area_share(Design(chip(runs))) for key, runs in {"": (), "2": (two,), "8": (eight,), "28": (two, eight)}.items()}
    assert 0 == cost[""] < cost["2"] < cost["8"] == cost["28"] < sparsity_area_share(Design(chip([unstructured])))
    assert sparsity_area_share(Design(chip([eight | {"enabled": False}]))) == 0
    assert sparsity_area_share(Design(chip(vector=1e13))) == 0
    assert sparsity_area_share(Design(chip([two | {"gain": 1.5}]))) < cost["2"]


counts = st.floats(0, 1e12)


@given(counts, counts, counts, counts, counts, st.floats(0, 1))
def test_energy_by_hand(executed, gated, skipped, moved, cached, time):
    design = Design(A100)
    coefficients, actions = published_coefficients(), ActionCounts(executed, gated, skipped, {"dram": moved, "l2": cached})
    operations = executed + coefficients.gated.value * gated + coefficients.skipped.value * skipped
    on_chip = coefficients.sram.value * (7 / 45) ** coefficients.energy_exponent.value
    squared_voltage = (1 - 0.5 * (1 - (1.275 * 1.41) ** 0.5 / 1.75)) ** 2  # between 1275 and 1410 MHz; 1750 MHz at 7 nm count as 1
    work = fitted_coefficients().power.gpu.matrix.value * squared_voltage * operations + 48e-12 * moved + on_chip * cached
    assert dynamic_energy(design, "tensor_core", "fp16", actions) == pytest.approx(work, rel=1e-9)
    leakage = fitted_coefficients().power.gpu.leakage.value * squared_voltage * 826e-6 * time
    assert total_energy(design, "tensor_core", "fp16", actions, time) == pytest.approx(work + leakage, rel=1e-9)


def test_narrow_operands_take_less_energy_and_vector_units_more():
    design = Design(A100)
    assert energy_per_operation(design, "tensor_core", "int8") == energy_per_operation(design, "tensor_core", "fp16") / 2
    assert energy_per_operation(design, "cuda_core", "fp16") > energy_per_operation(design, "tensor_core", "fp16")
    assert energy_per_byte(design, "dram") > energy_per_byte(design, "l2")


def test_every_coefficient_has_a_source():
    for group in (
        published_coefficients(),
        published_coefficients().area_priors.gpu,
        published_coefficients().area_priors.accelerator,
        published_coefficients().power_priors,
        fitted_coefficients().area.gpu,
        fitted_coefficients().area.accelerator,
        fitted_coefficients().power.gpu,
        fitted_coefficients().power.accelerator,
    ):
        for name, quantity in group:
            if isinstance(quantity, Quantity):
                assert quantity.source, name
                assert quantity.kind in ("derived", "assumed") or name in ("integer_multiplier", "sram_process")
    assert all(node.source for node in published_coefficients().scaling)
    assert published_coefficients().unstructured.unverified


def test_the_shipped_coefficients_equal_the_fit():
    refitted = fit_coefficients()
    shipped = fitted_coefficients()
    pairs = [
        (getattr(getattr(shipped, figure), family), getattr(getattr(refitted, figure), family))
        for figure in ("area", "power")
        for family in ("gpu", "accelerator")
    ]
    for group, again in pairs:
        for name, quantity in group:
            assert quantity.value == pytest.approx(getattr(again, name).value, rel=1e-3), name
    assert to_yaml(refitted).splitlines()[1] == f"command: {COMMAND}"


def test_devices_agree_with_the_catalogue():
    shipped = {row.accelerator: row for row in load_published_devices() if row.accelerator}
    for name, row in shipped.items():
        accelerator = dse.load_accelerator(name)
        assert accelerator.value("cost.area") == pytest.approx(row.area, rel=0.005)
        assert accelerator.value("cost.power") == row.tdp_w
        assert accelerator.value("cost.process") == pytest.approx(row.process_nm * 1e-9)
        assert accelerator.cost.family == row.family
        assert accelerator.memory[accelerator.outermost].technology == row.memory
        assert accelerator.value(f"memory.{accelerator.outermost}.bandwidth") == pytest.approx(row.dram_gbs * 1e9, rel=0.005)
        if accelerator.value("cost.base_clock") is not None:
            assert accelerator.value("cost.base_clock") == pytest.approx(row.base_clock_ghz * 1e9)
        rates = row.design.rates
        for kind, rate in Design(accelerator).rates.items():
            assert rates[kind] == pytest.approx(rate, rel=0.005), (name, kind)
