"""What a search is after: objectives, constraints, and how to look for them; `search:` of a specification."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from dse.base import expression
from dse.base.errors import InputError
from dse.base.expression import Expression
from dse.base.strict_model import StrictModel, field_error, nested_field_errors
from dse.base.units import Area, Power, Quantity, Time

# What a design is scored by. Over several networks each is their weighted geometric mean, or that of the network that gains least.
SEARCH_RESULTS = {
    "performance": "times as fast as the dense network on the accelerator as described, at iso-accuracy",
    "speedup": "times as fast as the dense network on the same design, at iso-accuracy",
    "latency": "of the network, at iso-accuracy [s]",
    "energy": "of one run of the network, at iso-accuracy [J]",
    "edp": "energy x latency [J s]",
    "area": "[m^2]",
    "power": "at full load [W]",
}
COST_RESULTS = ("area", "power", "energy", "edp")
_UNITS: dict[str, type[Quantity]] = {"area": Area, "power": Power, "latency": Time}
SamplerName = Literal["exhaustive", "nsga2", "nsga3", "tpe", "gp", "random", "qmc"]


def _expression(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    try:
        return expression.parse_expression(str(value), SEARCH_RESULTS)
    except InputError as error:
        raise field_error(error.problems[0].message, error.problems[0].fix) from error


Objective = Annotated[
    Expression, PlainValidator(_expression), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": ["performance"]})
]


@dataclass(frozen=True)
class ResultConstraint:
    """`expression` <= or >= `bound`, in SI units; `text` as written."""

    text: str
    expression: Expression
    sign: float  # 1 for <=, -1 for >=
    bound: float

    def __str__(self) -> str:
        return self.text

    def excess(self, value: Any) -> Any:
        """By how much of its bound a design breaks it: at most 0 where it holds."""
        return self.sign * (value - self.bound) / abs(self.bound)


@dataclass(frozen=True)
class AccuracyTolerance:
    """How much accuracy may be lost, in the metric's own points, or relative to the dense network in %."""

    text: str
    max_drop: float
    relative: bool

    def __str__(self) -> str:
        return self.text


_RELATION = re.compile(r"(<=|>=)")


def _constraint(value: Any) -> ResultConstraint | AccuracyTolerance:
    if isinstance(value, ResultConstraint | AccuracyTolerance):
        return value
    parts = [part.strip() for part in _RELATION.split(str(value), maxsplit=1)]
    if len(parts) != 3 or not all(parts):
        raise field_error(f"'{value}' is no constraint", "write a result, <= or >= and a bound, as in 'area <= 826 mm^2'")
    name, relation, bound = parts
    if name == "accuracy_drop":
        return _drop(str(value), relation, bound)
    found = _expression(name)
    number = _bound(found, bound)
    if number == 0:
        raise field_error(f"'{value}' has the bound 0", "write another bound: by how much a design breaks it is told in its terms")
    return ResultConstraint(str(value).strip(), found, 1.0 if relation == "<=" else -1.0, number)


def _drop(text: str, relation: str, bound: str) -> AccuracyTolerance:
    relative = bound.endswith("%")
    try:
        drop = float(bound.removesuffix("%"))
    except ValueError:
        drop = -1.0
    if relation != "<=" or not 0 <= drop < 1e6:
        raise field_error(f"'{text}' is no tolerance", "write 'accuracy_drop <= 1.0', in points of the metric, or 'accuracy_drop <= 1 %'")
    return AccuracyTolerance(text.strip(), drop, relative)


def _bound(found: Expression, bound: str) -> float:
    """A quantity where the left side is one result with a unit, a number of SI units otherwise."""
    kind = _UNITS.get(found.text)
    try:
        number = kind.model_validate(bound).value if kind else float(bound)
        if not math.isfinite(number):
            raise ValueError(bound)
        return number
    except ValueError as error:
        fix = kind.suggested_fix() if kind else "write a number, in SI units"
        raise field_error(f"'{bound}' is no bound of '{found}'", fix) from error


