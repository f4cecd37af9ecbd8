"""Searches that are killed, resumed and shared: no trial is lost, none counts twice."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from dse.cli.entry import main
from dse.searching.journal import Journal
from tests.searching.search_specs import LIMITED, write

TRIALS = 200
LONG = LIMITED.replace("trials: 120", f"trials: {TRIALS}").replace("ask_batch: 20", "ask_batch: 5") + "polish: false\n"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "dse.cli", "search", *words]


def trials(storage, state=None) -> list:
    states = None if state is None else (state,)
    return optuna.load_study(study_name="search", storage=storage).get_trials(states=states)


def journal(folder: Path):
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(folder / "study.journal")))


@pytest.mark.parametrize("after", [60, 120])
def test_killed_and_resumed_no_trial_is_lost_or_counted_twice(folder, after):
    path, out = write(folder, LONG), folder / "out"
    worker = subprocess.Popen(command(str(path), "-o", str(out)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(Exception):
            if len(trials(journal(out))) > after:
                break
        time.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    kept = {trial.number: trial.values for trial in trials(journal(out), TrialState.COMPLETE)}
    assert 0 < len(kept) < TRIALS, "killed in the middle"
    assert main(["search", str(path), "-o", str(out)]) == 2  # it is there already
    assert main(["search", str(path), "-o", str(out), "--resume"]) == 0
    done = trials(journal(out), TrialState.COMPLETE)
    assert len(done) == TRIALS
    assert not trials(journal(out), TrialState.RUNNING)
    assert {trial.number: trial.values for trial in done if trial.number in kept} == kept
    edited = path.read_text().replace("to: 4 TB/s", "to: 5 TB/s")
    path.write_text(edited)
    assert main(["search", str(path), "-o", str(out), "--resume"]) == 2  # it asks something else
    written = {path.name for path in out.iterdir() if ".lock" not in path.name}  # the killed one may leave its lock behind
    assert written == {"study.journal", "front.nc", "front.csv", "best.csv", "best.yaml", "search.png", "search.csv"}


@pytest.mark.filterwarnings("default::UserWarning")
def test_an_incomplete_last_line_of_a_journal_is_removed(folder, capsys):
    path, out = write(folder, LONG.replace(f"trials: {TRIALS}", "trials: 20")), folder / "out"
    assert main(["search", str(path), "-o", str(out)]) == 0
    with (out / "study.journal").open("a") as file:
        file.write('{"op_code":5,"worker_id":"of one that was ki')
    path.write_text(path.read_text().replace("trials: 20", "trials: 40"))
    assert main(["search", str(path), "-o", str(out), "--resume"]) == 0
    assert "the last one, is incomplete because a process was killed, and is removed" in capsys.readouterr().err
    assert len(trials(journal(out), TrialState.COMPLETE)) == 40


@pytest.mark.filterwarnings("default::UserWarning")
def test_what_a_search_does_not_read_may_change_before_it_is_resumed(folder):
    path, out = write(folder, LONG.replace(f"trials: {TRIALS}", "trials: 10")), folder / "out"
    assert main(["search", str(path), "-o", str(out)]) == 0
    text = path.read_text().replace("trials: 10", "trials: 20")
    path.write_text(f"description: a small search\nkeep: summary\nplots: [speedup]\nstore: {{variables: [latency]}}\n{text}")
    assert main(["search", str(path), "-o", str(out), "--resume"]) == 0
    assert len(trials(journal(out), TrialState.COMPLETE)) == 20


DAMAGES = {
    "a bit": lambda lines: [*lines[:5], lines[5][:20] + b"x" + lines[5][21:], *lines[6:]],
    "a lost line": lambda lines: lines[:5] + lines[6:],
    "two lines exchanged": lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
    "an odd end of a line": lambda lines: [*lines[:5], lines[5][:-1] + b"\r\n", *lines[6:]],
    "an empty line at the end": lambda lines: [*lines, b"\n"],
    "no checksum": lambda lines: [*lines[:5], b'{"op_code":4,"worker_id":"other","study_id":0}\n', *lines[5:]],
}


def test_a_damaged_journal_is_refused_with_its_line(folder, capsys):
    path, out = write(folder, LONG.replace(f"trials: {TRIALS}", "trials: 20")), folder / "out"
    assert main(["search", str(path), "-o", str(out)]) == 0
    file = out / "study.journal"
    lines = file.read_bytes().splitlines(keepends=True)
    for damage, change in DAMAGES.items():
        changed = change(lines)
        file.write_bytes(b"".join(changed))
        for option in ("--resume", "--join"):
            capsys.readouterr()
            assert main(["search", str(path), "-o", str(out), option]) == 2, damage
            line = len(changed) if "at the end" in damage else 6
            assert f"{file}:{line}: is damaged (its checksum is missing or does not match); remove it and all" in capsys.readouterr().err, (
                damage
            )
    file.write_bytes(b"".join(lines[:6]))
    assert main(["search", str(path), "-o", str(out), "--resume"]) == 0
    assert len(trials(journal(out), TrialState.COMPLETE)) == 20


def test_a_search_that_does_not_exist_cannot_be_resumed(folder, capsys):
    assert main(["search", str(write(folder, LONG)), "-o", str(folder / "out"), "--resume"]) == 2
    assert "there is no search in" in capsys.readouterr().err


def test_nothing_feasible_exits_3_and_leaves_no_report(folder, capsys):
    path = write(folder, "constraints: [area <= 100 mm^2]\ntrials: 20")
    assert main(["search", str(path), "-o", str(folder / "out")]) == 3
    captured = capsys.readouterr()
    assert "'area <= 100 mm^2' cannot be met" in captured.err
    assert captured.out == ""
    assert not (folder / "out" / "front.nc").exists()


def test_a_storage_that_does_not_answer_is_reported(folder, capsys):
    url = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    assert main(["search", str(write(folder, LONG)), "-o", str(folder / "out"), "--storage", url]) == 2
    assert "cannot be used" in capsys.readouterr().err


def _binaries() -> Path | None:
    """The folder with the server's programs: Debian's, or wherever the first ones on the path really stand."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    known += [Path(found).resolve().parent for name in ("postgres",) if (found := shutil.which(name))]
    return next((place for place in known if all((place / name).exists() for name in ("initdb", "postgres", "pg_isready"))), None)


