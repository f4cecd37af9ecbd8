"""What may stand in the files of a workload."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dse.base.strict_model import StrictModel, field_error
from dse.networks.registry import AnyArchitecture
from dse.sparsity.grammar import WrittenPattern
from dse.sparsity.kinds import BlockFamily, VNMFamily
from dse.sparsity.pattern import Pattern

Share = Annotated[float, Field(ge=0, le=1)]


class Metric(StrictModel):
    name: str = Field(examples=["top-1 accuracy"])
    unit: str = ""
    direction: Literal["higher", "lower"] = Field("higher", description="which way is better")


class Figure(StrictModel):
    """A published count, and what the network was run on when it was made."""

    value: float = Field(gt=0)
    source: str = Field(min_length=1)
    inputs: dict[str, Any] = Field({})


class Published(StrictModel):
    """What others count, for comparison: every parameter; multiply-adds of one sample."""

    parameters: Figure
    macs: Figure


class Description(StrictModel):
    """workload.yaml"""

    name: str = Field(min_length=1, examples=["my-network"])
    description: str = ""
    task: str = Field(examples=["image classification, ImageNet"])
    metric: Metric
    other_metrics: tuple[Metric, ...] = Field((), description="metrics of accuracies whose row names one")
    sources: tuple[str, ...] = Field(min_length=1, examples=["[https://...]"])
    notes: tuple[str, ...] = ()
    network: AnyArchitecture | None = Field(None, description="a published configuration, of which formulas make the layers")
    inputs: dict[str, Any] = Field({}, description="what the network is run on, unless a sweep says otherwise")
    published: Published | None = None

    @property
    def metrics(self) -> dict[str, Metric]:
        return {metric.name: metric for metric in (self.metric, *self.other_metrics)}


def _no_family(pattern: Pattern) -> Pattern:
    if isinstance(pattern, BlockFamily | VNMFamily):
        member = pattern.base if isinstance(pattern, BlockFamily) else f"{pattern.v}:{pattern.n}:8"
        raise field_error(f"'{pattern}' is a family, no pattern of a network", f"write one of its members, as in '{member}'")
    return pattern


NetworkPattern = Annotated[WrittenPattern, AfterValidator(_no_family)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _free(method: str) -> str:
    if method in ("dense", "hypothetical"):
        raise field_error(f"'{method}' is no method of pruning", "call it otherwise: the name has a meaning of its own")
    return method


Method = Annotated[str, Field(min_length=1), AfterValidator(_free)]


class VariantRow(StrictModel):
    method: Method
    pattern: NetworkPattern
    sparsity: Share
    layer: str
    nnz: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    row_mean: float | None = None
    row_std: float | None = None
    column_mean: float | None = None
    column_std: float | None = None
    columns_touched: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(None, description="columns with any nonzero")
    activation_density: Share | None = None


class StoredRow(StrictModel):
    """What a pattern that contains the mask of a layer stores for it, counted from the mask: padding included."""

    method: Method
    pattern: NetworkPattern
    sparsity: Share
    layer: str
    stored_as: NetworkPattern
    elements: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AccuracyRow(StrictModel):
    method: Method
    pattern: NetworkPattern
    sparsity: Share
    value: Finite
    dense_value: Finite | None = None
    source: str
    kind: Literal["published", "measured", "estimated"]
    metric: str | None = None
    combined_with: str = Field("", description="what the value includes beyond pruning, and the dense value does not")
    densities: Literal["traced", "computed", "uniform"] = Field(
        "traced", description="counted layer by layer; laid out by a rule of the method; or only the total is known, and spread evenly"
    )
