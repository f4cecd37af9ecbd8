"""Searches with fidelity 'calibrated': designs have the results and intervals of a sweep, whatever varies."""

import json
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.cli import entry
from dse.model.efficiency import fitted
from dse.model.efficiency.efficiency_file import SHIPPED
from dse.model.efficiency.kernels.selection import select_kernels
from dse.model.executions import Execution
from dse.searching import local_search, run, uncertainty
from dse.searching.analysis import compute_elasticities
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.sparsity.pattern import Pattern
from tests.conftest import link
from tests.searching.search_specs import write

CHIP = """
name: rtx3090
source: a test
units:
  tensor:
    peak: {fp16: 100 TFLOP/s, fp32: 40 TFLOP/s}
    processors: 82
    runs:
      sparse_24: {pattern: 2:4, gain: 2}
  vector:
    peak: {fp16: 10 TFLOP/s, fp32: 12 TFLOP/s}
    processors: 64
    issue: 20 TFLOP/s
    runs:
      csr: {pattern: unstructured, efficiency: 0.5}
memory:
  dram: {capacity: 1 GB, bandwidth: 1 TB/s}
  l2: {capacity: 6 MB, bandwidth: 4 TB/s}
cost: {area: 400 mm^2, power: 200 W, process: 7 nm}
"""
GRID = """
  units.tensor.processors: [128, 40]
  units.vector.processors: [16, 64]
  memory.dram.bandwidth: [0.2 TB/s, 2 TB/s]
  memory.l2.capacity: [40 MB, 0.5 MB]
  overhead.launch: [3 us, 30 us]
  units.tensor.runs.sparse_24.enabled: [true, false]
"""
FEW = """
  units.tensor.peak.fp16: [50 TFLOP/s, 200 TFLOP/s]
  units.tensor.processors: [128, 40]
  memory.l2.capacity: [40 MB, 0.5 MB]
"""
ISSUE = """
  units.vector.peak.fp32: [12 TFLOP/s, 30 TFLOP/s]
  units.vector.issue: [40 TFLOP/s, 15 TFLOP/s]
  memory.dram.bandwidth: [0.2 TB/s, 2 TB/s]
"""
CONTINUOUS = """
  units.tensor.peak.fp16: {from: 20 TFLOP/s, to: 400 TFLOP/s, scale: log}
  units.tensor.processors: {from: 20, to: 200}
  memory.dram.bandwidth: {from: 0.1 TB/s, to: 4 TB/s, scale: log}
  memory.l2.capacity: {from: 256 KiB, to: 64 MiB, scale: log}
  overhead.launch: {from: 1 us, to: 100 us, scale: log}
"""
GOAL = "maximize: [performance]\nminimize: [energy, area, power]\nconstraints: [accuracy_drop <= 100]"
MODEL = "fidelity: calibrated"
pytestmark = pytest.mark.filterwarnings("ignore:.*by a kernel that was not measured there:dse.ModelWarning")


def written(folder, axes: str, search: str = GOAL, model: str = MODEL, dtype: str = "fp16"):
    path = write(folder, search, axes)
    path.write_text(path.read_text().replace("fidelity: r3", model).replace("dtype: fp16", f"dtype: {dtype}"))
    (folder / "chip.yaml").write_text(CHIP)
    (folder / "single.yaml").write_text(SHIPPED.read_text().replace("dtype: fp16", "dtype: fp32"))
    return path


def calibrated(folder, *arguments, **keywords) -> Evaluator:
    return run.load_evaluator(written(folder, *arguments, **keywords))


def swept(folder, axes: str, model: str = MODEL, dtype: str = "fp16"):
    sweep = folder / "sweep.yaml"
    sweep.write_text(
        f"name: s\naccelerators: [./chip.yaml]\nworkloads:\n  ./net: {{methods: all}}\nbatch: [4]\ndtype: {dtype}\n"
        f"model: {{{model}, dense_fallback: true}}\naxes:{axes}"
        "store: {variables: [latency, dense_latency, speedup, energy, edp, area, power]}\n"
    )
    return dse.sweep(sweep).squeeze()


