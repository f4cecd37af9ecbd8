"""Results as one table: a row for each result, units in the heads, the same numbers as in the dataset."""

import sys

import numpy as np
import pandas as pd
import pytest

import dse
from dse.base.errors import InputError
from dse.sweeping import table_file
from dse.sweeping.table_file import results_table, write_table

AXES = "axes: {memory.dram.bandwidth: [1 TB/s, 2 TB/s]}\nstore: {variables: [latency, dense_latency, speedup, bound_share, fits]}\n"


@pytest.fixture
def results(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + AXES)
    return dse.sweep(path)


def test_every_result_is_in_the_row_of_its_coordinates(results):
    table = results_table(results)
    assert len(table) == results.latency.size
    dims = {
        "accelerator": "accelerator",
        "memory.dram.bandwidth [B/s]": "memory.dram.bandwidth",
        "batch": "batch",
        "dtype": "dtype",
        "variant": "variant",
    }
    for row in table.to_dict("records"):
        cell = results.sel({dim: row[head] for head, dim in dims.items()})
        assert row["latency [s]"] == cell.latency.item()
        assert row["speedup"] == cell.speedup.item()
        assert row["fits"] == cell.fits.item()
        assert row["method"] == cell.method.item()
        assert [row[f"bound_share.{name}"] for name in results.resource.values] == cell.bound_share.values.tolist()


def test_a_csv_file_reads_back_to_the_same_numbers(results, tmp_path):
    write_table(results, tmp_path / "out.csv")
    read, table = pd.read_csv(tmp_path / "out.csv"), results_table(results)
    assert list(read) == list(table)
    np.testing.assert_array_equal(read["latency [s]"], table["latency [s]"])


def test_a_front_has_a_row_for_each_point(results):
    front = dse.pareto(results, maximize=["speedup"], minimize=["latency"])
    table = results_table(front)
    assert table["latency [s]"].tolist() == front.latency.values.tolist()


def test_parquet_needs_a_package(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(table_file, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Parquet files need pyarrow; install it: pip install 'sparse-dse\[parquet\]'"):
        write_table(results, tmp_path / "out.parquet")


def test_a_table_that_does_not_fit_in_memory_is_refused(results, monkeypatch):
    monkeypatch.setattr(table_file, "available_bytes", lambda: 1000)
    with pytest.raises(InputError, match="does not fit in memory; write a"):
        results_table(results)
