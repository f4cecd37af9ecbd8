"""Store the partials of a reduction, until all of them are merged into the result.

The partials are files in a folder next to the result, for example `front.nc.parts` next to `front.nc`. The folder is removed when the
result is complete. Every file is written atomically, so a process may be killed at any moment.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Bool

from dse.base import checksum, output_file
from dse.base.errors import InputError, Problem, UnfinishedError
from dse.sweeping import provenance, run, store
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.reduce.reducer import Partial
from dse.sweeping.reduce.stream import ReductionStream

ORIGIN = "sweep.json"
RESUME = "evaluate it again: 'dse sweep SPEC -o OUT --resume'"


class ReductionSink:
    """A task is one group of chunks."""

    def __init__(self, compiled: CompiledSweep, path: Path):
        self.compiled, self.path, self.folder = compiled, path, partials_folder(path)

    @staticmethod
    def read_origin(path: Path) -> xr.Dataset:
        folder = partials_folder(path)
        return xr.Dataset(attrs=json.loads(checksum.read_verified(folder / ORIGIN, f"remove '{folder}', and run the sweep again", ORIGIN)))

    def open(self, resume: bool) -> None:
        _ = self._stream  # raises InputError if the sweep cannot be reduced as specified
        plan = self.compiled.plan
        output_file.remove_abandoned_folders(self.path, self.folder)
        if resume and self._is_complete:
            return provenance.check_same_sweep(store.read(self.path), plan)
        if not self.folder.exists() and self._create():
            return None
        if not (self.folder / ORIGIN).is_file():
            raise InputError(f"'{self.folder}' exists already, and does not belong to a sweep", "give another path")
        if not resume:
            raise InputError(f"'{self.folder}' exists already", "resume it with --resume (in Python resume=True), or remove it")
        return provenance.check_same_sweep(self.read_origin(self.path), plan)

    def completed_tasks(self) -> Bool[np.ndarray, "task"]:
        completed = np.full(self._stream.group_count, self._is_complete)
        groups = [int(file.stem) for file in self.folder.glob("*.npz") if re.fullmatch(r"\d+", file.stem) and file.is_file()]
        completed[[group for group in groups if group < len(completed)]] = True
        return completed

    def discard_damaged(self, tasks: Iterable[int]) -> list[Problem]:
        problems = []
        for group in tasks if self.folder.exists() else ():
            try:
                self._read(group)
            except InputError as error:
                self._file(group).unlink()
                problems += error.problems
        return problems

    def count_designs(self, task: int) -> int:
        return sum(self._stream.chunks[number].design_count for number in self._stream.chunk_numbers(task))

    def run_tasks(self, tasks: Iterable[int]) -> Iterator[int]:
        for group, chunk, partial in self._stream.reduce_groups(tasks):
            if partial is not None:
                self._write(group, partial)
            yield chunk.design_count

    def finish(self) -> None:
        try:
            store.write(self._merge(), self.path)
            with output_file.temporary_path(self.folder) as removed:
                os.rename(self.folder, removed)
        except InputError:
            if not self._is_complete:  # otherwise another process was faster
                raise
        except (OSError, UnfinishedError) as error:
            if not self._is_complete:  # otherwise another process was faster
                raise UnfinishedError.cannot_write(self.path, error.__cause__ or error) from error

    def to_dataset(self) -> xr.Dataset:
        return store.read_netcdf(self.path) if self._is_complete else self._merge()

    @cached_property
    def _stream(self) -> ReductionStream:
        return ReductionStream.of(self.compiled, run.evaluate)

    @property
    def _is_complete(self) -> bool:
        return self.path.exists() and not self.folder.exists()

    def _create(self) -> bool:
        """Create the folder atomically; returns False if another process was faster."""
        output_file.check_writable(self.path)
        try:
            with output_file.temporary_path(self.folder) as fresh:
                fresh.mkdir()
                (fresh / ORIGIN).write_text(json.dumps(provenance.attributes(self.compiled.plan)))
                checksum.append_trailer(fresh / ORIGIN, ORIGIN)
                os.rename(fresh, self.folder)
        except OSError as error:
            if self.folder.exists():
                return False
            raise UnfinishedError.cannot_write(self.path, error) from error
        return True

    def _merge(self) -> xr.Dataset:
        """The result of the groups that are complete, in their order; without variables if none is."""
        origin, groups = self.read_origin(self.path), np.flatnonzero(self.completed_tasks()).tolist()
        return self._stream.to_dataset(map(self._read, groups)).assign_attrs(origin.attrs) if groups else origin

    def _file(self, group: int) -> Path:
        return self.folder / f"{group}.npz"

    def _write(self, group: int, partial: Partial) -> None:
        try:
            output_file.replace_file(self._file(group), lambda fresh: checksum.save_arrays(fresh, partial, self._checksum_name(group)))
        except OSError as error:
            raise UnfinishedError.cannot_write(self.path, error) from error

    def _read(self, group: int) -> Partial:
        """The partial of a group; raises InputError if its file is damaged, or belongs to another group or sweep."""
        return checksum.load_arrays(self._file(group), RESUME, self._checksum_name(group))

    def _checksum_name(self, group: int) -> str:
        """Identifies a group of this sweep; the checksum of its file covers it."""
        return f"{checksum.from_file(self.folder / ORIGIN)} {group}"


def partials_folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.parts")
