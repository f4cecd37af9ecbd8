"""Tables of results: the best designs against a plain loop, the dense network, units, formats, and datasets of other programs."""

import io
import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dse
from dse import plot
from dse.base.errors import InputError
from dse.report.best_designs import best_designs, describe_points, make_ranking, unmeasured_variants, with_all_dims
from dse.report.result_table import FORMATS, render
from dse.report.show_results import ShowOptions, result_tables, thin_front

AXES = """dtype: fp16
store: {variables: [latency, dense_latency, speedup, bound_share, fits]}
axes: {memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 4 TB/s], units.tensor.peak.fp16: [50 TFLOP/s, 100 TFLOP/s]}"""
PATTERNS = ("{methods: all}", "{methods: all, patterns: [{list: [1:8], densities: own}]}")


@pytest.fixture
def results(edited):
    return dse.sweep(edited("small.yaml", ("dtype: fp16", AXES), PATTERNS))


def loop_over_cells(results, batch: int, drop: float):
    """Latency of the best eligible variant of each design, dense included, ascending."""
    latencies = []
    for bandwidth in results["memory.dram.bandwidth"].values:
        for peak in results["units.tensor.peak.fp16"].values:
            design = results.sel({"memory.dram.bandwidth": bandwidth, "units.tensor.peak.fp16": peak, "batch": batch}).squeeze()
            eligible = [design.dense_latency.values[0]]
            for index in range(design.sizes["variant"]):
                variant = design.isel(variant=index)
                if variant.dense_accuracy - variant.accuracy <= drop and variant.fits:
                    eligible.append(variant.latency.item())
            latencies.append(min(eligible))
    return sorted(latencies)


