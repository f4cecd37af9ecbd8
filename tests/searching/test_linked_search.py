"""Searches over linked numbers: results and gradients equal those of the numbers written out."""

from typing import Any

import jax
import numpy as np
import pytest

import dse
from dse.searching.analysis import compute_elasticities
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.local_search import compile_derivatives, variants_of
from dse.searching.problem import load_problem
from tests.conftest import described
from tests.sweeping.test_linked_sweep import CHIP, ENERGIES, chip_with_energy

AXES: dict[str, Any] = {
    "units.tensor.clock": {"from": "0.5 GHz", "to": "4 GHz", "scale": "log"},
    "memory.dram.channels": {"from": 2, "to": 32},
    "units.tensor.processors": [2, 4, 8],
    "memory.l2.channel_capacity": {"from": "256 kB", "to": "4 MB", "scale": "log"},
    "units.tensor.peak.fp16": {"link": "units.tensor.peak.int8 / 2 + 1 TFLOP/s"},
    "memory.l2.rate": {"link": "units.tensor.clock * 1.25"},
}
NUMERIC = ["units.tensor.clock", "memory.dram.channels", "units.tensor.processors", "memory.l2.channel_capacity"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return described(tmp_path_factory.mktemp("linked"))


def specification(folder, fidelity, search) -> dict[str, Any]:
    return {
        "name": "linked", "accelerators": [CHIP], "workloads": {str(folder / "net"): {"methods": ["semi"]}}, "dtype": "fp16",
        "model": {"fidelity": fidelity}, "axes": AXES, "accuracy_drop": 1.0, "search": search,
    }  # fmt: skip


SEARCH = {"maximize": ["log(performance) - 0.001 * power - 1000 * area"], "sampler": "random", "trials": 20, "polish": False}


@pytest.mark.parametrize("fidelity", ["sol", "capacity"])
def test_designs_equal_their_written_out_descriptions(folder, fidelity):
    space, problem = load_problem(specification(folder, fidelity, SEARCH))
    assert [dimension.path for dimension in space.dimensions] == NUMERIC
    evaluator = Evaluator(space, problem)
    designs = space.random_designs(6, np.random.default_rng(0))
    assert (designs[:, 1] % 1 == 0).all()  # channels are whole
    results = evaluator.evaluate(designs)
    for number, design in enumerate(designs):
        accelerator = space.accelerator_at(design)
        sweep = {
            **specification(folder, fidelity, None), "accelerators": [accelerator.to_dict()], "axes": {},
            "store": {"variables": ["latency", "area", "power"]},
        }  # fmt: skip
        sweep.pop("search")
        expected = dse.sweep(sweep).isel(variant=0)
        for name in ("area", "power"):
            np.testing.assert_allclose(results[name][number], expected[name].values.item(), rtol=1e-12)
        # between two tabulated capacities, the traffic is that of the smaller one
        tolerance = 1e-12 if fidelity == "sol" else 0.05
        np.testing.assert_allclose(results["latency"][number], expected.latency.values.item(), rtol=tolerance)


@pytest.mark.parametrize("energies", ENERGIES)
def test_energy_over_clocks_is_that_of_a_sweep(folder, energies):
    chip, axes = chip_with_energy(energies), {**AXES, "cost.process": ["7 nm", "5 nm"]}
    base = {
        **specification(folder, "sol", {**SEARCH, "maximize": ["1 / energy"], "minimize": ["edp"]}),
        "accelerators": [chip],
        "axes": axes,
    }
    evaluator = Evaluator(*load_problem(base))
    designs = evaluator.space.random_designs(6, np.random.default_rng(1))
    results = evaluator.evaluate_networks(designs)
    for number, design in enumerate(designs):
        accelerator = evaluator.space.accelerator_at(design).to_dict()
        sweep = {**base, "accelerators": [accelerator], "axes": {}, "store": {"variables": ["latency", "energy"]}}
        sweep.pop("search")
        expected = dse.sweep(sweep)
        variant = evaluator.variants[results.choice[0, number]]
        energy = expected.energy.values.ravel()[(expected.nominal_sparsity.values == variant.nominal_sparsity).argmax()]
        np.testing.assert_allclose(results.combined["energy"][number], energy, rtol=1e-12)


@pytest.mark.parametrize("fidelity", ["sol", "capacity"])
@pytest.mark.parametrize("objective", ["log(performance) - 0.001 * power - 1000 * area", "log(energy) - 0.5 * log(performance)"])
def test_gradients_follow_links(folder, fidelity, objective):
    """The gradient of JAX against central differences."""
    space, problem = load_problem(specification(folder, fidelity, {**SEARCH, "maximize": [objective]}))
    evaluator = Evaluator(space, problem)
    design = np.array([1.3e9, 6.0, 1.0, 9e5])
    with jax.enable_x64(True):
        derivatives = compile_derivatives(evaluator, evaluator.config(design))
        values = space.numeric_values(design[None])
        logarithms, choice = np.log([values[path][0] for path in NUMERIC]), variants_of(evaluator, design)
        gradient = np.asarray(derivatives(logarithms, choice)[1])[0]
        step = 1e-6
        for number in range(len(NUMERIC)):
            shift = step * np.eye(len(NUMERIC))[number]
            ends = [float(derivatives(logarithms + sign * shift, choice)[0][0]) for sign in (1, -1)]
            assert gradient[number] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-8)
    assert gradient[0] != 0
    archive = Archive(evaluator)
    archive.evaluate(design[None])
    assert set(compute_elasticities(archive)) == set(NUMERIC)


def test_a_search_moves_along_links(folder):
    """The best design takes all of the power, which depends on the clock and the channels through links only."""
    search = {"maximize": ["performance"], "constraints": ["power <= 30 W"], "sampler": "random", "trials": 600}
    results = dse.search(specification(folder, "sol", search))
    best = results.isel(point=int(np.flatnonzero(results["best"].values)[0]))
    assert float(best.power) == pytest.approx(30, rel=0.02)
