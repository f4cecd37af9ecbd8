"""Groups of pieces, of which only what is kept goes to a file each, until all are put together.

The files stand in a folder beside the result, `front.nc.parts` beside `front.nc`, as small as what they keep, and vanish with it complete.
Each is put in its place whole, so a process may be killed at any moment.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr

from dse.base import atomic_write, checksum
from dse.base.errors import InputError, Problem, UnfinishedError
from dse.sweeping import provenance, run, store
from dse.sweeping.prepared import Prepared
from dse.sweeping.reduce.cells import Kept
from dse.sweeping.reduce.stream import Stream

ORIGIN = "sweep.json"
RESUME = "evaluate it again: 'dse sweep SPEC -o OUT --resume'"


class Reduction:
    """A part is a group of pieces."""

    def __init__(self, prepared: Prepared, path: Path):
        self.prepared, self.path, self.parts = prepared, path, parts_of(path)

    @staticmethod
    def origin(path: Path) -> xr.Dataset:
        file = parts_of(path) / ORIGIN
        return xr.Dataset(attrs=json.loads(checksum.read_verified(file, f"remove '{parts_of(path)}', and run the sweep again", ORIGIN)))

    @cached_property
    def stream(self) -> Stream:
        return Stream.of(self.prepared, run.evaluate)

    def begin(self, join: bool) -> None:
        _ = self.stream  # tells what cannot be kept
        plan = self.prepared.plan
        atomic_write.remove_abandoned_folders(self.path, self.parts)
        if join and self._complete:
            return provenance.check_same(store.read(self.path), plan)
        if not self.parts.exists() and self._lay_out():
            return None
        if not (self.parts / ORIGIN).is_file():
            raise InputError(f"'{self.parts}' is there already, and holds no parts of a sweep", "give another place")
        if not join:
            fix = "go on with it by --resume (in Python resume=True), or remove it"
            raise InputError(f"'{self.parts}' is there already", fix)
        return provenance.check_same(self.origin(self.path), plan)

    @property
    def _complete(self) -> bool:
        return self.path.exists() and not self.parts.exists()

    def _lay_out(self) -> bool:
        """The folder appears whole; False if another process was faster."""
        atomic_write.check_writable(self.path)
        try:
            with atomic_write.temporary_path(self.parts) as fresh:
                fresh.mkdir()
                (fresh / ORIGIN).write_text(json.dumps(provenance.attributes(self.prepared.plan)))
                checksum.append_trailer(fresh / ORIGIN, ORIGIN)
                os.rename(fresh, self.parts)
        except OSError as error:
            if self.parts.exists():
                return False
            raise UnfinishedError.cannot_write(self.path, error) from error
        return True

    def done(self) -> np.ndarray:
        found = np.full(self.stream.groups, self._complete)
        numbers = [int(file.stem) for file in self.parts.glob("*.npz") if re.fullmatch(r"\d+", file.stem) and file.is_file()]
        found[[number for number in numbers if number < len(found)]] = True
        return found

    def forget_damaged(self, parts: Iterable[int]) -> list[Problem]:
        problems = []
        for group in parts if self.parts.exists() else ():
            try:
                self._read(group)
            except InputError as error:
                self._file(group).unlink()
                problems += error.problems
        return problems

    def designs(self, part: int) -> int:
        return sum(self.stream.pieces[number].designs for number in self.stream.group(part))

    def each(self, parts: Iterable[int]) -> Iterator[int]:
        for group, piece, kept in self.stream.walk(parts):
            if kept is not None:
                self._write(group, kept)
            yield piece.designs

    def _write(self, group: int, kept: Kept) -> None:
        try:
            atomic_write.replace_file(self._file(group), lambda fresh: checksum.save_arrays(fresh, kept, self._name(group)))
        except OSError as error:
            raise UnfinishedError.cannot_write(self.path, error) from error

    def _file(self, group: int) -> Path:
        return self.parts / f"{group}.npz"

    def finish(self) -> None:
        try:
            store.write(self._together(), self.path)
            with atomic_write.temporary_path(self.parts) as gone:
                os.rename(self.parts, gone)
        except InputError:
            if not self._complete:  # by another process, which was faster
                raise
        except (OSError, UnfinishedError) as error:
            if not self._complete:  # by another process, which was faster
                raise UnfinishedError.cannot_write(self.path, error.__cause__ or error) from error

    def _together(self) -> xr.Dataset:
        """What is kept of the groups that are done, in their order; nothing if none is."""
        origin, groups = self.origin(self.path), np.flatnonzero(self.done()).tolist()
        return self.stream.result(map(self._read, groups)).assign_attrs(origin.attrs) if len(groups) else origin

    def _read(self, group: int) -> Kept:
        """What is kept of a group; raises InputError if its file is damaged, or that of another group or sweep."""
        return checksum.load_arrays(self._file(group), RESUME, self._name(group))

    def _name(self, group: int) -> str:
        """What tells a group from others, of other sweeps too."""
        return f"{checksum.from_file(self.parts / ORIGIN)} {group}"

    def dataset(self) -> xr.Dataset:
        return store.read_netcdf(self.path) if self._complete else self._together()


def parts_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.parts")
