"""Lets one process at a time write an output, with an advisory lock of the operating system (flock).

The lock is held on the file `.NAME.lock` in the same folder as the output `NAME`. A killed process may leave the file, but never the lock.
"""

import fcntl
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dse.base.atomic_write import check_writable
from dse.base.errors import InputError


@contextmanager
def hold_write_lock(output: Path, shared: bool = False) -> Iterator[None]:
    """Hold the lock of an output; raises InputError if another process holds it. The shards of one sweep hold it `shared`."""
    output = output.absolute()
    path = output.with_name(f".{output.name}.lock")
    check_writable(path)
    new_folders = [folder for folder in path.parents if not folder.exists()]  # removed again if they stay empty
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, output, shared)
    try:
        yield
    finally:
        _release(path, descriptor)
        with suppress(OSError):
            for folder in new_folders:
                folder.rmdir()


def _acquire(path: Path, output: Path, shared: bool) -> int:
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


def _release(path: Path, descriptor: int) -> None:
    """Release the lock and remove its file, unless other shards still hold the lock."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_open_at(descriptor, path):
            path.unlink()
    os.close(descriptor)
