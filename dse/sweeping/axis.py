"""Axes of a sweep: a dotted path of the accelerator description, and the values that it takes.

The role of an axis says how it changes the latency:

* *rate*: it is a factor of 1 / (P * E); all its values are evaluated at once.
* *categorical*: it changes the work, as a run's pattern, format, dtypes or switch does; each value is evaluated separately.
* *tabulated*: it changes the traffic, or the efficiency of measured kernels, as a capacity does; each value is evaluated separately.
* *unused*: it does not change the latency under this fidelity.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np
from jaxtyping import Float, Shaped

from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.base.units import Quantity
from dse.schema.accelerator import Accelerator
from dse.schema.links import quantity_kind
from dse.schema.sweep import ListAxis, RangeAxis
from dse.sparsity import grammar

Role = Literal["rate", "categorical", "tabulated", "unused"]

MAX_CATEGORICAL_STEPS = 1000
ROUNDING = 1e-12  # relative: of a logarithmic range
ENERGY_PATH = re.compile(r"(units|memory)\.\w+\.energy(\.\w+)?")
_CATEGORICAL = re.compile(
    r"units\.\w+\.runs\.\w+\.("
    r"pattern|dtypes|enabled|expanded|zeros|tile|format\.\w+|scores\.(tile|zeros|index)"
    r"|activations\.(zeros|tokens|gathers_weights|detected|format\.\w+)"
    r")|memory\.\w+\.technology|cost\.family"
)
_SWITCHES = (".enabled", ".gathers_weights", ".detected")


class QuantityTexts(Sequence[str]):
    """Numbers with their unit, as a description states them; each text is formatted on access, since an axis may have millions."""

    def __init__(self, values: Float[np.ndarray, "value"], unit: str):
        self.values, self.unit = values, unit

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "QuantityTexts": ...
    def __getitem__(self, index: int | slice) -> "str | QuantityTexts":
        if isinstance(index, slice):
            return QuantityTexts(self.values[index], self.unit)
        return f"{float(self.values[index])!r} {self.unit}".strip()


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis; `yaml_values` as a description states them, `values` as floats in the SI `unit` or as labels (text, bools).

    `is_whole`: all values, and those in between that a search may take, are whole numbers.
    """

    path: str
    yaml_values: Sequence[object]
    values: Shaped[np.ndarray, "value"]
    unit: str
    role: Role = "unused"
    is_whole: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: slice) -> "Axis":
        return replace(self, yaml_values=self.yaml_values[index], values=self.values[index])

    @property
    def is_outer_loop(self) -> bool:
        """Whether its values are evaluated separately, outside the compiled functions."""
        return self.role in ("categorical", "tabulated")


def parse_axis(path: str, spec: RangeAxis | ListAxis | Sequence[object], accelerators: Sequence[Accelerator]) -> Axis:
    """Read the axis at `path`, which every accelerator must have.

    Numbers are checked on every accelerator. Labels are read only: whether a pattern goes with a format is known when all axes are
    combined (see `plan_builder`). The role is categorical or unused; others follow from the fidelity.

    Raises:
        InputError: the path is unknown, or the values are invalid.
    """
    spec = spec.values if isinstance(spec, ListAxis) else spec
    _check_path(path, spec, accelerators)
    role: Role = "categorical" if _CATEGORICAL.fullmatch(path) else "unused"
    if role == "categorical" and not path.endswith((".index", ".pointer")):
        return _parse_labels(path, spec)
    if role == "categorical" and isinstance(spec, RangeAxis) and (spec.steps or 0) > MAX_CATEGORICAL_STEPS:
        message = f"'{path}' changes what is stored, so its values are evaluated separately"
        raise InputError(message, f"write at most {MAX_CATEGORICAL_STEPS} steps")
    numbers, kind = _parse_numbers(path, (spec.start, spec.stop) if isinstance(spec, RangeAxis) else tuple(spec), accelerators)
    if isinstance(spec, RangeAxis):
        start, stop = numbers
        numbers = (np.geomspace if spec.scale == "log" else np.linspace)(start, stop, spec.steps or 2)
    numbers = _round_whole(path, numbers) if kind.is_whole else numbers
    if len(np.unique(numbers)) < len(numbers):
        raise _repeated_value(path)
    return Axis(path, QuantityTexts(numbers, kind.unit), numbers, kind.unit, role, kind.is_whole)


def _round_whole(path: str, numbers: Float[np.ndarray, "value"]) -> Float[np.ndarray, "value"]:
    """Numbers without the rounding errors of a logarithmic scale; raises InputError if one is not whole."""
    whole = np.round(numbers)
    fractions = numbers[~np.isclose(numbers, whole, rtol=ROUNDING, atol=0)]
    if len(fractions):
        raise InputError(f"'{path}' takes {fractions[0]:.6g}, which is not a whole number", "list whole numbers, or take other steps")
    return whole


