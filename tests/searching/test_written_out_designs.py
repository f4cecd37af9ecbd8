"""Every design of a search takes as long as its description written out, also over numbers that are linked or not stated."""

from typing import Any

import numpy as np
import pytest

import dse
from dse.searching.evaluator import Evaluator
from dse.searching.problem import load_problem
from tests.conftest import described


def chip(**overhead: object) -> dict[str, Any]:
    """An accelerator whose 2:4 run states no gain, and whose cache states no bandwidth."""
    return {
        "name": "chip",
        "source": "a test",
        "units": {"tensor": {"clock": "1 GHz", "peak": {"fp16": "10 TFLOP/s"}, "runs": {"free": {"pattern": "2:4"}}}},
        "memory": {"dram": {"bandwidth": "1 TB/s", "capacity": "16 GB"}, "l2": {"capacity": "1 MB"}},
    } | ({"overhead": overhead} if overhead else {})


PER_CLOCK = {"link": "1e6 / units.tensor.clock"}
CLOCKS = {"units.tensor.clock": ["0.5 GHz", "1 GHz"]}
CASES = {
    "unstated gain": (chip(), "sol", {}, {"units.tensor.runs.free.gain": [1, 1.5, 2]}),
    "unstated bandwidth": (chip(), "capacity", {}, {"memory.l2.bandwidth": ["0.1 TB/s", "4 TB/s"]}),
    "linked launch of the host": (chip(host_launch=PER_CLOCK), "sol", {"runtime": "eager"}, CLOCKS),
    "linked run of the host": (chip(host_run=PER_CLOCK), "sol", {"runtime": "eager"}, CLOCKS),
    "linked launch": (chip(launch=PER_CLOCK), "calibrated", {}, CLOCKS),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return described(tmp_path_factory.mktemp("equal"))


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
@pytest.mark.parametrize("case", CASES)
def test_designs_take_as_long_as_their_descriptions(folder, case):
    accelerator, fidelity, inputs, axes = CASES[case]
    specification = {
        "name": "equal", "accelerators": [accelerator], "workloads": {str(folder / "net"): {"methods": ["semi"], "inputs": inputs}},
        "dtype": "fp16", "model": {"fidelity": fidelity}, "axes": axes,
    }  # fmt: skip
    search = {"maximize": ["performance"], "sampler": "exhaustive", "polish": False}
    evaluator = Evaluator(*load_problem({**specification, "accuracy_drop": 1.0, "search": search}))
    designs = evaluator.space.grid_designs()
    written_out = [
        float(dse.evaluate(evaluator.space.accelerator_at(design), variant, dtype="fp16", fidelity=fidelity).latency.sum())
        for design in designs
        for variant in evaluator.chosen_variants(design).values()
    ]
    assert len(set(written_out)) == len(designs)
    np.testing.assert_allclose(evaluator.evaluate(designs)["latency"], written_out, rtol=1e-9)