@pytest.mark.parametrize(
    ("axes", "model", "dtype"),
    [
        (GRID, MODEL, "fp16"),
        (FEW, f"{MODEL}, fusion: fitting", "fp16"),
        (FEW, f"{MODEL}, overlap: none", "fp16"),
        (ISSUE, f"{MODEL}, efficiencies: ./single.yaml", "fp32"),
    ],
    ids=["pipelined", "fused", "one after the other", "issue"],
)
def test_designs_of_a_grid_have_the_results_of_a_sweep(folder, axes, model, dtype, monkeypatch):
    monkeypatch.chdir(folder)
    link(folder)  # else nothing is fused
    evaluator = calibrated(folder, axes, model=model, dtype=dtype)
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    results, described = evaluator.evaluate(designs), evaluator.space.decode(designs)
    sweep = swept(folder, axes, model, dtype)
    for number in range(len(designs)):
        here = sweep.sel({path: values[number] for path, values in described.items()})
        fastest, dense = here.isel(variant=int(np.argmin(here.latency.values))), here.dense_latency.values[0]
        assert results["latency"][number] == pytest.approx(min(fastest.latency.item(), dense), rel=1e-9)
        assert results["speedup"][number] == pytest.approx(max(dense / fastest.latency.item(), 1.0), rel=1e-9)
        if fastest.latency.item() < dense:
            assert results["energy"][number] == pytest.approx(fastest.energy.item(), rel=1e-9)
            assert results["edp"][number] == pytest.approx(fastest.edp.item(), rel=1e-9)
        assert results["area"][number] == pytest.approx(here.area.values.flat[0], rel=1e-9)
    dense = float(
        dse.evaluate(evaluator.space.accelerator, evaluator.variants[0], 4, dtype, **evaluator.problem.options.model_dump()).latency.sum()
    )
    np.testing.assert_allclose(results["performance"] * results["latency"], dense, rtol=1e-9)


def test_designs_on_continuous_axes_have_the_results_and_intervals_of_a_sweep(folder):
    """Each design alone, at the values to which it is rounded; the 90% intervals are those of the chosen variant."""
    evaluator = calibrated(folder, CONTINUOUS)
    designs = evaluator.space.random_designs(5, np.random.default_rng(0))
    assert (designs[:, 1] % 1 == 0).all()
    assert (designs == evaluator.space.canonicalize(designs)).all()
    results, intervals = evaluator.evaluate(designs), uncertainty.interval_columns(evaluator, designs)
    for number, design in enumerate(designs):
        axes = "".join(
            f"\n  {d.path}: ['{float(values[0])!r} {d.axis.unit}']"
            for d, values in zip(evaluator.space.dimensions, evaluator.space.decode(design[None]).values(), strict=True)
        )
        here = swept(folder, axes + "\n")
        fastest = here.isel(variant=int(np.argmin(here.latency.values)))
        assert fastest.latency.item() < here.dense_latency.values[0]
        assert results["latency"][number] == pytest.approx(fastest.latency.item(), rel=1e-9)
        for name in ("latency", "speedup"):
            for end in ("low", "high"):
                assert intervals[f"{name}_{end}"][number] == pytest.approx(fastest[f"{name}_{end}"].item(), rel=1e-9)
    assert (intervals["performance_low"] < results["performance"]).all()
    assert (results["performance"] < intervals["performance_high"]).all()
    assert np.isnan(list(intervals.values())).sum() == 0


def test_kernels_are_selected_once_for_all_tabulated_values(folder, monkeypatch):
    """Predicting a kernel takes a hundred times as long as evaluating a design with it."""
    selected: Counter[tuple[str, str]] = Counter()

    def counted(execution: Execution, pattern: Pattern, *others: Any) -> Any:
        selected[execution.name, str(pattern)] += 1
        return select_kernels(execution, pattern, *others)

    evaluator = calibrated(folder, FEW)
    monkeypatch.setattr(fitted, "select_kernels", counted)
    evaluator.evaluate(evaluator.space.grid_designs())
    patterns = len({variant.pattern for variant in evaluator.variants})
    assert selected
    assert max(selected.values()) <= patterns


def test_an_exhaustive_search_finds_the_best_of_a_sweep(folder):
    front = dse.search(
        written(folder, FEW, "maximize: [performance]\nminimize: [area]\nconstraints: [accuracy_drop <= 100]\nsampler: exhaustive")
    )
    sweep = swept(folder, FEW)
    latency = np.minimum(sweep.latency.min("variant"), sweep.dense_latency.isel(variant=0))
    best = front.isel(point=int(front.best.values.argmax()))
    assert best.latency.item() == pytest.approx(latency.min().item(), rel=1e-9)
    assert best.latency_low.item() < best.latency.item() < best.latency_high.item()
    assert best.performance_low.item() < best.performance.item() < best.performance_high.item()
    assert front.latency_high.attrs == {"units": "s", "long_name": "upper end of the 90% interval of the latency"}
    costs, times = np.broadcast_arrays(sweep.area.isel(variant=0, missing_dims="ignore").values, latency.values)
    beaten = [((costs <= c) & (times <= t) & ((costs < c) | (times < t))).any() for c, t in zip(costs.ravel(), times.ravel(), strict=True)]
    fronts = sorted({(float(f"{t:.9g}"), float(f"{c:.9g}")) for c, t, b in zip(costs.ravel(), times.ravel(), beaten, strict=True) if not b})
    assert sorted({(float(f"{t:.9g}"), float(f"{c:.9g}")) for t, c in zip(front.latency.values, front.area.values, strict=True)}) == fronts


