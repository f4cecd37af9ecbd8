"""Pareto fronts of a sweep's dataset: objectives by name, in either direction."""

import itertools
import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dse
from dse.base.errors import InputError
from dse.cli.dataset import select_values
from dse.plot import pareto as drawing
from dse.sweeping.pareto import objective_directions

AXES = "dtype: fp16\naxes: {memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 4 TB/s], memory.dram.capacity: [1 GB, 2 GB]}"


@pytest.fixture
def results(edited):
    return dse.sweep(edited("small.yaml", ("dtype: fp16", AXES)))


def make_dataset(values: np.ndarray) -> xr.Dataset:
    """A dataset of two designs by a number of variants, with two results; a third is a coordinate."""
    return xr.Dataset(
        {"gain": (("design", "variant"), values[0]), "cost": (("design", "variant"), values[1])},
        {"quality": ("variant", values[2, 0]), "name": ("variant", np.array([f"v{n}" for n in range(values.shape[2])], object))},
    )


numbers = st.integers(0, 3).map(float) | st.just(np.nan) | st.floats(-10, 10)
datasets = st.integers(1, 8).flatmap(lambda n: arrays(float, (3, 2, n), elements=numbers)).filter(lambda v: np.isfinite(v[:, 0, 0]).all())


@given(datasets.map(make_dataset), st.permutations(["gain", "cost", "quality"]), st.integers(0, 3), st.integers(1, 3))
def test_a_front_has_the_points_that_no_other_dominates(dataset, names, cut, count):
    maximize, minimize = names[: min(cut, count)], names[min(cut, count) : count]
    front = dse.pareto(dataset, maximize, minimize)
    cells = [{"design": d, "variant": v} for d in range(2) for v in range(dataset.sizes["variant"])]
    if maximize + minimize == ["quality"]:
        cells = [{"variant": v} for v in range(dataset.sizes["variant"])]
    points = np.array([[float(dataset[n].isel(c, missing_dims="ignore")) for n in names[:count]] for c in cells])
    points = points[np.isfinite(points).all(axis=1)]
    signed = points * np.array([-1.0] * len(maximize) + [1.0] * len(minimize))
    dominated = [any((other <= point).all() and (other < point).any() for other in signed) for point in signed]
    front_points = np.stack([front[n].values for n in names[:count]], axis=-1)
    assert sorted(map(tuple, front_points)) == sorted(map(tuple, points[~np.array(dominated)]))
    assert (np.diff(front[names[0]]) >= 0).all()
    assert front.attrs["points"] == len(points)
    assert front.attrs["points"] + front.attrs["left_out"] == len(cells)


@given(datasets.map(make_dataset))
def test_ties_are_all_kept_or_the_first_of_them(dataset):
    every = dse.pareto(dataset, ["gain"], ["cost"])
    one = dse.pareto(dataset, ["gain"], ["cost"], ties=False)
    pairs = set(zip(every.gain.values, every.cost.values, strict=True))
    assert set(zip(one.gain.values, one.cost.values, strict=True)) == pairs
    assert one.sizes["point"] == len(pairs)
    values = np.stack([dataset.gain, dataset.cost], axis=-1).reshape(-1, 2)
    assert every.sizes["point"] == sum(tuple(value) in pairs for value in values)


@given(datasets.map(make_dataset))
def test_negating_an_objective_changes_nothing_else(dataset):
    front = dse.pareto(dataset, ["gain"], ["cost"])
    turned = dse.pareto(dataset.assign(cost=-dataset.cost), ["gain", "cost"])
    np.testing.assert_array_equal(np.sort(front.gain), np.sort(turned.gain))
    assert front.attrs["hypervolume"] == pytest.approx(turned.attrs["hypervolume"])
    assert np.isnan(front.attrs["hypervolume_share"]) or 0 <= front.attrs["hypervolume_share"] <= 1 + 1e-9


def test_a_front_computed_by_hand():
    front = dse.pareto(make_dataset(np.array([[[1, 2, 3], [3, 1, 0]], [[1, 2, 9], [5, 1, 0]], [[7, 8, 9]] * 2], float)), ["gain"], ["cost"])
    assert front.gain.values.tolist() == [0, 1, 1, 2, 3]
    assert front.cost.values.tolist() == [0, 1, 1, 2, 5]
    assert front.name.values.tolist() == ["v2", "v0", "v1", "v1", "v0"]
    assert json.loads(front.attrs["reference_point"]) == {"gain": 0, "cost": 9}
    assert front.attrs["hypervolume"] == 8 + 7 + 4  # gain 0 to 1 at cost 1, 1 to 2 at cost 2, 2 to 3 at cost 5
    assert front.attrs["hypervolume_share"] == pytest.approx(19 / 27)


