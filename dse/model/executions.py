"""Executions: which unit may run which pattern, and which numbers of the description make up its rates.

A run with `expanded` gives a second execution, which runs the patterns that its windows cover (`dse.model.stored_weights`).

Each rate (peak * efficiency) is a product of numbers of the accelerator description, named by their dotted paths, so that a sweep
over any of these numbers changes the rate and nothing else:

    dense FLOPs      peak * gain * efficiency    if the run states a `gain` (`dse.model.gain`)
    stored FLOPs     peak * efficiency           work on every stored weight
    metadata bytes   decode                      if the run has a decoder with a rate of its own
    traffic          bandwidth                   of the outermost memory, then of the inner levels that can limit a layer
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.model import gain
from dse.model.efficiency.constant import efficiency_paths
from dse.model.memory_levels import memory_levels
from dse.schema.accelerator import Accelerator
from dse.schema.compute_unit import Unit
from dse.schema.model_options import Fidelity
from dse.schema.unit_run import EXPANDED_SUFFIX, Expansion, Run
from dse.sparsity.format import Format
from dse.sparsity.kinds import Dense
from dse.sparsity.pattern import Pattern

Paths = tuple[str, ...]  # dotted paths of numbers whose product is a rate

DENSE_RUN = Run.model_validate({"pattern": "dense"})  # every unit runs dense, whether or not its description lists it


@dataclass(frozen=True)
class Execution:
    """One way to run a layer: a unit and one of its runs, by windows over an expanded k unless `expansion` is none.

    `capped_rate` is None for a run without `gain`, `decode_rate` for one without a decoder: these do not limit it.
    """

    unit: str
    run_name: str
    run: Run
    stored_rate: Paths
    capped_rate: Paths | None
    decode_rate: Paths | None
    outermost_memory: str
    inner_memories: tuple[str, ...] = ()  # inner levels that can limit a layer
    expansion: Expansion = "none"

    @property
    def pattern(self) -> Pattern:
        return self.run.pattern

    @property
    def format(self) -> Format:
        return self.run.format

    @property
    def dtype(self) -> str:
        """The dtype that it computes in, whose peak is its rate."""
        return self.stored_rate[0].rpartition(".")[2]

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.pattern, Dense)

    @property
    def is_expanded(self) -> bool:
        return self.expansion != "none"

    @property
    def name(self) -> str:
        return f"{self.unit}.{self.run_name}" + (EXPANDED_SUFFIX if self.is_expanded else "")

    @property
    def rates(self) -> tuple[Paths | None, ...]:
        """Rates in the order of the terms of work: dense FLOPs, stored FLOPs, metadata bytes, traffic of each memory."""
        bandwidths = [(f"memory.{name}.bandwidth",) for name in (self.outermost_memory, *self.inner_memories)]
        return (self.capped_rate, self.stored_rate, self.decode_rate, *bandwidths)

    def resources(self, with_decoder: bool) -> list[str]:
        """Names of the resources that can limit the execution; without `with_decoder`, decoding counts as part of the unit."""
        decoder = [f"{self.unit}.decoder"] if with_decoder else []
        return [self.unit, *decoder, self.outermost_memory, *self.inner_memories]


def list_executions(accelerator: Accelerator, dtype: OperandDtypes, fidelity: Fidelity) -> list[Execution]:
    """Every execution that can compute in `dtype`, dense ones first; raises InputError if there is none."""
    units = {name: unit for name, unit in accelerator.units.items() if dtype.compute in unit.peak}
    if not units:
        supported = sorted({name for unit in accelerator.units.values() for name in unit.peak})
        problem = f"'{accelerator.name}' has no unit that computes in '{dtype.compute}'"
        raise InputError(problem, f"use one of {', '.join(supported)}, or give a unit a peak for '{dtype.compute}'")
    executions = [
        execution
        for unit_name, unit in units.items()
        for run_name, run in enabled_runs(unit, dtype.compute).items()
        for execution in _executions(accelerator, unit_name, run_name, run, dtype, fidelity)
    ]
    return sorted(executions, key=lambda execution: execution.is_sparse)


def enabled_runs(unit: Unit, dtype: str) -> Mapping[str, Run]:
    """Enabled runs of a unit that compute in a dtype, `dense` always among them (a description lists it only to give its efficiency)."""
    runs = {name: run for name, run in unit.runs.items() if run.enabled and dtype in (run.dtypes or unit.peak)}
    lists_dense = any(isinstance(run.pattern, Dense) for run in runs.values())
    return runs if lists_dense else {"dense": DENSE_RUN, **runs}


def _executions(accelerator: Accelerator, unit: str, run_name: str, run: Run, dtype: OperandDtypes, fidelity: Fidelity) -> list[Execution]:
    """The executions of one run: as it is listed, and expanded if the description says so."""
    run_path = f"units.{unit}.runs.{run_name}"
    stored_rate = (f"units.{unit}.peak.{dtype.compute}", *(() if run is DENSE_RUN else efficiency_paths(run_path, fidelity)))
    capped_rate = gain.capped_rate(stored_rate, run, run_path)
    decode_rate = (f"{run_path}.decode",) if run.decode is not None else None
    outermost, *inner = [level.name for level in memory_levels(accelerator, fidelity)]
    listed = Execution(unit, run_name, run, stored_rate, capped_rate, decode_rate, outermost, tuple(inner))
    return [listed] if run.expanded == "none" else [listed, replace(listed, expansion=run.expanded)]