@pytest.mark.parametrize("drop", [0.0, 1.0, 10.0])
def test_the_best_designs_are_those_of_a_loop_over_all_cells(results, drop):
    rows = best_designs(with_all_dims(results), make_ranking(results, None, None, drop), top=6)
    for batch in (1, 16):
        np.testing.assert_allclose(rows[rows.batch == batch].latency, loop_over_cells(results, batch, drop), rtol=1e-12)
        assert rows[rows.batch == batch]["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(rows.speedup, rows.dense_latency / rows.latency, rtol=1e-12)
    np.testing.assert_allclose(rows.samples_per_s, rows.batch / rows.latency, rtol=1e-12)
    assert (rows.accuracy_drop <= drop + 1e-9).all()


def test_the_order_of_the_dims_does_not_matter(results):
    ranking = make_ranking(results, None, None, 1.0)
    turned = results.transpose("variant", "units.tensor.peak.fp16", "memory.dram.bandwidth", ...)
    one, other = (best_designs(with_all_dims(each), ranking, 3) for each in (results, turned))
    np.testing.assert_array_equal(one.latency, other.latency)
    assert one.pattern.tolist() == other.pattern.tolist()


def test_fewer_rows_are_the_first_of_more(results):
    dims, ranking = with_all_dims(results), make_ranking(results, "speedup", None, 1.0)
    rows, first = (best_designs(dims, ranking, top) for top in (6, 2))
    assert (rows.speedup.groupby(rows.batch).diff().dropna() <= 0).all()
    pd.testing.assert_frame_equal(first, rows[rows["rank"] <= 2].reset_index(drop=True))


def test_patterns_without_an_accuracy_have_a_table_of_their_own(results):
    tables = result_tables(results)
    kinds = [set(table.rows.get("accuracy_kind", [])) for table in tables]
    assert kinds[0] <= {"published", "measured", "estimated", ""}
    assert kinds[1] == {"none"}
    assert "whose accuracy nobody measured" in tables[1].title
    together = result_tables(results, ShowOptions(any_accuracy=True))[0]
    assert (together.rows["latency"].to_numpy() <= tables[0].rows["latency"].to_numpy() * (1 + 1e-12)).all()
    assert unmeasured_variants(results).sum() == (results.accuracy_kind == "none").sum()


def test_results_that_do_not_fit_are_not_ranked(results):
    part = results.isel(variant=[0])
    unfit = part.assign(fits=xr.zeros_like(part.fits))
    rows = best_designs(with_all_dims(unfit), make_ranking(unfit, None, None, None), top=9)
    assert len(rows) == 0  # nor is the dense network, which is larger
    assert "do not fit the outermost memory" in render(result_tables(unfit), "table")


def test_bounds_are_the_largest_shares_of_each_point(results):
    points = results.isel(batch=("point", [0, 1]), variant=("point", [1, 2]), accelerator=0, dtype=0).isel(
        {"memory.dram.bandwidth": 0, "units.tensor.peak.fp16": 0}
    )
    for text, shares in zip(describe_points(points).bound, points.bound_share.transpose("point", "resource").values, strict=True):
        first = text.split(", ")[0]
        assert first == f"{results.resource.values[shares.argmax()]} {100 * shares.max():.0f}%"


def test_a_selection_without_dims_has_the_same_numbers(results):
    whole = best_designs(with_all_dims(results.isel(batch=[0])), make_ranking(results, None, None, 1.0), 6)
    part = best_designs(with_all_dims(results.isel(batch=0, accelerator=0, dtype=0)), make_ranking(results, None, None, 1.0), 6)
    np.testing.assert_array_equal(part.latency, whole.latency)


def test_tokens_per_second_count_the_prompt_or_one_token_of_a_decode():
    spec = {"name": "llm", "accelerators": ["a100-sxm4-80gb"], "dtype": "fp16", "batch": [4], "workloads": {}}
    for phase, tokens in (("prefill", 256), ("decode", 1)):
        network = {"opt-6.7b": {"methods": ["dense"], "inputs": {"phase": phase, "sequence": 256}}}
        (table, *_) = result_tables(dse.sweep(spec | {"workloads": network}))
        row = table.rows.iloc[0]
        assert row.tokens_per_s == pytest.approx(4 * tokens / row.latency)
        assert "samples_per_s" not in table.rows


def test_every_format_has_the_same_numbers(results):
    tables = result_tables(results)
    texts = {style: render(tables, style) for style in FORMATS}
    first = json.loads(texts["json"])[0]
    assert first["units"]["latency"] == "s"
    rows = pd.read_csv(io.StringIO(texts["csv"]))
    (latency,) = (name for name in rows if name.startswith("latency ["))
    size = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[latency.removeprefix("latency [").removesuffix("]")]
    np.testing.assert_allclose(rows[latency] * size, [row["latency"] for row in first["rows"]], rtol=1e-5)
    assert "memory.dram.bandwidth [TB/s]" in rows
    assert "| rank |" in texts["markdown"]
    assert "bandwidth [TB/s]" in texts["table"]
    assert max(map(len, texts["table"].splitlines())) <= 140
    assert "e+1" not in texts["table"]


def test_a_summary_of_costs_alone_has_a_row_for_each_accelerator(edited):
    edited("chip.yaml", ("name: chip", "name: chip\ncost: {process: 7 nm}"))
    path = edited("small.yaml", ("dtype: fp16", f"keep: summary\n{AXES}"))
    path.write_text(path.read_text().replace("[latency, dense_latency, speedup, bound_share, fits]", "[area]"))
    (table,) = result_tables(dse.sweep(path))
    assert table.title.endswith("by lowest area min")
    assert table.rows.accelerator.tolist() == ["chip"]
    assert (table.rows.area_min <= table.rows.area_max).all()


def test_a_front_keeps_its_ends_and_its_knee():
    for top in range(1, 9):
        for knee in (10, 17, 29):
            kept = thin_front(10, 20, knee, top)
            assert len(kept) <= top
            assert knee in kept
            assert top < 3 or {10, 29} <= set(kept)
    assert thin_front(5, 3, 6, 10) == [5, 6, 7]


def test_fronts_reductions_and_searches_have_tables(results, edited, folder):
    front = dse.pareto(results, maximize=["speedup"], minimize=["memory.dram.bandwidth"])
    (table,) = result_tables(front)
    assert set(table.rows["knee"]) == {"knee", ""}
    for keep in ("{top: 5, minimize: [latency]}", "summary", "{front: {minimize: [latency, memory.dram.bandwidth]}}"):
        kept = dse.sweep(edited("small.yaml", ("dtype: fp16", f"keep: {keep}\ndtype: fp16")))
        (table,) = result_tables(kept, ShowOptions(top=3))
        assert len(table.rows) <= 3 * 2
        assert render([table], "table")
        edited("small.yaml", (f"keep: {keep}\n", ""))


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (xr.Dataset({"temperature": ("time", [1.0])}), "has no coordinate 'accelerator', so it does not hold results"),
        (xr.Dataset({"temperature": ("point", [1.0])}), "the points of the dataset have no latency"),
        (xr.Dataset(coords=dict.fromkeys(("accelerator", "batch", "dtype", "variant"), 0)), "has no coordinates 'workload', 'method'"),
    ],
)
def test_datasets_of_other_programs_are_refused(dataset, message):
    with pytest.raises(InputError, match=message):
        result_tables(dataset)


