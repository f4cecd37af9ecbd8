"""One side of an explanation: an accelerator, a network variant, a batch size, a dtype and the options of the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from dse.base.catalog import Reference
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.strict_model import StrictModel, validate_mapping
from dse.base.units import Quantity, Time, parse_quantity
from dse.explaining.settings import COMMON_DTYPES, DOTTED_PATH, OWN_KEYS, SHAPE, Settings, is_input
from dse.networks.layers import LayerArrays, make_layer_row
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions, ResourceOverlap
from dse.schema.references import load_accelerator, load_workload
from dse.schema.sweep import Batch
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE
from dse.sparsity.pattern import Pattern
from dse.workload import Variant, Workload
from dse.workload.schema import Description, Metric


class _Arguments(StrictModel):
    batch: Batch = 1
    dtype: OperandDtypes = Field(default_factory=lambda: OperandDtypes.model_validate(COMMON_DTYPES[0]))
    options: ModelOptions = Field(default_factory=lambda: ModelOptions.model_validate({}))


@dataclass(frozen=True)
class Selector:
    """How a variant of a workload is selected: by pruning method, pattern and sparsity, or hypothetical at a density."""

    method: str | None = None
    pattern: Pattern | None = None
    sparsity: float | None = None

    def select(self, workload: Workload) -> Variant:
        """The variant of `workload`; raises InputError if there is none, or several."""
        if self.method is not None:
            return workload.variant(self.method, self.sparsity, None if self.pattern is None else str(self.pattern))
        if self.pattern is None or self.pattern == DENSE:
            return workload.dense
        if self.pattern.density is not None:
            return workload.hypothetical_variant(self.pattern, workload.own_density(self.pattern), 1 - self.pattern.density, "own")
        if self.sparsity is None:
            raise InputError(f"'{self.pattern}' has no density of its own", "add 'sparsity=0.9'")
        return workload.hypothetical_variant(self.pattern, 1 - self.sparsity, self.sparsity, f"uniform {1 - self.sparsity:g}")

    def __str__(self) -> str:
        parts = [self.method, None if self.pattern is None else str(self.pattern), None if self.sparsity is None else f"{self.sparsity:g}"]
        return " ".join(part for part in parts if part) or "dense"


@dataclass(frozen=True, eq=False)
class Side:
    """One side of an explanation.

    `workload` and `selector` give the variant; where they are None, the variant was given as an object. `measured` is a measured latency
    [s], or a speedup if `measures_speedup`, that the evaluation is compared with. `without`: parts of the fidelity that are taken away
    (`dse.explaining.fidelity_parts`).
    """

    accelerator: Accelerator
    variant: Variant
    batch: int
    dtype: OperandDtypes
    options: ModelOptions
    workload: Workload | None = None
    selector: Selector | None = None
    measured: float | None = None
    measures_speedup: bool = False
    without: frozenset[str] = frozenset()

    @property
    def resource_overlap(self) -> ResourceOverlap:
        """How the times of resources combine into the time of a layer."""
        return "full" if "fidelity.overlap" in self.without else self.options.resource_overlap

    @cached_property
    def dense(self) -> Variant:
        """The unpruned network of the variant."""
        layers = self.variant.layers
        return replace(
            self.variant, method="dense", pattern=DENSE, nominal_sparsity=0.0, density=np.ones(len(layers)), stored_elements={},
            activation_density=None, union_densities={}, row_spread=None, touched_columns=None, densities_from="",
        )  # fmt: skip

    def __str__(self) -> str:
        name = str(self.selector) if self.selector is not None else str(self.variant)
        return f"{self.accelerator.name}, {self.variant.workload}, {name}, batch {self.batch}, {self.dtype.label}, {self.options.fidelity}"


LoadedSides = Sequence[tuple[Settings, Side]]


def make_side(settings: Settings, loaded: LoadedSides = ()) -> Side:
    """A side of complete settings; raises InputError with every problem. The networks of sides that are `loaded` are not read again."""
    options = {key: settings[key] for key in settings if key in ModelOptions.model_fields}
    numbers = {key: settings[key] for key in settings if DOTTED_PATH.fullmatch(key)}
    inputs = {key: settings[key] for key in settings if is_input(key)}
    problems, parts = ProblemCollector(), dict[str, Any]()
    steps = {
        "accelerator": partial(_make_accelerator, settings, numbers),
        "arguments": partial(_read_arguments, settings, options),
        "workload": partial(_make_variant, settings, inputs, loaded),
        "measured": partial(_read_measured, settings.get("measured")),
    }
    for name, step in steps.items():
        with problems.collect():
            parts[name] = step()
    problems.raise_if_any()
    arguments, (workload, selector, variant) = parts["arguments"], parts["workload"]
    return Side(parts["accelerator"], variant, arguments.batch, arguments.dtype, arguments.options, workload, selector, *parts["measured"])


def _make_accelerator(settings: Settings, numbers: Mapping[str, object]) -> Accelerator:
    if settings.get("accelerator") is None:
        raise InputError("no accelerator is given", "name one, as in 'a100-sxm4-80gb' or '--accelerator my_chip.yaml'")
    accelerator = load_accelerator(settings["accelerator"])
    return accelerator.replace(numbers) if numbers else accelerator


def _read_arguments(settings: Settings, options: Mapping[str, object]) -> _Arguments:
    given = {key: settings[key] for key in ("batch", "dtype") if settings.get(key) is not None}
    if isinstance(given.get("batch"), str):
        given["batch"] = _to_number(given["batch"])
    return validate_mapping(_Arguments, {**given, "options": dict(options)})


def _to_number(text: str) -> object:
    """A number if the text is one, else the text, which a schema then refuses."""
    return int(text) if text.isdecimal() else text


def _read_measured(given: object) -> tuple[float | None, bool]:
    """A measured latency [s] or, as in '1.19x', a measured speedup; the second value says which."""
    if given is None or isinstance(given, float | int):
        return given, False
    text = str(given).strip()
    try:
        if text.endswith("x"):
            return parse_quantity(text[:-1], Quantity), True
        return parse_quantity(text, Time), False
    except InputError as error:
        fix = "write a time or a speedup, as in 'measured=1.3 ms' or 'measured=1.19x'"
        raise InputError(error.problems[0].message, fix, key="measured") from error


def _make_variant(
    settings: Settings, inputs: Mapping[str, object], loaded: LoadedSides
) -> tuple[Workload | None, Selector | None, Variant]:
    given = settings.get("variant")
    if isinstance(given, Variant):
        return None, None, given
    selector = _make_selector(settings)
    if settings.get("shape") is not None:
        workload = product_workload(settings["shape"])
        _refuse_inputs(inputs, "a product")
        return workload, selector, selector.select(workload)
    if settings.get("workload") is None:
        raise InputError("no network is given", "name a workload, as in 'llama-2-7b', or a shape, as in '4096x4096x512'")
    workload = _load_network(settings["workload"], _parse_inputs(inputs), loaded)
    return workload, selector, selector.select(workload)


def _load_network(reference: Reference | Workload, inputs: Mapping[str, object], loaded: LoadedSides) -> Workload:
    """The network on some inputs: that of another side, if its settings are the same."""
    for settings, side in loaded:
        others = {key: settings[key] for key in settings if is_input(key)}
        if side.workload is not None and settings.get("workload") is reference and _parse_inputs(others) == inputs:
            return side.workload
    if isinstance(reference, Workload):
        _refuse_inputs(inputs, "a loaded workload")
        return reference
    _check_inputs(reference, inputs)
    return load_workload(reference, **inputs)


def _parse_inputs(inputs: Mapping[str, object]) -> dict[str, object]:
    return {key: _to_number(value) if isinstance(value, str) else value for key, value in inputs.items()}


def _check_inputs(reference: Reference, inputs: Mapping[str, object]) -> None:
    """Raise InputError for keys that are not inputs of the network."""
    known = set(load_workload(reference).all_inputs) if inputs else set()
    problems = ProblemCollector()
    for key in inputs.keys() - known:
        with problems.collect():
            fix = did_you_mean(key, [*OWN_KEYS, *ModelOptions.model_fields, *known])
            raise InputError(f"'{key}' is not a setting of a side", f"{fix} (or a dotted path of the accelerator)")
    problems.raise_if_any()


def _refuse_inputs(inputs: Mapping[str, object], what: str) -> None:
    if inputs:
        key = min(inputs)
        raise InputError(f"'{key}' is not a setting of {what}", did_you_mean(key, [*OWN_KEYS, *ModelOptions.model_fields]))


def _make_selector(settings: Settings) -> Selector:
    sparsity = _read_share(settings, "sparsity")
    density = _read_share(settings, "density")
    if sparsity is not None and density is not None:
        raise InputError("both the sparsity and the density are given", "keep one of them")
    sparsity = 1 - density if density is not None else sparsity
    pattern = None if settings.get("pattern") is None else parse(str(settings["pattern"]))
    return Selector(settings.get("variant"), pattern, sparsity)


def _read_share(settings: Settings, key: str) -> float | None:
    if settings.get(key) is None:
        return None
    try:
        share = float(settings[key])
    except ValueError:
        share = np.nan
    if not 0 <= share <= 1:
        raise InputError(f"the {key} '{settings[key]}' is not a share", f"write a number from 0 to 1, as in '{key}=0.5'", key=key)
    return share


def product_workload(shape: str) -> Workload:
    """A network of one product C[m, n] = A[m, k] B[k, n], of which A is pruned; `shape` is 'MxKxN'. Raises InputError."""
    match = SHAPE.fullmatch(str(shape))
    if not match or "0" in match.groups():
        raise InputError(f"'{shape}' is not the shape of a product", "write MxKxN, as in '4096x4096x512'", key="shape")
    m, k, n = map(int, match.groups())
    layers = LayerArrays.from_rows([make_layer_row(name=shape, kind="gemm", m=m, k=k, n=n)])
    metric = Metric(name="none", unit="", direction="higher")
    description = Description.model_validate({"name": shape, "task": "one product", "metric": metric, "sources": ["its shape"]})
    return Workload(description, layers, (), Path(), {})
