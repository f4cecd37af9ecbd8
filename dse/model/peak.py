"""P: which unit may execute which pattern, and at which rates.

An execution is a unit running one of its patterns. Its rates are products of numbers of the description, named
by their dotted paths, so that a sweep over any of them changes the rate and nothing else:

    stored FLOPs   peak * E            the unit works through what is stored ...
    dense FLOPs    peak * gain * E     ... but speeds the layer up by no more than its gain
    metadata       decode              of the run's decoder, where that has a rate of its own
    bytes          bandwidth           of the outermost memory, then of those inside that count
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model.efficiency.constant import efficiency_paths
from dse.model.levels import levels
from dse.schema.accelerator import Accelerator
from dse.schema.compute_unit import Run, Unit
from dse.schema.model_options import Fidelity
from dse.sparsity.format import Format
from dse.sparsity.kinds import Dense
from dse.sparsity.pattern import Pattern

Paths = tuple[str, ...]

PLAIN = Run.model_validate({"pattern": "dense"})  # what every unit runs, listed or not


@dataclass(frozen=True)
class Execution:
    """One way to run a layer; the rates are the products of what stands at their paths."""

    unit: str
    run: str
    how: Run
    stored_rate: Paths
    dense_rate: Paths | None
    decode_rate: Paths | None
    memory: str
    inner: tuple[str, ...] = ()  # the memories inside whose bandwidth counts

    @property
    def pattern(self) -> Pattern:
        return self.how.pattern

    @property
    def format(self) -> Format:
        return self.how.format

    @property
    def sparse(self) -> bool:
        return not isinstance(self.pattern, Dense)

    @property
    def name(self) -> str:
        return f"{self.unit}.{self.run}"

    @property
    def rates(self) -> tuple[Paths | None, ...]:
        """In the order of the work terms: dense FLOPs, stored FLOPs, metadata, bytes of each memory."""
        bandwidths = [(f"memory.{name}.bandwidth",) for name in (self.memory, *self.inner)]
        return (self.dense_rate, self.stored_rate, self.decode_rate, *bandwidths)

    def resources(self, decoders: bool) -> list[str]:
        """What can set the time; `decoders`: whether those of metadata are told apart."""
        return [self.unit, *([f"{self.unit}.decoder"] if decoders else []), self.memory, *self.inner]


def executions(accelerator: Accelerator, dtype: OperandDtypes, fidelity: Fidelity) -> list[Execution]:
    """Every execution that can compute in `dtype`, dense ones first; raises InputError if there is none."""
    units = {name: unit for name, unit in accelerator.units.items() if dtype.compute in unit.peak}
    if not units:
        offered = sorted({name for unit in accelerator.units.values() for name in unit.peak})
        problem = f"'{accelerator.name}' has no unit that computes in '{dtype.compute}'"
        raise InputError(problem, f"take one of {', '.join(offered)}, or give a unit a peak for it")
    found = [
        _execution(accelerator, unit, name, run, dtype, fidelity)
        for unit, described in units.items()
        for name, run in open_runs(described, dtype.compute).items()
    ]
    return sorted(found, key=lambda execution: execution.sparse)


def open_runs(unit: Unit, dtype: str) -> Mapping[str, Run]:
    """Runs of a unit that compute in a dtype. Every unit runs `dense`; a description may list it to state its efficiency."""
    listed = {name: run for name, run in unit.runs.items() if run.enabled and dtype in (run.dtypes or unit.peak)}
    has_dense = any(isinstance(run.pattern, Dense) for run in listed.values())
    return listed if has_dense else {"dense": PLAIN, **listed}


def _execution(accelerator: Accelerator, unit: str, name: str, run: Run, dtype: OperandDtypes, fidelity: Fidelity) -> Execution:
    at = f"units.{unit}.runs.{name}"
    rate = (f"units.{unit}.peak.{dtype.compute}", *(() if run is PLAIN else efficiency_paths(at, fidelity)))
    capped = (*rate, f"{at}.gain") if run.gain is not None else None
    decoded = (f"{at}.decode",) if run.decode is not None else None
    outermost, *inner = [level.name for level in levels(accelerator, fidelity)]
    return Execution(unit, name, run, rate, capped, decoded, outermost, tuple(inner))
