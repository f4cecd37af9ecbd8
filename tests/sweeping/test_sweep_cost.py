"""Area, power and energy in sweeps: on every design, from the very execution that runs, only where they are stored."""

import json
import re
import warnings
from typing import Any

import numpy as np
import pytest

import dse
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model import grid, jax_devices
from dse.model.cost import area, energy, power
from dse.model.cost.design import Design
from dse.model.cost.energy import ActionCounts
from dse.model.rates import STORED_FLOPS, TRAFFIC, inverse_rates
from dse.model.terms import compulsory_terms
from dse.schema.model_options import ModelOptions
from dse.sweeping.plan_builder import list_unused_axes, load_plan

VARIABLES = "latency, area, power, energy, edp, performance_per_area, performance_per_watt"
AXES = """
axes:
  memory.l2.capacity: [10 MB, 100 MB]
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 3, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
  cost.process: [7 nm, 5 nm]
  units.tensor.peak.fp16: [100 TFLOP/s, 400 TFLOP/s]
"""


@pytest.fixture
def spec_file(folder):
    chip, path = folder / "chip.yaml", folder / "small.yaml"
    chip.write_text(chip.read_text() + "cost: {process: 7 nm, area: 300 mm^2}\n")
    path.write_text(path.read_text() + AXES + f"store: {{variables: [{VARIABLES}]}}\n")
    return path


def slow_energy(design, variant, batch):
    """Layer by layer in plain floats: whatever runs fastest spends its operations and bytes."""
    terms = compulsory_terms(design, variant, batch, OperandDtypes.model_validate("fp16"), ModelOptions.model_validate({}))
    inverse = inverse_rates(terms.executions, design)
    total = 0.0
    for layer, count in enumerate(terms.count):
        times = [
            max(work * rate for work, rate in zip(terms.work[layer, e], inverse[e], strict=True)) if terms.legal[layer, e] else np.inf
            for e in range(len(terms.executions))
        ]
        chosen = int(np.argmin(times))
        executed, moved = terms.work[layer, chosen, [STORED_FLOPS, TRAFFIC]]
        dense = 2 * terms.layers.m[layer] * terms.layers.k[layer] * terms.layers.n[layer] if terms.layers.has_flops[layer] else 0.0
        counts = ActionCounts(executed, 0.0, dense - executed, {"dram": moved})
        total += count * energy.dynamic_energy(Design(design), terms.executions[chosen].unit, "fp16", counts)
    return total


def test_every_design_equals_costing_it_alone(spec_file, net):
    results = dse.sweep(spec_file)
    published = dse.load_accelerator(spec_file.parent / "chip.yaml")
    units = {"memory.l2.capacity": "B", "memory.dram.bandwidth": "B/s", "cost.process": "m", "units.tensor.peak.fp16": "FLOP/s"}
    for point in np.ndindex(2, 3, 2, 2, 2):
        here = results.isel(accelerator=0, dtype=0, **dict(zip(results.area.dims[1:], point, strict=True)))
        values = {path: f"{float(here[path])!r} {unit}" for path, unit in units.items()}
        accelerator = published.replace(values | {"units.tensor.runs.sparse_24.enabled": bool(here["units.tensor.runs.sparse_24.enabled"])})
        design = Design(accelerator, base=published)
        assert float(here.area) == pytest.approx(area.area(design), rel=1e-12)
        assert float(here.power) == pytest.approx(power.power(design), rel=1e-12)
        for (b, batch), number in ((pair, n) for pair in enumerate((1, 16)) for n in range(len(net.variants))):
            one = here.isel(batch=b, variant=number)
            expected = slow_energy(accelerator, net.variants[number], batch) + power.static_power(design) * float(one.latency)
            assert float(one.energy) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("fidelity", "counted"), [("sol", ["dram"]), ("capacity", ["dram", "l2", "l1"])])
