"""Kernels that an interrupted `dse calibrate` has fitted: a line of JSON each in OUT.partial, which the same request reads again."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.launches import KernelKey


class Checkpoint:
    """The file beside `out`. What another request or another version left there is discarded, and so is a line that was cut short."""

    def __init__(self, out: Path, measurements: Sequence[Path], samples: int, seed: int):
        self.path = out.with_name(f"{out.name}.partial")
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in measurements]
        self.request = json.dumps([version("sparse-dse"), hashes, samples, seed])

    def read(self) -> dict[KernelKey, KernelRecord]:
        """The kernels that the same request has fitted; starts a new file if there are none."""
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        if not lines or lines[0].rstrip() != self.request:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(f"{self.request}\n")
            return {}
        whole = [line for line in lines if line.endswith("\n")]
        self.path.write_text("".join(whole))
        found = [KernelRecord.model_validate_json(line) for line in whole[1:]]
        return {kernel.key: kernel for kernel in found}

    def add(self, kernel: KernelRecord) -> None:
        with self.path.open("a") as file:
            file.write(kernel.model_dump_json() + "\n")

    def remove(self) -> None:
        self.path.unlink()
