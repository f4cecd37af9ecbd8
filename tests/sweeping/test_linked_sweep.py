"""Sweeps over linked numbers: equal to the same designs with every number written out; bad axes."""

import copy
import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.base.errors import InputError
from dse.model import axis_dependence, grid
from dse.model.rates import AxisFactor
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import read_sweep
from dse.sweeping import job
from dse.sweeping.chunk import ChunkGrid, restrict_plan
from dse.sweeping.plan import describe_plan
from dse.sweeping.plan_builder import build_plan
from dse.sweeping.run import run_in_memory
from tests.conftest import described

CHIP: dict[str, Any] = {
    "name": "chip",
    "source": "a test",
    "units": {
        "tensor": {
            "processors": 4,
            "clock": "1 GHz",
            "macs": {"int8": 4096},
            "peak": {"fp16": "10 TFLOP/s"},
            "runs": {"sparse": {"pattern": "2:4", "gain": 2, "efficiency": 0.5}},
        }
    },
    "memory": {
        "dram": {"channels": 8, "width": "64 bit", "rate": "8 GT/s", "capacity": "1 GB"},
        "l2": {"channels": {"link": "units.tensor.processors"}, "channel_capacity": "1 MB", "width": "512 bit", "rate": "1 GT/s"},
    },
    "cost": {"process": "7 nm"},
}
pytestmark = pytest.mark.filterwarnings("ignore::dse.ModelWarning")  # of axes that a random link does not use
AXES = {"units.tensor.clock": ["1 GHz", "2 GHz", "5 GHz"], "memory.dram.channels": [4, 12], "units.tensor.processors": [4, 8]}
VARIABLES = ["latency", "dense_latency", "speedup", "fits", "energy", "area", "power"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return described(tmp_path_factory.mktemp("linked"))


def specification(folder, chip, axes, fidelity="sol", variables=VARIABLES) -> dict[str, Any]:
    return {
        "name": "linked", "accelerators": [chip], "workloads": {str(folder / "net"): {"methods": ["semi"]}}, "dtype": "fp16",
        "model": {"fidelity": fidelity}, "axes": axes, "store": {"variables": variables},
    }  # fmt: skip


def written_out(accelerator: Accelerator) -> dict[str, Any]:
    """The description with every number as a plain one."""
    data = copy.deepcopy(CHIP)
    tensor, unit = data["units"]["tensor"], accelerator.units["tensor"]
    del tensor["macs"]
    tensor["clock"] = f"{accelerator.value('units.tensor.clock')!r} Hz"  # area and power depend on it
    tensor["peak"] = {name: f"{peak.value!r} FLOP/s" for name, peak in unit.peak.items()}
    tensor["runs"]["sparse"]["efficiency"] = unit.runs["sparse"].efficiency.value
    tensor["runs"]["sparse"]["gain"] = accelerator.value("units.tensor.runs.sparse.gain")
    tensor["processors"] = int(accelerator.value("units.tensor.processors"))
    data["memory"] = {
        name: {key: f"{accelerator.value(f'memory.{name}.{key}')!r} {unit}" for key, unit in (("capacity", "B"), ("bandwidth", "B/s"))}
        for name in accelerator.memory
    }
    return data


def check_against_written_out(folder, chip, links, fidelity):
    """Every design of the linked sweep equals the design with its numbers written out, to 1e-12."""
    axes = {**AXES, **{path: {"link": text} for path, text in links.items()}}
    results = dse.sweep(specification(folder, chip, axes, fidelity))
    assert set(results.sizes) & set(links) == set()
    base = Accelerator.from_dict(chip)
    for position in itertools.product(*(range(len(values)) for values in AXES.values())):
        values = {path: AXES[path][index] for path, index in zip(AXES, position, strict=True)}
        design = base.replace({**{path: {"link": text} for path, text in links.items()}, **values})
        expected = dse.sweep(specification(folder, written_out(design), {}, fidelity))
        at = results.isel(dict(zip(AXES, position, strict=True)))
        for name in VARIABLES:
            np.testing.assert_allclose(at[name].values, expected[name].values, rtol=1e-12, err_msg=f"{name} at {values}")


PLAIN = st.sampled_from(["2", "0.3", "units.tensor.processors", "memory.dram.channels / 3", "(units.tensor.clock / 3 GHz)"])
RATES = st.recursive(
    st.sampled_from(["units.tensor.peak.int8", "2 FLOP * 1000 * units.tensor.clock", "7 TFLOP/s", "20 FLOP/B * memory.dram.bandwidth"]),
    lambda rates: st.one_of(
        st.tuples(rates, PLAIN).map(lambda pair: f"({pair[0]}) * {pair[1]}"),
        st.tuples(rates, PLAIN).map(lambda pair: f"({pair[0]}) / ({pair[1]})"),
        st.tuples(rates, rates).map(lambda pair: f"({pair[0]}) + ({pair[1]})"),
        st.tuples(rates, rates).map(lambda pair: f"sqrt(({pair[0]}) * ({pair[1]}))"),
        st.tuples(rates, rates).map(lambda pair: f"minimum({pair[0]}, {pair[1]})"),
    ),
    max_leaves=4,
)


@settings(max_examples=6)
@given(rate=RATES, factor=PLAIN, fidelity=st.sampled_from(["sol", "capacity"]))
def test_linked_designs_equal_written_out_ones(folder, rate, factor, fidelity):
    links = {"units.tensor.peak.fp16": rate, "memory.l2.rate": f"1 GT/s * {factor}"}
    check_against_written_out(folder, CHIP, links, fidelity)


def test_linked_designs_equal_written_out_ones_with_an_efficiency_and_a_gain(folder):
    links = {
        "units.tensor.runs.sparse.efficiency": "minimum(1, memory.dram.channels / 20)",
        "units.tensor.runs.sparse.gain": "1 + units.tensor.processors / 8",
        "memory.l2.channel_capacity": "1 MB + 100 kB * memory.dram.channels",
    }
    check_against_written_out(folder, CHIP, links, "r3")
    check_against_written_out(folder, CHIP, links, "capacity")


def test_roles_follow_links(folder):
    axes = {"units.tensor.clock": ["1 GHz", "2 GHz"], "units.tensor.processors": [4, 8], "memory.dram.channels": [4, 8, 12]}

    def roles(fidelity, links=()):
        spec, document = read_sweep(specification(folder, CHIP, {**axes, **dict(links)}, fidelity, ["latency"]))
        return {axis.path.rpartition(".")[2]: axis.role for axis in build_plan(spec, document).axes}

    linked = {"units.tensor.peak.fp16": {"link": "units.tensor.peak.int8 / 2"}}
    assert roles("sol") == {"clock": "unused", "processors": "unused", "channels": "rate"}
    assert roles("sol", linked) == {"clock": "rate", "processors": "rate", "channels": "rate"}
    assert roles("capacity", linked) == {"clock": "rate", "processors": "tabulated", "channels": "rate"}
    added = {"units.tensor.peak.fp16": {"link": "units.tensor.peak.int8 / 2 + 10 FLOP/B * memory.dram.bandwidth"}}
    assert roles("sol", added) == {"clock": "tabulated", "processors": "tabulated", "channels": "rate"}


@settings(max_examples=6)
@given(rate=RATES, factor=PLAIN, fidelity=st.sampled_from(["sol", "capacity"]))
def test_layers_grouped_by_linked_axes_give_the_same_latencies(folder, rate, factor, fidelity):
    """Grouping drops executions and terms that never decide, by the extremes of quotients of rates; it is exact."""
    links = {"units.tensor.peak.fp16": {"link": rate}, "memory.l2.rate": {"link": f"1 GT/s * {factor}"}}
    axes = {**AXES, **links, "memory.dram.rate": {"link": "units.tensor.clock ** 2 * 4 / 1 GHz"}}
    spec = specification(folder, CHIP, axes, fidelity, ["latency", "dense_latency"])
    plain = dse.sweep(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "LARGE_GRID", 1)
        patch.setattr(axis_dependence, "BREAK_EVEN", 0)
        grouped = dse.sweep(spec)
    np.testing.assert_allclose(grouped.latency, plain.latency, rtol=1e-12)
    np.testing.assert_allclose(grouped.dense_latency, plain.dense_latency, rtol=1e-12)


def test_the_extremes_of_a_factor_bound_all_quotients_of_rates():
    generator = np.random.default_rng(0)
    for _ in range(200):
        values = np.sort(generator.uniform(1, 10, 50))
        masks = generator.random((3, 4, 5)) < 0.5
        numbers = [(masks[0], values), (masks[1], values**-2 + values), (masks[2], np.sin(values) + 1.5)]
        factor = AxisFactor(values, numbers)
        every, some = factor.at().reshape(20, -1), factor.extremes.reshape(20, -1)
        quotients = [(each[:, None] / each[None]).max(axis=-1) for each in (every, some)]
        np.testing.assert_allclose(quotients[1], quotients[0], rtol=1e-12)


def test_chunks_of_a_linked_sweep_equal_the_whole(folder):
    added = "units.tensor.peak.int8 / 2 + 10 FLOP/B * memory.dram.bandwidth"
    axes = {**AXES, "units.tensor.peak.fp16": {"link": added}, "memory.l2.rate": {"link": "units.tensor.clock"}}
    spec = specification(folder, CHIP, axes, "capacity", ["latency", "area"])
    plan = build_plan(*read_sweep(spec))
    whole = run_in_memory(plan)
    chunks = list(ChunkGrid(plan, max_designs=2))
    assert len(chunks) > 4
    for chunk in chunks:
        part = run_in_memory(restrict_plan(plan, chunk))
        expected = whole.isel(chunk.region)
        np.testing.assert_allclose(part.latency.values, expected.latency.values, rtol=1e-14)
        np.testing.assert_allclose(part.area.values, expected.area.values, rtol=1e-14)


def test_provenance_has_the_formulas(folder):
    axes = {"units.tensor.clock": ["1 GHz", "2 GHz"], "units.tensor.peak.fp16": {"link": "units.tensor.peak.int8 / 2"}}
    results = dse.sweep(specification(folder, CHIP, axes, "sol", ["latency"]))
    formulas = json.loads(results.attrs["links"])["chip"]
    assert formulas["units.tensor.peak.fp16"] == "units.tensor.peak.int8 / 2"
    assert formulas["units.tensor.peak.int8"] == "2 FLOP * units.tensor.macs.int8 * units.tensor.processors * units.tensor.clock"
    plan = build_plan(*read_sweep(specification(folder, CHIP, axes, "sol", ["latency"])))
    assert "linked       units.tensor.peak.fp16 = units.tensor.peak.int8 / 2" in describe_plan(plan)


def test_published_figures_stay_those_of_the_description(folder):
    chip = {**CHIP, "cost": {"process": "7 nm", "area": "100 mm^2"}}
    linked = {"memory.dram.channels": [8, 16], "units.tensor.peak.fp16": {"link": "memory.dram.channels * 1.25 TFLOP/s"}}
    area = dse.sweep(specification(folder, chip, linked, "sol", ["latency", "area"])).area.values.ravel()
    assert area[0] == pytest.approx(100e-6, rel=1e-12)  # with 8 channels the description itself
    assert area[1] > area[0]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"units.tensor.peak.fp16": {"link": "units.tensor.peak.fp8"}}, "axes.units.tensor.peak.fp16: the description gives no number"),
        ({"units.tensor.peak.int8": {"link": "units.tensor.clock"}}, "'units.tensor.clock' is in 1/s, and this number is in FLOP/s"),
        ({"units.tensor.clock": ["1 GHz", {"link": "units.tensor.clock"}]}, "has a link among its values"),
        (
            {"units.tensor.clock": {"link": "units.tensor.peak.int8 / 100 FLOP"}},
            "links form a cycle: units.tensor.clock -> units.tensor.peak.int8 -> units.tensor.clock",
        ),
        (
            {"memory.dram.channels": [4, 6], "memory.l2.channels": {"link": "memory.dram.channels / 4"}},
            "memory.l2.channels', which follows from it: 1.5 is not a count",
        ),
        (
            {"units.tensor.clock": ["1 GHz", "2 GHz"], "units.tensor.peak.fp16": {"link": "10 TFLOP/s - units.tensor.clock * 5000 FLOP"}},
            "which follows from it: '10 TFLOP/s - units.tensor.clock * 5000 FLOP' is 0 FLOP/s",
        ),
        (
            {"memory.dram.rate": ["4 GT/s", "8 GT/s"], "memory.dram.capacity": {"link": "memory.dram.energy * 1 GB / (1 pJ/B)"}},
            "the description gives no number 'memory.dram.energy'",
        ),
        ({"memory.dram.channels": {"from": 1, "to": 8, "steps": 4}}, "takes 3.33333, which is not a whole number"),
    ],
)
def test_bad_links_of_axes_are_refused(folder, axes, message):
    with pytest.raises(InputError) as caught:
        dse.sweep(specification(folder, CHIP, axes, "sol", ["latency"]))
    assert message in str(caught.value)


