"""Which factors can change a quantity, and how: by scaling rates, by changing the terms of the layers, or by costs alone.

What the model does not read is left out of an attribution, because its part is 0 in every mixture.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.explaining.factors import DEVICE, Factor
from dse.explaining.side import Side
from dse.model.cost.area import area
from dse.model.cost.design import COST_PATH
from dse.model.cost.power import power
from dse.model.efficiency.fitted import LAUNCH_LATENCY, slowdown_paths
from dse.model.executions import Execution, list_executions
from dse.model.host_time import HOST_PATHS
from dse.model.memory_levels import capacity_paths
from dse.model.rates import rate_paths
from dse.model.terms import compulsory_terms
from dse.schema.accelerator import Accelerator
from dse.schema.compute_unit import Unit
from dse.schema.model_options import Fidelity
from dse.schema.unit_run import Run
from dse.sparsity.kinds import Dense

COSTS = {"area": area, "power": power}  # quantities of the accelerator alone
TIMES = ("latency", "speedup")
# Numbers that change the energy of an operation or a byte, or belong to a device.
ACTION_ENERGY = re.compile(r"\.(energy|clock)(\.|$)|^cost\.")
RATE_KEYS = ("gain", "efficiency", "decode")  # numbers of a run that only scale rates


@dataclass(frozen=True, eq=False)
class Relevance:
    """How factors of the mixtures of `a` and `b` change a quantity."""

    a: Side
    b: Side
    quantity: str

    def may_matter(self, factor: Factor) -> bool:
        """Whether a factor can change the quantity of some mixture; False only where the model does not read it."""
        if self.quantity in COSTS:
            return factor.key == DEVICE or any(self._is_cost(path) for path in factor.paths)
        if factor.key == DEVICE:
            return self.quantity == "energy" or self._has_fidelity("calibrated")
        has_cost = self.quantity == "energy" and any(self._is_cost(path) for path in factor.paths)
        return not factor.paths or has_cost or any(self._is_read(path) for path in factor.paths)

    def is_array(self, factor: Factor) -> bool:
        """Whether a factor scales rates or costs and changes nothing else, so that its values can be an array."""
        if not factor.is_number or factor.is_partial:
            return False
        if self.quantity in COSTS:
            return COST_PATH.fullmatch(factor.key) is not None
        only_static = self.quantity == "energy" and COST_PATH.fullmatch(factor.key) and not ACTION_ENERGY.search(factor.key)
        return (factor.key in self.rate_paths or bool(only_static)) and factor.key not in self.term_paths

    def changes_terms(self, factor: Factor) -> bool:
        """Whether a factor changes the terms of the layers."""
        if not factor.paths:
            return factor.key != DEVICE or self._has_fidelity("calibrated")
        if factor.key == DEVICE:
            return self._has_fidelity("calibrated")
        return any(
            path in self.term_paths or ((factor.is_partial or path not in self.rate_paths) and self._is_read(path)) for path in factor.paths
        )

    def _is_cost(self, path: str) -> bool:
        """Whether area, power or energy may depend on a number, a run, a unit or a memory."""
        parts = path.split(".")
        if parts[2:3] != ["runs"]:
            return COST_PATH.fullmatch(path) is not None or len(parts) == 2
        if len(parts) > 4:
            return parts[4] in ("pattern", "enabled", "gain")
        runs = [_find_run(side, parts[1], parts[3]) for side in (self.a, self.b)]
        return any(run is not None and not isinstance(run.pattern, Dense) for run in runs)

    @cached_property
    def _executions(self) -> list[tuple[Side, Execution]]:
        """Every execution of both accelerators, in both dtypes and at both fidelities."""
        fidelities: list[Fidelity] = [self.a.options.fidelity, self.b.options.fidelity]
        return [
            (side, execution)
            for side in (self.a, self.b)
            for dtype in (self.a.dtype, self.b.dtype)
            if any(dtype.compute in unit.peak for unit in side.accelerator.units.values())
            for fidelity in dict.fromkeys(fidelities)
            for execution in list_executions(side.accelerator, dtype, fidelity)
        ]

    @cached_property
    def rate_paths(self) -> set[str]:
        """Paths of all numbers that some rate of a mixture may depend on."""
        return rate_paths(execution for _, execution in self._executions)

    @cached_property
    def term_paths(self) -> set[str]:
        """Paths of numbers on which the terms of the layers depend; some of them scale rates as well."""
        paths = set[str]()
        for side in (self.a, self.b):
            paths |= set(capacity_paths(side.accelerator, side.options.fidelity))
            if side.variant.runtime == "eager":
                paths |= set(HOST_PATHS)
            if side.options.fidelity == "calibrated":
                paths |= {*slowdown_paths(side.accelerator, [self.a.dtype, self.b.dtype], ()), LAUNCH_LATENCY}
        return paths

    def _has_fidelity(self, *names: str) -> bool:
        return self.a.options.fidelity in names or self.b.options.fidelity in names

    def _is_read(self, path: str) -> bool:
        """Whether rates, terms or the choice of executions may depend on a part of the accelerator."""
        kind, name, *rest = path.split(".")
        if path in self.term_paths:
            return True
        if kind == "memory":
            return path in self.rate_paths or (not rest and self._has_fidelity("capacity", "calibrated"))
        if kind != "units" or rest[:1] == ["energy"]:
            return False
        if rest[:1] == ["peak"]:
            return path in self.rate_paths
        if rest[:1] == ["runs"]:
            return self._is_run_read(path, name, rest[1], rest[2:])
        return not rest

    def _is_run_read(self, path: str, unit: str, run_name: str, rest: list[str]) -> bool:
        """Whether a run, or a part of it (`rest`), may change what some layer takes."""
        if rest and rest[-1] in RATE_KEYS and path not in self.rate_paths:
            return False
        runs = [_find_run(side, unit, run_name) for side in (self.a, self.b)]
        if rest == ["dtypes"]:
            return len({self._computes(side, unit, run) for side, run in zip((self.a, self.b), runs, strict=True)}) > 1
        if not rest and all(run is None or (isinstance(run.pattern, Dense) and run.gain is None) for run in runs):
            return any(self._has_fidelity("r3") and run is not None and run.efficiency.text != "" for run in runs)
        return (unit, run_name) in self._legal_runs

    def _computes(self, side: Side, unit: str, run: Run | None) -> tuple[bool, ...]:
        """In which of the two dtypes a run computes."""
        if run is None:
            return (False, False)
        dtypes = run.dtypes or side.accelerator.units[unit].peak
        return tuple(each.dtype.compute in dtypes for each in (self.a, self.b))

    @cached_property
    def _legal_runs(self) -> set[tuple[str, str]]:
        """The runs that may execute some layer of one of the networks in some mixture of the accelerators."""
        legal = set[tuple[str, str]]()
        for device in (_unite(self.a.accelerator, self.b.accelerator), _unite(self.b.accelerator, self.a.accelerator)):
            for side, dtype in ((side, dtype) for side in (self.a, self.b) for dtype in (self.a.dtype, self.b.dtype)):
                terms = compulsory_terms(device, side.variant, side.batch, dtype, side.options)
                legal |= _runs_of(terms.candidates, np.any(terms.legal_candidates, axis=0).tolist())
        return legal


def _unite(a: Accelerator, b: Accelerator) -> Accelerator:
    """An accelerator with all units, peaks and runs of two, those of `b` where both have one; every run computes in every dtype."""
    units = {name: _unite_units(a.units.get(name), b.units.get(name)) for name in dict.fromkeys([*a.units, *b.units])}
    return a.model_copy(update={"units": units})


def _unite_units(a: Unit | None, b: Unit | None) -> Unit:
    known = [unit for unit in (a, b) if unit is not None]
    runs = {name: run.model_copy(update={"dtypes": None, "enabled": True}) for unit in known for name, run in unit.runs.items()}
    return known[0].model_copy(update={"peak": {dtype: peak for unit in known for dtype, peak in unit.peak.items()}, "runs": runs})


def _runs_of(executions: Iterable[Execution], mask: Iterable[bool]) -> set[tuple[str, str]]:
    return {(execution.unit, execution.run_name) for execution, legal in zip(executions, mask, strict=True) if legal}


def _find_run(side: Side, unit: str, run: str) -> Run | None:
    parts = side.accelerator.units.get(unit)
    return None if parts is None else parts.runs.get(run)
