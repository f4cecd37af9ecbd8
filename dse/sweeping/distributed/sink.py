"""Where the tasks of a sweep store their results: a Zarr store, or the partials of a reduction."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import xarray as xr
from jaxtyping import Bool

from dse.base.errors import Problem
from dse.sweeping import provenance
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.distributed.reduction_sink import ReductionSink

if TYPE_CHECKING:
    from dse.sweeping.distributed.zarr_sink import ZarrSink


class Sink(Protocol):
    """Evaluates and stores tasks. A task is either complete or not stored, and gives the same bits whenever it is evaluated."""

    @staticmethod
    def read_origin(path: Path) -> xr.Dataset:
        """A dataset whose attributes identify the sweep at `path`."""
        ...

    def open(self, resume: bool) -> None:
        """Create the files, or check that those at the path belong to the same sweep; raises InputError."""
        ...

    def completed_tasks(self) -> Bool[np.ndarray, "task"]: ...

    def discard_damaged(self, tasks: Iterable[int]) -> list[Problem]:
        """Mark completed tasks as not completed if their files are missing or damaged; returns the problems."""
        ...

    def count_designs(self, task: int) -> int: ...

    def run_tasks(self, tasks: Iterable[int]) -> Iterator[int]:
        """Evaluate and store tasks; yields numbers of designs as they are done. Raises UnfinishedError if they cannot be stored."""
        ...

    def finish(self) -> None:
        """Complete the files once all tasks are; the first of several processes does it. Raises InputError and UnfinishedError."""
        ...

    def to_dataset(self) -> xr.Dataset:
        """The results of the tasks that are complete."""
        ...


def make_sink(compiled: CompiledSweep, path: Path) -> Sink:
    return _sink_type(path)(compiled, path)


def is_zarr_path(path: str | Path) -> bool:
    return Path(path).suffix == ".zarr"


def _sink_type(path: Path) -> "type[ZarrSink] | type[ReductionSink]":
    if not is_zarr_path(path):
        return ReductionSink
    from dse.sweeping.distributed.zarr_sink import ZarrSink  # Zarr takes 0.2 s to import, which other results need not wait for

    return ZarrSink


def sweep_id(path: Path) -> str:
    """Identifies the sweep at `path`, and distinguishes it from a later one at the same path."""
    return hashlib.sha256(json.dumps(_sink_type(path).read_origin(path).attrs).encode()).hexdigest()


def run_task(path: str, sweep: str, task: int) -> int:
    """Evaluate and store one task of the sweep at `path` with this id, in any process; returns its number of designs."""
    return sum(_open_sink(path, sweep).run_tasks([task]))


@lru_cache(maxsize=2)
def _open_sink(path: str, sweep: str) -> Sink:
    """The sink of a sweep, compiled once for all tasks that this process runs."""
    origin = _sink_type(Path(path)).read_origin(Path(path))
    plan = provenance.rebuild_plan(origin)
    provenance.check_same_sweep(origin, plan)
    return make_sink(CompiledSweep.of_plan(plan), Path(path))