def test_energies_that_follow_from_an_axis(folder):
    chip = copy.deepcopy(CHIP)
    chip["memory"]["dram"]["energy"] = {"link": "40 pJ/B * memory.dram.rate / (8 GT/s)"}
    axes = {"memory.dram.channels": [4, 8], "memory.dram.rate": ["4 GT/s", "8 GT/s"], "cost.process": ["7 nm", "5 nm"]}
    together = dse.sweep(specification(folder, chip, axes, "capacity"))
    for rate, process in itertools.product(range(2), range(2)):
        values = {"memory.dram.rate": axes["memory.dram.rate"][rate], "cost.process": axes["cost.process"][process]}
        design = Accelerator.from_dict(chip).replace(values).to_dict()
        alone = dse.sweep(specification(folder, design, {"memory.dram.channels": [4, 8]}, "capacity"))
        at = together.isel({"memory.dram.rate": rate, "cost.process": process})
        np.testing.assert_allclose(at.energy.values, alone.energy.values, rtol=1e-12)


ENERGIES: dict[str, dict[str, Any]] = {
    "modelled": {},
    "stated": {"fp16": "0.7 pJ/FLOP"},
    "linked": {"fp16": {"link": "0.3 pJ/FLOP * (1 + (units.tensor.clock / 1 GHz) ** 2)"}},
}


