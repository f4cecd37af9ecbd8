"""Which results of a sweep are kept: its variables (`store:`), with their units and descriptions, and its reduction (`keep:`)."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from dse.base.strict_model import AllDifferent, StrictModel, field_error
from dse.schema.model_options import Fidelity

RESULT_FILES = ("results.nc", "front.nc", "pareto.nc")  # in the folder that 'dse sweep', 'dse search' or 'dse pareto' wrote

TimeVariable = Literal["latency", "dense_latency", "speedup", "bound_share", "execution_share", "fits"]
MemoryVariable = Literal["footprint", "largest_batch"]
ServingVariable = Literal["time_to_first_token", "time_per_output_token", "tokens_per_s"]
CostVariable = Literal[
    "area", "power", "energy", "edp", "performance_per_area", "performance_per_watt", "average_power", "power_limited_latency", "cost_usd",
    "energy_per_token", "tokens_per_s_per_watt",
]  # fmt: skip
Variable = Literal[TimeVariable, MemoryVariable, ServingVariable, CostVariable]
STORED_BY_DEFAULT: tuple[Variable, ...] = (*get_args(TimeVariable), "footprint")
# Variables with one number for each design, network state and batch; the shares have more dimensions.
SCALAR_VARIABLES = tuple(name for name in get_args(Variable) if not name.endswith("_share"))

# Under 'capacity' a latency has a lower bound; under 'calibrated', a 90% prediction interval.
_SPEEDUP_INTERVAL = {"speedup": ("speedup_low", "speedup_high")}
INTERVAL_VARIABLES: dict[Fidelity, dict[str, tuple[str, ...]]] = {
    "capacity": {"latency": ("latency_bound",), "dense_latency": ("dense_latency_bound",)} | _SPEEDUP_INTERVAL,
    "calibrated": {name: (f"{name}_low", f"{name}_high") for name in ("latency", "dense_latency")}
    | {"speedup": (*_SPEEDUP_INTERVAL["speedup"], "faster_probability")},
}
ATTRIBUTES = {
    "latency": {"units": "s", "long_name": "network latency"},
    "dense_latency": {"units": "s", "long_name": "latency of the dense network on the same design"},
    "speedup": {"units": "1", "long_name": "dense latency / latency"},
    "latency_bound": {"units": "s", "long_name": "lower bound of the latency over all schedules of the on-chip memory"},
    "dense_latency_bound": {
        "units": "s",
        "long_name": "lower bound of the dense latency over all schedules of the on-chip memory",
    },
    "speedup_low": {"units": "1", "long_name": "lower bound of the speedup: lower bound of the dense latency / latency"},
    "speedup_high": {"units": "1", "long_name": "upper bound of the speedup: dense latency / lower bound of the latency"},
    "latency_low": {"units": "s", "long_name": "lower end of the 90% interval of the latency"},
    "latency_high": {"units": "s", "long_name": "upper end of the 90% interval of the latency"},
    "dense_latency_low": {"units": "s", "long_name": "lower end of the 90% interval of the dense latency"},
    "dense_latency_high": {"units": "s", "long_name": "upper end of the 90% interval of the dense latency"},
    "faster_probability": {"units": "1", "long_name": "probability that the network is faster than the dense one"},
    "bound_share": {"units": "1", "long_name": "share of the latency that the resource sets"},
    "execution_share": {"units": "1", "long_name": "share of the latency in the execution"},
    "fits": {
        "long_name": "weights (stored as small as a legal execution allows), key-value cache and the largest working set of activations "
        "at this batch fit the outermost memory together (true if its capacity is not given)"
    },
    "footprint": {"units": "B", "long_name": "bytes in the outermost memory: weights, key-value cache and activations"},
    "largest_batch": {"units": "1", "long_name": "largest batch with which the network fits the outermost memory"},
    "time_to_first_token": {"units": "s", "long_name": "latency of the prompt (phase prefill); NaN otherwise"},
    "time_per_output_token": {"units": "s", "long_name": "latency of one token of every sample (phase decode); NaN otherwise"},
    "tokens_per_s": {"units": "1/s", "long_name": "tokens of the whole batch per second: of the prompts, or new ones (phase decode)"},
    "area": {"units": "m^2", "long_name": "silicon area of the design"},
    "power": {"units": "W", "long_name": "power of the design at full load"},
    "energy": {"units": "J", "long_name": "energy of one run of the network, leakage included"},
    "edp": {"units": "J s", "long_name": "energy x latency"},
    "performance_per_area": {"units": "1/(s m^2)", "long_name": "samples per second (batch / latency) / area"},
    "performance_per_watt": {"units": "1/J", "long_name": "samples per second (batch / latency) / power at full load"},
    "average_power": {"units": "W", "long_name": "energy / latency; above the power of the design, the latency is not attainable"},
    "power_limited_latency": {
        "units": "s",
        "long_name": "latency at which the average power is at most the power of the design: no less than the latency, infinite where "
        "leakage alone exceeds the power",
    },
    "energy_per_token": {"units": "J", "long_name": "energy / tokens of the whole batch"},
    "tokens_per_s_per_watt": {"units": "1/J", "long_name": "tokens per second / power at full load"},
    "cost_usd": {"units": "USD", "long_name": "manufacturing cost of the good die and its interposer, without memory, test and margin"},
    "sparsity": {"units": "1", "long_name": "1 - nnz / size over the prunable weights, as realised"},
    "nominal_sparsity": {"units": "1", "long_name": "sparsity that the source states"},
    "accuracy": {"long_name": "metric of the pruned network"},
    "accuracy_low": {"long_name": "5% quantile of the accuracy: lower end of its 90% interval"},
    "accuracy_high": {"long_name": "95% quantile of the accuracy: upper end of its 90% interval"},
    "metric": {"long_name": "what the accuracy measures"},
    "dense_accuracy": {"long_name": "metric of the dense network of the same source"},
    "assumed_drop": {
        "units": "points of the metric",
        "long_name": "accuracy drop that the specification assumes; NaN where it assumes none",
    },
    "densities_from": {"long_name": "source of the layer densities, unless they were counted"},
}
SAMPLED_ATTRIBUTES = {  # where an interval of the speedup comes from samples of kernel parameters instead of lower bounds
    "speedup_low": {"units": "1", "long_name": "lower end of the 90% interval of the speedup"},
    "speedup_high": {"units": "1", "long_name": "upper end of the 90% interval of the speedup"},
}
DESIGN_VARIABLES = ("area", "power", "cost_usd")  # of a design, whichever the network
EXTRA_DIMS = {"bound_share": ("resource",), "execution_share": ("execution",)}  # beyond those of the sweep


def with_interval_variables(variables: Iterable[str], fidelity: Fidelity) -> list[str]:
    """Variables of a dataset, each followed by its bound or interval if the fidelity has one."""
    intervals = INTERVAL_VARIABLES.get(fidelity, {})
    return [name for variable in variables for name in (variable, *intervals.get(variable, ()))]


class StoreOptions(StrictModel):
    """Which variables are stored, and in which precision."""

    variables: Annotated[tuple[Variable, ...], AllDifferent] = Field(
        STORED_BY_DEFAULT, min_length=1, description="results to store", examples=["[latency, speedup, area]"]
    )
    dtype: Literal["float32", "float64"] = Field("float64", description="of the results, and of the evaluation")

    @property
    def cost_variables(self) -> frozenset[str]:
        """The stored variables of area, power and energy."""
        return frozenset(self.variables) & frozenset(get_args(CostVariable))

    @property
    def needs_energy(self) -> bool:
        return not self.cost_variables.isdisjoint({"energy", "edp", "average_power", "power_limited_latency", "energy_per_token"})


class ObjectiveNames(StrictModel):
    """Result variables to maximise and to minimise."""

    maximize: tuple[str, ...] = Field(default=(), description="results of which more is better", examples=["[speedup]"])
    minimize: tuple[str, ...] = Field(default=(), description="results of which less is better", examples=["[latency, area]"])

    @property
    def signs(self) -> dict[str, float]:
        """-1 for each variable to maximise, 1 for each variable to minimise, by name."""
        return dict.fromkeys(self.maximize, -1.0) | dict.fromkeys(self.minimize, 1.0)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if len(self.signs) < len(self.maximize) + len(self.minimize):
            raise field_error("an objective is given twice", "name each once")
        return self


class FrontOptions(ObjectiveNames):
    """The objectives of a Pareto front."""

    pool: bool = Field(default=False, description="one front over all networks and batches, instead of one for each")


class FrontReduction(StrictModel):
    """Keep the Pareto front."""

    front: FrontOptions = Field(description="objectives of the front", examples=["{minimize: [latency, area]}"])

    @model_validator(mode="after")
    def _check_objectives(self) -> Self:
        if not self.front.signs:
            raise field_error("the front has no objective", "write '{front: {minimize: [latency, area]}}'")
        return self


class TopReduction(ObjectiveNames):
    """Keep the best `top` results in one objective."""

    top: Annotated[int, Field(ge=1, le=10**6)] = Field(description="how many results are kept", examples=[100])

    @model_validator(mode="after")
    def _check_objectives(self) -> Self:
        if len(self.signs) != 1:
            raise field_error("'top' needs one objective", "write one, as in '{top: 100, minimize: [latency]}'")
        return self


def _reduction_tag(value: object) -> str:
    if isinstance(value, TopReduction) or (isinstance(value, dict) and "top" in value):
        return "top"
    return "front" if isinstance(value, FrontReduction | dict) else "name"


ReductionSpec = Annotated[
    Annotated[Literal["all", "summary"], Tag("name")] | Annotated[FrontReduction, Tag("front")] | Annotated[TopReduction, Tag("top")],
    Discriminator(_reduction_tag),
]


def objective_signs(keep: ReductionSpec) -> dict[str, float]:
    """The objectives of a reduction: -1 for each variable to maximise, 1 for each to minimise; empty for 'all' and 'summary'."""
    if isinstance(keep, FrontReduction):
        return keep.front.signs
    return keep.signs if isinstance(keep, TopReduction) else {}
