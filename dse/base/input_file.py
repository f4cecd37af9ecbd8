"""Read input files safely: only regular files and the pipes of a shell, and text up to a size limit."""

import stat
from pathlib import Path

from dse.base.errors import InputError

MAX_BYTES = 100_000_000  # of a text file
_SHELL_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def check_regular(path: Path) -> None:
    """Raise InputError unless `path` is a regular file or a pipe of the shell.

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
    if not stat.S_ISREG(mode) and not str(path).startswith(_SHELL_PIPES):
        raise _unreadable(path, "a device or a named pipe, not a file")


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(reason, "give a file that exists and can be read", path)


def read_text(path: Path) -> str:
    """Read the text of a file in UTF-8; raises InputError if it cannot be read, is too large or is not text."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not a text file (UTF-8)", "give a YAML or CSV file", path, 1) from error
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise InputError(reason, "give a file that exists and can be read", path) from error
    if len(data) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES / 1e6:g} MB", "split it, or keep what is needed", path)
    return text
