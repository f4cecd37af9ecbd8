"""The sentence of a report about samples of uncertain accuracies."""

import numpy as np
import pytest

import dse
from dse.html_report.answers import answer_rows
from dse.html_report.fronts import Group
from dse.html_report.sweep_section import describe_sampled_choice
from dse.sweeping.iso_speedup import iso_speedup, pattern_shares


@pytest.fixture(scope="module")
def results():
    return dse.sweep({
        "name": "uncertain", "accelerators": ["a100-sxm4-80gb"], "workloads": {"digits-vit": {"methods": "all"}, "resnet50": {"methods": ["asp"]}},
        "batch": [1, 32], "dtype": "fp16", "store": {"variables": ["latency", "dense_latency", "speedup", "fits"]},
    })  # fmt: skip


def test_the_sentence_is_that_of_iso_speedup_on_the_design_of_the_cell(results):
    variant = int(np.flatnonzero(results.workload.values == "digits-vit")[-1])
    cell = np.ravel_multi_index((0, 1, 0, variant), [results.sizes[dim] for dim in ("accelerator", "batch", "dtype", "variant")])
    assert list(results.speedup.dims) == ["accelerator", "batch", "dtype", "variant"]
    best = iso_speedup(results, 1.0).sel(batch=32, workload="digits-vit").squeeze()
    assert describe_sampled_choice(results, int(cell), 1.0) == [f"Over samples of the accuracies: {pattern_shares(best).sentence}."]


def test_networks_without_intervals_have_no_sentence(results):
    variant = int(np.flatnonzero(results.workload.values == "resnet50")[-1])
    assert describe_sampled_choice(results, variant, 1.0) == []
    assert describe_sampled_choice(results.drop_vars("speedup"), 0, 1.0) == []


@pytest.mark.filterwarnings("ignore:.*by a kernel that was not measured there:dse.ModelWarning")
def test_a_dense_network_is_not_compared_with_itself():
    """The best result has an interval of its latency, and of its speedup only if it is pruned."""
    results = dse.sweep({
        "name": "kernels", "accelerators": ["a100-sxm4-80gb"], "workloads": {"bert-base": {"methods": ["dense"], "patterns": ["2:4"]}},
        "dtype": "fp16", "model": {"fidelity": "calibrated"},
    })  # fmt: skip
    assert list(results.method.values) == ["dense", "hypothetical"]
    cells = np.arange(2)
    dense, sparse = (answer_rows(results, [Group("bert-base", 1, cells, cells, best, -1)], 1.0)[0]["interval"] for best in (0, 1))
    assert "speedup" not in dense
    assert "faster" not in dense
    assert " to " in dense
    assert sparse.startswith("speedup ")
    assert "faster than dense with a probability of" in sparse
