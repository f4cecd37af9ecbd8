"""The sweep schema: which accelerators run which networks, over which axes, by which model."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, Discriminator, Field, PrivateAttr, Tag, ValidationInfo, field_validator, model_validator

from dse.base.dtype import OperandDtypes
from dse.base.strict_model import StrictModel, field_error
from dse.base.yaml_document import YamlDocument, load_document
from dse.schema.figures import SHOWS, FigureKind
from dse.schema.model_options import Fidelity, ModelOptions
from dse.schema.reduction import ReductionSpec, objective_signs
from dse.schema.references import separate_objects, workload_entry
from dse.schema.search import SearchSpec
from dse.sparsity.grammar import PatternAliases, read_pattern_aliases
from dse.workload import Workload
from dse.workload.schema import ConcretePattern

PositiveFraction = Annotated[float, Field(gt=0, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Batch = Annotated[int, Field(ge=1, le=10**9)]

T = TypeVar("T")


def _different(values: tuple[T, ...]) -> tuple[T, ...]:
    """Results are labelled by what is listed, so nothing may be listed twice."""
    for position, value in enumerate(values):
        if value in values[:position]:
            label = value.get("name") if isinstance(value, dict) else value
            raise field_error(f"'{label}' is listed twice", "list it once")
    return values


AllDifferent = AfterValidator(_different)
TimeVariable = Literal["latency", "dense_latency", "speedup", "bound_share", "execution_share", "fits"]
SPEEDUP_INTERVAL = {"speedup": ("speedup_low", "speedup_high")}
INTERVAL_VARIABLES: dict[Fidelity, dict[str, tuple[str, ...]]] = {
    "capacity": {"latency": ("latency_bound",), "dense_latency": ("dense_latency_bound",)} | SPEEDUP_INTERVAL,
    "calibrated": {name: (f"{name}_low", f"{name}_high") for name in ("latency", "dense_latency", "speedup")},
}
CostVariable = Literal[
    "area", "power", "energy", "edp", "performance_per_area", "performance_per_watt", "average_power", "power_limited_latency"
]
SCALAR_VARIABLES = tuple(
    name for name in (*get_args(TimeVariable), *get_args(CostVariable)) if not name.endswith("_share")
)  # a number each


def with_interval_variables(variables: Iterable[str], fidelity: Fidelity) -> list[str]:
    """The variables of a dataset: with each time how far schedules may move it, or measured kernels leave it open, if they count."""
    return [name for variable in variables for name in (variable, *INTERVAL_VARIABLES.get(fidelity, {}).get(variable, ()))]


class HypotheticalPatterns(StrictModel):
    """Hypothetical variants: patterns that nobody has pruned the network to, at densities that are known."""

    list: Annotated[tuple[ConcretePattern, ...], AllDifferent] = Field(min_length=1, examples=['["1:8", "block:16x16"]'])
    densities: Literal["own", "from_method"] | tuple[PositiveFraction, ...] = Field(
        "own",
        description="own: the pattern's N/M; from_method: each measured variant's, layer by layer; or a list of uniform ones",
        examples=["from_method"],
    )

    @field_validator("densities", mode="before")
    @classmethod
    def _check_densities(cls, value: Any) -> Any:
        if value not in ("own", "from_method") and not (isinstance(value, list) and value):
            raise field_error(f"'{value}' is not a choice of densities", "write own, from_method or a list, as in '[0.5, 0.25]'")
        for density in value if isinstance(value, list) else ():
            if isinstance(density, bool) or not isinstance(density, int | float) or not 0 < density <= 1:
                raise field_error(f"density {density} is not above 0 and at most 1", "write the share kept, as in '[0.5, 0.25]'")
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        for pattern in self.list:
            if self.densities == "own" and pattern.density is None:
                raise field_error(f"'{pattern}' has no density of its own", "write 'densities: from_method' or a list, as in '[0.5, 0.25]'")
        return self


def _one_or_many(written: Any) -> str:
    return "all" if isinstance(written, str) else "list"


Methods = Annotated[
    Annotated[Literal["all"], Tag("all")] | Annotated[tuple[str, ...], AllDifferent, Tag("list")], Discriminator(_one_or_many)
]


def _reference_form(written: Any) -> str:
    return "description" if isinstance(written, dict) else "value"


DescriptionReference = Annotated[
    Annotated[str, Tag("value")] | Annotated[dict[str, Any], Tag("description")], Discriminator(_reference_form)
]  # a name of the catalogue, a path, or what the file would say


class WorkloadSelection(StrictModel):
    """What of a network is evaluated."""

    workload: DescriptionReference | None = Field(
        None, description="its name, its path, or what its workload.yaml would say; default: the key", examples=["resnet50"]
    )
    methods: Methods = Field("all", examples=["[magnitude_pruning]"])
    sparsities: Annotated[tuple[Fraction, ...], AllDifferent] | None = Field(
        None, min_length=1, description="nominal or realised ones; default: all", examples=["[0.9]"]
    )
    patterns: tuple[HypotheticalPatterns, ...] = ()
    activation_density: PositiveFraction | None = Field(
        default=None, description="nonzero share of every layer's inputs, assumed; default: as counted, or 1", examples=[0.5]
    )
    inputs: dict[str, Annotated[tuple[str | int | float, ...], Field(min_length=1), AllDifferent]] = Field(
        {}, description="what the network is run on: a value or a list of each, every combination", examples=["{sequence: [512, 2048]}"]
    )

    def input_combinations(self) -> list[dict[str, Any]]:
        return [dict(zip(self.inputs, values, strict=True)) for values in itertools.product(*self.inputs.values())]

    @field_validator("inputs", mode="before", json_schema_input_type=dict[str, str | int | float | list[str | int | float]])
    @classmethod
    def _accept_one_value(cls, value: Any) -> Any:
        return {key: v if isinstance(v, list) else [v] for key, v in value.items()} if isinstance(value, dict) else value

    @field_validator("methods", mode="before")
    @classmethod
    def _accept_all(cls, value: Any) -> Any:
        if isinstance(value, str) and value != "all":
            raise field_error(f"'{value}' is not a list", f"write 'all' or '[{value}]'")
        return value

    @field_validator("patterns", mode="before", json_schema_input_type=HypotheticalPatterns | list[HypotheticalPatterns])
    @classmethod
    def _accept_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value


WorkloadList = list[str | WorkloadSelection | dict[str, Any]]


class _Axis(StrictModel):
    when: dict[str, Any] = Field(
        default={},
        description="in a search: only where other axes have these values; elsewhere the value is the accelerator's own",
        examples=["{units.tensor_core.runs.x.enabled: true}"],
    )


class RangeAxis(_Axis):
    """`steps` values from `start` to `stop`, both included, evenly spaced (or evenly in the logarithm); without `steps` a search
    takes any value in between."""

    start: Any = Field(alias="from", examples=["1 TB/s"])
    stop: Any = Field(alias="to", examples=["8 TB/s"])
    steps: Annotated[int, Field(ge=2, le=10**7, examples=[64])] | None = None
    scale: Literal["linear", "log"] = "linear"


class ListAxis(_Axis):
    """A list of values with a condition."""

    values: Annotated[tuple[Any, ...], Field(min_length=1)]


def _form(written: Any) -> str:
    if isinstance(written, ListAxis) or (isinstance(written, dict) and "values" in written):
        return "listed"
    return "range" if isinstance(written, dict | RangeAxis) else "list"


AxisSpec = Annotated[
    Annotated[RangeAxis, Tag("range")] | Annotated[ListAxis, Tag("listed")] | Annotated[tuple[Any, ...], Tag("list")], Discriminator(_form)
]


class StoreOptions(StrictModel):
    variables: Annotated[tuple[Literal[TimeVariable, CostVariable], ...], AllDifferent] = Field(get_args(TimeVariable), min_length=1)
    dtype: Literal["float32", "float64"] = Field("float64", description="of the results, and of the evaluation")

    @property
    def cost_variables(self) -> frozenset[str]:
        """What is asked for of area, power and energy."""
        return frozenset(self.variables) & frozenset(get_args(CostVariable))

    @property
    def needs_energy(self) -> bool:
        return not self.cost_variables.isdisjoint({"energy", "edp", "average_power", "power_limited_latency"})


class SweepSpec(StrictModel):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", examples=["my_sweep"])
    description: str = ""
    accelerators: Annotated[tuple[DescriptionReference, ...], AllDifferent] = Field(
        min_length=1, description="names, paths, or what the files would say", examples=["[a100-sxm4-80gb]"]
    )
    workloads: dict[str, WorkloadSelection] = Field(min_length=1, examples=["{resnet50: {methods: all}}"])
    batch: Annotated[tuple[Batch, ...], AllDifferent] = Field((1,), min_length=1, examples=["[1, 32]"])
    dtype: Annotated[tuple[OperandDtypes, ...], AllDifferent] = Field(min_length=1, examples=["fp16"])
    model: ModelOptions = Field(default_factory=lambda: ModelOptions.model_validate({}))
    patterns: PatternAliases = Field(default={}, description="names of one's own for patterns", examples=["{mine: block:32x32/2:4}"])
    axes: dict[str, AxisSpec] = Field({}, examples=["{memory.dram.bandwidth: [1 TB/s, 2 TB/s]}"])
    accuracy_drop: float = Field(1.0, ge=0, le=1e6, description="of the iso-accuracy line, in the metric's own points")
    search: SearchSpec | None = Field(default=None, description="what 'dse search' looks for", examples=["{maximize: [performance]}"])
    plots: Annotated[tuple[FigureKind, ...], AllDifferent] = Field(
        (), description="figures to draw; " + "; ".join(f"{kind}: {shows}" for kind, shows in SHOWS.items()), examples=["[speedup]"]
    )
    keep: ReductionSpec = Field(default="all", description="of the results", examples=["{front: {minimize: [latency, area]}}"])
    store: StoreOptions = Field(default_factory=lambda: StoreOptions.model_validate({}))

    _workloads: Mapping[str, Workload] = PrivateAttr({})

    @property
    def loaded_workloads(self) -> Mapping[str, Workload]:
        """Workloads that were given as objects, by their keys in `workloads`."""
        return self._workloads

    def with_stored_variables(self) -> "SweepSpec":
        """With the results that something is kept by, where it doesn't say which are stored."""
        if self.keep == "all" or "variables" in self.store.model_fields_set:
            return self
        chosen = objective_signs(self.keep) or ("dense_latency", "speedup")
        names = dict.fromkeys(("latency", *(name for name in chosen if name in SCALAR_VARIABLES)))
        return self.model_copy(update={"store": self.store.model_copy(update={"variables": tuple(names)})})

    @field_validator("workloads", mode="before", json_schema_input_type=WorkloadList | dict[str, WorkloadSelection | None])
    @classmethod
    def _accept_list(cls, value: Any) -> Any:
        """`[resnet50]` and `{resnet50: }` mean all its methods; an item of a list may be a selection with `workload`, or a description."""
        entries = [workload_entry(item) for item in value] if isinstance(value, list) else []
        keys = [key for key, _ in entries]
        if entries and all(isinstance(key, str) for key in keys):
            _different(tuple(keys))
            value = dict(entries)
        return {key: {} if chosen is None else chosen for key, chosen in value.items()} if isinstance(value, dict) else value

    @field_validator("batch", mode="before", json_schema_input_type=Batch | list[Batch])
    @classmethod
    def _accept_one_batch(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @field_validator("dtype", mode="before", json_schema_input_type=OperandDtypes | list[OperandDtypes])
    @classmethod
    def _accept_one_dtype(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @field_validator("axes", mode="before")
    @classmethod
    def _check_axes(cls, value: Any, info: ValidationInfo) -> Any:
        for path, axis in value.items() if isinstance(value, dict) else ():
            if not isinstance(axis, list | dict) or not axis:
                raise field_error(
                    f"'{path}: {axis}' is not an axis", "write a list of values, or {from: ..., to: ..., steps: ..., scale: log}"
                )
        names = read_pattern_aliases(info.context)  # which the accelerators do not know
        known = isinstance(value, dict) and names
        return (
            {path: [str(names.get(v, v)) for v in axis] if path.endswith(".pattern") else axis for path, axis in value.items()}
            if known
            else value
        )


def read_sweep(given: Path | Mapping[str, Any]) -> tuple[SweepSpec, YamlDocument]:
    """Read one sweep specification, a file or a mapping; raises InputError with every problem it has."""
    described, workloads = separate_objects(given) if isinstance(given, Mapping) else (given, {})
    document = load_document(described)
    spec = document.validate(SweepSpec)
    spec._workloads = workloads
    return spec, document
