"""The journal of a search: Optuna's file of operations, one JSON object a line, each with a checksum.

The checksum (CRC-32C) is of the line and of where it begins, so that lines that are changed, lost or moved are found.
"""

import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from dse.base import checksum
from dse.base.errors import InputError

KEY = b',"crc32c":"'
TAIL = len('01234567"}\n')


class Journal(JournalFileBackend):
    """Operations in a file, written one by one by any number of processes that hold the lock in turn."""

    def __init__(self, path: Path):
        """Raises InputError if the file is damaged."""
        self._writers = JournalFileSymlinkLock(str(path))
        super().__init__(str(path), self._writers)
        self._writers.acquire()
        try:
            _check(path)
        finally:
            self._writers.release()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._writers.acquire()
        try:
            with open(self._file_path, "ab") as file:
                lines, start = list[bytes](), file.tell()
                for log in logs:
                    lines.append(_line(log, start))
                    start += len(lines[-1])
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
        finally:
            self._writers.release()


def _line(log: dict[str, Any], start: int) -> bytes:
    """An operation as the line that begins at byte `start`."""
    text = json.dumps(log, separators=(",", ":")).encode()[:-1]
    return text + KEY + _checksum(text, start) + b'"}\n'


def _checksum(text: bytes, start: int) -> bytes:
    return checksum.from_bytes(b"%d %s" % (start, text)).encode()


def _check(path: Path) -> None:
    """Drop a line that a worker was killed in the middle of; raises InputError if any other line is damaged."""
    start = 0
    for number, line in enumerate(io.BytesIO(path.read_bytes()), 1):
        if not line.endswith(b"\n"):
            what = f"'{path}': line {number}, the last one, was half written when a process was killed, and is dropped"
            warnings.warn(what, stacklevel=4)
            os.truncate(path, start)
            return
        text, key, found = line[: -TAIL - len(KEY)], line[-TAIL - len(KEY) : -TAIL], line[-TAIL:]
        if key != KEY or found != _checksum(text, start) + b'"}\n':
            fix = f"remove it and all lines after it ('head -n {number - 1}') to go on with --resume, or search in another place"
            raise InputError("is damaged (its checksum is missing or does not match)", fix, path, number)
        start += len(line)
