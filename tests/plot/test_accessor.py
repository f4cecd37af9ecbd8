"""`results.dse`: the same answers as the functions and commands, and clear errors."""

import doctest
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dse
from dse.base.errors import InputError
from dse.plot.accessor import ResultsAccessor, ResultsPlots
from dse.report.show_results import result_tables
from dse.schema.figures import FIGURE_KINDS, SHOWS

AXES = "dtype: fp16\naxes: {memory.dram.bandwidth: [0.1 TB/s, 1 TB/s, 4 TB/s]}"


@pytest.fixture
def swept(edited):
    return dse.sweep(edited("small.yaml", ("dtype: fp16", AXES)))


def test_the_best_designs_are_those_that_are_shown(swept):
    rows = swept.dse.best(top=2)
    shown = result_tables(swept)[0].rows
    pd.testing.assert_frame_equal(rows, shown.loc[shown["rank"] <= 2].reset_index(drop=True))
    assert rows.attrs["units"]["latency"] == "s"
    assert (swept.dse.best(any_accuracy=True).latency.min()) <= rows.latency.min()
    assert "best designs by lowest latency" in swept.dse.show()
    assert swept.dse.show(style="markdown").startswith("**small: ")


def test_fronts_and_speedups_are_those_of_the_functions(swept):
    xr.testing.assert_identical(swept.dse.pareto(), dse.pareto(swept, ["speedup"], ["accuracy_drop"]))
    xr.testing.assert_identical(swept.dse.pareto(minimize=["latency"], pool=True), dse.pareto(swept, [], ["latency"], pool=True))
    xr.testing.assert_identical(swept.dse.iso_speedup(2.0), dse.iso_speedup(swept, 2.0))
    part = swept.dse.select({"batch": 16, "memory.dram.bandwidth": "4 TB/s"})
    assert (part.batch.values, part["memory.dram.bandwidth"].values) == ([16], [4e12])


def test_two_results_are_explained_by_what_differs(swept):
    first = {"batch": 16, "memory.dram.bandwidth": "0.1 TB/s", "variant": 1}
    why = swept.dse.explain(first, {"memory.dram.bandwidth": "4 TB/s"})
    cells = swept.sel(batch=16, variant=1).squeeze()
    assert why.value_a == pytest.approx(cells.latency.sel({"memory.dram.bandwidth": 1e11}).item(), rel=1e-12)
    assert why.value_b == pytest.approx(cells.latency.sel({"memory.dram.bandwidth": 4e12}).item(), rel=1e-12)
    assert sum(part.value for part in why.parts) == pytest.approx(why.value_b - why.value_a, abs=1e-12)
    ideal = swept.dse.explain(first)
    assert ideal.value_b == pytest.approx(cells.speedup.sel({"memory.dram.bandwidth": 1e11}).item(), rel=1e-9)


def test_the_parts_of_two_results_are_the_labels_in_which_they_differ(swept):
    a, b = {"batch": 1, "memory.dram.bandwidth": "1 TB/s", "variant": 0}, {"batch": 16, "memory.dram.bandwidth": "4 TB/s", "variant": 1}
    for quantity in ("latency", "speedup"):
        why = swept.dse.explain(a, b, quantity)
        results = (
            swept[quantity].isel(variant=v).sel({"batch": n, "memory.dram.bandwidth": w}) for v, n, w in ((0, 1, 1e12), (1, 16, 4e12))
        )
        assert (why.value_a, why.value_b) == pytest.approx(tuple(result.item() for result in results), rel=1e-9)
        assert sum(part.value for part in why.parts) == pytest.approx(why.difference)
        assert {part.key for part in why.parts} == {"memory.dram.bandwidth", "batch", "variant"}


def test_points_of_a_front_are_explained_by_their_index(swept):
    front = swept.dse.pareto(minimize=["latency", "memory.dram.bandwidth"], pool=True)
    why = front.dse.explain(0, front.sizes["point"] - 1)
    np.testing.assert_allclose([why.value_a, why.value_b], front.latency.values[[0, -1]], rtol=1e-9)


def test_every_kind_of_figure_is_a_method(swept):
    assert all(getattr(ResultsPlots, kind).__doc__ for kind in FIGURE_KINDS)
    assert (ResultsPlots.roofline.__doc__ or "").lower() == f"{SHOWS['roofline']}."
    assert len(swept.dse.plot.speedup().axes) == 2
    assert swept.dse.plot.axis(y="latency").axes[0].get_ylabel().startswith("latency [")
    with pytest.raises(InputError, match="needs exactly one capacity axis"):
        swept.dse.plot.capacity()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda results: results.dse.explain({"batch": 1}), "leaves several values of memory.dram.bandwidth, variant; add a value"),
        (lambda results: results.dse.explain({"bach": 1}), "did you mean 'batch'"),
        (lambda results: results.dse.explain(3), "there is no point 3"),
        (lambda results: results.dse.best(maximize="speedups"), "did you mean 'speedup'"),
        (lambda results: results.dse.best(top=-1), "-1 rows are out of range; write a whole number of at least 1"),
        (lambda results: results.dse.best(drop=-1.0), "out of range"),
        (lambda results: results.dse.pareto().dse.best(), "does not hold all results of a sweep"),
        (lambda results: xr.Dataset({"t": ("time", [1.0])}).dse.show(), "does not hold results of this program"),
        (lambda results: xr.Dataset({"t": ("time", [1.0])}).dse.explain(0), "does not name the specification"),
    ],
)
def test_errors_say_what_is_wrong(swept, call, message):
    with pytest.raises(InputError, match=message):
        call(swept)


LOOKS_WHETHER_INSTALLED = "import dse, importlib.util; assert importlib.util.find_spec('xarray'); import xarray"  # as torch._dynamo does


@pytest.mark.parametrize(
    "imports",
    ["import dse, xarray", "import xarray, dse", "import dse; from xarray import Dataset; import xarray", LOOKS_WHETHER_INSTALLED],
)
def test_the_accessor_is_registered_whichever_is_imported_first(imports):
    code = f"{imports}; print(hasattr(xarray.Dataset, 'dse'), 'matplotlib' in __import__('sys').modules)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_importing_the_package_does_not_import_xarray():
    code = "import sys, dse; print('xarray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(ResultsAccessor, "ResultsAccessor")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, clear_globs=False)
    results = example.globs["results"]
    for owner in (ResultsAccessor, ResultsPlots):
        for each in doctest.DocTestFinder().find(owner, owner.__name__, globs={"results": results}):
            runner.run(each)
    assert (runner.failures, runner.tries > 10) == (0, True)
    assert (tmp_path / "speedup.pdf").read_bytes().startswith(b"%PDF")
