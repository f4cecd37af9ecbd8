"""The schema of a search: objectives, constraints and the sampler; `search:` of a specification."""

import ast
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from dse.base.display_units import format_quantity
from dse.base.dtype import OperandDtypes
from dse.base.expression import Expression, parse_expression, split_brackets
from dse.base.strict_model import StrictModel, field_error, nested_field_errors, validation_errors
from dse.base.units import Area, Energy, Power, Quantity, Time
from dse.schema.run_settings import run_settings

# The results that score a design, with their meaning. Over several networks, each result is the weighted geometric mean, or that of the
# network that gains least.
SEARCH_RESULTS = {
    "performance": "times as fast as the dense network on the accelerator as described, at iso-accuracy",
    "speedup": "times as fast as the dense network on the same design, at iso-accuracy",
    "latency": "of the network, at iso-accuracy [s]",
    "energy": "of one run of the network, at iso-accuracy [J]",
    "edp": "energy x latency [J s]",
    "batch": "size: samples in one run of the network",
    "throughput": "samples (images, sequences, tokens) per second: the batch size / latency [1/s]",
    "occupancy": "share of the outermost memory that the network occupies: weights, key-value cache and activations",
    "area": "[m^2]",
    "power": "at full load [W]",
}
NETWORK_RESULTS = ("performance", "speedup", "latency", "energy", "edp", "throughput", "occupancy")  # may be of one network
COST_RESULTS = ("area", "power", "energy", "edp")
_UNITS: dict[str, type[Quantity]] = {"area": Area, "power": Power, "latency": Time, "energy": Energy}
REFINED_SHARE = 0.4  # of the trials of a search, at most, in which designs are refined
MAX_REFINED = 600  # trials in which designs are refined
SamplerName = Literal["evolutionary", "exhaustive", "nsga2", "nsga3", "tpe", "gp", "random", "qmc"]


def _parse_objective(value: object) -> Expression:
    if isinstance(value, Expression):
        return value
    with validation_errors():
        expression = parse_expression(str(value), SEARCH_RESULTS, NETWORK_RESULTS)
        for name in expression.names:
            run_settings(name)  # raises InputError
        return expression


Objective = Annotated[
    Expression, PlainValidator(_parse_objective), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": ["performance"]})
]


@dataclass(frozen=True)
class ResultConstraint:
    """`expression` <= or >= `bound`, in SI units; `text` as the user wrote it."""

    text: str
    expression: Expression
    sign: float  # 1 for <=, -1 for >=
    bound: float

    def __str__(self) -> str:
        return self.text

    def excess(self, value: Any) -> Any:
        """Violation of the constraint as a fraction of its bound; at most 0 where the constraint holds."""
        return self.sign * (value - self.bound) / abs(self.bound)

    def value_text(self, excess: float) -> str:
        """The value that violates the constraint by `excess`, in its unit."""
        value = self.bound + self.sign * excess * abs(self.bound)
        kind = _UNITS.get(split_brackets(self.expression.names[0])[0]) if isinstance(self.expression.tree, ast.Name) else None
        return format_quantity(value, kind.unit if kind else "1")


@dataclass(frozen=True)
class AccuracyTolerance:
    """The tolerated accuracy drop: in points of the metric, or in % of the accuracy of the dense network if `relative`."""

    text: str
    max_drop: float
    relative: bool

    def __str__(self) -> str:
        return self.text


_FITS = re.compile(r"fits\s*(\[.*\])?")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_PER_SECOND = re.compile(r"(\S+?) ?([kMG]?) ?(?:(?:token|sample|image|sequence|frame|inference|request)s?)? ?/ ?s")
_RELATION = re.compile(r"(<=|>=)")


def _parse_constraint(value: object) -> ResultConstraint | AccuracyTolerance:
    if isinstance(value, ResultConstraint | AccuracyTolerance):
        return value
    if match := _FITS.fullmatch(str(value).strip()):
        return ResultConstraint(str(value).strip(), _parse_objective(f"occupancy{match[1] or ''}"), 1.0, 1.0)
    parts = [part.strip() for part in _RELATION.split(str(value), maxsplit=1)]
    if len(parts) != 3 or not all(parts):
        raise field_error(f"'{value}' is not a constraint", "write a result, <= or >= and a bound, as in 'area <= 826 mm^2'")
    left, relation, right = parts
    if left == "accuracy_drop":
        return _parse_tolerance(str(value), relation, right)
    constrained = _parse_objective(left)
    bound = _parse_bound(constrained, right)
    if bound == 0:
        raise field_error(f"'{value}' has the bound 0", "write another bound: violations are measured relative to it")
    return ResultConstraint(str(value).strip(), constrained, 1.0 if relation == "<=" else -1.0, bound)


