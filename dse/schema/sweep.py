"""The schema of a sweep: which accelerators run which networks, over which axes, under which model options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, PrivateAttr, Tag, ValidationInfo, field_validator

from dse.base.dtype import OperandDtypes
from dse.base.strict_model import AllDifferent, StrictModel, check_distinct, field_error
from dse.base.yaml_document import YamlDocument, load_document
from dse.schema.figures import SHOWS, FigureKind
from dse.schema.model_options import ModelOptions
from dse.schema.references import replace_objects, split_workload_item
from dse.schema.search import SearchSpec
from dse.schema.stored_results import SCALAR_VARIABLES, ReductionSpec, StoreOptions, objective_signs
from dse.schema.workload_selection import DescriptionReference, WorkloadSelection
from dse.sparsity.grammar import PatternAliases, read_pattern_aliases
from dse.sparsity.pattern import Pattern
from dse.workload import Workload

Batch = Annotated[int, Field(ge=1, le=10**9)]
WorkloadList = list[str | WorkloadSelection | dict[str, object]]


class _ConditionalAxis(StrictModel):
    when: dict[str, object] = Field(
        default={},
        description="in a search: the axis varies only where other axes have these values; elsewhere the accelerator's own value holds",
        examples=["{units.tensor_core.runs.x.enabled: true}"],
    )


class RangeAxis(_ConditionalAxis):
    """`steps` values from `start` to `stop`, both included, evenly spaced (or evenly in the logarithm).

    Without `steps`, a search takes any value in between.
    """

    start: object = Field(alias="from", description="first value, with its unit", examples=["1 TB/s"])
    stop: object = Field(alias="to", description="last value, with its unit", examples=["8 TB/s"])
    steps: Annotated[int, Field(ge=2, le=10**7)] | None = Field(
        None, description="number of values, both ends included; a search may leave it out and take any value in between", examples=[64]
    )
    scale: Literal["linear", "log"] = Field("linear", description="spacing of the values: even, or even in the logarithm")


class ListAxis(_ConditionalAxis):
    """A list of values with a condition."""

    values: Annotated[tuple[object, ...], Field(min_length=1)] = Field(description="values of the axis", examples=["[1 TB/s, 2 TB/s]"])


class LinkedAxis(StrictModel):
    """A number that follows from other numbers, which may be axes; it adds no dimension to the results."""

    link: str = Field(
        description="an expression over other numbers of the accelerator by their dotted paths",
        examples=["units.tensor_core.peak.int8 / 2"],
    )


def _axis_tag(value: object) -> str:
    if isinstance(value, LinkedAxis) or (isinstance(value, dict) and "link" in value):
        return "linked"
    if isinstance(value, ListAxis) or (isinstance(value, dict) and "values" in value):
        return "listed"
    return "range" if isinstance(value, dict | RangeAxis) else "list"


FreeAxis = RangeAxis | ListAxis | tuple[object, ...]
AxisSpec = Annotated[
    Annotated[RangeAxis, Tag("range")]
    | Annotated[LinkedAxis, Tag("linked")]
    | Annotated[ListAxis, Tag("listed")]
    | Annotated[tuple[object, ...], Tag("list")],
    Discriminator(_axis_tag),
]


def _resolve_aliases(part: object, aliases: Mapping[str, Pattern], is_pattern: bool = False) -> object:
    """A part of `axes` with patterns in the place of their names; `is_pattern`: the path around it, of an axis or a condition, is one."""
    if isinstance(part, dict):
        at = {key: str(key).endswith(".pattern") if "." in str(key) else is_pattern for key in part}  # keys without '.': 'values', 'when'
        return {key: _resolve_aliases(each, aliases, at[key]) for key, each in part.items()}
    if isinstance(part, list):
        return [_resolve_aliases(each, aliases, is_pattern) for each in part]
    return str(aliases[part]) if is_pattern and isinstance(part, str) and part in aliases else part


def _check_labels(dtypes: tuple[OperandDtypes, ...]) -> tuple[OperandDtypes, ...]:
    """Raise a validation error if two dtypes have the same label in results."""
    for position, dtype in enumerate(dtypes):
        if same := [other for other in dtypes[:position] if other.label == dtype.label]:
            raise field_error(f"'{same[0].text}' and '{dtype.text}' have the label '{dtype.label}' in results", "list one of them")
    return dtypes


class SweepSpec(StrictModel):
    """The specification of a sweep or, with `search`, of a search."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="name of the results and of their folder", examples=["my_sweep"])
    description: str = Field("", description="one line about the purpose", examples=["bandwidth against sparsity"])
    accelerators: Annotated[tuple[DescriptionReference, ...], AllDifferent] = Field(
        min_length=1, description="names, paths, or descriptions in place", examples=["[a100-sxm4-80gb]"]
    )
    workloads: dict[str, WorkloadSelection] = Field(
        min_length=1, description="networks by name or path, each with the variants to evaluate", examples=["{resnet50: {methods: all}}"]
    )
    batch: Annotated[tuple[Batch, ...], AllDifferent] = Field(
        (1,), min_length=1, description="samples that are evaluated together: one number or a list", examples=["[1, 32]"]
    )
    dtype: Annotated[tuple[OperandDtypes, ...], AllDifferent, AfterValidator(_check_labels)] = Field(
        min_length=1, description="number formats of the operands: one or a list", examples=["fp16"]
    )
    model: ModelOptions = Field(
        default_factory=lambda: ModelOptions.model_validate({}),
        description="assumptions of the latency model",
        examples=["{fidelity: capacity}"],
    )
    patterns: PatternAliases = Field(default={}, description="names for patterns, used in this file", examples=["{mine: block:32x32/2:4}"])
    axes: dict[str, AxisSpec] = Field(
        {},
        description="values by dotted path of the accelerator: a list, or a range {from, to, steps, scale}",
        examples=["{memory.dram.bandwidth: [1 TB/s, 2 TB/s]}"],
    )
    accuracy_drop: float = Field(1.0, ge=0, le=1e6, description="accuracy drop of the iso-accuracy speedup, in points of the metric")
    search: SearchSpec | None = Field(
        default=None, description="objectives and constraints of 'dse search'", examples=["{maximize: [performance]}"]
    )
    plots: Annotated[tuple[FigureKind, ...], AllDifferent] = Field(
        (), description="figures to draw; " + "; ".join(f"{kind}: {shows}" for kind, shows in SHOWS.items()), examples=["[speedup]"]
    )
    keep: ReductionSpec = Field(
        default="all", description="which of the results are kept", examples=["{front: {minimize: [latency, area]}}"]
    )
    store: StoreOptions = Field(
        default_factory=lambda: StoreOptions.model_validate({}),
        description="variables of the results, and their precision",
        examples=["{variables: [latency, speedup, area, power]}"],
    )

    _workloads: Mapping[str, Workload] = PrivateAttr({})

    @property
    def loaded_workloads(self) -> Mapping[str, Workload]:
        """Workloads that were given as objects, by their keys in `workloads`."""
        return self._workloads

    @property
    def free_axes(self) -> dict[str, FreeAxis]:
        """The axes with values of their own, which are dimensions of the results."""
        return {path: axis for path, axis in self.axes.items() if not isinstance(axis, LinkedAxis)}

    @property
    def linked_axes(self) -> dict[str, LinkedAxis]:
        """The axes that follow from other numbers."""
        return {path: axis for path, axis in self.axes.items() if isinstance(axis, LinkedAxis)}

    def with_stored_variables(self) -> "SweepSpec":
        """The specification with the variables that its reduction needs, if it does not state which are stored."""
        if self.keep == "all" or "variables" in self.store.model_fields_set:
            return self
        needed = objective_signs(self.keep) or ("dense_latency", "speedup")
        names = dict.fromkeys(("latency", *(name for name in needed if name in SCALAR_VARIABLES)))
        return self.model_copy(update={"store": self.store.model_copy(update={"variables": tuple(names)})})

    @field_validator("patterns", mode="before")
    @classmethod
    def _check_names(cls, value: object) -> object:
        if isinstance(value, str | list):
            fix = "write those that a network runs under the network, as in 'workloads: {bert-base: {patterns: [\"2:4\"]}}'"
            raise field_error("'patterns' gives patterns names of your own", fix)
        return value

    @field_validator("workloads", mode="before", json_schema_input_type=WorkloadList | dict[str, WorkloadSelection | None])
    @classmethod
    def _accept_list(cls, value: object) -> object:
        """Read `[resnet50]` and `{resnet50: }` as all methods; items of a list may also be selections with `workload`, or descriptions."""
        entries = [split_workload_item(item) for item in value] if isinstance(value, list) else []
        keys = [key for key, _ in entries]
        if entries and all(isinstance(key, str) for key in keys):
            check_distinct(tuple(keys))
            value = dict(entries)
        return {key: {} if selection is None else selection for key, selection in value.items()} if isinstance(value, dict) else value

    @field_validator("batch", mode="before", json_schema_input_type=Batch | list[Batch])
    @classmethod
    def _accept_one_batch(cls, value: object) -> object:
        return value if isinstance(value, list) else [value]

    @field_validator("dtype", mode="before", json_schema_input_type=OperandDtypes | list[OperandDtypes])
    @classmethod
    def _accept_one_dtype(cls, value: object) -> object:
        return value if isinstance(value, list) else [value]

    @field_validator("axes", mode="before")
    @classmethod
    def _check_axes(cls, value: object, info: ValidationInfo) -> object:
        for path, axis in value.items() if isinstance(value, dict) else ():
            if not isinstance(axis, list | dict) or not axis:
                raise field_error(
                    f"'{path}: {axis}' is not an axis", "write a list of values, or {from: ..., to: ..., steps: ..., scale: log}"
                )
        aliases = read_pattern_aliases(info.context)  # the accelerators do not know the names of this file
        return _resolve_aliases(value, aliases) if aliases else value


def read_sweep(source: Path | Mapping[str, object]) -> tuple[SweepSpec, YamlDocument]:
    """Read a sweep specification from a YAML file or a mapping, which may hold accelerators and workloads as objects.

    Raises InputError with every problem.
    """
    described, workloads = replace_objects(source) if isinstance(source, Mapping) else (source, {})
    document = load_document(described)
    spec = document.validate(SweepSpec)
    spec._workloads = workloads
    return spec, document
