"""Zarr stores: killed and resumed, shared, damaged or on a full disk, a sweep writes the same files to the last bit."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest
import xarray as xr

import dse
from dse.base import checksum
from dse.base.errors import InputError
from dse.cli.entry import main
from dse.sweeping import store, zarr_store
from tests.conftest import described
from tests.sweeping.processes import dask_cluster, start_sweep, wait_for_end, wait_until

BATCHES = 24
AXES = """
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 40, scale: log}
  units.tensor.peak.fp16: {from: 50 TFLOP/s, to: 900 TFLOP/s, steps: 50, scale: log}
store: {variables: [latency, dense_latency, bound_share, fits]}
"""


def write_spec(folder: Path) -> Path:
    path = folder / "small.yaml"
    batches = ", ".join(str(2 + n) for n in range(BATCHES))  # each is a chunk
    path.write_text(path.read_text().replace("batch: [1, 16]", f"batch: [{batches}]") + AXES)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def folder(home):
    """The same folder for every test, since results hold the path of their specification."""
    shutil.rmtree(home)
    return described(home)


@pytest.fixture
def spec(folder):
    return write_spec(folder)


@pytest.fixture(scope="module")
def complete_once(home, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("complete") / "whole.zarr"
    dse.sweep(write_spec(described(home)), path)
    return path


@pytest.fixture
def complete(spec, complete_once) -> Path:
    """A copy of the store that one process writes."""
    return shutil.copytree(complete_once, spec.parent / "whole.zarr")


def files(path: Path) -> dict[str, bytes]:
    """All files of a store, without the time and the command."""
    results = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    group = json.loads(results["zarr.json"])
    for name in ("created", "command"):
        group["attributes"].pop(name)
    manifest = json.loads(checksum.read_verified(path / zarr_store.MANIFEST, "", zarr_store.MANIFEST))
    manifest.pop("zarr.json")
    return results | {"zarr.json": json.dumps(group).encode(), zarr_store.MANIFEST: json.dumps(manifest).encode()}


def wait_for_chunks(count: int, path: Path, process: subprocess.Popen[str]) -> None:
    wait_until(lambda: zarr_store.is_store(path) and zarr_store.completed_chunks(path).sum() >= count, process)


def test_a_store_reads_as_the_dataset_in_memory(spec, complete):
    results, in_memory = store.read(complete), dse.sweep(spec)
    for dataset in (results, in_memory):
        dataset.attrs.pop("created")
    xr.testing.assert_identical(results.drop_vars("speedup"), in_memory)
    assert results.speedup.equals(in_memory.dense_latency / in_memory.latency)
    assert [*results.coords] == [*in_memory.coords]


def test_killed_at_random_moments_and_resumed_gives_the_same_store(spec, complete):
    path, chance = spec.parent / "killed.zarr", random.Random()
    for count in (1, 9):
        process = start_sweep(spec, "-o", path, "--resume")
        wait_for_chunks(count + chance.randrange(5), path, process)
        time.sleep(chance.random() / 20)
        process.send_signal(signal.SIGKILL)
        wait_for_end(process)
        written = zarr_store.completed_chunks(path)
        assert 0 < written.sum() < BATCHES
        with pytest.raises(InputError, match=f"not complete, {BATCHES - written.sum()} chunks are missing; resume it"):
            store.read(path)
    dse.sweep(spec, path, resume=True)
    assert files(path) == files(complete)


def test_shards_that_start_at_the_same_time_fill_one_store(spec, complete):
    path = spec.parent / "shards.zarr"
    shards = [start_sweep(spec, "-o", path, "--shard", f"{number}/2") for number in (1, 2)]
    ends = [wait_for_end(shard) for shard in shards]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert files(path) == files(complete)
    assert [file for file in spec.parent.iterdir() if file.name.endswith(".part")] == []


def test_a_shard_writes_its_range_of_chunks_only(spec):
    for number in (3, 1):
        results = dse.sweep(spec, spec.parent / "shards.zarr", shard=(number, 4))
    assert list(zarr_store.completed_chunks(spec.parent / "shards.zarr")) == ([True] * 6 + [False] * 6) * 2
    assert list(results.latency.isnull().all(set(results.latency.dims) - {"batch"})) == ([False] * 6 + [True] * 6) * 2


def test_any_executor_can_be_used_and_errors_of_workers_are_raised(spec, complete, edited):
    path = spec.parent / "pooled.zarr"
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:

        class Late(Executor):
            """Starts its work after a description was changed."""

            def submit(self, *arguments):  # type: ignore[override]
                if "100 TFLOP/s" in (spec.parent / "chip.yaml").read_text():
                    edited("chip.yaml", ("100 TFLOP/s", "101 TFLOP/s"))
                return pool.submit(*arguments)

        with pytest.raises(InputError, match="changed since the dataset was computed: accelerator chip"):
            dse.sweep(spec, path, executor=Late())
        edited("chip.yaml", ("101 TFLOP/s", "100 TFLOP/s"))
        dse.sweep(spec, path, executor=pool, resume=True)
        assert files(path) == files(complete)
        with pytest.raises(BrokenProcessPool):
            pool.submit(os._exit, 1).result()
        with pytest.raises(dse.UnfinishedError, match=r"a worker failed .BrokenProcessPool: .* resume with --resume"):
            dse.sweep(spec, spec.parent / "broken.zarr", executor=pool)


def test_a_dask_cluster_that_loses_a_worker_finishes(spec, complete):
    path = spec.parent / "dask.zarr"
    with dask_cluster(spec.parent, 2) as (address, workers, _):
        process = start_sweep(spec, "-o", path, "--dask", address)
        wait_for_chunks(3, path, process)
        workers[0].send_signal(signal.SIGKILL)
        code, out, err = wait_for_end(process)
        assert (code, out) == (0, f"{path}\n"), err
    assert files(path) == files(complete)


def test_a_cluster_that_does_not_answer_is_reported(spec):
    quickly = "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=0.1s"
    process = start_sweep(spec, "-o", "x.zarr", "--dask", "tcp://127.0.0.1:1", before=quickly)
    assert wait_for_end(process) == (2, "", "no Dask scheduler answers at 'tcp://127.0.0.1:1'; start one: dask scheduler\n")
    assert not (spec.parent / "x.zarr").exists()


def test_a_lost_scheduler_is_reported_in_one_line_and_resumed(spec, complete):
    path = spec.parent / "lost.zarr"
    with dask_cluster(spec.parent, 1) as (address, workers, scheduler):
        workers[0].send_signal(signal.SIGSTOP)  # so that it finishes nothing before
        process = start_sweep(spec, "-o", path, "--dask", address, before="export DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=5s;")
        wait_for_chunks(0, path, process)
        scheduler.kill()
        code, out, err = wait_for_end(process)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].endswith("what is written is kept: resume with --resume")
    assert "Traceback" not in err
    dse.sweep(spec, path, resume=True)
    assert files(path) == files(complete)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "",
            "'' cannot be used as the address of a Dask scheduler (missing port number in address ''); write one as in 'tcp://127.0.0.1:8786'",
        ),
        (
            "tls://127.0.0.1:1",
            "give certificates in the Dask configuration (distributed.comm.tls), or an address as in 'tcp://127.0.0.1:8786'",
        ),
        ("foo://127.0.0.1:1", "unknown address scheme 'foo'"),
        ("tcp://127.0.0.1:one", "invalid literal for int"),
    ],
)
def test_invalid_scheduler_addresses_are_refused(spec, capsys, address, expected):
    assert main(["sweep", str(spec), "-o", str(spec.parent / "x.zarr"), "--dask", address]) == 2
    assert expected in capsys.readouterr().err
    assert not (spec.parent / "x.zarr").exists()


def test_an_invalid_shard_is_refused(spec, capsys):
    assert main(["sweep", str(spec), "-o", str(spec.parent / "x.zarr"), "--shard", "a/2"]) == 2
    assert capsys.readouterr().err == "'a/2' is not a valid shard; write its number and how many there are, as in '1/8'\n"


def test_a_full_disk_is_reported_in_one_line_and_resumed(spec, complete):
    path = spec.parent / "full.zarr"
    code, out, err = wait_for_end(start_sweep(spec, "-o", path, before="ulimit -f 100;"))  # no file over 100 KiB
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == f"'{path}' cannot be written (File too large); free disk space, then continue with --resume"
    assert zarr_store.completed_chunks(path).sum() == 0
    dse.sweep(spec, path, resume=True)
    assert files(path) == files(complete)


def test_chunks_without_a_record_are_evaluated_again(spec, complete):
    expected = files(complete)
    (complete / "progress/done/7.json").unlink()
    chunk = complete / "latency/c/0/0/0/7/0/0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    (complete / "fits/c/0/0/0/7/0/0").unlink()
    (complete / "latency/c/0/0/0/7/0/0.1234.partial").write_bytes(b"half")
    dse.sweep(spec, complete, resume=True)
    assert files(complete) == expected


def test_a_store_is_resumed_by_the_same_sweep_only(spec, complete, edited):
    def refused(**options) -> str:
        with pytest.raises(InputError) as caught:
            dse.sweep(spec, complete, **options)
        return str(caught.value)

    before = files(complete)
    assert "exists already; resume it with --resume" in refused()
    text, versions = spec.read_text(), json.loads((complete / "zarr.json").read_text())
    spec.write_text(text + "# a comment\n")
    assert "computed from another specification; give another path" in refused(resume=True)
    spec.write_text(text)
    edited("chip.yaml", ("100 TFLOP/s", "101 TFLOP/s"))
    assert "changed since the dataset was computed: accelerator chip; give another path" in refused(shard=(1, 2))
    edited("chip.yaml", ("101 TFLOP/s", "100 TFLOP/s"))
    assert files(complete) == before
    known = json.loads(versions["attributes"]["versions"]) | {"jax": "0.1"}
    versions["attributes"]["versions"] = json.dumps(known)
    (complete / "zarr.json").write_text(json.dumps(versions))
    (complete / zarr_store.MANIFEST).unlink()
    zarr_store.write_manifest(complete)
    assert "begun with jax 0.1 (now " in refused(resume=True)


@pytest.mark.parametrize(
    ("out", "options", "expected"),
    [
        ("x.nc", {"resume": True}, "only Zarr stores and reductions \\('keep'\\) can be resumed"),
        (None, {"shard": (1, 2)}, "only Zarr stores and reductions \\('keep'\\) can be resumed"),
        ("x.zarr", {"shard": (0, 2)}, "there is no shard 0 of 2; write one from 1 on"),
        ("small.yaml/x.zarr", {}, "cannot be created as a folder"),
        ("net.zarr", {"resume": True}, "exists already, and is not a store of a sweep; give another path"),
    ],
)
def test_outputs_that_cannot_be_resumed_or_sharded(folder, out, options, expected):
    (folder / "net").rename(folder / "net.zarr")
    (folder / "small.yaml").write_text((folder / "small.yaml").read_text().replace("./net", "./net.zarr"))
    with pytest.raises(InputError, match=expected):
        dse.sweep(folder / "small.yaml", out and folder / out, **options)


def test_a_sweep_too_large_for_memory_is_written_to_a_store_with_a_maximum_of_chunks(spec, monkeypatch):
    monkeypatch.setattr("dse.sweeping.plan_builder.MAX_RESULT_BYTES", 100_000)
    with pytest.raises(InputError, match=r"kept in memory; write them to a Zarr store \('-o small.zarr'\)"):
        dse.sweep(spec)
    assert dse.sweep(spec, spec.parent / "large.zarr").nbytes > 100_000
    monkeypatch.setattr("dse.sweeping.distributed.zarr_sink.MAX_CHUNKS", 10)
    with pytest.raises(InputError, match=r"would take .* GB, in 24 chunks; stay below 10 chunks"):
        dse.sweep(spec, spec.parent / "absurd.zarr")
    assert not (spec.parent / "absurd.zarr").exists()


def test_reading_a_store_larger_than_memory_is_refused(complete, monkeypatch):
    monkeypatch.setattr(zarr_store, "MAX_RESULT_BYTES", 100_000)
    with pytest.raises(InputError, match=r"is read into memory; select a part of it with xarray\.open_zarr"):
        store.read(complete)
    assert zarr_store.open_complete(complete).latency.sizes["batch"] == BATCHES  # lazily
