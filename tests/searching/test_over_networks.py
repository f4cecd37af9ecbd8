"""Several networks in one search: weights, and the network that gains least."""

import shutil

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.base.errors import InputError
from dse.searching import run
from dse.sweeping.model_warnings import ModelWarning
from tests.searching.search_specs import write

AXES = "\n  memory.dram.bandwidth: [0.5 TB/s, 1 TB/s, 2 TB/s]\n  units.tensor.peak.fp16: [50 TFLOP/s, 100 TFLOP/s, 400 TFLOP/s]\n"


@pytest.fixture
def two(folder):
    """`net`, and `tiny`, which takes a small share of its time and is bound by memory."""
    tiny = folder / "tiny"
    tiny.mkdir()
    (tiny / "workload.yaml").write_text((folder / "net" / "workload.yaml").read_text().replace("name: net", "name: tiny"))
    (tiny / "layers.csv").write_text("name,kind,m,k,n\nfc,gemm,256,256,1\n")
    return folder


def loaded(folder, search: str, workloads: str = "./net: {methods: [dense]}, ./tiny: {methods: all}"):
    path = write(folder, search, AXES)
    path.write_text(path.read_text().replace("workloads:\n  ./net: {methods: all}\n", f"workloads: {{{workloads}}}\n"))
    return run.load_evaluator(path)


def latencies(evaluator, chip) -> np.ndarray:
    problem = evaluator.problem
    return np.array([
        float(dse.evaluate(chip, variants[0], problem.batch, "fp16", **problem.options.model_dump()).latency.sum()) for variants in problem.feasible_variants.values()
    ])  # fmt: skip


def each(evaluator) -> tuple[np.ndarray, np.ndarray]:
    """Latencies of the dense networks by single evaluations: as described [network], and on every design [network, design]."""
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    latency = np.stack([latencies(evaluator, evaluator.space.accelerator_at(design)) for design in designs], axis=1)
    return latencies(evaluator, evaluator.space.accelerator), latency


def test_the_worst_network_is_the_one_that_gains_least(two):
    """Not the one that takes longest: `tiny` takes 0.1% of the time of `net`."""
    evaluator = loaded(two, "minimize: [latency]\nover_workloads: worst")
    base, latency = each(evaluator)
    results = evaluator.evaluate(evaluator.space.grid_designs(0, evaluator.space.size))
    least = (base[:, None] / latency).min(axis=0)
    np.testing.assert_allclose(results["performance"], least, rtol=1e-9)
    np.testing.assert_allclose(results["latency"], np.sqrt(base.prod()) / least, rtol=1e-9)
    order = np.argsort(results["latency"], kind="stable")
    assert (np.diff(results["performance"][order]) <= 1e-12).all()
    assert (np.argmax(latency, axis=0) == 0).all()
    assert (np.argmin(base[:, None] / latency, axis=0) == 1).any()


def test_worst_energy_is_relative_to_each_network_too(two):
    """At the described design every ratio is 1, so energy is the geometric mean of the networks'."""
    evaluator = loaded(two, "minimize: [energy, edp]\nover_workloads: worst")
    alone = [loaded(two, "minimize: [energy, edp]", f"{name}: {{methods: [dense]}}") for name in ("./net", "./tiny")]
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    energies = np.stack([one.evaluate(designs)["energy"] for one in alone])
    described = int(np.flatnonzero((designs == [1, 1]).all(axis=1))[0])
    ratio = (energies / energies[:, [described]]).max(axis=0)
    np.testing.assert_allclose(evaluator.evaluate(designs)["energy"], ratio * np.sqrt(energies[:, described].prod()), rtol=1e-9)


def test_a_constraint_must_be_met_by_each_network_with_worst(two):
    evaluator = loaded(two, "maximize: [performance]\nover_workloads: worst\nconstraints: [latency <= 50 us]")
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    _, latency = each(evaluator)
    excess = evaluator.score(designs)[1][:, 0]
    np.testing.assert_allclose(excess, (latency.max(axis=0) - 50e-6) / 50e-6, rtol=1e-9)


def test_a_design_as_described_has_performance_one(two):
    for mode in ("worst", "geometric_mean"):
        evaluator = loaded(two, f"maximize: [performance]\nover_workloads: {mode}")
        assert evaluator.evaluate(np.array([[1.0, 1.0]]))["performance"] == pytest.approx(1.0, rel=1e-9)