def test_every_point_of_a_sweep_names_its_design(results):
    front = dse.pareto(results, ["speedup"], ["accuracy_drop", "memory.dram.bandwidth"])
    for number in range(front.sizes["point"]):
        point = front.isel(point=number)
        dims = {dim: point[dim].item() for dim in results.speedup.dims}
        cell = results.sel({dim: value for dim, value in dims.items() if dim in results.indexes})
        assert float(cell.speedup) == float(point.speedup)
        assert cell.method.item() == point.method.item()
        assert float(cell.dense_accuracy - cell.accuracy) == float(point.accuracy_drop)
    assert "blocky" not in front.method.values  # it has no accuracy
    assert objective_directions(front) == {"speedup": "maximize", "accuracy_drop": "minimize", "memory.dram.bandwidth": "minimize"}
    assert front.speedup.attrs["units"] == "1"


def test_designs_with_equal_objectives_are_ties(results):
    """The capacity changes no latency."""
    every, one = (dse.pareto(results, ["speedup", "accuracy"], ties=ties) for ties in (True, False))
    assert every.sizes["point"] == 2 * one.sizes["point"]
    assert (one["memory.dram.capacity"] == 1e9).all()


def test_a_reference_of_the_user(results):
    front = dse.pareto(results, ["speedup", "accuracy"], reference={"speedup": 1.0}, pool=True)
    assert json.loads(front.attrs["reference_point"]) == {"speedup": 1.0, "accuracy": 70.0}
    better = dse.pareto(results, ["speedup", "accuracy"], reference={"speedup": 0.5}, pool=True)
    assert better.attrs["hypervolume"] > front.attrs["hypervolume"]


def test_the_hypervolume_of_a_large_front_of_four_objectives_is_left_out_with_a_warning():
    points = np.random.default_rng(0).dirichlet(np.ones(4), 1500).T
    dataset = xr.Dataset({f"f{n}": ("design", column) for n, column in enumerate(points)})
    with pytest.warns(UserWarning, match="the hypervolume of 1500 points in 4 objectives would take long and was left out"):
        front = dse.pareto(dataset, minimize=list(dataset))
    assert np.isnan(front.attrs["hypervolume"])


@pytest.mark.parametrize(
    ("maximize", "minimize", "messages"),
    [
        (["speedup", "acuracy"], [], ["the dataset has no 'acuracy'; did you mean 'accuracy'?"]),
        (["speedup"], ["speedup", "latancy"], ["'speedup' is listed twice as an objective; list it once", "the dataset has no 'latancy'; did you mean 'latency'?"]),
        (["method"], [], ["'method' is not a number; "]),
        (["bound_share"], [], ["'bound_share' has a value for each resource; "]),
        ([], [], ["nothing to maximize or minimize is given; "]),
        ([], ["accuracy"], ["accuracy is better higher; maximize 'accuracy'"]),
    ],
)  # fmt: skip
def test_invalid_objectives_are_refused(results, maximize, minimize, messages):
    with pytest.raises(InputError) as caught:
        dse.pareto(results, maximize, minimize)
    problems = sorted(str(problem) for problem in caught.value.problems)
    assert [problem.startswith(start) for problem, start in itertools.zip_longest(problems, sorted(messages))] == [True] * len(messages), (
        problems
    )


def test_a_reference_that_is_not_an_objective_is_refused(results):
    with pytest.raises(InputError, match="the reference 'latency' is not an objective; known: 'speedup'"):
        dse.pareto(results, ["speedup"], reference={"latency": 1.0})


def test_accuracies_of_different_dense_networks_are_compared_by_their_loss(edited, folder):
    edited("net/accuracy.csv", ("semi,2:4,0.5,75.5,76", "semi,2:4,0.5,75.5,77"))
    results = dse.sweep(folder / "small.yaml")
    with pytest.raises(InputError, match=r"start from different dense networks \(76, 77\); minimize 'accuracy_drop' instead"):
        dse.pareto(results, ["speedup", "accuracy"])
    assert {1.0, 1.5} >= set(dse.pareto(results, [], ["accuracy_drop"]).accuracy_drop.values)


def test_accuracies_on_different_metrics_are_not_compared(edited, folder):
    edited("net/workload.yaml", ("sources:", "other_metrics: [{name: loss, direction: lower}]\nsources:"))
    edited("net/accuracy.csv", ("source,kind", "source,kind,metric"), ("75.5,76,a test,measured", "0.3,0.2,a test,measured,loss"))
    results = dse.sweep(folder / "small.yaml")
    with pytest.raises(InputError, match=r"different networks or metrics cannot be compared \(net, accuracy; net, loss\)"):
        dse.pareto(results, ["speedup"], ["accuracy_drop"])
    front = dse.pareto(select_values(results, {"metric": "loss"}), ["speedup"], ["accuracy"])
    assert set(front.accuracy.values) == {0.3}


def test_objectives_without_any_value_are_refused(results):
    with pytest.raises(InputError, match="no point has a finite value in all of speedup, accuracy"):
        dse.pareto(select_values(results, {"method": "blocky"}), ["speedup", "accuracy"])


# -- the figure and the command