def test_gradients_are_finite_and_lead_to_something_better(folder):
    """Some layers take no time at all, and roots have no slope there."""
    evaluator = calibrated(folder, CONTINUOUS, "maximize: [performance]\nconstraints: [area <= 420 mm^2, power <= 210 W]")
    archive = Archive(evaluator)
    archive.evaluate(evaluator.space.random_designs(50, np.random.default_rng(1)))
    before = archive.values[archive.best_index(), 0]
    slopes = compute_elasticities(archive)
    assert np.isfinite(list(slopes.values())).all()
    assert slopes["overhead.launch"] < 0 < slopes["memory.dram.bandwidth"]
    local_search.follow_gradient(archive, archive.designs[archive.best_index()], 2000)
    assert archive.values[archive.best_index(), 0] < before


def test_a_rate_has_the_elasticity_of_a_small_difference(folder):
    evaluator = calibrated(folder, CONTINUOUS, "maximize: [performance]")
    design = evaluator.space.random_designs(1, np.random.default_rng(2))
    archive = Archive(evaluator)
    archive.evaluate(design)
    slopes = compute_elasticities(archive)
    for number, path in ((0, "units.tensor.peak.fp16"), (2, "memory.dram.bandwidth"), (4, "overhead.launch")):
        near = np.repeat(design, 2, axis=0)
        near[:, number] *= 1 - 1e-6, 1 + 1e-6
        down, up = np.log(evaluator.evaluate(near)["performance"])
        assert slopes[path] == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=1e-4)


def test_uncertain_efficiencies_slow_sparse_runs_only(folder):
    design = (certain := calibrated(folder, FEW)).space.grid_designs(0, 8)
    uncertain = calibrated(folder, FEW, GOAL + "\nrobust: {spread: 0.5, quantile: 0.1, samples: 8}")
    assert (uncertain.evaluate(design)["performance"] <= certain.evaluate(design)["performance"] * (1 + 1e-12)).all()
    assert (uncertain.evaluate(design)["performance"] < certain.evaluate(design)["performance"] * (1 - 1e-6)).any()
    assert uncertainty.interval_columns(uncertain, design) == {}


def test_the_command_warns_of_transferred_kernels_and_exits_3_where_nothing_is_feasible(folder, capsys):
    goal = "maximize: [performance]\nconstraints: [accuracy_drop <= 100{}]\nsampler: exhaustive"
    path = written(folder, FEW, goal.format(""))
    warnings.simplefilter("always")
    assert entry.main(["search", str(path), "-o", str(folder / "out"), "--json"]) == 0
    captured = capsys.readouterr()
    assert "warning: 'rtx3090', vector.csr, tensor.sparse_24: by a kernel that was not measured there, " in captured.err
    first, *_ = json.loads(captured.out)
    assert first["latency_low"] < first["latency"] < first["latency_high"]
    assert "launch" in first["bound"]
    assert entry.main(["search", str(written(folder, FEW, goal.format(", area <= 1 mm^2"))), "-o", str(folder / "none")]) == 3
    assert "no feasible design" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (
            "\n  units.tensor.processors: {from: 16, to: 128, steps: 8, scale: log}",
            "takes 21.5344, which is not a whole number; list whole numbers",
        ),
        (
            "\n  units.tensor.processors: {from: 1, to: 1000}\n  units.vector.processors: {from: 1, to: 1000}",
            "combinations of units.tensor.processors, units.vector.processors; write lists or fewer steps",
        ),
        (
            "\n  units.tensor.processors: {from: 1, to: 5000, steps: 5000}",
            "kernel efficiencies are tabulated for each value of 'units.tensor.processors'",
        ),
    ],
)
def test_axes_that_cannot_be_tabulated_are_refused_with_their_line(folder, axes, expected):
    path = written(folder, axes)
    with pytest.raises(InputError) as error:
        run.load_evaluator(path)
    assert str(error.value).startswith(f"{path}:10: axes.units.tensor.processors: ")
    assert expected in str(error.value)


def test_a_dtype_without_kernels_is_refused_with_its_line(folder):
    path = written(folder, ISSUE, dtype="fp32")
    with pytest.raises(
        InputError, match=r":8: model.fidelity: no kernel was measured for 'tensor.dense' of 'rtx3090'.*or as wide as 'fp32'"
    ):
        run.load_evaluator(path)


def test_a_search_is_resumed_only_with_the_kernels_that_it_began_with(folder):
    path = written(folder, ISSUE, model=f"{MODEL}, efficiencies: ./single.yaml", dtype="fp32")
    before = run.load_evaluator(path).problem.origin
    text = (folder / "single.yaml").read_text()
    (folder / "single.yaml").write_text(text.replace("shapes: ", "shapes: 1", 1))
    assert run.load_evaluator(path).problem.origin != before
