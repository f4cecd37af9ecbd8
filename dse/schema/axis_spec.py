"""The schema of an axis: a list of values, a list with a condition, or a range."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from dse.base.strict_model import StrictModel


class _ConditionalAxis(StrictModel):
    when: dict[str, Any] = Field(
        default={},
        description="in a search: the axis varies only where other axes have these values; elsewhere the accelerator's own value holds",
        examples=["{units.tensor_core.runs.x.enabled: true}"],
    )


class RangeAxis(_ConditionalAxis):
    """`steps` values from `start` to `stop`, both included, evenly spaced (or evenly in the logarithm).

    Without `steps`, a search takes any value in between.
    """

    start: Any = Field(alias="from", examples=["1 TB/s"])
    stop: Any = Field(alias="to", examples=["8 TB/s"])
    steps: Annotated[int, Field(ge=2, le=10**7, examples=[64])] | None = None
    scale: Literal["linear", "log"] = "linear"


class ListAxis(_ConditionalAxis):
    """A list of values with a condition."""

    values: Annotated[tuple[Any, ...], Field(min_length=1)]


def _axis_tag(value: object) -> str:
    if isinstance(value, ListAxis) or (isinstance(value, dict) and "values" in value):
        return "listed"
    return "range" if isinstance(value, dict | RangeAxis) else "list"


AxisSpec = Annotated[
    Annotated[RangeAxis, Tag("range")] | Annotated[ListAxis, Tag("listed")] | Annotated[tuple[Any, ...], Tag("list")],
    Discriminator(_axis_tag),
]
