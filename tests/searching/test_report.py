"""What a search reports: ties, the simplest of equal designs, expressions without a value, elasticities, the table."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dse
from dse.base.dtype import parse_dtype
from dse.base.errors import InfeasibleError
from dse.cli import entry
from dse.report.result_table import render
from dse.report.show_results import result_tables
from dse.searching import report, run
from dse.searching.analysis import compute_elasticities
from dse.searching.archive import MAX_BEST, Archive
from dse.searching.report import list_notes
from dse.searching.samplers import evaluate_all
from dse.searching.simplicity import complexity, simplify_designs
from dse.sweeping.model_warnings import ModelWarning
from tests.conftest import link
from tests.searching.search_specs import CHIP, write

NO_EFFECT = """
  units.tensor.runs.sparse_24.enabled: [true, false]
  units.tensor.runs.sparse_24.gain: {from: 1, to: 2, steps: 3, when: {units.tensor.runs.sparse_24.enabled: true}}
  units.vector.runs.csr.enabled: [true, false]
  memory.dram.bandwidth: [2 TB/s, 0.5 TB/s, 1 TB/s]
"""


def dense_only(folder, search: str, axes: str = NO_EFFECT):
    """A specification in which no sparse run is used, so that switches have no effect."""
    path = write(folder, search, axes)
    path.write_text(path.read_text().replace("methods: all", "methods: [dense]"))
    return path


def test_the_simplest_of_equal_designs_is_reported_and_ties_are_counted(folder, capsys, monkeypatch):
    """The output folder has the name of the specification, not of its file."""
    path = dense_only(folder, "maximize: [performance]\nsampler: exhaustive")
    out = folder / "small_search"
    monkeypatch.chdir(folder)
    assert entry.main(["search", str(path)]) == 0
    best = pd.read_csv(out / "best.csv").iloc[0]
    assert not best["units.tensor.runs.sparse_24.enabled"]
    assert not best["units.vector.runs.csr.enabled"]
    assert best["memory.dram.bandwidth"] == 2e12
    assert best["units.tensor.runs.sparse_24.gain"] == 2  # as described
    assert best["inactive"] == "units.tensor.runs.sparse_24.gain"
    message = capsys.readouterr().out
    assert "8 designs are equal in performance; reported is the one with the best constrained values, then the simplest" in message
    assert "units.tensor.runs.sparse_24.gain: 2 (as described: its condition does not hold)" in message
    front = xr.load_dataset(out / "front.nc")
    assert front.attrs["tied"] == 8
    best_point = front.isel(point=int(front.best.values.argmax()))
    assert not best_point["units.tensor.runs.sparse_24.enabled"].item()


def test_a_run_that_is_used_stays_enabled(folder):
    axes = "\n  units.tensor.runs.sparse_24.enabled: [true, false]\n  units.vector.runs.csr.enabled: [true, false]\n"
    evaluator = run.load_evaluator(write(folder, "maximize: [performance]\nconstraints: [accuracy_drop <= 3]", axes))
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    simpler = simplify_designs(evaluator, designs)
    before, after = evaluator.evaluate(designs), evaluator.evaluate(simpler)
    np.testing.assert_allclose(after["performance"], before["performance"], rtol=1e-12)
    assert (complexity(evaluator.space, simpler)[:, 0] <= complexity(evaluator.space, designs)[:, 0]).all()
    assert np.array_equal(simplify_designs(evaluator, simpler), simpler)
    assert complexity(evaluator.space, simpler[[after["performance"].argmax()]])[0, 0] == 1


def test_the_best_of_equal_designs_does_not_depend_on_their_order(folder):
    evaluator = run.load_evaluator(dense_only(folder, "maximize: [performance]\nsampler: exhaustive"))
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    best = []
    for seed in range(5):
        archive = Archive(evaluator)
        for part in np.array_split(np.random.default_rng(seed).permutation(len(designs)), 3):
            archive.evaluate(designs[part])
        best.append(tuple(archive.designs[archive.best_index()]))
        assert len(archive.tied_designs) == 8
    assert len(set(best)) == 1
    assert evaluator.space.decode(np.array(best[:1]))["memory.dram.bandwidth"][0] == 2e12


def test_of_more_ties_than_are_kept_the_simplest_is_kept(folder):
    """Performance does not depend on the launch overhead under 'r3', nor on the vector unit: thousands of designs are equal."""
    axes = "\n  overhead.launch: {from: 1 us, to: 9 us, steps: 3000}\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n"
    path = dense_only(folder, "maximize: [performance]\nsampler: exhaustive", axes)
    chip = folder / "chip.yaml"
    chip.write_text(chip.read_text().replace("cost:", "overhead: {launch: 9 us}\ncost:"))
    archive = Archive(run.load_evaluator(path))
    evaluate_all(archive)
    assert len(archive.tied_designs) == 3000 > MAX_BEST
    assert tuple(archive.designs[archive.best_index()]) == (2999, 1)


def test_designs_without_a_finite_objective_are_infeasible_and_counted(folder):
    axes = "\n  memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 3 TB/s]\n"  # performance 0.3 to 1
    for objective, bad in (("log(performance - 0.99)", 1), ("-1 / maximum(performance - 0.99, 0)", 1), ("-(performance - 0.99) ** 0.5", 1)):
        path = dense_only(folder, f"maximize: ['{objective}']\nsampler: exhaustive", axes)
        with pytest.warns(ModelWarning, match=rf"is not a finite number for {bad} of 3 designs"):
            front = dse.search(path)
        assert front.attrs["feasible"] == 3 - bad
        performance = front.performance.values[front.best.values][0]
        assert performance >= 0.9


@pytest.mark.parametrize("sampler", ["nsga2"])
def test_samplers_continue_where_objectives_and_constraints_have_no_value(folder, sampler):
    axes = "\n  memory.dram.bandwidth: {from: 0.1 TB/s, to: 3 TB/s, scale: log}\n  units.tensor.peak.fp16: {from: 20 TFLOP/s, to: 400 TFLOP/s}\n"
    search = f"maximize: ['log(performance - 1)']\nconstraints: ['log(speedup + performance - 1.5) <= 9']\nsampler: {sampler}\ntrials: 24\nask_batch: 8\npolish: false"
    path = dense_only(folder, search, axes)
    with pytest.warns(ModelWarning, match="is not a finite number for"):
        front = dse.search(path)
    assert front.performance.values[front.best.values][0] > 1
    assert front.attrs["evaluated"] >= 24


def test_an_objective_without_any_finite_value_is_reported(folder):
    path = dense_only(folder, "maximize: ['log(performance - 1e6)']\ntrials: 10", "\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n")
    with (
        pytest.warns(ModelWarning),
        pytest.raises(InfeasibleError, match=r"'log\(performance - 1e6\)' is not a finite number for any of them"),
    ):
        dse.search(path)


def test_an_elasticity_is_of_the_objective_itself(folder):
    """Also of a negative objective: more bandwidth increases it."""
    axes = "\n  memory.dram.bandwidth: {from: 0.05 TB/s, to: 0.2 TB/s}\n"
    for objective in ("performance - 100", "performance"):
        archive = Archive(run.load_evaluator(dense_only(folder, f"maximize: [{objective}]", axes)))
        archive.evaluate(np.array([[0.1e12]]))
        assert compute_elasticities(archive)["memory.dram.bandwidth"] > 0


def test_the_table_has_the_results_of_each_network(folder):
    path = write(folder, "maximize: [performance]\nsampler: exhaustive", "\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n")
    path.write_text(path.read_text().replace("./net: {methods: all}", "./net: {methods: all}\n  bert-base: {methods: [dense]}"))
    archive = Archive(evaluator := run.load_evaluator(path))
    evaluate_all(archive)
    first = report.best_designs_table(archive).iloc[0]
    each = evaluator.evaluate_networks(archive.designs[[archive.best_index()]]).each
    assert first["networks"].startswith(f"./net: performance {each['performance'][0, 0]:.4g}, speedup ")
    assert "; bert-base: performance " in first["networks"]
    assert json.loads(evaluator.problem.search.model_dump_json())["over_workloads"] == "geometric_mean"


def test_an_axis_that_changes_no_result_is_named(folder):
    """Efficiencies are 1 at the speed of light; the launch overhead counts under 'calibrated' alone."""
    axes = "\n  units.vector.runs.csr.efficiency: [0.25, 0.5]\n  units.tensor.peak.fp16: [50 TFLOP/s, 100 TFLOP/s]\n"
    path = write(folder, "maximize: [performance]\nsampler: exhaustive", axes)
    path.write_text(path.read_text().replace("fidelity: r3", "fidelity: sol"))
    with pytest.warns(ModelWarning, match="axis 'units.vector.runs.csr.efficiency' changes no result under fidelity 'sol'") as caught:
        dse.search(path)
    assert len(caught) == 1


def test_devices_next_to_a_search_have_published_costs(folder):
    """An accelerator without a published area is left out of the figure rather than drawn at a modelled one."""
    evaluator = run.load_evaluator(write(folder, "maximize: [performance]\nconstraints: [area <= 420 mm^2, power <= 210 W]"))
    devices = report.evaluate_devices(evaluator, evaluator.problem).set_index("device")
    assert {"a100-sxm4-80gb", "rtx5090", "gb300"} <= set(devices.index)
    assert {"gaudi3", "jetson-agx-orin", "tpu-v5e", "a100-native-1m"}.isdisjoint(devices.index)
    for name in devices.index:
        cost = dse.load_accelerator(name).cost
        assert devices.loc[name, ["area", "power"]].tolist() == pytest.approx([cost.area.value, cost.power.value], rel=1e-9)


def test_the_cheapest_of_nearly_equal_designs_is_reported(folder):
    """Within the tolerance: the least area, then power, whether the search limits them or not. Without one: the best value."""
    axes = "\n  memory.dram.bandwidth: {from: 0.9 TB/s, to: 1 TB/s, steps: 400}\n  units.tensor.peak.fp16: {from: 90 TFLOP/s, to: 100 TFLOP/s, steps: 20}\n"
    for constraints in ("", "constraints: [area <= 900 mm^2]\n"):
        evaluator = run.load_evaluator(dense_only(folder, f"{constraints}sampler: exhaustive\ntie_tolerance: 0.01", axes))
        designs = evaluator.space.grid_designs(0, evaluator.space.size)
        performance, costs = evaluator.evaluate(designs)["performance"], evaluator.evaluate_costs(designs)
        archive = run.run_search(evaluator, "x", None, False, False, False)
        rows = np.array([(archive.designs == design).all(axis=1).any() for design in designs])
        near = np.flatnonzero(rows & (performance >= 0.99 * performance.max() * (1 + 1e-12)))
        cheapest = near[np.lexsort(costs[near].T[::-1])[0]]
        reported = archive.designs[[archive.best_index()]]
        np.testing.assert_allclose(evaluator.evaluate_costs(reported)[0], costs[cheapest], rtol=1e-9)
        assert costs[cheapest, 0] < costs[performance.argmax(), 0]
        assert archive.near_tied_count > 1
        assert report.front_dataset(archive).best.values.sum() == 1
        exact = run.run_search(evaluator.with_search(tie_tolerance=0.0), "x", None, False, False, False)
        assert evaluator.evaluate(exact.designs[[exact.best_index()]])["performance"][0] == performance.max()


def test_runs_that_no_layer_uses_are_listed(folder):
    """The description enables both runs, and a dense network uses neither."""
    path = dense_only(folder, "maximize: [performance]\nsampler: exhaustive", "\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n")
    archive = Archive(run.load_evaluator(path))
    evaluate_all(archive)
    assert report.best_designs_table(archive).iloc[0]["unused"] == "tensor.sparse_24, vector.csr"


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_a_run_that_is_used_by_windows_alone_is_not_listed(folder):
    chip = CHIP.replace("sparse_24: {pattern: 2:4, gain: 2}", "sparse_24: {pattern: 2:4, gain: 2, expanded: on_chip}")
    path = write(folder, "maximize: [speedup]\nsampler: exhaustive", "\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n")
    (folder / "chip.yaml").write_text(chip)
    path.write_text(path.read_text().replace("methods: all", "patterns: {list: ['6:8'], accuracy_drop: 0.1}"))
    archive = Archive(run.load_evaluator(path))
    evaluate_all(archive)
    assert report.best_designs_table(archive).iloc[0]["unused"] == "vector.csr"


def test_a_memory_level_that_the_fidelity_ignores_is_warned_of(folder):
    path = write(folder, "maximize: [performance]\nsampler: exhaustive", "\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n")
    (folder / "chip.yaml").write_text(CHIP.replace("1 TB/s}", "1 TB/s}\n  l2: {capacity: 40 MB}"))
    path.write_text(path.read_text().replace("fidelity: r3", "fidelity: capacity"))
    with pytest.warns(ModelWarning, match="memory level 'l2' has no bandwidth"):
        dse.search(path)


def test_the_front_of_several_objectives_is_theirs_and_not_that_of_limited_results(folder):
    """By a loop over all pairs of feasible designs; power is limited, so a design of less power is no reason to be on the front."""
    search = "maximize: [performance]\nminimize: [area]\nconstraints: [power <= 210 W]\nsampler: exhaustive"
    front = dse.search(write(folder, search))
    points = list(zip(-front.performance.values, front.area.values, strict=True))
    dominated = [a for a in points for b in points if b != a and b[0] <= a[0] * (1 - 1e-9) and b[1] <= a[1] * (1 + 1e-12)]
    assert len(points) > 5
    assert not dominated
    assert json.loads(front.attrs["front_objectives"]) == ["maximize performance", "minimize area"]


def test_the_front_of_one_objective_names_the_limited_results_that_it_trades(folder):
    front = dse.search(write(folder, "maximize: [performance]\nconstraints: [power <= 210 W]\nsampler: exhaustive"))
    assert json.loads(front.attrs["front_objectives"]) == ["maximize performance", "minimize power"]
    assert "Pareto front (maximize performance and minimize power)" in render(result_tables(front), "table")
    order = np.argsort(front.power.values)
    assert len(order) > 5
    assert (np.diff(front.performance.values[order]) >= 0).all()


def test_the_best_design_is_written_as_a_description_with_its_results(folder, monkeypatch):
    """Evaluated as described, it has the latency, area and power of the search; its source names the numbers before."""
    path = write(folder, "maximize: [performance]\nconstraints: [area <= 420 mm^2, power <= 210 W]\nsampler: exhaustive")
    monkeypatch.chdir(folder)
    assert entry.main(["search", str(path)]) == 0
    best, device = pd.read_csv("small_search/best.csv").iloc[0], dse.load_accelerator("small_search/best.yaml")
    for name in ("units.tensor.peak.fp16", "units.vector.peak.fp16", "memory.dram.bandwidth"):
        assert device.value(name) == best[name]
    assert device.value("units.tensor.runs.sparse_24.enabled") == best["units.tensor.runs.sparse_24.enabled"]
    assert device.at("memory.dram.bandwidth").source == "dse search small_search; chip has 1 TB/s"
    assert device.name == "small_search-best"
    assert [device.value("cost.area"), device.value("cost.power")] == pytest.approx([best.area, best.power], rel=1e-5)
    front = xr.load_dataset("small_search/front.nc")
    table = pd.read_csv("small_search/search.csv")
    assert table.device.isna().sum() == front.sizes["point"]
    assert {"a100-sxm4-80gb", "rtx5090"} <= set(table.device.dropna())


def test_devices_next_to_a_search_run_in_the_dtype_and_batch_size_of_its_best_design(folder):
    evaluator = run.load_evaluator(write(folder, "maximize: [performance]\nconstraints: [area <= 420 mm^2, power <= 210 W]"))
    int8 = replace(evaluator.problem, dtype=parse_dtype("int8"), batch=2 * evaluator.problem.batch)
    alike, other = (
        report.evaluate_devices(evaluator, problem).set_index("device").loc["a100-sxm4-80gb"] for problem in (evaluator.problem, int8)
    )
    assert other.latency < 2 * alike.latency
    ratio = 2 * alike.latency / other.latency  # of the times of one sample
    assert other.performance / alike.performance == pytest.approx(ratio, rel=1e-12)


def test_a_search_for_speedup_says_that_its_best_design_is_slow(folder):
    """A small tensor unit makes the dense network slow, so pruning gains most there."""
    axes = "\n  units.tensor.peak.fp16: [20 TFLOP/s, 100 TFLOP/s]\n"
    for objective, count in (("speedup", 1), ("performance", 0)):
        evaluator = run.load_evaluator(
            write(folder, f"maximize: [{objective}]\nconstraints: [accuracy_drop <= 5]\nsampler: exhaustive", axes)
        )
        archive = run.run_search(evaluator, "x", None, False, False, False)
        assert len(list_notes(archive)) == count
        assert json.loads(run.to_dataset(archive, archive).attrs["notes"]) == list_notes(archive)
        assert all("slower than the accelerator as described" in note for note in list_notes(archive))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("fidelity: sol", "Fidelity 'sol' moves every operand once"),
        ("fidelity: capacity", "With 'fusion: none' the activations of every layer go to memory"),
        ("fidelity: capacity, fusion: fitting", ""),
    ],
)
def test_a_capacity_that_cannot_matter_is_noted(folder, model, text):
    path = write(
        folder, "maximize: [performance]\nconstraints: [area <= 900 mm^2]\nsampler: exhaustive", "\n  memory.l2.capacity: [40 MB, 60 MB]\n"
    )
    (folder / "chip.yaml").write_text(CHIP.replace("1 TB/s}", "1 TB/s}\n  l2: {capacity: 40 MB, bandwidth: 9 TB/s}"))
    link(folder)
    path.write_text(path.read_text().replace("fidelity: r3", model))
    archive = run.run_search(run.load_evaluator(path), "x", None, False, False, False)
    assert [text in note for note in list_notes(archive)] == [True] * bool(text)
