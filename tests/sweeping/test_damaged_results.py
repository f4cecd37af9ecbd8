"""Damaged results are refused with the file that is damaged and what to do, or evaluated again: never read as if they were whole."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import dse
from dse.base import checksum
from dse.base.errors import InputError
from dse.cli.entry import main
from dse.sweeping import store, zarr_store
from tests.conftest import described

AXES = """
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 4, scale: log}
store: {variables: [latency, dense_latency, speedup, fits]}
"""
CHUNK = "latency/c/0/0/1/0/0"  # of the second batch


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A store, the same results as netCDF, and half of the front."""
    folder = described(tmp_path_factory.mktemp("damaged"))
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text() + AXES)
    (folder / "kept.yaml").write_text(spec.read_text() + "keep: {front: {minimize: [latency], maximize: [speedup]}}\n")
    dse.sweep(spec, folder / "whole.zarr")
    dse.sweep(spec, folder / "whole.nc")
    dse.sweep(folder / "kept.yaml", folder / "front.nc", shard=(1, 2))
    return folder


@pytest.fixture
def results(home, tmp_path) -> Path:
    """Copies of them; the specification stays where it is."""
    for name in ("whole.zarr", "front.nc.parts"):
        shutil.copytree(home / name, tmp_path / name)
    shutil.copy(home / "whole.nc", tmp_path)
    return tmp_path


def flip(path: Path, place: float = 0.5) -> None:
    """Change one bit, at a share of the file's length."""
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


PIECES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a missing chunk": (CHUNK, Path.unlink, "is missing"),
    "a chunk of no element that is set": ("fits/c/0/0/1/0/0", Path.unlink, "is missing"),
    "a truncated chunk": (CHUNK, cut, "is damaged"),
    "an empty chunk": (CHUNK, lambda path: path.write_bytes(b""), "cannot be read"),
    "a bit of a chunk": (CHUNK, flip, "is damaged"),
    "a bit of a chunk's checksum": (CHUNK, lambda path: flip(path, 1.0), "is damaged"),
    "the chunk of another piece": (CHUNK, lambda path: shutil.copy(path.parents[2] / "0/0/0", path), "is damaged"),
    "a truncated note": ("progress/done/1.json", cut, "is damaged"),
    "the note of another piece": ("progress/done/1.json", lambda path: shutil.copy(path.with_name("0.json"), path), "is damaged"),
}


@pytest.mark.parametrize("damage", PIECES)
def test_a_damaged_chunk_is_refused_until_it_is_evaluated_again(home, results, capsys, damage):
    name, break_it, expected = PIECES[damage]
    broken, path = results / "whole.zarr", results / "whole.zarr" / name
    break_it(path)
    assert main(["plot", str(broken), "-o", str(results / "figures")]) == 2
    assert capsys.readouterr().err.startswith(f"{path}: {expected}")
    assert not (results / "figures").exists()
    with pytest.warns(dse.ModelWarning, match=f"damaged results are evaluated again: {path}: {expected}"):
        dse.sweep(home / "small.yaml", broken, resume=True)
    xr.testing.assert_identical(store.read(broken), store.read(home / "whole.zarr"))


LAYOUT: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a bit of the attributes": ("zarr.json", flip),
    "truncated metadata": ("latency/zarr.json", cut),
    "no metadata of an array": ("latency/zarr.json", Path.unlink),
    "no coordinate": ("accuracy/c/0", Path.unlink),
    "a bit of a coordinate": ("accuracy/c/0", flip),
    "no manifest": (zarr_store.MANIFEST, Path.unlink),
    "a bit of the manifest": (zarr_store.MANIFEST, flip),
}


@pytest.mark.parametrize("damage", LAYOUT)
def test_a_store_with_damaged_metadata_is_refused_by_every_command(home, results, capsys, damage):
    name, break_it = LAYOUT[damage]
    broken, path = results / "whole.zarr", results / "whole.zarr" / name
    break_it(path)
    for command in (
        ["plot", str(broken)],
        ["pareto", str(broken), "--minimize", "latency"],
        ["sweep", str(home / "small.yaml"), "-o", str(broken), "--resume"],
    ):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert f"{path}: is " in told
        assert "remove the store, and run the sweep again" in told


