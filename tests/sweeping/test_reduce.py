"""Reductions of a sweep equal those of all its results, whatever the chunks are."""

import itertools
import json
from typing import get_args

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dse
from dse.base.errors import InputError
from dse.cli import entry
from dse.schema.stored_results import Variable
from dse.sweeping import chunk
from dse.sweeping.pareto_front import nondominated
from dse.sweeping.plan import VARIANT_OBJECTIVES
from dse.sweeping.plan_builder import load_plan
from dse.sweeping.reduce.front import DominanceFilter

AXES = """
axes:
  memory.dram.bandwidth: {from: 0.5 TB/s, to: 8 TB/s, steps: 7, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
  units.tensor.peak.fp16: {from: 50 TFLOP/s, to: 800 TFLOP/s, steps: 6, scale: log}
  memory.l2.capacity: [10 MB, 40 MB, 80 MB]
"""
VARIABLES = "store: {variables: [latency, dense_latency, speedup, area]}\n"


@pytest.fixture
def spec(folder):
    chip = folder / "chip.yaml"
    chip.write_text(chip.read_text() + "cost: {process: 7 nm, area: 300 mm^2}\n")
    path = folder / "small.yaml"
    path.write_text(path.read_text() + AXES + VARIABLES)
    return path


def reduce_sweep(spec, keep: str, monkeypatch=None, max_designs: int | None = None) -> xr.Dataset:
    if monkeypatch is not None:
        monkeypatch.setattr(chunk, "max_chunk_designs", lambda plan: max_designs)
    path = spec.with_name("reduced.yaml")
    path.write_text(spec.read_text() + f"keep: {keep}\n")
    return dse.sweep(path)


def rows(points: xr.Dataset) -> list[tuple]:
    """Every result and label of each point."""
    names = sorted(str(name) for name in (*points.coords, *points.data_vars) if name not in ("resource", "execution"))
    return sorted(zip(*(map(str, points[name].values.tolist()) for name in names), strict=True))


@pytest.mark.parametrize("max_designs", [5, 10**6])
@pytest.mark.parametrize(
    ("maximize", "minimize"),
    [([], ["latency", "area"]), (["speedup"], ["area"]), (["speedup", "accuracy"], ["latency"]), ([], ["latency"]),
     ([], ["latency", "memory.dram.bandwidth", "units.tensor.peak.fp16", "accuracy_drop"])],
)  # fmt: skip
def test_the_front_of_chunks_is_the_front_of_all_results(spec, monkeypatch, max_designs, maximize, minimize):
    complete = dse.pareto(dse.sweep(spec), maximize, minimize)
    reduced = reduce_sweep(spec, f"{{front: {{maximize: {maximize}, minimize: {minimize}}}}}", monkeypatch, max_designs)
    assert rows(reduced) == rows(complete)
    for name in ("objectives", "points", "left_out"):
        assert reduced.attrs[name] == complete.attrs[name]
    for one, expected in zip(*(json.loads(front.attrs["groups"]) for front in (reduced, complete)), strict=True):
        assert one == expected | {name: pytest.approx(expected[name], rel=1e-12) for name in ("hypervolume", "hypervolume_share")}


@pytest.mark.parametrize("pool", ["true", "false"])
def test_a_front_with_a_boolean_objective_is_the_front_of_all_results(spec, monkeypatch, pool):
    """`fits` is a truth value, which has no negative."""
    spec.write_text(
        spec.read_text()
        .replace("area]", "fits]")
        .replace("memory.l2.capacity: [10 MB, 40 MB, 80 MB]", "memory.dram.capacity: [10 MB, 1 GB]")
    )
    complete = dse.pareto(dse.sweep(spec), ["fits"], ["latency"], pool=pool == "true")
    assert rows(reduce_sweep(spec, f"{{front: {{maximize: [fits], minimize: [latency], pool: {pool}}}}}", monkeypatch, 5)) == rows(complete)
    top = reduce_sweep(spec, "{top: 3, maximize: [fits]}")
    assert top.fits.all()