@pytest.fixture
def postgres(tmp_path):
    """A PostgreSQL server of its own, on a socket in a temporary folder (it refuses to run as root)."""
    if (binaries := _binaries()) is None:
        pytest.skip("PostgreSQL is not installed")
    place = Path("/tmp") / f"dse-postgres-{os.getpid()}"
    place.mkdir()
    as_user: dict = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(place, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid}
    port = str(20000 + os.getpid() % 20000)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place, **as_user}
    subprocess.run([binaries / "initdb", "-D", place / "data", "-A", "trust", "-U", "dse"], check=True, **quiet)
    server = subprocess.Popen(
        [binaries / "postgres", "-D", place / "data", "-k", place, "-p", port, "-c", "listen_addresses=127.0.0.1"], **quiet
    )
    try:
        for _ in range(100):
            if subprocess.run([binaries / "pg_isready", "-h", place, "-p", port], **quiet).returncode == 0:
                break
            time.sleep(0.1)
        yield f"postgresql+psycopg://dse@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # a polite one would wait for every client
        server.wait()
        shutil.rmtree(place)


def test_four_workers_share_one_study(folder, postgres):
    path, total = write(folder, LONG.replace(f"trials: {TRIALS}", "trials: 100")), 100
    storage = optuna.storages.RDBStorage(postgres)
    optuna.create_study(study_name="search", storage=storage, directions=["maximize"])
    workers = [
        subprocess.Popen(command(str(path), "-o", str(folder / f"out{n}"), "--storage", postgres, "--join"), stdout=subprocess.DEVNULL)
        for n in range(4)
    ]
    assert [worker.wait(timeout=300) for worker in workers] == [0, 0, 0, 0]
    done = trials(storage, TrialState.COMPLETE)
    running = trials(storage, TrialState.RUNNING)
    storage.remove_session()
    storage.engine.dispose()
    assert len(done) == total
    assert len({trial.number for trial in done}) == total
    assert not running


@pytest.mark.parametrize(("sampler", "after"), [("nsga3", 137), ("qmc", 170)], ids=["storing scores", "proposing"])
def test_killed_and_resumed_equals_uninterrupted_bit_for_bit(folder, sampler, after, monkeypatch):
    """Wherever the worker is killed: in the middle of proposing a batch, or of storing its scores."""
    search = LIMITED.replace("trials: 120", "trials: 36").replace("ask_batch: 20", "ask_batch: 12") + f"sampler: {sampler}\npolish: false\n"
    path, whole, parts = write(folder, search), folder / "whole", folder / "parts"
    assert main(["search", str(path), "-o", str(whole)]) == 0
    lines, append = iter(range(10**9)), Journal.append_logs

    class Killed(BaseException):
        """In the place of a signal, after so many entries of the journal."""

    def counted(self, logs):
        append(self, logs)
        if next(lines) > after:
            raise Killed

    monkeypatch.setattr(Journal, "append_logs", counted)
    with pytest.raises(Killed):
        main(["search", str(path), "-o", str(parts)])
    monkeypatch.setattr(Journal, "append_logs", append)
    assert 0 < len(trials(journal(parts), TrialState.COMPLETE)) < 36
    assert main(["search", str(path), "-o", str(parts), "--resume"]) == 0
    for name in ("best.csv", "front.csv", "search.csv"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_signal_that_kills_a_search_changes_nothing_in_its_results(folder):
    """Refined too, and killed twice."""
    search = LONG.replace("polish: false", "").replace(f"trials: {TRIALS}", "trials: 150")
    path, whole, parts = write(folder, search), folder / "whole", folder / "parts"
    assert main(["search", str(path), "-o", str(whole)]) == 0
    before = 0
    for trials_more in (27, 41):
        resumed = ["--resume"] if before else []
        worker = subprocess.Popen(command(str(path), "-o", str(parts), *resumed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and worker.poll() is None:
            with suppress(Exception):
                if len(trials(journal(parts))) > before + trials_more:
                    break
            time.sleep(0.05)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        before = len(trials(journal(parts)))
    assert len(trials(journal(parts), TrialState.COMPLETE)) < 150, "killed in the middle"
    assert main(["search", str(path), "-o", str(parts), "--resume"]) == 0
    for name in ("best.csv", "front.csv", "search.csv"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name