@pytest.mark.parametrize(
    ("maximize", "minimize", "panels"), [(["speedup", "accuracy"], [], 1), (["speedup"], ["accuracy_drop", "latency"], 3)]
)
def test_the_figure_shows_every_point_and_the_knee(results, maximize, minimize, panels):
    front = dse.pareto(results, maximize, minimize, pool=True)
    figure = drawing.draw_figure(results, front)
    assert len(figure.axes) == panels
    names, knee = maximize + minimize, front.isel(point=front.attrs["knee"])
    for ax, (x, y) in zip(figure.axes, itertools.combinations(names, 2), strict=True):
        lines = {line.get_label(): line for line in ax.lines}
        assert len(lines["all points"].get_xdata()) == front.attrs["points"]
        assert (lines["knee"].get_xdata().item(), lines["knee"].get_ydata().item()) == (knee[x].item(), knee[y].item())
        assert not ax.xaxis_inverted()
        assert not ax.yaxis_inverted()


@pytest.mark.parametrize(
    ("maximize", "minimize"), [(["speedup"], ["latency"]), ([], ["latency", "accuracy_drop"]), (["speedup", "accuracy"], [])]
)
def test_the_steps_bound_the_dominated_region(results, maximize, minimize):
    """At each corner some point of the front is as good in both objectives, and none is better in both."""
    front = dse.pareto(results, maximize, minimize, pool=True)
    signs = np.array([1.0] * len(maximize) + [-1.0] * len(minimize))
    (steps,) = (
        line for line in drawing.draw_figure(results, front).axes[0].lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 2
    )
    points = np.stack([front[name] for name in objective_directions(front)], axis=-1) * signs
    for corner in np.stack(steps.get_data(), axis=-1) * signs:
        assert (points >= corner).all(axis=1).any()
        assert not (points > corner).all(axis=1).any()


def test_a_foreign_dataset_with_a_variable_called_accuracy():
    points = xr.Dataset({"accuracy": ("n", np.array([1.0, 2.0, 3.0])), "dense_accuracy": ("n", np.ones(3)), "cost": ("n", np.arange(3.0))})
    assert dse.pareto(points, ["accuracy"], ["cost"]).sizes["point"] == 3
    with pytest.raises(InputError, match="the dataset has no 'accuracy_drop'; did you mean 'accuracy'"):
        dse.pareto(points, ["accuracy"], ["accuracy_drop"])


def test_each_network_and_batch_size_has_a_front(results):
    """It is the front of that selection; pooled, points of one batch size dominate those of another."""
    apart, pooled = (dse.pareto(results, ["speedup"], ["latency"], pool=pool) for pool in (False, True))
    fronts = json.loads(apart.attrs["groups"])
    assert [one["batch"] for one in fronts] == [1, 16]
    start = 0
    for one in fronts:
        alone = dse.pareto(results.sel(batch=[one["batch"]]), ["speedup"], ["latency"])
        here = apart.isel(point=slice(start, start + one["size"]))
        for name in ("speedup", "latency", "accelerator", "memory.dram.bandwidth", "variant"):
            np.testing.assert_array_equal(here[name], alone[name])
        for name in ("hypervolume", "hypervolume_share", "points", "left_out"):
            assert one[name] == alone.attrs[name]
        assert one["reference_point"] == json.loads(alone.attrs["reference_point"])
        assert one["knee"] == alone.attrs["knee"] + start
        start += one["size"]
    assert start == apart.sizes["point"]
    assert apart.attrs["points"] == pooled.attrs["points"]
    assert json.loads(pooled.attrs["groups"])[0]["size"] == pooled.sizes["point"]
    assert dse.pareto(apart, ["speedup"], ["latency"]).sizes["point"] == apart.sizes["point"]  # of a front, too


def test_networks_with_different_metrics_have_separate_fronts(folder, results):
    renamed = results.assign_coords(workload=("variant", np.array(["net", "net", "other", "other"], object)))
    renamed.attrs["metrics"] = json.dumps({name: json.loads(results.attrs["metrics"])["net"] for name in ("net", "other")})
    fronts = dse.pareto(renamed, ["speedup", "accuracy"])
    assert {(one["workload"], one["batch"]) for one in json.loads(fronts.attrs["groups"])} == {
        ("net", 1),
        ("net", 16),
        ("other", 1),
        ("other", 16),
    }
    with pytest.raises(InputError, match="accuracies of different networks or metrics cannot be compared"):
        dse.pareto(renamed, ["speedup", "accuracy"], pool=True)


def test_the_type_of_an_objective_sets_what_counts_as_rounding():
    values = np.array([[[1.0, 1.0 + 3e-7], [1.0, 2.0]], [[1.0, 1.0], [3.0, 3.0]], [[0.0, 0.0]] * 2])
    assert set(dse.pareto(make_dataset(values), ["gain"], ["cost"]).name.values) == {"v1"}
    coarse = make_dataset(values)
    assert dse.pareto(coarse.assign(gain=coarse.gain.astype(np.float32)), ["gain"], ["cost"]).sizes["point"] >= 1