@pytest.mark.parametrize("max_designs", [5, 10**6])
@pytest.mark.parametrize(("direction", "name"), [("minimize", "latency"), ("maximize", "speedup")])
def test_the_best_of_chunks_are_the_best_of_all_results(spec, monkeypatch, max_designs, direction, name):
    complete = dse.sweep(spec)
    values = np.sort(complete[name].values.ravel() * (1 if direction == "minimize" else -1))
    reduced = reduce_sweep(spec, f"{{top: 20, {direction}: [{name}]}}", monkeypatch, max_designs)
    np.testing.assert_array_equal(reduced[name] * (1 if direction == "minimize" else -1), values[:20])
    for point in range(20):
        labels = {
            dim: reduced[dim].values[point]
            for dim in ("accelerator", "batch", "dtype", *complete.dims)
            if dim in reduced.coords and dim != "variant"
        }
        there = complete.sel({**labels, "variant": int(reduced["variant"][point])})
        assert there.latency == reduced.latency[point]


def test_of_equal_cells_the_first_are_kept(spec, monkeypatch):
    """At the speed of light the L2 capacity has no effect, so latencies come in threes."""
    reduced = [reduce_sweep(spec, "{top: 4, minimize: [latency]}", monkeypatch, max_designs) for max_designs in (7, 10**6)]
    assert all(rows(one) == rows(reduced[0]) for one in reduced)
    assert list(reduced[0]["memory.l2.capacity"].values[:3]) == [1e7, 4e7, 8e7]


@pytest.mark.parametrize("max_designs", [5, 10**6])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_summary_of_chunks_is_the_summary_of_all_results(spec, monkeypatch, max_designs, precision):
    """Of every result, whatever dims it has: an area has no batch, so two batches do not count it twice."""
    names = "latency, speedup, fits, area, power, energy, edp, performance_per_area"
    spec.write_text(spec.read_text().replace(VARIABLES, f"store: {{variables: [{names}], dtype: {precision}}}\n"))
    complete, reduced = dse.sweep(spec), reduce_sweep(spec, "summary", monkeypatch, max_designs)
    setting = ("accelerator", "batch", "dtype", "variant")
    axes = [str(dim) for dim in complete.latency.dims if "." in str(dim)]
    for name, along in itertools.product(names.split(", "), (None, *axes)):
        values = complete[name].astype(float)
        own = [axis for axis in axes if axis in values.dims]
        if along not in (None, *own):
            continue
        over = [axis for axis in own if axis != along]
        suffix = f"_by_{along}" if along else ""
        for statistic in ("min", "max", "mean"):
            np.testing.assert_allclose(reduced[f"{name}_{statistic}{suffix}"], getattr(values, statistic)(over), rtol=1e-12)
        assert (reduced[f"{name}_count{suffix}"] == np.prod([values.sizes[axis] for axis in over])).all()
    for dim in ("accelerator", "batch", "variant", *axes):
        xr.testing.assert_equal(reduced[dim].variable, complete[dim].variable)
    edges = np.append(reduced.bin, np.inf)
    for name in ("latency", "area"):
        counts, own = reduced[f"{name}_histogram"], [axis for axis in axes if axis in complete[name].dims]
        others = [dim for dim in setting if dim in complete[name].dims]
        for cell in np.ndindex(tuple(complete.sizes[dim] for dim in others)):
            expected = np.histogram(complete[name].transpose(*others, *own).values[cell].astype(float).ravel(), edges)[0]
            np.testing.assert_array_equal(counts.transpose(*others, "bin").values[cell], expected)


fronts = st.integers(1, 4).flatmap(
    lambda n: arrays(float, st.tuples(st.integers(0, 30), st.just(n)), elements=st.integers(0, 8).map(float) | st.floats(-1, 1))
)


@settings(max_examples=50)
@given(fronts, st.data())
def test_a_dominance_filter_drops_dominated_points_only(points, data):
    front = points[nondominated(points)] if len(points) else points
    others = data.draw(arrays(float, (20, points.shape[1]), elements=st.integers(0, 8).map(float) | st.floats(-2, 2)))
    selected = DominanceFilter.from_front(front).select(list(others.T))
    for number in set(range(20)) - set(selected.tolist()):
        assert any((point <= others[number]).all() and (point < others[number]).any() for point in front)


