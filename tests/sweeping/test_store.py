import resource

import numpy as np
import pytest
import xarray as xr

import dse
from dse.base import output_file
from dse.base.errors import InputError, UnfinishedError
from dse.sweeping import store


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.nc"
    path.write_text("old")
    with pytest.raises(ValueError, match="no"):
        output_file.replace_file(path, lambda partial: (partial.write_text("half"), int("no")))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["results.nc"]


def test_reading_a_file_that_is_not_a_dataset(tmp_path):
    (tmp_path / "x.nc").write_text("hello")
    for name, expected in (("x.nc", "is not a dataset"), ("none.nc", "does not exist")):
        with pytest.raises(InputError, match=expected):
            store.read(tmp_path / name)


def test_an_output_that_is_a_folder_is_refused_before_the_evaluation(folder):
    (folder / "taken.nc").mkdir()
    with pytest.raises(InputError, match=r"'.*taken.nc' is a folder; give a file, or another path"):
        dse.sweep(folder / "small.yaml", folder / "taken.nc")


@pytest.mark.parametrize("points", [600, 2000, 5000, 100_000])
def test_a_full_disk_never_leaves_a_file(tmp_path, points):
    """HDF5 may say nothing of it."""
    dataset = xr.Dataset({"latency": ("point", np.arange(points, dtype=float)), "execution": ("point", np.array(["dense"] * points))})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 1024, before[1]))
    try:
        with pytest.raises(UnfinishedError, match=r"x\.nc' cannot be written \(File too large\); free disk space, then run it again"):
            store.write(dataset, tmp_path / "x.nc")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_not_a_plain_folder(tmp_path):
    for name in ("results.zarr", "plain", "store"):
        (tmp_path / name).mkdir()
    (tmp_path / "store" / "zarr.json").write_text("{}")
    names = [path.name for path in sorted(tmp_path.iterdir()) if store.is_plain_folder(path)]
    assert names == ["plain"]