DAMAGES = {
    "no accuracies": (lambda data: data.drop_vars(["accuracy", "dense_accuracy"]), "has no coordinates 'accuracy', 'dense_accuracy'"),
    "no pattern": (lambda data: data.drop_vars("pattern"), "has no coordinate 'pattern'"),
    "other metrics": (lambda data: data.assign_attrs(metrics="{}"), "does not describe 'accuracy' of 'net'; sweep again"),
    "damaged inputs": (lambda data: data.assign_attrs(run_on="[1"), "attribute 'run_on' of the dataset is damaged"),
    "a list of inputs": (lambda data: data.assign_attrs(run_on="[1]"), "attribute 'run_on' of the dataset is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_datasets_of_older_versions_and_damaged_ones_are_refused(results, damage, tmp_path):
    change, message = DAMAGES[damage]
    with pytest.raises(InputError, match=message):
        result_tables(change(results))
    with pytest.raises(InputError, match=message):
        plot.save_figures(change(results), ["speedup"], tmp_path)


def test_a_dataset_without_some_variables_is_shown_or_refused(results):
    with pytest.raises(InputError, match="has neither 'latency' nor 'speedup'; list one of them"):
        result_tables(results[["fits"]])
    for names in (["speedup"], ["latency"], ["latency", "bound_share"], ["latency", "dense_latency"]):
        assert render(result_tables(results[names]), "table")
    bare = results[["latency"]].assign_attrs()
    bare.attrs = {}
    assert render(result_tables(bare), "table")
    with pytest.raises(InputError, match="rows are out of range"):
        result_tables(results, ShowOptions(top=0))
    with pytest.raises(InputError, match="did you mean 'latency'"):
        result_tables(results, ShowOptions(minimize="latencies"))


INTERVALS = """method,pattern,sparsity,value,dense_value,low,high,source,kind
pruned,unstructured,0.5,75,76,,,a test,published
semi,2:4,0.5,75,76,74,76,a test,estimated
"""


def test_intervals_of_accuracies_are_shown_with_how_often_each_pattern_is_the_best(edited, folder):
    """2:4 is within a loss of 1 in half of the samples, and faster than dense; unstructured is slower than dense, and never the best."""
    edited("small.yaml", ("dtype: fp16", AXES))
    (folder / "net/accuracy.csv").write_text(INTERVALS)
    results = dse.sweep(folder / "small.yaml")
    rows = best_designs(with_all_dims(results), make_ranking(results, None, None, 1.0), top=2)
    assert set(rows.pattern) == {"2:4"}
    assert set(rows.pattern_shares) == {"2:4 in 50% of samples, dense in 50%"}
    assert not rows.decided.any()
    assert (rows.accuracy_low.tolist(), rows.accuracy_drop_high.tolist()) == ([74] * 4, [2] * 4)
    text = render(result_tables(results), "table")
    assert "accuracy kind estimated" in text
    assert "accuracy drop 1 (0 - 2) points" in text
    assert "otherwise the accuracies cannot decide" in text.replace("\n  ", " ")
    assert "accuracy_low" in render(result_tables(results), "csv").splitlines()[0]


def test_of_equal_networks_the_dense_one_is_the_best(folder, edited):
    """A pruned network that runs dense gains nothing, so that it is no reason to prune."""
    edited("chip.yaml", ("pattern: unstructured,", "enabled: false, pattern: unstructured,"))
    with pytest.warns(dse.ModelWarning, match="has no enabled run for 'unstructured'"):
        results = dse.sweep(edited("small.yaml", ("methods: all", "sparsities: [0.9]")))
    rows = best_designs(with_all_dims(results), make_ranking(results, None, None, 100.0), top=1)
    assert results.method.values.tolist() == ["pruned"]
    assert rows.method.tolist() == ["dense", "dense"]  # at both batch sizes
