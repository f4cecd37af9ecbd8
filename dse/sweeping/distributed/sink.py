"""What the parts of a sweep go to: a Zarr store or a reduction."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import xarray as xr

from dse.base.errors import Problem
from dse.sweeping import provenance
from dse.sweeping.distributed.reduction_sink import Reduction
from dse.sweeping.distributed.zarr_sink import Store
from dse.sweeping.prepared import Prepared


class Sink(Protocol):
    """A part that is done twice is the same twice, and one is either done or as good as not begun."""

    @staticmethod
    def origin(path: Path) -> xr.Dataset:
        """A dataset whose attributes say what is done at `path`."""
        ...

    def begin(self, join: bool) -> None:
        """Lay out what the parts go to, or check that what is there is of the same sweep; raises InputError."""
        ...

    def done(self) -> np.ndarray:
        """Which parts are, [part]."""
        ...

    def forget_damaged(self, parts: Iterable[int]) -> list[Problem]:
        """Take back that some parts are done whose files are missing or damaged; returns what is wrong with them."""
        ...

    def designs(self, part: int) -> int: ...

    def each(self, parts: Iterable[int]) -> Iterator[int]:
        """Do some parts; yields numbers of designs as they are done. Raises UnfinishedError where they cannot be written."""
        ...

    def finish(self) -> None:
        """What is left to do when all parts are done; the first of several processes does it. Raises as `each`, and InputError."""
        ...

    def dataset(self) -> xr.Dataset:
        """The results as far as they are there."""
        ...


def of(prepared: Prepared, path: Path) -> Sink:
    return _kind(path)(prepared, path)


def _kind(path: Path) -> type[Store] | type[Reduction]:
    return Store if to_store(path) else Reduction


def to_store(path: str | Path) -> bool:
    return Path(path).suffix == ".zarr"


def made(path: Path) -> str:
    """What tells the sweep at `path` from a later one there."""
    return hashlib.sha256(json.dumps(_kind(path).origin(path).attrs).encode()).hexdigest()


def work(path: str, made: str, part: int) -> int:
    """Do one part of the sweep at `path`, in any process; returns how many designs it has."""
    return sum(_opened(path, made).each([part]))


@lru_cache(maxsize=2)
def _opened(path: str, made: str) -> Sink:
    dataset = _kind(Path(path)).origin(Path(path))
    plan = provenance.plan_of(dataset)
    provenance.check_same(dataset, plan)
    return of(Prepared.of(plan), Path(path))