def _parse_tolerance(text: str, relation: str, bound: str) -> AccuracyTolerance:
    relative = bound.endswith("%")
    try:
        max_drop = float(bound.removesuffix("%"))
    except ValueError:
        max_drop = -1.0
    if relation != "<=" or not 0 <= max_drop < 1e6:
        fix = "write 'accuracy_drop <= 1.0', in points of the metric, or 'accuracy_drop <= 1 %'"
        raise field_error(f"'{text}' is not a valid tolerance", fix)
    return AccuracyTolerance(text.strip(), max_drop, relative)


def _parse_bound(constrained: Expression, text: str) -> float:
    """Parse a bound: a quantity if it bounds a single result with a unit, otherwise a number in SI units."""
    single = split_brackets(constrained.names[0])[0] if isinstance(constrained.tree, ast.Name) else ""
    kind = _UNITS.get(single)
    try:
        bound = kind.model_validate(text).value if kind else _parse_throughput(text) if single == "throughput" else float(text)
        if not math.isfinite(bound):
            raise ValueError(text)
        return bound
    except ValueError as error:
        number_fix = (
            "write a number per second, as in '1000 tokens/s' or '20 ktokens/s'"
            if single == "throughput"
            else "write a number, in SI units"
        )
        fix = kind.suggested_fix() if kind else number_fix
        raise field_error(f"'{text}' is not a valid bound of '{constrained}'", fix) from error


def _parse_throughput(text: str) -> float:
    """Parse '20 ktokens/s', '1k/s' or '1000'; raises ValueError."""
    match = _PER_SECOND.fullmatch(" ".join(text.split()))
    return float(match[1]) * _PREFIXES[match[2]] if match else float(text)


Constraint = Annotated[
    ResultConstraint | AccuracyTolerance,
    PlainValidator(_parse_constraint),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["area <= 826 mm^2"]}),
]


class RobustOptions(StrictModel):
    """Score designs by a quantile over random efficiencies of sparse runs, which are uncertain; no sample exceeds 1."""

    spread: float = Field(gt=0, le=2, description="standard deviation of the logarithm of each sparse run's efficiency", examples=[0.2])
    quantile: float = Field(default=0.1, gt=0, lt=1, description="share of the samples that may be worse than the score", examples=[0.1])
    samples: int = Field(default=32, ge=2, le=1000, description="random sets of efficiencies", examples=[32])


