"""Which of a sweep's results are kept, where they are too many to keep all; `keep:` of a specification."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from dse.base.strict_model import StrictModel, field_error


class ObjectiveNames(StrictModel):
    """Result variables to maximise and to minimise."""

    maximize: tuple[str, ...] = Field(default=(), examples=["[speedup]"])
    minimize: tuple[str, ...] = Field(default=(), examples=["[latency, area]"])

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

    front: FrontOptions = Field(examples=["{minimize: [latency, area]}"])

    @model_validator(mode="after")
    def _check_objectives(self) -> Self:
        if not self.front.signs:
            raise field_error("the front has no objective", "write '{front: {minimize: [latency, area]}}'")
        return self


class TopReduction(ObjectiveNames):
    """Keep the best `top` results in one objective."""

    top: Annotated[int, Field(ge=1, le=10**6, examples=[100])]

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
