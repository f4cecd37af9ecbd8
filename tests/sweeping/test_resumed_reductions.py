"""A reduction is the same to the last bit, whoever evaluates it, in whatever order, and however often it was interrupted."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base.errors import InputError
from dse.cli.entry import main
from dse.sweeping.distributed.run import worker_processes
from dse.sweeping.reduce.summary import _merge_blocks
from tests.conftest import described
from tests.sweeping.processes import PATIENCE, dask_cluster, start_sweep, wait_for_end, wait_until

GROUPS = 24  # of one chunk each
AXES = """
axes:
  units.tensor.runs.sparse_24.enabled: [true, false]
  memory.dram.bandwidth: {from: 1 TB/s, to: 64 TB/s, steps: 40, scale: log}
  units.tensor.peak.fp16: {from: 50 TFLOP/s, to: 900 TFLOP/s, steps: 50, scale: log}
  memory.l2.capacity: [10 MB, 40 MB]
store: {variables: [latency, dense_latency, bound_share, fits, area]}
"""
REDUCTIONS = {
    "front": "{front: {minimize: [latency, area, accuracy_drop]}}",
    "top": "{top: 777, minimize: [latency]}",  # the L2 capacity has no effect: latencies come in pairs
    "summary": "summary",
}


@pytest.fixture(scope="module")
def specs(tmp_path_factory) -> dict[str, Path]:
    folder = described(tmp_path_factory.mktemp("reduced"))
    chip = folder / "chip.yaml"
    chip.write_text(chip.read_text() + "cost: {process: 7 nm, area: 300 mm^2}\n")
    text = (
        (folder / "small.yaml")
        .read_text()
        .replace("methods: all", "methods: [pruned]")
        .replace("batch: [1, 16]", f"batch: [{', '.join(map(str, range(2, 2 + GROUPS // 2)))}]")
    )
    for name, keep in REDUCTIONS.items():
        (folder / f"{name}.yaml").write_text(text + AXES + f"keep: {keep}\n")
    return {name: folder / f"{name}.yaml" for name in REDUCTIONS}


@pytest.fixture(scope="module")
def complete_results(specs) -> dict[str, xr.Dataset]:
    """The reductions by one process, in memory."""
    return {name: dse.sweep(spec) for name, spec in specs.items()}


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        yield executor


def assert_same(reduced: xr.Dataset | Path, complete: xr.Dataset) -> None:
    """Compare all but the time and the command, to the last bit; no partial may be left."""
    if isinstance(reduced, Path):
        assert not partials_folder(reduced).exists()
        assert not [*reduced.parent.glob(".*")]
        reduced = xr.load_dataset(reduced, engine="h5netcdf")
    strip = {"created": "", "command": ""}
    xr.testing.assert_identical(reduced.assign_attrs(strip), complete.assign_attrs(strip))


def partials_folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.parts")


def wait_for(count: int, path: Path, process: subprocess.Popen[str]) -> None:
    wait_until(lambda: len([*partials_folder(path).glob("[0-9]*.npz")]) >= count, process)


HOLD = """
import sys, time
from pathlib import Path

def hold(event, arguments):
    if event == "os.rename" and str(arguments[1]).endswith(".npz") and len([*Path(arguments[1]).parent.glob("[0-9]*.npz")]) >= COUNT:
        time.sleep(1000)

if any("NAME" in argument for argument in sys.orig_argv):
    sys.addaudithook(hold)
