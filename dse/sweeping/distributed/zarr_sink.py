"""Store the chunks of a sweep in a Zarr store."""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Bool

from dse.base import output_file
from dse.base.errors import InputError, Problem
from dse.sweeping import provenance, run, zarr_store
from dse.sweeping.chunk import ChunkGrid, chunk_lengths, max_chunk_designs
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.results import label_dataset, set_attributes

MAX_CHUNKS = 10**6


class ZarrSink:
    """A task is one chunk, which is written while the next one is evaluated."""

    def __init__(self, compiled: CompiledSweep, path: Path):
        self.compiled, self.path = compiled, path

    @staticmethod
    def read_origin(path: Path) -> xr.Dataset:
        return zarr_store.open_partial(path)

    def open(self, resume: bool) -> None:
        plan, path = self.compiled.plan, self.path
        if plan.spec.keep != "all":
            fix = "write to a .nc file or a folder, or 'keep: all'"
            raise InputError.from_problems([plan.document.make_problem(("keep",), "a Zarr store holds all results", fix)])
        output_file.remove_abandoned_folders(path)
        if not path.exists() and self._create():
            return
        if not zarr_store.is_store(path):
            raise InputError(f"'{path}' exists already, and is not a store of a sweep", "give another path")
        if not resume:
            raise InputError(f"'{path}' exists already", "resume it with --resume (in Python resume=True), or give another path")
        provenance.check_same_sweep(self.read_origin(path), plan)

    def completed_tasks(self) -> Bool[np.ndarray, "task"]:
        return zarr_store.completed_chunks(self.path)

    def discard_damaged(self, tasks: Iterable[int]) -> list[Problem]:
        return zarr_store.discard_damaged_chunks(self.path, tasks)

    def count_designs(self, task: int) -> int:
        return self._chunks[task].design_count

    def run_tasks(self, tasks: Iterable[int]) -> Iterator[int]:
        return run.evaluate_chunks(self.compiled, map(self._chunks.__getitem__, tasks), partial(zarr_store.write, self.path))

    def finish(self) -> None:
        zarr_store.remove_partial_files(self.path)

    def to_dataset(self) -> xr.Dataset:
        return zarr_store.open_partial(self.path)

    @cached_property
    def _chunks(self) -> ChunkGrid:
        return ChunkGrid(self.compiled.plan, zarr_store.read_max_chunk_designs(self.path))

    def _create(self) -> bool:
        """Create the store; returns False if another process was faster."""
        compiled, plan = self.compiled, self.compiled.plan
        output_file.check_writable(self.path.with_suffix(".part"))
        max_designs = max_chunk_designs(plan)
        lengths = chunk_lengths(plan, max_designs)
        self._check_count(math.prod(math.ceil(size / lengths[dim]) for dim, size in plan.dims.items()))
        sample = set_attributes(run.evaluate(compiled.restrict(ChunkGrid(plan, 1)[0])), plan)
        labels = label_dataset(compiled)
        return zarr_store.create(self.path, labels[[*sample.coords]], sample, lengths, max_designs)

    def _check_count(self, chunks: int) -> None:
        if chunks > MAX_CHUNKS:
            plan = self.compiled.plan
            message = f"the results would take {plan.result_bytes / 1e9:.3g} GB, in {chunks} chunks"
            fix = f"stay below {MAX_CHUNKS} chunks: fewer values or variables"
            raise InputError.from_problems([plan.document.make_problem(("axes",), message, fix)])