def test_energy_counts_the_bytes_of_every_memory_level_whose_bytes_are_known(folder, fidelity, counted):
    """Slow sum over layers in plain floats; a level of free bytes would show."""
    chip, path = folder / "chip.yaml", folder / "small.yaml"
    inner = "  l2: {capacity: 256 KiB, bandwidth: 5 TB/s}\n  l1: {capacity: 8 KiB, bandwidth: 20 TB/s}\n"
    chip.write_text(re.sub(r"  l2: .*\n", inner, chip.read_text()) + "cost: {process: 7 nm}\n")
    dense = path.read_text().replace("methods: all", "methods: [dense]")
    path.write_text(dense + f"model: {{fidelity: {fidelity}}}\nstore: {{variables: [latency, energy]}}\n")
    results, device = dse.sweep(path), dse.load_accelerator(chip)
    assert json.loads(results.energy.attrs["memory_levels"]) == {"chip": counted}
    design, variant = Design(device), dse.load_workload(folder / "net").dense
    layers = dse.evaluate(device, variant, 1, "fp16", fidelity=fidelity)
    moved = layers.traffic.sum("layer") if fidelity == "capacity" else [float(layers.bytes.sum())]
    expected = power.static_power(design) * float(layers.latency.sum())
    expected += sum(float(b) * energy.energy_per_byte(design, level) for b, level in zip(moved, counted, strict=True))
    for unit, flops in zip(layers.unit.values, layers.dense_flops.values, strict=True):
        expected += flops * energy.energy_per_operation(design, unit, "fp16")
    assert float(results.energy.sel(batch=1).squeeze()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("designs", [1, 3, 10])
def test_costs_do_not_depend_on_how_many_designs_are_evaluated_at_once(spec_file, monkeypatch, designs):
    at_once = dse.sweep(spec_file)
    monkeypatch.setattr("dse.sweeping.cost.CACHED_DESIGNS", designs)
    assert dse.sweep(spec_file).equals(at_once)


def test_derived_cost_variables(spec_file):
    results = dse.sweep(spec_file)
    np.testing.assert_allclose(results.edp, results.energy * results.latency, rtol=1e-12)
    for name, cost in (("performance_per_area", results.area), ("performance_per_watt", results.power)):
        expected = (results.batch / results.latency / cost).transpose(*results.latency.dims)
        np.testing.assert_allclose(results[name], expected, rtol=1e-12)
    assert {name: results[name].attrs["units"] for name in results.data_vars} == {
        "latency": "s", "area": "m^2", "power": "W", "energy": "J", "edp": "J s",
        "performance_per_area": "1/(s m^2)", "performance_per_watt": "1/J",
    }  # fmt: skip
    assert json.loads(results.area.attrs["basis"]) == {"chip": "300 mm^2 (datasheet), differences by the cost model"}
    assert json.loads(results.power.attrs["basis"]) == {"chip": "cost model alone"}
    assert results.energy.dims == results.edp.dims == results.latency.dims
    assert (results.energy > 0).all()


def test_energy_is_traced_once_per_sweep_and_only_if_it_is_stored(spec_file, monkeypatch):
    varied: Any = grid.varied_energy_on_grid  # a compiled function
    functions: list[Any] = [grid.latency_on_grid, varied]
    for function in functions:
        function.clear_cache()
    whole = dse.sweep(spec_file)
    assert [function._cache_size() for function in functions] == [1, 1]
    spec_file.write_text(spec_file.read_text().replace(VARIABLES, "latency"))
    varied.clear_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dse.ModelWarning)
        alone = dse.sweep(spec_file)
    assert varied._cache_size() == 0
    np.testing.assert_array_equal(alone.latency, whole.latency)


@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_one_chunk_is_k_chunks(spec_file, monkeypatch, chunk):
    whole = dse.sweep(spec_file)
    monkeypatch.setattr(jax_devices, "designs_at_once", lambda size: chunk)
    assert dse.sweep(spec_file).drop_attrs().identical(whole.drop_attrs())