def chip_with_energy(energies: str) -> dict[str, Any]:
    """The chip with a second unit, whose energy is modelled, and with stated energies of the tensor unit."""
    chip = copy.deepcopy(CHIP)
    chip["units"]["tensor"]["energy"] = ENERGIES[energies]
    chip["units"]["vector"] = {"peak": {"fp16": "2 TFLOP/s"}, "runs": {"csr": {"pattern": "unstructured"}}}
    chip["memory"]["dram"]["energy"] = "30 pJ/B"
    return chip


@pytest.mark.parametrize("energies", ENERGIES)
@pytest.mark.parametrize("fidelity", ["sol", "capacity"])
def test_energy_over_clocks_is_that_of_each_clock_by_itself(folder, energies, fidelity):
    """The clock changes the peak by a link, and the energy of an operation by the voltage or a link; the process changes energies alone."""
    chip = chip_with_energy(energies)
    axes = {
        "cost.process": ["7 nm", "5 nm", "4 nm"],
        "memory.dram.rate": ["1 GT/s", "4 GT/s"],
        "units.tensor.clock": {"from": "0.8 GHz", "to": "2 GHz", "steps": 5},
        "units.tensor.peak.fp16": {"link": "2 FLOP * 4096 * units.tensor.processors * units.tensor.clock"},
    }
    together = dse.sweep(specification(folder, chip, axes, fidelity, ["latency", "energy"]))
    for process, clock in np.ndindex(3, 5):
        alone = {**axes, "cost.process": axes["cost.process"][process : process + 1]}
        alone["units.tensor.clock"] = [f"{float(together['units.tensor.clock'][clock])!r} Hz"]
        expected = dse.sweep(specification(folder, chip, alone, fidelity, ["latency", "energy"]))
        at = together.isel({"units.tensor.clock": [clock], "cost.process": [process]})
        np.testing.assert_allclose(at.energy.values, expected.energy.values, rtol=1e-12)
        np.testing.assert_allclose(at.latency.values, expected.latency.values, rtol=1e-12)
    spread = together.energy.max("units.tensor.clock") / together.energy.min("units.tensor.clock")
    assert float(spread.min()) > 1


def test_all_clocks_are_evaluated_in_few_calls(folder, monkeypatch):
    """As many calls as for the latency, not one for each clock."""
    calls: Counter[str] = Counter()
    for name in ("latency_on_grid", "varied_energy_on_grid"):
        function = getattr(grid, name)

        def counted(*arguments: Any, name: str = name, function: Any = function, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(grid, name, counted)
    axes = {
        "units.tensor.clock": {"from": "1 GHz", "to": "2 GHz", "steps": 50},
        "units.tensor.peak.fp16": {"link": "2 FLOP * 4096 * units.tensor.clock"},
    }
    dse.sweep(specification(folder, CHIP, axes, variables=["latency", "energy"]))
    assert calls["varied_energy_on_grid"] == calls["latency_on_grid"] > 0