class SearchSpec(StrictModel):
    """Objectives, constraints and sampler of a search."""

    maximize: tuple[Objective, ...] = Field(
        default=(), description="results, or expressions of them, of which more is better; default: performance", examples=["[performance]"]
    )
    minimize: tuple[Objective, ...] = Field(default=(), description="likewise, of which less is better", examples=["[area]"])
    constraints: tuple[Constraint, ...] = Field(
        default=(),
        description="bounds of results, with units, and the accuracy drop",
        examples=['["area <= 826 mm^2", "power <= 400 W", "accuracy_drop <= 1 %"]'],
    )
    weights: dict[str, Annotated[float, Field(gt=0, le=1e6)]] = Field(
        default={},
        description="weights of the geometric mean over workloads, by key under 'workloads' (each of its inputs gets the weight) or by the "
        "name in results, as in 'bert-base (sequence=128)'; default: 1 each; not with 'over_workloads: worst'",
        examples=["{resnet50: 2, bert-base: 1}"],
    )
    over_workloads: Literal["geometric_mean", "worst"] = Field(
        default="geometric_mean",
        description="how several networks are combined: by their weighted geometric mean, or by the network that gains least against its "
        "own dense latency (energy, edp) on the accelerator as described; with 'worst', constraints hold for each network",
    )
    robust: RobustOptions | None = Field(
        None,
        description="score designs by a quantile over uncertain efficiencies; default: efficiencies as described",
        examples=["{spread: 0.2}"],
    )
    sampler: SamplerName = Field(
        default="evolutionary",
        description="evolutionary: a quasi-random start, then variations of the best designs; exhaustive: every design of a grid; the "
        "others are samplers of Optuna",
        examples=["evolutionary"],
    )
    trials: int = Field(
        default=2000, ge=1, le=10**7, description="designs to evaluate, with those of the local refinement", examples=[2000]
    )
    ask_batch: int = Field(
        default=50, ge=1, le=10**5, description="designs that the sampler proposes and that are evaluated in one batch", examples=[50]
    )
    seed: int = Field(default=0, ge=0, lt=2**31, description="seed of the sampler", examples=[0])
    polish: bool = Field(
        default=True,
        description="refine the best designs by local search, within the trials: gradients on continuous axes, steps on the others",
    )

    tie_tolerance: float = Field(
        default=0.001,
        ge=0,
        lt=1,
        description="designs within this relative difference of the best value of a single objective are equal: of these, the one with the "
        "least area, then power, is reported as the best",
        examples=[0.01],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        texts = [str(objective) for objective in (*self.maximize, *self.minimize)]
        if len(set(texts)) < len(texts):
            raise field_error("an objective is given twice", "name each once")
        if sum(isinstance(constraint, AccuracyTolerance) for constraint in self.constraints) > 1:
            raise field_error("two tolerances of accuracy are given", "keep one 'accuracy_drop <= ...'")
        if self.over_workloads == "worst" and self.weights:
            what = "weights count in a geometric mean, and 'over_workloads: worst' takes the network that gains least"
            raise nested_field_errors(
                "SearchSpec", [(("weights",), field_error(what, "remove 'weights', or write 'over_workloads: geometric_mean'"))]
            )
        return self

    @property
    def objectives(self) -> list[tuple[Expression, float]]:
        """Each objective with its sign: -1 to maximise, 1 to minimise; default: maximise performance."""
        default = (parse_expression("performance", SEARCH_RESULTS),) if not (self.maximize or self.minimize) else ()
        maximized = [(objective, -1.0) for objective in (*default, *self.maximize)]
        return [*maximized, *((objective, 1.0) for objective in self.minimize)]

    @property
    def sampled_trials(self) -> int:
        """The trials that the sampler proposes; the others are left for the local search."""
        if not self.polish:
            return self.trials
        return self.trials - min(int(REFINED_SHARE * self.trials), MAX_REFINED)

    @cached_property
    def bounds(self) -> list[ResultConstraint]:
        """The constraints on results, without the accuracy tolerance, each once."""
        return list({str(constraint): constraint for constraint in self.constraints if isinstance(constraint, ResultConstraint)}.values())

    def tolerance(self, default: float) -> AccuracyTolerance:
        """The tolerated accuracy drop; `default`, in points of the metric, if no constraint states it."""
        stated = (constraint for constraint in self.constraints if isinstance(constraint, AccuracyTolerance))
        return next(stated, AccuracyTolerance(f"accuracy_drop <= {default:g}", default, False))

    @cached_property
    def names(self) -> list[str]:
        """The results that objectives or constraints use, with their brackets, each once."""
        used = [objective for objective, _ in self.objectives] + [constraint.expression for constraint in self.bounds]
        return list(dict.fromkeys(name for term in used for name in term.names))

    @cached_property
    def results(self) -> set[str]:
        """The results that objectives or constraints use, without brackets."""
        return {split_brackets(name)[0] for name in self.names}

    def leaves_to_design(self, setting: Literal["batch", "dtype"]) -> bool:
        """Whether some result does not name its batch size, or its dtype, in brackets, so that it is that of the design."""
        depend = (*NETWORK_RESULTS, "batch") if setting == "batch" else NETWORK_RESULTS
        named = [run_settings(name) for name in self.names if split_brackets(name)[0] in depend]
        return not named or any(getattr(each, setting) is None for each in named)

    @cached_property
    def named_dtypes(self) -> tuple[OperandDtypes, ...]:
        """The dtypes in the brackets of results, each once."""
        return tuple(dict.fromkeys(dtype for name in self.names if (dtype := run_settings(name).dtype) is not None))

    @cached_property
    def costs(self) -> set[str]:
        """The cost results that objectives or constraints use."""
        return self.results & set(COST_RESULTS)
