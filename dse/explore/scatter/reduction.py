"""Groups of pieces, of which only what is kept goes to a file each, until all are put together.

The files stand in a folder beside the result, `front.nc.parts` beside `front.nc`, as small as what they keep, and vanish with it complete.
Each is put in its place whole, so a process may be killed at any moment.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr

from dse.errors import BadInput, UnfinishedError
from dse.explore import provenance, store, sweep
from dse.explore.keep.cells import Kept
from dse.explore.keep.stream import Stream
from dse.explore.prepared import Prepared

ORIGIN = "sweep.json"


class Reduction:
    """A part is a group of pieces."""

    def __init__(self, prepared: Prepared, path: Path):
        self.prepared, self.path, self.parts = prepared, path, parts_of(path)

    @staticmethod
    def origin(path: Path) -> xr.Dataset:
        return xr.Dataset(attrs=json.loads((parts_of(path) / ORIGIN).read_text()))

    @cached_property
    def stream(self) -> Stream:
        return Stream.of(self.prepared, sweep.evaluate)

    def begin(self, join: bool) -> None:
        _ = self.stream  # tells what cannot be kept
        plan = self.prepared.plan
        if join and self._complete:
            return provenance.check_same(store.read(self.path), plan)
        if not self.parts.exists() and self._lay_out():
            return None
        if not (self.parts / ORIGIN).is_file():
            raise BadInput.one(f"'{self.parts}' is there already, and holds no parts of a sweep", "give another place")
        if not join:
            fix = "go on with it by --resume (in Python resume=True), or remove it"
            raise BadInput.one(f"'{self.parts}' is there already", fix)
        return provenance.check_same(self.origin(self.path), plan)

    @property
    def _complete(self) -> bool:
        return self.path.exists() and not self.parts.exists()

    def _lay_out(self) -> bool:
        """The folder appears whole; False if another process was faster."""
        store.check_writable(self.path)
        partial = self.parts.with_name(f".{self.parts.name}.{uuid.uuid4().hex}.part")
        try:
            partial.mkdir(parents=True)
            (partial / ORIGIN).write_text(json.dumps(provenance.attributes(self.prepared.plan)))
            os.rename(partial, self.parts)
        except OSError as error:
            if self.parts.exists():
                return False
            raise UnfinishedError.unwritten(self.path, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return True

    def done(self) -> np.ndarray:
        found = np.full(self.stream.groups, self._complete)
        found[[int(file.stem) for file in self.parts.glob("[0-9]*.npz")]] = True
        return found

    def designs(self, part: int) -> int:
        return sum(self.stream.pieces[number].designs for number in self.stream.group(part))

    def each(self, parts: Iterable[int]) -> Iterator[int]:
        for group, piece, kept in self.stream.walk(parts):
            if kept is not None:
                self._write(group, kept)
            yield piece.designs

    def _write(self, group: int, kept: Kept) -> None:
        def save(partial: Path) -> None:
            with partial.open("wb") as file:
                np.savez(file, allow_pickle=False, **kept)

        try:
            store.replacing(self._file(group), save)
        except OSError as error:
            raise UnfinishedError.unwritten(self.path, error) from error

    def _file(self, group: int) -> Path:
        return self.parts / f"{group}.npz"

    def finish(self) -> None:
        try:
            store.write(self._together(), self.path)
            gone = self.parts.with_name(f".{self.parts.name}.{uuid.uuid4().hex}.part")
            os.rename(self.parts, gone)
            shutil.rmtree(gone)
        except (OSError, UnfinishedError) as error:
            if not self._complete:  # by another process, which was faster
                raise UnfinishedError.unwritten(self.path, error.__cause__ or error) from error

    def _together(self) -> xr.Dataset:
        """What is kept of the groups that are done, in their order; nothing if none is."""
        origin, groups = self.origin(self.path), np.flatnonzero(self.done()).tolist()
        return self.stream.result(map(self._read, groups)).assign_attrs(origin.attrs) if len(groups) else origin

    def _read(self, group: int) -> Kept:
        with np.load(self._file(group)) as file:
            return dict(file)

    def dataset(self) -> xr.Dataset:
        return xr.load_dataset(self.path, engine="h5netcdf") if self._complete else self._together()


def parts_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.parts")
