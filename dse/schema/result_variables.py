"""The variables of a sweep's results: which there are, which have interval variables, and which are stored."""

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import Field

from dse.base.strict_model import AllDifferent, StrictModel
from dse.schema.model_options import Fidelity

TimeVariable = Literal["latency", "dense_latency", "speedup", "bound_share", "execution_share", "fits"]
CostVariable = Literal[
    "area", "power", "energy", "edp", "performance_per_area", "performance_per_watt", "average_power", "power_limited_latency"
]
# Variables with one number for each design, network state and batch; the shares have more dimensions.
SCALAR_VARIABLES = tuple(name for name in (*get_args(TimeVariable), *get_args(CostVariable)) if not name.endswith("_share"))

# Under 'capacity' a latency has a lower bound; under 'calibrated', a 90% prediction interval.
_SPEEDUP_INTERVAL = {"speedup": ("speedup_low", "speedup_high")}
INTERVAL_VARIABLES: dict[Fidelity, dict[str, tuple[str, ...]]] = {
    "capacity": {"latency": ("latency_bound",), "dense_latency": ("dense_latency_bound",)} | _SPEEDUP_INTERVAL,
    "calibrated": {name: (f"{name}_low", f"{name}_high") for name in ("latency", "dense_latency", "speedup")},
}


def with_interval_variables(variables: Iterable[str], fidelity: Fidelity) -> list[str]:
    """Variables of a dataset, each followed by its bound or interval if the fidelity has one."""
    intervals = INTERVAL_VARIABLES.get(fidelity, {})
    return [name for variable in variables for name in (variable, *intervals.get(variable, ()))]


class StoreOptions(StrictModel):
    """Which variables are stored, and in which precision."""

    variables: Annotated[tuple[Literal[TimeVariable, CostVariable], ...], AllDifferent] = Field(get_args(TimeVariable), min_length=1)
    dtype: Literal["float32", "float64"] = Field("float64", description="of the results, and of the evaluation")

    @property
    def cost_variables(self) -> frozenset[str]:
        """The stored variables of area, power and energy."""
        return frozenset(self.variables) & frozenset(get_args(CostVariable))

    @property
    def needs_energy(self) -> bool:
        return not self.cost_variables.isdisjoint({"energy", "edp", "average_power", "power_limited_latency"})