NAMED = "bert-base: {methods: [dense], inputs: {sequence: [128, 512]}}, ./tiny: {methods: all}"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("{}", [1, 1, 1]),
        ("{bert-base: 5}", [5, 5, 1]),
        ("{./tiny: 3}", [1, 1, 3]),
        ("{'bert-base (sequence=128)': 4, ./tiny: 2}", [4, 1, 2]),
        ("{'bert-base (sequence=128)': 4, bert-base: 2}", [4, 2, 1]),
    ],
)
def test_weights_count_for_networks_with_inputs(two, weights, expected):
    """The performance is the mean that the weights say, of the performances of the networks alone."""
    evaluator = loaded(two, f"maximize: [performance]\nweights: {weights}", NAMED)
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    scores = evaluator.evaluate_networks(designs)
    mean = np.exp(np.average(np.log(scores.each["performance"]), axis=0, weights=expected))
    np.testing.assert_allclose(scores.combined["performance"], mean, rtol=1e-12)
    assert np.ptp(scores.each["performance"], axis=0).max() > 0.1


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("weights: {bert: 2}", "search.weights.bert: 'bert' is not a workload of this search; did you mean 'bert-base'"),
        ("weights: {'bert-base (sequence=64)': 2}", "is not a workload of this search; did you mean 'bert-base (sequence="),
        ("weights: {net: 1}", "'net' is not a workload of this search; known: './tiny', 'bert-base', 'bert-base (sequence=128)'"),
        (
            "over_workloads: worst\nweights: {bert-base: 2}",
            "search.weights: weights count in a geometric mean, and 'over_workloads: worst' takes",
        ),
        ("weights: {bert-base: 0}", "0 is out of range"),
    ],
)
def test_invalid_weights_are_refused(two, search, expected):
    with pytest.raises(InputError) as error:
        loaded(two, search, NAMED)
    assert expected in str(error.value)
    assert str(error.value).startswith(f"{two / 'search.yaml'}:")


def test_networks_of_one_name_are_refused(two):
    """One of them would vanish."""
    shutil.copytree(catalog.data_root() / "workloads" / "bert-base", two / "copy")
    with pytest.raises(InputError, match=r"workloads.*another network is named 'bert-base \(sequence=128\)' too"):
        loaded(two, "maximize: [performance]", "bert-base: {inputs: {sequence: [512, 128]}}, ./copy: {inputs: {sequence: 128}}")


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        ("./net: {methods: [prunned]}", "workloads../net.methods.0: 'net' has no method 'prunned'; did you mean 'pruned'?"),
        ("./net: {sparsities: [0.77]}", "workloads../net.sparsities: no selected method of 'net' has sparsity 0.77"),
    ],
)
def test_a_selection_that_cannot_be_searched_is_refused(two, workloads, expected):
    with pytest.raises(InputError) as error:
        loaded(two, "maximize: [performance]", workloads)
    assert expected in str(error.value)


def test_listed_sparsities_and_activation_densities_are_used(two):
    goal = "maximize: [performance]\nconstraints: [accuracy_drop <= 10]"
    every, half = (loaded(two, goal, f"./net: {{{selection}}}") for selection in ("methods: all", "methods: all, sparsities: [0.5]"))
    assert {variant.nominal_sparsity for variant in half.variants} == {0.0, 0.5}
    assert {variant.nominal_sparsity for variant in every.variants} == {0.0, 0.5, 0.9}
    given = loaded(two, goal, "./net: {activation_density: 0.25}")
    assert (given.variants[0].input_density[given.variants[0].layers.has_weights] == 0.25).all()


def test_the_tolerance_of_the_specification_is_used_without_a_constraint(two):
    path = write(two, "maximize: [performance]", AXES)
    path.write_text(path.read_text() + "accuracy_drop: 6\n")
    assert run.load_evaluator(path).problem.tolerance.max_drop == 6
    assert "0.9" in " ".join(map(str, run.load_evaluator(path).variants))
    path.write_text(path.read_text().replace("maximize: [performance]", "constraints: [accuracy_drop <= 0.1]"))
    assert run.load_evaluator(path).problem.tolerance.max_drop == 0.1


def test_variants_without_a_comparable_accuracy_are_warned_of(two):
    net = two / "net"
    (net / "workload.yaml").write_text((net / "workload.yaml").read_text() + "other_metrics: [{name: top5, direction: higher}]\n")
    (net / "accuracy.csv").write_text(
        "method,pattern,sparsity,value,dense_value,source,kind,metric\n"
        "pruned,unstructured,0.5,92,93,a test,published,top5\npruned,unstructured,0.9,75,,a test,published,\nsemi,2:4,0.5,75.5,76,a test,measured,\n"
    )
    path = write(two, "maximize: [performance]\nsampler: exhaustive", AXES)
    path.write_text(path.read_text() + "plots: [speedup]\n")
    with pytest.warns(ModelWarning) as caught:
        dse.search(path)
    texts = [str(warning.message) for warning in caught]
    assert texts[1:] == [
        "'./net': the search leaves out pruned unstructured 0.5: they are not measured in 'accuracy', which the tolerance is in",
        "'./net': the search leaves out pruned unstructured 0.9: their source gives no accuracy of the dense network",
    ]
    assert texts[0].endswith("plots: a search does not read this; remove it, or run 'dse sweep'")
