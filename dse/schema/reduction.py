"""What of a sweep's results is kept, where they are too many to keep them all; `keep:` of a specification."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from dse.base.strict_model import StrictModel, field_error


class ObjectiveNames(StrictModel):
    maximize: tuple[str, ...] = Field(default=(), examples=["[speedup]"])
    minimize: tuple[str, ...] = Field(default=(), examples=["[latency, area]"])

    @property
    def signs(self) -> dict[str, float]:
        """-1 for what is maximised, 1 for what is minimised, by name."""
        return dict.fromkeys(self.maximize, -1.0) | dict.fromkeys(self.minimize, 1.0)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if len(self.signs) < len(self.maximize) + len(self.minimize):
            raise field_error("an objective is given twice", "name each once")
        return self


class FrontOptions(ObjectiveNames):
    pool: bool = Field(default=False, description="one front over all networks and batches, instead of one for each")


class FrontReduction(StrictModel):
    """The Pareto front."""

    front: FrontOptions = Field(examples=["{minimize: [latency, area]}"])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.front.signs:
            raise field_error("the front has no objective", "write '{front: {minimize: [latency, area]}}'")
        return self


class TopReduction(ObjectiveNames):
    """The best so many in one objective."""

    top: Annotated[int, Field(ge=1, le=10**6, examples=[100])]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.signs) != 1:
            raise field_error("the best in what?", "write one objective, as in '{top: 100, minimize: [latency]}'")
        return self


def _form(written: Any) -> str:
    if isinstance(written, TopReduction) or (isinstance(written, dict) and "top" in written):
        return "top"
    return "front" if isinstance(written, FrontReduction | dict) else "name"


ReductionSpec = Annotated[
    Annotated[Literal["all", "summary"], Tag("name")] | Annotated[FrontReduction, Tag("front")] | Annotated[TopReduction, Tag("top")],
    Discriminator(_form),
]


def objective_signs(keep: ReductionSpec) -> dict[str, float]:
    """What is kept is chosen by: -1 for what is maximised, 1 for what is minimised, by name."""
    if isinstance(keep, FrontReduction):
        return keep.front.signs
    return keep.signs if isinstance(keep, TopReduction) else {}
