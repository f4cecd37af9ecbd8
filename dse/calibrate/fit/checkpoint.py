"""Checkpoint of an interrupted `dse calibrate`: each fitted kernel as a line of JSON in OUT.partial, again when it has its intervals."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from dse.model.efficiency.kernels.record import KernelRecord
from dse.schema.accelerator import Accelerator


class Checkpoint:
    """The file OUT.partial of one request; a file of another request or version is discarded, and so is an incomplete line.

    A request is the contents of the tables, of the descriptions of their devices and of a file as prior, and the options.
    """

    def __init__(
        self, out: Path, measurements: Sequence[Path], devices: Mapping[str, Accelerator], sample_count: int, seed: int, prior: str
    ):
        self.path = out.with_name(f"{out.name}.partial")
        files = [*measurements, *([Path(prior)] if Path(prior).is_file() else [])]  # a prior is a file, 'shipped' or 'none'
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        descriptions = {name: device.document.sha256 for name, device in sorted(devices.items())}
        self.request = json.dumps([version("sparse-dse"), hashes, descriptions, sample_count, seed, prior])

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
