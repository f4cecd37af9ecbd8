"""Paths that may be read: regular files, and the pipes of a shell."""

import stat
from pathlib import Path

from dse.base.errors import InputError

_SHELL = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # where a shell puts what it pipes in


def check_regular(path: Path) -> None:
    """Raise InputError unless `path` is a file that can be read to its end.

    Devices (/dev/zero) have no end, and a named pipe blocks until another process writes to it.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _unreadable(path, (error.strerror or "cannot be read").lower()) from error
    except ValueError as error:  # a character that no path may have
        raise _unreadable(path, "not a path") from error
    if stat.S_ISDIR(mode):
        raise _unreadable(path, "is a directory")
    if not stat.S_ISREG(mode) and not str(path).startswith(_SHELL):
        raise _unreadable(path, "a device or a named pipe, not a file")


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(reason, "give a file that exists and can be read", path)