"""


def hold_after(folder: Path, name: str, count: int) -> str:
    """Shell text that makes processes with this name in their command line wait after so many partials are written."""
    (folder / "held").mkdir(exist_ok=True)
    (folder / "held" / "sitecustomize.py").write_text(HOLD.replace("NAME", name).replace("COUNT", str(count)))
    return f'PYTHONPATH="{folder / "held"}:$PYTHONPATH"'


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_one_process_a_pool_and_shards_give_the_same_reduction(specs, complete_results, pool, tmp_path, kind):
    spec, folder, complete = specs[kind], tmp_path, complete_results[kind]
    assert_same(dse.sweep(spec, folder / "one.nc"), complete)
    assert_same(folder / "one.nc", complete)
    dse.sweep(spec, folder / "pool.nc", executor=pool)
    assert_same(folder / "pool.nc", complete)
    for number in (3, 1, 2):
        dse.sweep(spec, folder / "shards.nc", shard=(number, 3))
        assert (folder / "shards.nc").exists() == (number == 2)
    assert_same(folder / "shards.nc", complete)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_killed_and_resumed_gives_the_same_reduction(specs, complete_results, tmp_path, kind):
    spec, path = specs[kind], tmp_path / "killed.nc"
    for count in (2, 12) if kind == "front" else (6,):
        process = start_sweep(spec, "-o", path, "--resume", before=hold_after(tmp_path, "dse.cli", count))
        wait_for(count, path, process)
        process.send_signal(signal.SIGKILL)
        wait_for_end(process)
        assert not path.exists()
    left = partials_folder(path) / f".7.npz.{'0' * 32}.part"
    left.mkdir()
    (left / "7.npz").write_bytes(b"half")
    dse.sweep(spec, path, resume=True)
    assert_same(path, complete_results[kind])


def test_a_dask_cluster_that_loses_a_worker_gives_the_same_reduction(specs, complete_results, tmp_path):
    from distributed import Client

    folder = tmp_path
    with dask_cluster(folder, 2) as (address, workers, _):
        process = start_sweep(specs["front"], "-o", folder / "front.nc", "--dask", address)
        wait_for(5, folder / "front.nc", process)
        workers[0].send_signal(signal.SIGKILL)
        code, out, err = wait_for_end(process)
        assert code == 0, err
        assert {Path(line).name for line in out.split()} == {"front.nc", "front.front.png", "front.front.csv"}
        with Client(address) as client:
            for kind in ("top", "summary"):
                dse.sweep(specs[kind], folder / f"{kind}.nc", executor=client.get_executor(pure=False))
    for kind, complete in complete_results.items():
        assert_same(folder / f"{kind}.nc", complete)


def test_interrupted_worker_processes_are_reported_in_one_line_and_resumed(specs, complete_results, tmp_path):
    spec = specs["front"]
    for stop, expected in ((signal.SIGKILL, (1, "a worker failed (BrokenProcessPool: ")), (signal.SIGINT, (130, "interrupted; "))):
        path = tmp_path / f"{stop.name}.nc"
        process = start_sweep(spec, "-o", path, "--workers", "2", before=hold_after(tmp_path, "spawn_main", 1))
        wait_for(1, path, process)
        workers = children(process.pid)
        os.kill(workers[0] if stop == signal.SIGKILL else process.pid, stop)
        code, out, err = wait_for_end(process)
        assert (code, out) == (expected[0], "")
        *_, line = err.splitlines()  # lines of the progress bar come first on a slow machine
        assert line.startswith(expected[1])
        assert line.endswith("what is written is kept: resume with --resume")
        assert "Traceback" not in err
        assert wait_until_gone(workers)
        assert len([*partials_folder(path).glob("[0-9]*.npz")]) in (1, 2)
        dse.sweep(spec, path, resume=True)
        assert_same(path, complete_results["front"])


def children(pid: int) -> list[int]:
    """Worker processes that a process spawned."""
    reduced = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in reduced if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def wait_until_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > deadline:
            raise AssertionError(left)
        time.sleep(0.02)
    return True


def test_worker_processes_end_with_their_parent(specs, tmp_path):
    spec, path = specs["top"], tmp_path / "left.nc"
    process = start_sweep(spec, "-o", path, "--workers", "2")
    wait_for(1, path, process)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert len(workers) == 2
    assert wait_until_gone(workers)


def test_worker_processes_share_the_cores():
    with worker_processes(len(os.sched_getaffinity(0))) as executor:
        assert executor.submit(os.getenv, "NPROC").result() == "1"


def test_partials_are_resumed_by_the_same_sweep_only(specs, complete_results, tmp_path):
    spec, path = specs["front"], tmp_path / "front.nc"

    def refused(**options) -> str:
        with pytest.raises(InputError) as caught:
            dse.sweep(spec, path, **options)
        return str(caught.value)

    dse.sweep(spec, path, shard=(1, 2))
    before = {file.name: file.read_bytes() for file in partials_folder(path).iterdir()}
    assert "front.nc.parts' exists already; resume it with --resume" in refused()
    text = spec.read_text()
    spec.write_text(text.replace("accuracy_drop]", "fits]"))
    assert "computed from another specification; give another path" in refused(resume=True)
    assert main(["sweep", str(spec), "-o", str(path), "--resume"]) == 2
    spec.write_text(text)
    chip = spec.with_name("chip.yaml").read_text()
    spec.with_name("chip.yaml").write_text(chip.replace("100 TFLOP/s", "101 TFLOP/s"))
    assert "changed since the dataset was computed: accelerator chip; give another path" in refused(shard=(2, 2))
    spec.with_name("chip.yaml").write_text(chip)
    assert {file.name: file.read_bytes() for file in partials_folder(path).iterdir()} == before
    dse.sweep(spec, path, resume=True)
    dse.sweep(spec, path, shard=(2, 2))  # nothing is missing
    assert_same(path, complete_results["front"])
    spec.write_text(text + "# a comment\n")
    assert "computed from another specification; give another path, or remove it" in refused(resume=True)
    spec.write_text(text)
    partials_folder(path).mkdir()
    assert "front.nc.parts' exists already, and does not belong to a sweep; give another path" in refused(resume=True)


def test_a_shard_returns_the_reduction_so_far(specs, complete_results, tmp_path):
    reduced = dse.sweep(specs["summary"], tmp_path / "s.nc", shard=(2, 4))
    done = reduced.latency_count > 0
    assert done.sum("batch").max() == GROUPS // 8 * 2  # with one of two structures each, or both


@pytest.mark.parametrize("limit", [10, 60])  # KiB per file: too little for a partial, or for the result
def test_a_full_disk_is_reported_in_one_line_and_resumed(specs, complete_results, tmp_path, capsys, limit):
    spec, path, before = specs["front"], tmp_path / "full.nc", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit * 1024, before[1]))
    try:
        code = main(["sweep", str(spec), "-o", str(path)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    expected = capsys.readouterr()
    assert (code, expected.out) == (1, "")
    assert expected.err.splitlines()[-1] == f"'{path}' cannot be written (File too large); free disk space, then continue with --resume"
    assert not path.exists()
    assert {file.suffix for file in partials_folder(path).iterdir()} == ({".json", ".npz"} if limit > 10 else {".json"})
    dse.sweep(spec, path, resume=True)
    assert_same(path, complete_results["front"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-o", "x.nc", "--workers", "2"], "only Zarr stores and reductions ('keep') can be resumed"),
        (["-o", "x.zarr", "--workers", "2", "--dask", "tcp://127.0.0.1:1"], "leave one of them out"),
    ],
)
def test_invalid_uses_of_worker_processes_are_refused(folder, capsys, arguments, expected):
    assert main(["sweep", str(folder / "small.yaml"), *arguments]) == 2
    assert expected in capsys.readouterr().err


def test_a_reduction_in_memory_cannot_be_sharded(specs):
    with pytest.raises(
        InputError, match=r"a reduction can only be resumed, or written by several processes, in a file; give one, as in 'results\.nc'"
    ):
        dse.sweep(specs["top"], shard=(1, 2))


def test_zero_worker_processes_are_refused(folder, capsys):
    with pytest.raises(SystemExit):
        main(["sweep", str(folder / "small.yaml"), "-o", "x.zarr", "--workers", "0"])
    assert "'0' is not a valid number of processes; write a whole number from 1 on" in capsys.readouterr().err


def test_worker_processes_fill_a_store(folder):
    spec = folder / "small.yaml"
    assert main(["sweep", str(spec), "-o", str(folder / "x.zarr"), "--workers", "1"]) == 0
    stored, kept = dse.sweep(spec, folder / "x.zarr", resume=True), dse.sweep(spec)
    assert stored.latency.equals(kept.latency)


blocks = st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(-9, 9), min_size=1, max_size=4)), min_size=1, max_size=6)


@given(blocks, st.sampled_from(["min", "max", "sum"]))
def test_merged_blocks_equal_the_statistic_of_all_values(blocks, statistic):
    start = {"min": np.inf, "max": -np.inf, "sum": 0.0}[statistic]
    complete = np.full((len(blocks), 10), start)
    for row, (at, values) in zip(complete, blocks, strict=True):
        row[at : at + len(values)] = values
    reduced = (np.array(blocks[0][1], float), np.array([blocks[0][0]]))
    for at, values in blocks[1:]:
        reduced = _merge_blocks(reduced, (np.array(values, float), np.array([at])), statistic)
    spread = np.full(10, start)
    spread[reduced[1][0] : reduced[1][0] + len(reduced[0])] = reduced[0]
    np.testing.assert_array_equal(spread, getattr(complete, statistic)(axis=0))