def test_without_records_all_chunks_are_evaluated_again(home, results):
    shutil.rmtree(results / "whole.zarr/progress/done")
    with pytest.raises(InputError, match="is not complete, 2 chunks are missing"):
        store.read(results / "whole.zarr")
    dse.sweep(home / "small.yaml", results / "whole.zarr", resume=True)
    xr.testing.assert_identical(store.read(results / "whole.zarr"), store.read(home / "whole.zarr"))


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_flipped_bit_of_a_netcdf_file_is_detected(results, capsys, place):
    flip(results / "whole.nc", place)
    assert main(["plot", str(results / "whole.nc")]) == 2
    assert capsys.readouterr().err.startswith(f"{results / 'whole.nc'}: is damaged (its checksum does not match); run again")


def test_a_truncated_netcdf_file_is_refused(results, capsys):
    cut(results / "whole.nc")
    assert main(["pareto", str(results / "whole.nc"), "--minimize", "latency"]) == 2
    assert "is not a dataset, or is damaged" in capsys.readouterr().err


def test_other_tools_read_files_with_a_checksum_and_files_without_one_are_read_with_a_warning(results):
    path = results / "whole.nc"
    assert checksum.is_intact(path)
    with xr.open_dataset(path) as found:  # any engine that there is
        found.load()
        found.to_netcdf(results / "own.nc", engine="h5netcdf")
    with pytest.warns(UserWarning, match=r"own\.nc' has no checksum"):
        xr.testing.assert_identical(store.read(results / "own.nc"), store.read(path))


def test_large_netcdf_files_have_a_checksum_too(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_BUFFERED_BYTES", 100)
    dataset = xr.Dataset({"latency": ("point", np.arange(1000.0))})
    store.write(dataset, tmp_path / "x.nc")
    assert checksum.is_intact(tmp_path / "x.nc")
    xr.testing.assert_identical(store.read(tmp_path / "x.nc"), dataset)


@pytest.mark.parametrize("break_it", [flip, cut, lambda path: path.write_bytes(b"")])
def test_a_damaged_partial_is_evaluated_again(home, results, break_it):
    path = results / "front.nc.parts/0.npz"
    break_it(path)
    with pytest.warns(dse.ModelWarning, match=f"damaged results are evaluated again: {path}: is damaged"):
        found = dse.sweep(home / "kept.yaml", results / "front.nc", resume=True)
    strip = {"created": "", "command": ""}
    xr.testing.assert_identical(found.assign_attrs(strip), dse.sweep(home / "kept.yaml").assign_attrs(strip))


def test_a_partial_of_another_sweep_is_evaluated_again(home, results):
    dse.sweep(home / "kept.yaml", results / "other.nc", shard=(2, 2))
    shutil.copy(results / "other.nc.parts/1.npz", results / "front.nc.parts/0.npz")
    with pytest.warns(dse.ModelWarning, match=r"0\.npz: is damaged"):
        resumed = dse.sweep(home / "kept.yaml", results / "front.nc", resume=True)
    xr.testing.assert_equal(resumed, dse.sweep(home / "kept.yaml"))


@pytest.mark.parametrize("break_it", [flip, cut, Path.unlink])
def test_partials_with_a_damaged_origin_are_refused(home, results, capsys, break_it):
    break_it(results / "front.nc.parts/sweep.json")
    assert main(["sweep", str(home / "kept.yaml"), "-o", str(results / "front.nc"), "--resume"]) == 2
    told = capsys.readouterr().err
    assert "sweep.json: is damaged" in told or "does not belong to a sweep" in told


def test_records_hold_the_checksum_at_the_end_of_a_chunk_file(results):
    noted = json.loads((results / "whole.zarr/progress/done/1.json").read_text())["chunks"][CHUNK]
    content = (results / "whole.zarr" / CHUNK).read_bytes()
    assert noted == checksum.from_bytes(content[:-4]) == f"{int.from_bytes(content[-4:], 'little'):08x}"


def test_the_checksum_is_the_published_one():
    """Check value of CRC-32C (Castagnoli): RFC 3720, B.4, and the catalogue of CRC algorithms: 123456789 gives E3069283."""
    assert checksum.from_bytes(b"123456789") == "e3069283"
