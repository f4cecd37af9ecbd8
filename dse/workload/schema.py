"""The schema of a workload: the keys of workload.yaml and the columns of its CSV tables."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from dse.base.strict_model import StrictModel, field_error, nested_field_errors
from dse.networks.registry import AnyArchitecture
from dse.sparsity.grammar import PatternField
from dse.sparsity.kinds import BlockFamily, VNMFamily
from dse.sparsity.pattern import Pattern

RESERVED_METHODS = ("dense", "hypothetical")  # variants that every workload has, or that a sweep makes
Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Elements = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Metric(StrictModel):
    """What an accuracy measures."""

    name: str = Field(description="what is measured", examples=["top-1 accuracy"])
    unit: str = Field("", description="unit of the values", examples=["'%'"])
    direction: Literal["higher", "lower"] = Field("higher", description="which way is better")


class PublishedCount(StrictModel):
    """A count from a publication, and the inputs of the network that it holds for."""

    value: float = Field(gt=0, description="the count, without a unit", examples=[25557032])
    source: str = Field(min_length=1, description="where it was read", examples=["torchvision 0.20 model table"])
    inputs: dict[str, object] = Field({}, description="inputs of the network that it holds for", examples=["{sequence: 512}"])


class PublishedCounts(StrictModel):
    """Published counts to compare the layers with: all parameters of the network, and multiply-adds of one sample where they are known."""

    parameters: PublishedCount = Field(
        description="parameters of the whole network", examples=["{value: 25557032, source: torchvision model table}"]
    )
    macs: PublishedCount | None = Field(
        None, description="multiply-adds of one sample", examples=["{value: 4089184256, source: model card}"]
    )


class Description(StrictModel):
    """workload.yaml"""

    name: str = Field(min_length=1, description="name in results", examples=["my-network"])
    description: str = Field("", description="one line about the network", examples=["residual network with 50 layers"])
    task: str = Field(description="what the network does, and on which data", examples=["image classification, ImageNet"])
    metric: Metric = Field(description="what accuracies measure", examples=["{name: top-1 accuracy, unit: '%', direction: higher}"])
    other_metrics: tuple[Metric, ...] = Field(
        (), description="metrics of accuracies whose row names one", examples=["[{name: perplexity, direction: lower}]"]
    )
    sources: tuple[str, ...] = Field(min_length=1, description="where layers, masks and accuracies come from", examples=["[https://...]"])
    notes: tuple[str, ...] = Field((), description="remaining facts about the data", examples=["[the classifier is not pruned]"])
    network: AnyArchitecture | None = Field(
        None,
        description="the architecture, from which the layers are computed by formula",
        examples=[
            "{model_type: opt, vocab_size: 50272, hidden_size: 768, ffn_dim: 3072, num_hidden_layers: 12, "
            "num_attention_heads: 12, max_position_embeddings: 2048}"
        ],
    )
    inputs: dict[str, object] = Field(
        {}, description="inputs that the network runs on, unless a sweep sets others", examples=["{sequence: 512}"]
    )
    published: PublishedCounts | None = Field(
        None,
        description="published counts, which the layers are compared with",
        examples=["{parameters: {value: 25557032, source: model card}, macs: {value: 4089184256, source: model card}}"],
    )

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics by name."""
        return {metric.name: metric for metric in (self.metric, *self.other_metrics)}


def _refuse_family(pattern: Pattern) -> Pattern:
    """Refuse a family of patterns such as `block:16x16*`: a network has one pattern."""
    if isinstance(pattern, BlockFamily | VNMFamily):
        member = pattern.base if isinstance(pattern, BlockFamily) else f"{pattern.v}:{pattern.n}:8"
        raise field_error(f"'{pattern}' is a family of patterns, but a network has one pattern", f"write a member of it, as in '{member}'")
    return pattern


def _refuse_reserved(method: str) -> str:
    if method in RESERVED_METHODS:
        raise field_error(f"the method name '{method}' is reserved", "write another name")
    return method


ConcretePattern = Annotated[PatternField, AfterValidator(_refuse_family)]
Method = Annotated[str, Field(min_length=1), AfterValidator(_refuse_reserved)]


class VariantRow(StrictModel):
    """One layer of one variant (variants/*.csv): nonzero weights and, where they were counted, their spread over rows and columns."""

    method: Method
    pattern: ConcretePattern
    sparsity: Share
    layer: str
    nnz: Elements
    row_mean: float | None = None
    row_std: float | None = None
    column_mean: float | None = None
    column_std: float | None = None
    columns_touched: Elements | None = Field(None, description="columns with any nonzero")
    activation_density: Share | None = None


class StoredRow(StrictModel):
    """Elements that the pattern `stored_as` stores of one layer of one variant, padding included, counted from the mask."""

    method: Method
    pattern: ConcretePattern
    sparsity: Share
    layer: str
    stored_as: ConcretePattern
    elements: Elements


class UnionRow(StrictModel):
    """Share of the input channels of one layer of one variant that any of `tokens` consecutive tokens needs, counted from a recording."""

    method: Method
    pattern: ConcretePattern
    sparsity: Share
    layer: str
    tokens: int = Field(ge=1, le=10**9)
    groups: int | None = Field(None, ge=1, description="groups of so many tokens in the recording")
    union_density: Share
    imbalance: float | None = Field(None, ge=1, description="nonzeros of the fullest token of a group over the mean")


class AccuracyRow(StrictModel):
    """The accuracy of one variant (accuracy.csv)."""

    method: Method
    pattern: ConcretePattern
    sparsity: Share
    value: Finite
    dense_value: Finite | None = None
    low: Finite | None = Field(None, description="5% quantile of the value: the lower end of its 90% interval")
    high: Finite | None = Field(None, description="95% quantile of the value: the upper end of its 90% interval")
    source: str
    kind: Literal["published", "measured", "estimated"]
    metric: str | None = None
    combined_with: str = Field("", description="what the value includes beyond pruning, and the dense value does not")
    densities: Literal["traced", "computed", "uniform"] = Field(
        "traced", description="counted layer by layer; computed by a rule of the method; or only the total is known, and spread evenly"
    )

    @model_validator(mode="after")
    def _check_interval(self) -> Self:
        if (self.low is None) != (self.high is None):
            given, missing = ("low", "high") if self.high is None else ("high", "low")
            raise _column_error(missing, f"the interval has '{given}', but no '{missing}'", f"fill '{missing}', or leave both empty")
        if self.low is None or self.high is None:
            return self
        if self.low > self.high:
            raise _column_error("low", f"low {self.low:g} is above high {self.high:g}", "swap them")
        if not self.low <= self.value <= self.high:
            what = f"the value {self.value:g} is outside of its interval {self.low:g} to {self.high:g}"
            raise _column_error("value", what, "write the 5% and 95% quantiles of the value, which lies between them")
        return self


def _column_error(column: str, message: str, fix: str) -> ValidationError:
    """An error of one column of a row."""
    return nested_field_errors("row", [((column,), field_error(message, fix))])
