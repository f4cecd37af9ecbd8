"""Checkpoint of an interrupted `dse calibrate`: each fitted kernel as a line of JSON in OUT.partial, again when it has its intervals."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from dse.model.efficiency.kernel_file import KernelRecord


class Checkpoint:
    """The file OUT.partial of one request; a file of another request or version is discarded, and so is an incomplete line."""

    def __init__(self, out: Path, measurements: Sequence[Path], sample_count: int, seed: int, prior: str):
        self.path = out.with_name(f"{out.name}.partial")
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in measurements]
        self.request = json.dumps([version("sparse-dse"), hashes, sample_count, seed, prior])

    def read(self) -> list[KernelRecord]:
        """Read the kernels that this request has fitted already; start a new file if there are none."""
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        if not lines or lines[0].rstrip() != self.request:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(f"{self.request}\n")
            return []
        complete = [line for line in lines if line.endswith("\n")]
        self.path.write_text("".join(complete))
        return [KernelRecord.model_validate_json(line) for line in complete[1:]]

    def add(self, record: KernelRecord) -> None:
        """Append a fitted kernel."""
        with self.path.open("a") as file:
            file.write(record.model_dump_json() + "\n")

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink()
