"""Pieces of a sweep into a Zarr store."""

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr

from dse.base import atomic_write
from dse.base.errors import InputError, Problem
from dse.sweeping import provenance, run, zarr_store
from dse.sweeping.chunk import Chunk, ChunkGrid, chunk_lengths, max_chunk_designs
from dse.sweeping.prepared import Prepared
from dse.sweeping.results import label_dataset, set_attributes

MOST_PIECES = 10**6


class Store:
    """A part is a piece, which is written while the next one is evaluated."""

    def __init__(self, prepared: Prepared, path: Path):
        self.prepared, self.path = prepared, path

    @staticmethod
    def origin(path: Path) -> xr.Dataset:
        return zarr_store.opened(path)

    def begin(self, join: bool) -> None:
        plan, path = self.prepared.plan, self.path
        if plan.spec.keep != "all":
            fix = "write to a .nc file or a folder, or 'keep: all'"
            raise InputError.from_problems([plan.document.make_problem(("keep",), "a store holds all results", fix)])
        atomic_write.remove_abandoned_folders(path)
        if not path.exists() and self._lay_out():
            return
        if not zarr_store.is_store(path):
            raise InputError(f"'{path}' is there already, and is no store of a sweep", "give another place")
        if not join:
            raise InputError(f"'{path}' is there already", "go on with it by --resume (in Python resume=True), or give another place")
        provenance.check_same(self.origin(path), plan)

    def _lay_out(self) -> bool:
        prepared, plan = self.prepared, self.prepared.plan
        atomic_write.check_writable(self.path.with_suffix(".part"))
        most = max_chunk_designs(plan)
        lengths = chunk_lengths(plan, most)
        count = math.prod(math.ceil(size / lengths[dim]) for dim, size in plan.dims.items())
        if count > MOST_PIECES:
            what = f"the results would take {plan.result_bytes / 1e9:.3g} GB, in {count} pieces"
            raise InputError.from_problems(
                [plan.document.make_problem(("axes",), what, f"stay below {MOST_PIECES} pieces: fewer values or variables")]
            )
        sample = set_attributes(run.evaluate(prepared.cut(ChunkGrid(plan, 1)[0])), plan)
        labels = label_dataset(plan, prepared.resources, prepared.executions, prepared.kernels)
        return zarr_store.create(self.path, labels[[*sample.coords]], sample, lengths, most)

    @cached_property
    def pieces(self) -> ChunkGrid:
        return ChunkGrid(self.prepared.plan, zarr_store.most_designs(self.path))

    def done(self) -> np.ndarray:
        return zarr_store.done(self.path)

    def forget_damaged(self, parts: Iterable[int]) -> list[Problem]:
        return zarr_store.forget_damaged(self.path, parts)

    def designs(self, part: int) -> int:
        return self.pieces[part].designs

    def each(self, parts: Iterable[int]) -> Iterator[int]:
        with ThreadPoolExecutor(1) as writer:
            before: Future[int] | None = None
            for part in parts:
                piece = self.pieces[part]
                found = run.evaluate(self.prepared.cut(piece))
                if before is not None:
                    yield before.result()
                before = writer.submit(self._write, piece, found)
            if before is not None:
                yield before.result()

    def _write(self, piece: Chunk, found: xr.Dataset) -> int:
        zarr_store.write(self.path, piece, found)
        return piece.designs

    def finish(self) -> None:
        zarr_store.tidy(self.path)

    def dataset(self) -> xr.Dataset:
        return self.origin(self.path)
