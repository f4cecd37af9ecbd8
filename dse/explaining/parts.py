"""What an explanation consists of: the parts of a difference, layer groups, resources, and what would reach a target."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

UNITS = {"latency": "s", "speedup": "1", "energy": "J", "area": "m^2", "power": "W"}
_PREFIXES = {  # unit that people use, and its size, from large to small
    "latency": (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)),
    "energy": (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9)),
    "area": (("mm2", 1e-6),),
    "power": (("W", 1.0),),
    "speedup": (("x", 1.0),),
}


@dataclass(frozen=True)
class Part:
    """The part of one factor or cause in the difference `value_b - value_a`.

    `a` and `b` are what the two sides have, as text. `share` is the part over the difference. `through_dense`: the share of a part in a
    speedup that acts through the dense baseline, in the unit of the part.
    """

    key: str
    label: str
    a: str
    b: str
    value: float
    share: float
    through_dense: float | None = None


@dataclass(frozen=True)
class GroupRow:
    """A group of layers: latencies [s] (or energies [J]) on the two sides, what bounds most of its time, and its main factor."""

    group: str
    layers: int
    a: float
    b: float
    bound_a: str
    bound_b: str
    main: str
    main_part: float


@dataclass(frozen=True)
class ResourceRow:
    """Time [s] that a resource bounds on each side."""

    resource: str
    a: float
    b: float


@dataclass(frozen=True)
class ReachRow:
    """What one number would have to become for a target speedup, and the latency [s] of the sparse network then.

    `needed` is None where no value reaches the target; `best` is then the best speedup, and `at` the factor by which the number is changed
    there, infinite for the limit. Texts have units.
    """

    key: str
    now: str
    needed: str | None
    factor: float | None
    latency: float | None
    best: float
    at: float


@dataclass(frozen=True, eq=False)
class ExplainedDifference:
    """A difference and everything that explains it; the attributes are those of `dse.explaining.explanation.Explanation`."""

    quantity: str
    a: str
    b: str
    value_a: float
    value_b: float
    parts: tuple[Part, ...]
    groups: tuple[GroupRow, ...]
    resources: tuple[ResourceRow, ...]
    sentence: str
    method: str
    without_effect: tuple[str, ...] = ()
    heading_a: str = "A"
    heading_b: str = "B"
    reach: tuple[ReachRow, ...] = ()
    reach_target: float | None = None

    @property
    def unit(self) -> str:
        """SI unit of the quantity."""
        return UNITS[self.quantity]

    @property
    def difference(self) -> float:
        """`value_b - value_a`."""
        return self.value_b - self.value_a

    def to_dict(self) -> dict[str, object]:
        """Everything as plain values, for JSON."""
        return {**asdict(self), "unit": self.unit, "difference": self.difference}


def format_value(value: float, quantity: str, digits: int = 3, sign: bool = False) -> str:
    """A value in the unit that people use: '1.23 ms', '814 mm2', '1.7x'."""
    scale = max(abs(value), 0.0)
    options = _PREFIXES[quantity]
    unit, size = next(((u, s) for u, s in options if scale >= s), options[-1] if scale else options[0])
    return f"{value / size:{'+' if sign else ''}.{digits}g}{'' if quantity == 'speedup' else ' '}{unit}"


def ranked(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts by size, the largest first."""
    return tuple(sorted(parts, key=lambda part: (-abs(part.value), part.key)))
