"""The journal of a search: Optuna's file of operations, one JSON object per line, each with a checksum.

The checksum (CRC-32C) covers the line and the offset at which it begins, so that changed, lost and moved lines are detected.
"""

import io
import json
import os
import time
import warnings
from pathlib import Path

from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from dse.base import checksum
from dse.base.errors import InputError

CHECKSUM_KEY = b',"crc32c":"'
SYNCHRONISATION_INTERVAL = 1.0  # seconds; a killed process loses nothing, a power failure at most the lines of this time
TAIL_BYTES = len('01234567"}\n')


class Journal(JournalFileBackend):
    """Operations in a file, appended by any number of processes, one at a time."""

    def __init__(self, path: Path):
        """Raises InputError if the file is damaged."""
        self._write_lock = JournalFileSymlinkLock(str(path))
        self._synchronised = 0.0  # when the file was last written to the disk
        super().__init__(str(path), self._write_lock)
        self._write_lock.acquire()
        try:
            _check_file(path)
        finally:
            self._write_lock.release()

    def append_logs(self, logs: list[dict[str, object]]) -> None:
        self._write_lock.acquire()
        try:
            with open(self._file_path, "ab") as file:
                lines, offset = list[bytes](), file.tell()
                for log in logs:
                    lines.append(_format_line(log, offset))
                    offset += len(lines[-1])
                file.write(b"".join(lines))
                file.flush()
                if time.monotonic() - self._synchronised > SYNCHRONISATION_INTERVAL:
                    os.fsync(file.fileno())
                    self._synchronised = time.monotonic()
        finally:
            self._write_lock.release()


def _format_line(log: dict[str, object], offset: int) -> bytes:
    """An operation as the line that begins at byte `offset`."""
    text = json.dumps(log, separators=(",", ":")).encode()[:-1]
    return text + CHECKSUM_KEY + _checksum(text, offset) + b'"}\n'


def _checksum(text: bytes, offset: int) -> bytes:
    return checksum.from_bytes(b"%d %s" % (offset, text)).encode()


def _check_file(path: Path) -> None:
    """Remove a last line that is incomplete because its process was killed; raise InputError if any other line is damaged."""
    offset = 0
    for number, line in enumerate(io.BytesIO(path.read_bytes()), 1):
        if not line.endswith(b"\n"):
            message = f"'{path}': line {number}, the last one, is incomplete because a process was killed, and is removed"
            warnings.warn(message, stacklevel=4)
            os.truncate(path, offset)
            return
        text, key, tail = line[: -TAIL_BYTES - len(CHECKSUM_KEY)], line[-TAIL_BYTES - len(CHECKSUM_KEY) : -TAIL_BYTES], line[-TAIL_BYTES:]
        if key != CHECKSUM_KEY or tail != _checksum(text, offset) + b'"}\n':
            fix = f"remove it and all lines after it ('head -n {number - 1}') and resume with --resume, or search in another folder"
            raise InputError("is damaged (its checksum is missing or does not match)", fix, path, number)
        offset += len(line)