def test_float32_is_within_1e_5(spec_file):
    exact = dse.sweep(spec_file)
    spec_file.write_text(spec_file.read_text().replace("store: {", "store: {dtype: float32, "))
    rough = dse.sweep(spec_file)
    assert rough.energy.dtype == rough.area.dtype == np.float32
    for name in exact.data_vars:
        np.testing.assert_allclose(rough[name], exact[name], rtol=1e-5)


def test_the_default_variables_are_those_of_time(folder):
    assert set(dse.sweep(folder / "small.yaml").data_vars) == {
        "latency",
        "dense_latency",
        "speedup",
        "bound_share",
        "execution_share",
        "fits",
        "footprint",
    }


def test_an_axis_that_changes_costs_only_is_not_unused(spec_file):
    """Warnings are errors: capacity and process change no latency, and no warning says to leave them out."""
    assert list_unused_axes(load_plan(spec_file)) == []
    spec_file.write_text(spec_file.read_text().replace(VARIABLES, "latency"))
    assert len(list_unused_axes(load_plan(spec_file))) == 2


def test_a_chip_without_a_process_is_refused_with_its_line(spec_file):
    chip = spec_file.parent / "chip.yaml"
    chip.write_text(chip.read_text().replace("cost: {process: 7 nm, ", "cost: {"))
    spec_file.write_text(spec_file.read_text().replace("  cost.process: [7 nm, 5 nm]\n", ""))
    with pytest.raises(InputError) as caught:
        dse.sweep(spec_file)
    assert str(caught.value) == (
        f"{spec_file}:2: accelerators.0: 'chip' has no process, on which area, power and energy depend; "
        "add 'cost: {process: 7 nm}' (3 to 28 nm)"
    )  # fmt: skip


def test_unverified_numbers_that_costs_depend_on_are_named(spec_file):
    chip = spec_file.parent / "chip.yaml"
    chip.write_text(chip.read_text().replace("l2: {capacity: 10 MB}", "l2: {capacity: {value: 10 MB, unverified: true}}"))
    assert json.loads(dse.sweep(spec_file).attrs["unverified"]) == {"chip": ["memory.l2.capacity"]}


def test_latencies_that_need_more_power_than_the_design_has_are_warned_of(spec_file):
    """By hand: what the work takes beyond leakage, over what the power leaves for it, is the minimum latency; a high power limits nothing."""
    chip = spec_file.parent / "chip.yaml"
    text, variables = chip.read_text(), "latency, power, energy, average_power, power_limited_latency"
    spec = spec_file.read_text()
    spec_file.write_text(spec[: spec.index("axes:")] + f"store: {{variables: [{variables}]}}\n")
    chip.write_text(text.replace("process: 7 nm", "process: 7 nm, power: 60 W"))
    with pytest.warns(
        dse.ModelWarning, match="'chip': 'net', .* W on average, above the 60 W of the design: .* is not attainable"
    ) as caught:
        results = dse.sweep(spec_file)
    assert len(caught) == 1
    assert f"takes {float(results.average_power.max()):.4g} W on average" in str(caught[0].message)
    np.testing.assert_allclose(results.average_power, results.energy / results.latency, rtol=1e-12)
    leakage = power.static_power(Design(dse.load_accelerator(chip)))
    least_latency = (results.energy - leakage * results.latency) / (60 - leakage)
    np.testing.assert_allclose(results.power_limited_latency, np.maximum(results.latency, least_latency), rtol=1e-9)
    above = results.average_power.values > 60
    np.testing.assert_array_equal(results.power_limited_latency.values > results.latency.values, above)
    assert above.any()
    chip.write_text(text.replace("process: 7 nm", "process: 7 nm, power: 10 kW"))
    generous = dse.sweep(spec_file)  # warnings are errors
    np.testing.assert_array_equal(generous.power_limited_latency, generous.latency)
    chip.write_text(text.replace("process: 7 nm", "process: 7 nm, power: 1 W"))
    with pytest.warns(dse.ModelWarning, match=r"above the 1 W of the design: .* at least inf s \(100% of the results are above\)"):
        assert np.isinf(dse.sweep(spec_file).power_limited_latency).all()
