"""`dse report`: what it reads, what it refuses, and that the file loads nothing."""

import re

import numpy as np
import pytest
import xarray as xr

from dse.cli.entry import main
from dse.html_report.layer_details import group_equal_layers
from dse.html_report.report import ASSETS, SCRIPTS
from dse.sweeping import store
from tests.html_report.conftest import write_report


def refusal(capsys, *arguments) -> str:
    assert main(["report", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_the_page_names_no_address_that_it_loads(report):
    for name in (*SCRIPTS, "page.html", "page.css"):
        assert not re.search(r"https?://", (ASSETS / name).read_text()), name
    text = report.read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=\"(?!data:)", text)
    assert "default-src 'none'" in text
    assert len(text) < 15e6


def test_texts_of_the_results_cannot_end_the_script(results, tmp_path):
    dataset = store.read(results)
    store.write(
        dataset.assign_attrs(title="</script><b>", spec=dataset.attrs["spec"] + "\n# </script><script>alert(1)</script>"), tmp_path / "x.nc"
    )
    text = write_report(tmp_path / "x.nc", tmp_path / "x.html").read_text()
    assert "<title>&lt;/script&gt;&lt;b&gt;</title>" in text
    assert "alert(1)</script>" not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.drop_vars(["latency", "speedup", "dense_latency"]), "has neither 'latency' nor 'speedup'"),
        (lambda d: d.assign_attrs(metrics="{}").drop_attrs(), "has no attribute 'spec'"),
        (lambda d: d.drop_vars("method"), "has no coordinate 'method'"),
        (lambda d: d.isel(variant=slice(0, 0)), "has no results"),
    ],
)
def test_datasets_that_are_not_of_a_sweep_are_refused(results, tmp_path, capsys, change, message):
    store.write(change(store.read(results)), tmp_path / "x.nc")
    assert message in refusal(capsys, tmp_path / "x.nc", "-o", tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_the_dataset_of_another_tool_is_refused(tmp_path, capsys):
    xr.Dataset({"temperature": ("time", np.arange(3.0))}).to_netcdf(tmp_path / "weather.nc", engine="h5netcdf")
    (tmp_path / "sizes.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    problems = refusal(
        capsys, tmp_path / "weather.nc", tmp_path / "sizes.csv", tmp_path / "empty", tmp_path / "gone.nc", "-o", tmp_path / "x.html"
    )
    for text in (
        "has no coordinate 'accelerator'",
        "the table has no column 'set'",
        "has no 'results.nc' and no 'front.nc'",
        "gone.nc: does not exist",
    ):
        assert text in problems


def test_other_output_names_and_unknown_objectives_are_refused(results, tmp_path, capsys):
    assert "write one that ends in .html" in refusal(capsys, results, "-o", tmp_path / "x.pdf")
    assert "the dataset has no 'speed'" in refusal(capsys, results, "--maximize", "speed", "-o", tmp_path / "x.html")


def test_variables_that_were_not_stored_are_left_out(results, tmp_path):
    few = store.read(results)[["latency"]].drop_dims(["resource", "execution"], errors="ignore")
    store.write(few, tmp_path / "few.nc")
    assert write_report(tmp_path / "few.nc", tmp_path / "few.html").exists()


def test_a_selection_of_one_design_is_reported(results, tmp_path):
    one = store.read(results).isel({"memory.dram.bandwidth": 0, "batch": 0})
    store.write(one, tmp_path / "one.nc")
    assert write_report(tmp_path / "one.nc", tmp_path / "one.html").exists()


def test_changed_descriptions_are_reported_in_the_page(results, tmp_path):
    dataset = store.read(results)
    store.write(dataset.assign_attrs(description_sha256='{"accelerator chip": "0"}'), tmp_path / "old.nc")
    assert "changed since the dataset was computed" in write_report(tmp_path / "old.nc", tmp_path / "old.html").read_text()


def test_equal_layers_are_summed_and_named_after_the_first():
    import pandas as pd

    rows = {
        "layer": ["a", "b", "c"],
        "bound": "dram",
        "execution": "e",
        "count": 1.0,
        "latency": [1.0, 3.0, 1.0],
        "dense_flops": [2.0, 5.0, 2.0],
    }
    numbers, names = group_equal_layers([pd.DataFrame(rows)])
    assert names == ["b", "a and 1 equal"]
    assert numbers.tolist() == [1, 0, 1]