def _check_path(path: str, spec: RangeAxis | Sequence[object], accelerators: Sequence[Accelerator]) -> None:
    if isinstance(spec, RangeAxis) and spec.steps is None:
        raise InputError(f"'{path}' has no steps", "add 'steps: 16', or take it as a range in a search ('dse search')")
    if ENERGY_PATH.fullmatch(path):
        raise InputError(f"'{path}' is an energy, which is not varied", "write an accelerator for each value")
    for accelerator in accelerators:
        if path not in accelerator.paths():
            raise InputError(f"'{accelerator.name}' has no '{path}'", did_you_mean(path, accelerator.paths()))
    if quantity_kind(Accelerator, tuple(path.split("."))) is None and not _CATEGORICAL.fullmatch(path):
        raise InputError(f"'{path}' is not a number", "write an accelerator for each value")


def _parse_numbers(
    path: str, raw: Sequence[object], accelerators: Sequence[Accelerator]
) -> tuple[Float[np.ndarray, "value"], type[Quantity]]:
    """Values and their kind, checked on every accelerator and read by the first one."""
    if None in raw:
        raise InputError(f"'{path}' takes a value that is empty", "write a number with its unit each time")
    if any(isinstance(value, dict) and "link" in value for value in raw):
        raise InputError(f"'{path}' has a link among its values", f"write '{path}: {{link: ...}}' without values")
    problems, quantities = ProblemCollector(), list[Quantity]()
    for value in raw:
        for accelerator in accelerators[::-1]:
            with problems.collect():
                quantity = _read_value(accelerator, path, value)
                quantities += [quantity] * (accelerator is accelerators[0])
    problems.raise_if_any()
    return np.array([quantity.value for quantity in quantities]), type(quantities[0])


def _parse_labels(path: str, raw: RangeAxis | Sequence[object]) -> Axis:
    """An axis of texts or switches; a list (of dtypes) is labelled by its items."""
    if isinstance(raw, RangeAxis):
        raise InputError(f"'{path}' takes no range", "write a list of values, as in '[true, false]'")
    if any(isinstance(value, dict) or value is None for value in raw):
        raise InputError(f"'{path}' takes one plain value at a time", "write texts, switches or lists")
    if path.endswith(_SWITCHES) and not all(isinstance(value, bool) for value in raw):
        raise InputError(f"'{path}' is a switch", "write true and false")
    problems, labels = ProblemCollector(), list[bool | str]()
    for value in raw:
        with problems.collect():
            labels.append(value if isinstance(value, bool) else _label(path, value))
    problems.raise_if_any()
    if len(set(labels)) < len(labels):
        raise _repeated_value(path)
    return Axis(path, tuple(raw), np.array(labels), "", "categorical")


def _label(path: str, raw: object) -> str:
    if path.endswith(".pattern") and isinstance(raw, str):
        return str(grammar.parse(raw))
    return ",".join(map(str, raw)) if isinstance(raw, list) else str(raw)


def _repeated_value(path: str) -> InputError:
    return InputError(f"'{path}' takes a value twice", "give different values")


def _read_value(accelerator: Accelerator, path: str, raw: object) -> Quantity:
    """A value as the schema of accelerators reads it; its problems get their file and line from the caller, who knows the sweep's."""
    try:
        varied = accelerator.replace({path: raw})
        if path.startswith("cost."):
            varied.check_costs()
        return varied.at(path)
    except InputError as error:
        problems = [replace(problem, file=None, line=None, key="", message=_name_other(problem, path)) for problem in error.problems]
        raise InputError.from_problems(problems) from error


def _name_other(problem: Problem, path: str) -> str:
    """The message of a problem, with the number that has it if that is another one, which follows from the number at `path`."""
    is_other = problem.key and not problem.key.endswith(path)
    return f"'{problem.key}', which follows from it: {problem.message}" if is_other else problem.message


def iterate_combinations(axes: Sequence[Axis], role: Role) -> Iterator[tuple[dict[str, int], dict[str, object]]]:
    """Each combination of the axes of one role: the position along each axis, and the values as a description states them."""
    selected = [axis for axis in axes if axis.role == role]
    for indices in itertools.product(*(range(len(axis)) for axis in selected)):
        pairs = list(zip(selected, indices, strict=True))
        yield {axis.path: index for axis, index in pairs}, {axis.path: axis.yaml_values[index] for axis, index in pairs}
