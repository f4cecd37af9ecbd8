"""Files and folders that are written under a temporary name and appear whole: readers see the old one or the new one.

The temporary folder `.NAME.ID.part` stands beside the target `NAME`, and its process holds a lock on it (flock). The operating system
releases the lock of a process that is killed, so the next process that writes the same target removes what is left.
"""

import fcntl
import glob
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dse.base.errors import InputError, ProblemCollector


@contextmanager
def temporary_path(target: Path) -> Iterator[Path]:
    """A path of the same name in a new temporary folder beside the target. The folder is removed at the end. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned_folders(target)
    folder, lock = _locked_folder(target)
    try:
        yield folder / target.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(target: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock; another process may remove a folder before it is locked."""
    while True:
        folder = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if _lock(lock) is not False and folder.exists():
            return folder, lock
        os.close(lock)


def remove_abandoned_folders(*targets: Path) -> None:
    """Remove the temporary folders of processes that were killed while they wrote one of the targets."""
    for target in targets:
        for folder in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 32}.part"):
            _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # its process removed it meanwhile
        return
    if _lock(lock):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _lock(descriptor: int) -> bool | None:
    """Lock a file or folder; False if another process holds the lock, None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` fill a temporary file, then put it in the place of `path`: a reader sees the old file or the new one."""
    with temporary_path(path) as fresh:
        write(fresh)
        os.replace(fresh, path)


def check_writable(*files: Path) -> None:
    """Whether files may be written there, before work is done for them; raises InputError with every one that may not."""
    problems = ProblemCollector()
    for file in files:
        with problems.collect():
            _check_writable(file)
    problems.raise_if_any()


def _check_writable(path: Path) -> None:
    try:
        there = next(folder for folder in path.absolute().parents if folder.exists())
        taken = path.is_dir()
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror})", "give another place") from error
    if taken:
        raise InputError(f"'{path}' is a folder", "give a file, or another place")
    if not there.is_dir():
        raise InputError(f"'{path.parent}' cannot be made a folder: '{there}' is a file", "give another place")
    if not os.access(there, os.W_OK):
        raise InputError(f"'{there}' cannot be written to", "give another place")
