"""Write output files: complete or not at all, and by one process at a time.

A file or folder is written under a temporary name and moved into place when it is complete: readers see the old one or the new one. The
temporary folder `.NAME.ID.part` is in the same folder as the target `NAME`, and its process holds a lock on it (flock). The operating
system releases the lock of a process that is killed, so the next process that writes the same target removes the abandoned folder.

The write lock of an output `NAME` is an advisory lock (flock) on the file `.NAME.lock` in the same folder. A killed process may leave the
file, but never the lock.
"""

import fcntl
import glob
import os
import shutil
import socket
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.progress import logger


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path, then move the file that it wrote to `path`. Raises OSError."""
    with temporary_path(path) as temporary:
        write(temporary)
        os.replace(temporary, path)
    logger.debug(f"wrote {path}")


@contextmanager
def temporary_path(target: Path) -> Iterator[Path]:
    """Yield a path with the name of `target` in a new temporary folder next to it; remove the folder at the end. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned_folders(target)
    folder, lock = _make_locked_folder(target)
    try:
        yield folder / target.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make_locked_folder(target: Path) -> tuple[Path, int]:
    """Make a temporary folder and lock it; returns the folder and the descriptor that holds the lock."""
    while True:
        folder = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another process removed it before it was locked
            continue
        if _try_lock(lock) is not False and folder.exists():
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
    if _try_lock(lock):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _try_lock(descriptor: int) -> bool | None:
    """Lock a file or folder; False if another process holds the lock, None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def check_not_overwritten(*files: Path, force: bool, fix: str = "give another path, or replace it with --force") -> None:
    """Raise InputError with every file or folder that exists, unless it may be replaced."""
    problems = [Problem(f"'{file}' exists already", fix) for file in files if not force and os.path.lexists(file)]
    if problems:
        raise InputError.from_problems(problems)


def check_writable(*files: Path) -> None:
    """Check that files can be written, before work is done for them; raises InputError with every file that cannot."""
    problems = ProblemCollector()
    for file in files:
        with problems.collect():
            _check_writable(file)
    problems.raise_if_any()


def _check_writable(path: Path) -> None:
    try:
        existing = next(folder for folder in path.absolute().parents if folder.exists())
        is_folder = path.is_dir()
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror})", "give another path") from error
    if is_folder:
        raise InputError(f"'{path}' is a folder", "give a file, or another path")
    if not existing.is_dir():
        raise InputError(f"'{path.parent}' cannot be created as a folder: '{existing}' is a file", "give another path")
    if not os.access(existing, os.W_OK):
        raise InputError(f"'{existing}' cannot be written to", "give another path")


@contextmanager
def hold_write_lock(output: Path, shared: bool = False) -> Iterator[None]:
    """Hold the lock of an output; raises InputError if another process holds it. The shards of one sweep hold it `shared`."""
    output = output.absolute()
    path = output.with_name(f".{output.name}.lock")
    check_writable(path)
    new_folders = [folder for folder in path.parents if not folder.exists()]  # removed again if they stay empty
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire_write_lock(path, output, shared)
    try:
        yield
    finally:
        _release_write_lock(path, descriptor)
        with suppress(OSError):
            for folder in new_folders:
                folder.rmdir()


def _acquire_write_lock(path: Path, output: Path, shared: bool) -> int:
    """Open and lock the lock file; returns the descriptor that holds the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 1000).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise InputError(f"'{output}' is being written by {holder}", "wait until that is done, or give another path") from error
        except OSError as error:
            warnings.warn(f"'{path.parent}' has no file locks ({error.strerror}): write an output with one process at a time", stacklevel=4)
        if _is_open_at(descriptor, path):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
            return descriptor
        os.close(descriptor)  # the process that held the lock removed the file meanwhile


def _is_open_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _release_write_lock(path: Path, descriptor: int) -> None:
    """Release the lock and remove its file, unless other shards still hold the lock."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_open_at(descriptor, path):
            path.unlink()
    os.close(descriptor)