def test_the_dimensions_of_a_result_are_known_before_it_is_evaluated(spec):
    spec.write_text(spec.read_text().replace(VARIABLES, f"store: {{variables: [{', '.join(get_args(Variable))}]}}\n"))
    plan, results = load_plan(spec), dse.sweep(spec)
    for name in (*results.data_vars, *plan.dims_of("latency")[1:-3], *set(VARIANT_OBJECTIVES) & set(results.coords)):
        assert plan.dims_of(str(name)) == results[name].dims, name


@pytest.mark.parametrize("variable", ["cost_usd", "footprint", "area"])
def test_a_result_of_fewer_dimensions_is_reduced_with_another_only(spec, variable):
    spec.write_text(spec.read_text().replace("area]", "area, cost_usd, footprint]"))
    for keep in (f"{{top: 3, minimize: [{variable}]}}", f"{{front: {{minimize: [{variable}]}}}}"):
        with pytest.raises(InputError, match="keep: no objective depends on '"):
            reduce_sweep(spec, keep)
    complete = dse.pareto(dse.sweep(spec), [], [variable, "latency"])
    assert rows(reduce_sweep(spec, f"{{front: {{minimize: [{variable}, latency]}}}}")) == rows(complete)


def test_a_front_without_finite_points_is_reported(spec, edited):
    edited("small.yaml", ("methods: all", "methods: [blocky]"))  # which has no accuracy
    with pytest.raises(InputError, match="no point has a finite value in all of accuracy, latency"):
        reduce_sweep(spec, "{front: {maximize: [accuracy], minimize: [latency]}}")


@pytest.mark.parametrize(
    ("keep", "files"),
    [("{front: {minimize: [latency, area]}}", {"results.nc", "front.png", "front.csv"}), ("{top: 3, minimize: [latency]}", {"results.nc", "top.csv"}),
     ("summary", {"results.nc"})],
)  # fmt: skip
def test_the_command_writes_reductions(spec, capsys, keep, files):
    path, out = spec.with_name("reduced.yaml"), spec.with_name("out")
    path.write_text(spec.read_text() + f"keep: {keep}\n")
    assert entry.main(["sweep", str(path), "-o", str(out)]) == 0
    assert {file.name for file in out.iterdir()} == files
    assert set(capsys.readouterr().out.split()) == {str(out / file) for file in files}
    assert entry.main(["sweep", str(path), "-o", str(spec.with_name("out.zarr"))]) == 2
    assert "keep: a Zarr store holds all results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("most", "'most' is not known here"),
        ("{front: {}}", "the front has no objective; write '{front: {minimize: [latency, area]}}'"),
        ("{front: {minimize: [latency, latency]}}", "an objective is given twice"),
        (
            "{front: {minimize: [latncy]}}",
            "'latncy' is not a stored result, an axis or a coordinate of the variants; did you mean 'latency'?",
        ),
        ("{front: {minimize: [latency, power]}}", "add 'power' to the 'variables' of 'store'"),
        ("{front: {minimize: [area, memory.dram.bandwidth]}}", "no objective depends on 'batch', 'dtype', 'variant'; add 'latency'"),
        ("{front: {minimize: [area, accuracy_drop]}}", "no objective depends on 'batch', 'dtype'; add 'latency'"),
        ("{top: 3, minimize: [area]}", "no objective depends on 'batch', 'dtype', 'variant'; write another objective, as 'latency'"),
        ("{top: 0, minimize: [latency]}", "0 is out of range"),
        ("{top: 3}", "'top' needs one objective"),
        ("{top: 3, minimize: [latency], maximize: [speedup]}", "'top' needs one objective"),
        ("summary\nplots: [speedup]", "figures need all results"),
    ],
)
def test_invalid_reductions_are_refused(spec, capsys, keep, expected):
    path = spec.with_name("reduced.yaml")
    path.write_text(spec.read_text() + f"keep: {keep}\n")
    assert entry.main(["check", str(path)]) == 2
    assert expected in capsys.readouterr().err
