"""What designs are worth: every design of a batch under every tolerated state of every network."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dse.calibrate.network import LAUNCH, case, remarks
from dse.explore.layers import times
from dse.explore.search import structure as structures
from dse.explore.search.question import Question
from dse.explore.search.space import Points, Space
from dse.explore.search.spent import spent_at, spent_within
from dse.explore.search.structure import Structure
from dse.goal import Robust
from dse.model import compaction, fusion
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import power, static
from dse.model.efficiency import PATHS, unstated
from dse.model.equation import inverse_rates
from dse.model.options import Combined
from dse.workload import Variant

CHUNK = 16384  # designs evaluated at once: their rates stay in the cache
HIGHER = ("performance", "speedup")  # better


class Designs:
    """The designs of a space; `results` judges a batch of them.

    `base` [network]: latencies [s] that performance is counted from (default: of the dense networks on the space's accelerator).
    """

    def __init__(self, space: Space, question: Question, base: np.ndarray | None = None):
        self.space, self.question = space, question
        self.states = [state for states in question.states.values() for state in states]
        self.numeric = [d.path for d in space.dimensions if not d.structural]
        self._structures: dict[tuple[float, ...], Structure] = {}
        self._samples: dict[str, np.ndarray] = {}
        self.base = self._base() if base is None else base

    def results(self, points: Points) -> dict[str, np.ndarray]:
        """Every result that the search speaks of, and `performance` and `speedup`, one number for each design."""
        found: dict[str, np.ndarray] = {}
        for rows, structure in self._grouped(points):
            for start in range(0, len(rows), CHUNK):
                part = rows[start : start + CHUNK]
                for name, values in self._judged(structure, points[part]).items():
                    found.setdefault(name, np.empty(len(points)))[part] = values
        return found

    def chosen(self, point: np.ndarray) -> dict[str, Variant]:
        """The state of each network that is fastest on one design."""
        latency = np.asarray(self._times(self.structure(point), point[None])[0])[:, 0]
        return {name: self.states[part.start + int(latency[part].argmin())] for name, part in self._parts()}

    def structure(self, point: np.ndarray) -> Structure:
        key = tuple(point[[n for n, d in enumerate(self.space.dimensions) if d.structural]])
        if key not in self._structures:
            accelerator = self.space.accelerator.replace(self.space.structure(point))
            self._structures[key] = structures.made(accelerator, self.space, self.question, self.states, self._with_energy)
        return self._structures[key]

    def remarks(self) -> list[str]:
        """What is assumed about the networks, and which designs judged so far rest on no measurement of their own device, in words."""
        name, cases = self.space.accelerator.name, [found for structure in self._structures.values() for found in structure.cases]
        candidates = [execution for found in cases for execution in found.candidates]
        dtype, fidelity = self.question.dtype.label, self.question.options.fidelity
        assumed = [note for state in self.states for note in (*compaction.notes(state), *fusion.notes(state, self.question.options))]
        return [
            *dict.fromkeys(assumed),
            *dict.fromkeys(remark for found in cases for remark in remarks(found, name)),
            *(unstated(name, candidates, dtype, fidelity) if cases else []),
        ]

    def objectives(self, points: Points) -> tuple[Float[np.ndarray, "design objective"], Float[np.ndarray, "design limit"]]:
        """What is to be minimised, and by how much of its bound each limit is broken (at most 0 where it holds)."""
        results = self.results(points)
        values = np.stack([sign * found.value(results) * np.ones(len(points)) for found, sign in self.question.search.objectives], axis=1)
        limits = [limit.excess(limit.expression.value(results)) for limit in self.question.search.limits]
        broken = np.stack(limits, axis=1) if limits else np.zeros((len(points), 0))
        return _rounded(values), _rounded(broken)

    def _grouped(self, points: Points) -> list[tuple[np.ndarray, Structure]]:
        structural = [n for n, d in enumerate(self.space.dimensions) if d.structural]
        if not structural:
            return [(np.arange(len(points)), self.structure(points[0]))] if len(points) else []
        numbers = np.ravel_multi_index(points[:, structural].T.astype(int), [self.space.sizes[n] for n in structural])
        rows = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
        return [(row, self.structure(points[row[0]])) for row in rows]

    def _parts(self) -> list[tuple[str, slice]]:
        """Where the states of each network stand."""
        ends = np.cumsum([len(states) for states in self.question.states.values()])
        return [
            (name, slice(int(end) - len(states), int(end))) for (name, states), end in zip(self.question.states.items(), ends, strict=True)
        ]

    @property
    def _overlap(self) -> Combined:
        return self.question.options.combined

    @property
    def _with_energy(self) -> bool:
        return bool({"energy", "edp"} & self.question.search.costs)

    def _times(self, structure: Structure, points: Points, slow: np.ndarray | None = None) -> tuple[Any, Any]:
        """Latency [s] and energy of the work [J] if it is asked for, [state, design]. The batch is padded to a power of two: few
        sizes are compiled."""
        padded = 1 << (len(points) - 1).bit_length()
        values = {path: np.resize(column, padded) for path, column in self.space.values(points).items()}
        columns, places = np.stack([*values.values(), np.ones(padded)])[:-1], structure.places(values, padded)
        alike, launch = _alike(structure) if slow is None else slow, values.get(LAUNCH, np.ones(padded))
        with jax.enable_x64(True):
            found = spent_at(columns, places, launch, alike, structure.arrays, compute=structure.compute, overlap=self._overlap)
            latency, energy = (None if part is None else np.asarray(part)[:, : len(points)] for part in found)
        return latency, energy

    def _judged(self, structure: Structure, points: Points) -> dict[str, Any]:
        design = Design(structure.accelerator, self.space.values(points), self.space.accelerator)
        found = self._worth(*self._times(structure, points), design)
        if robust := self.question.search.robust:
            samples = [self._drawn(structure, robust, sample) for sample in range(robust.samples)]
            drawn = [self._over_networks(*self._times(structure, points, slow), design) for slow in samples]
            found |= {name: np.quantile([each[name] for each in drawn], _low(name, robust.quantile), axis=0) for name in drawn[0]}
        return found

    def smooth(self, structure: Structure) -> Any:
        """The results of a design as a function of the logarithms of its numeric dimensions, for JAX to differentiate."""
        places = np.zeros((1 + len(structure.inside), 1), int)

        def results(logarithms: Array) -> dict[str, Any]:
            values, arrays = jnp.exp(logarithms)[:, None], structure.between(dict(zip(self.numeric, logarithms, strict=True)))
            given = dict(zip(self.numeric, values, strict=True))
            design, launch = Design(structure.accelerator, given, self.space.accelerator), given.get(LAUNCH, jnp.ones(1))
            options = {"compute": structure.compute, "overlap": self._overlap}
            latency, energy = spent_within(values, places, launch, _alike(structure), arrays, **options)
            return {name: jnp.ravel(found)[0] for name, found in self._worth(latency, energy, design, jnp).items()}

        return results

    def _worth(self, latency: Any, energy: Any, design: Design, arrays: Any = np) -> dict[str, Any]:
        costs = {"area": area, "power": power}
        spoken = {name: cost(design) for name, cost in costs.items() if name in self.question.search.costs}
        return self._over_networks(latency, energy, design, arrays) | spoken

    def _over_networks(self, latency: Any, energy: Any, design: Design, arrays: Any = np) -> dict[str, Any]:
        """Of each network the fastest tolerated state; over the networks their mean, or the worst."""
        found: dict[str, list[Any]] = {}
        for reference, (_, part) in zip(self.base, self._parts(), strict=True):
            choice = latency[part].argmin(axis=0)[None]
            fastest = arrays.take_along_axis(latency[part], choice, axis=0)[0]
            worth = {"performance": reference / fastest, "speedup": latency[part.start] / fastest, "latency": fastest}
            if self._with_energy:
                joules = arrays.take_along_axis(energy[part], choice, axis=0)[0] + static(design) * fastest
                worth |= {"energy": joules, "edp": joules * fastest}
            for name, values in worth.items():
                found.setdefault(name, []).append(values)
        return {name: self.together(name, arrays.stack(values), arrays) for name, values in found.items()}

    def together(self, name: str, values: Any, arrays: Any = np) -> Any:
        """One number of those of the networks, along the first axis."""
        if self.question.search.over_workloads == "worst":
            return values.min(axis=0) if name in HIGHER else values.max(axis=0)
        weights = np.array([self.question.search.weights.get(name, 1.0) for name in self.question.states])
        return arrays.exp(weights @ arrays.log(values) / weights.sum())

    def _drawn(self, structure: Structure, robust: Robust, sample: int) -> np.ndarray:
        """How many times as slow each execution is [execution]: efficiencies stay at most 1."""
        slow = _alike(structure)
        for number, execution in enumerate(structure.executions):
            if execution.sparse:
                if execution.name not in self._samples:
                    draw = np.random.default_rng([self.question.search.seed, *execution.name.encode()])
                    self._samples[execution.name] = draw.standard_normal(robust.samples)
                own = execution.how.efficiency.value if PATHS[self.question.options.fidelity] else 1.0
                slow[number] = own / min(own * np.exp(robust.spread * self._samples[execution.name][sample]), 1.0)
        return slow

    def _base(self) -> np.ndarray:
        """Latency [s] of each dense network on the accelerator as described."""
        asked, found = self.question, []
        for states in asked.states.values():
            whole = case(self.space.accelerator, states[0], asked.batch, asked.dtype, asked.options, asked.kernels)
            inverse, _ = inverse_rates(whole.executions, self.space.accelerator, {})
            found.append(float(times(whole, inverse, asked.options)[1].min(axis=1) @ whole.count))
        return np.array(found)


def _alike(structure: Structure) -> np.ndarray:
    """No execution slower than modelled [execution]."""
    return np.ones(len(structure.executions))


def _low(name: str, quantile: float) -> float:
    return quantile if name in HIGHER else 1 - quantile


def _rounded(values: np.ndarray) -> np.ndarray:
    """To 12 digits: what compilers do with the last ones must not decide."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (11 - np.floor(np.log10(np.abs(values))))
    return np.where(np.isfinite(digits), np.round(values * digits) / digits, values)