Constraint = Annotated[
    ResultConstraint | AccuracyTolerance,
    PlainValidator(_constraint),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["area <= 826 mm^2"]}),
]


class RobustOptions(StrictModel):
    """Efficiencies of sparse runs are uncertain: designs are scored by a quantile over samples of them, none of which exceeds 1."""

    spread: float = Field(gt=0, le=2, description="standard deviation of the logarithm of each sparse run's efficiency", examples=[0.2])
    quantile: float = Field(default=0.1, gt=0, lt=1)
    samples: int = Field(default=32, ge=2, le=1000)


class SearchSpec(StrictModel):
    maximize: tuple[Objective, ...] = Field(default=(), examples=["[performance]"])
    minimize: tuple[Objective, ...] = Field(default=(), examples=["[area]"])
    constraints: tuple[Constraint, ...] = Field(default=(), examples=['["area <= 826 mm^2", "power <= 400 W", "accuracy_drop <= 1 %"]'])
    weights: dict[str, Annotated[float, Field(gt=0, le=1e6)]] = Field(
        default={},
        description="of the workloads in the geometric mean, by their keys under 'workloads' (of each of its inputs) or by the names of "
        "results, as in 'bert-base (sequence=128)'; default: 1 each; not with 'over_workloads: worst'",
    )
    over_workloads: Literal["geometric_mean", "worst"] = Field(
        default="geometric_mean",
        description="one figure for several networks: their weighted geometric mean, or that of the network that gains least against its "
        "own dense latency (energy, edp) on the accelerator as described; constraints then hold for each network",
    )
    robust: RobustOptions | None = None
    sampler: SamplerName = Field(default="nsga2", description="exhaustive: every design of a grid; the others are Optuna's")
    trials: int = Field(default=2000, ge=1, le=10**7)
    ask_batch: int = Field(default=50, ge=1, le=10**5, description="designs that are asked for and evaluated at once")
    seed: int = Field(default=0, ge=0, lt=2**31)
    polish: bool = Field(default=True, description="improve the best design by gradients on its continuous axes, by steps on the others")

    @model_validator(mode="after")
    def _check(self) -> Self:
        texts = [str(found) for found in (*self.maximize, *self.minimize)]
        if len(set(texts)) < len(texts):
            raise field_error("an objective is given twice", "name each once")
        if sum(isinstance(found, AccuracyTolerance) for found in self.constraints) > 1:
            raise field_error("two tolerances of accuracy are given", "keep one 'accuracy_drop <= ...'")
        if self.over_workloads == "worst" and self.weights:
            what = "weights count in a geometric mean, and 'over_workloads: worst' takes the network that gains least"
            raise nested_field_errors(
                "SearchSpec", [(("weights",), field_error(what, "remove 'weights', or write 'over_workloads: geometric_mean'"))]
            )
        return self

    @property
    def objectives(self) -> list[tuple[Expression, float]]:
        """Each with the sign that makes it something to minimise."""
        default = (expression.parse_expression("performance", SEARCH_RESULTS),) if not (self.maximize or self.minimize) else ()
        return [*((found, -1.0) for found in (*default, *self.maximize)), *((found, 1.0) for found in self.minimize)]

    @property
    def bounds(self) -> list[ResultConstraint]:
        return [found for found in self.constraints if isinstance(found, ResultConstraint)]

    def tolerance(self, default: float) -> AccuracyTolerance:
        """The tolerated loss of accuracy; `default` in points of the metric where no constraint gives it."""
        given = (found for found in self.constraints if isinstance(found, AccuracyTolerance))
        return next(given, AccuracyTolerance(f"accuracy_drop <= {default:g}", default, False))

    @property
    def costs(self) -> set[str]:
        """Which costs are spoken of."""
        spoken = [found for found, _ in self.objectives] + [limit.expression for limit in self.bounds]
        return {name for found in spoken for name in found.names} & set(COST_RESULTS)
