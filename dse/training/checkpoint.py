"""Finished steps of an interrupted study: arrays in the folder OUT.partial, each file complete or not there at all."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dse.base import checksum
from dse.base.errors import InputError
from dse.base.output_file import replace_file

REQUEST = "request.json"
FIX = "remove it, and the step is trained again"


class Checkpoint:
    """The folder OUT.partial of one request.

    Attributes:
        folder: the folder; it is removed when the study is complete.
    """

    def __init__(self, out: Path):
        self.folder = out.with_name(f"{out.name}.partial")

    def open(self, fingerprint: str, force: bool) -> int:
        """Make the folder, or continue one of the same request; returns how many steps it holds.

        Raises InputError if it is not a checkpoint, or of another request, unless `force` discards that.
        """
        request = self.folder / REQUEST
        if self.folder.exists() and not request.exists() and any(self.folder.glob("[!.]*")):
            raise InputError(f"'{self.folder}' exists already, and is not a checkpoint of a study", "rename it, or give another path")
        if request.exists() and request.read_text() != fingerprint:
            if not force:
                fix = "finish it with its own options, give another path, or discard it with --force"
                raise InputError(f"'{self.folder}' is the checkpoint of another study", fix)
            shutil.rmtree(self.folder)
        if not request.exists():
            replace_file(request, lambda path: path.write_text(fingerprint))
        return len(list(self.folder.glob("*/*.npz")))

    def load(self, network: str, step: str) -> dict[str, np.ndarray] | None:
        """The arrays of a finished step; None if it is not finished. Raises InputError if its file is damaged."""
        path = self._path(network, step)
        return checksum.load_arrays(path, FIX, path.name) if path.exists() else None

    def save(self, network: str, step: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the arrays of a finished step."""
        path = self._path(network, step)
        replace_file(path, lambda temporary: checksum.save_arrays(temporary, arrays, path.name))

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)

    def _path(self, network: str, step: str) -> Path:
        return self.folder / network / f"{step}.npz"
