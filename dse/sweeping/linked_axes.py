"""Links in sweeps and searches: axes that follow from other axes, and what an axis changes besides its own number."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product

import numpy as np
from pydantic import ValidationError

from dse.base.errors import InputError, ProblemCollector
from dse.base.strict_model import explain_validation_error
from dse.base.yaml_document import YamlDocument
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec
from dse.sweeping.axis import ENERGY_PATH, Axis

ENERGY_NUMBER = re.compile(
    r"cost\.(process|sustained_clock|base_clock)|units\.\w+\.clock|" + ENERGY_PATH.pattern
)  # energies depend on these


def link_accelerators(
    spec: SweepSpec, document: YamlDocument, accelerators: Iterable[Accelerator], problems: ProblemCollector
) -> list[Accelerator]:
    """The accelerators with the linked axes of a specification as links; without those for which a link has a problem."""
    linked = []
    for accelerator in accelerators:
        valid = True
        for path, axis in spec.linked_axes.items():
            try:
                accelerator = accelerator.replace({path: {"link": axis.link}})
            except InputError as error:
                valid = False
                for problem in error.problems:
                    problems.add(document.make_problem(("axes", path), f"{_key(problem.key, path)}{problem.message}", problem.fix))
        if valid:
            linked.append(accelerator)
    return linked


def _key(key: str, path: str) -> str:
    return "" if not key or key.endswith(path) else f"{key}: "


def changed_paths(accelerator: Accelerator, path: str, axes: Iterable[str]) -> list[str]:
    """The numbers that an axis changes: its own, and those that follow from it and have no axis of their own."""
    axes = set(axes)
    followers = accelerator.links.dependents(axes)
    return [path, *(follower for follower in followers if path in accelerator.links.sources(follower, axes))]


def changes_energy(accelerator: Accelerator, path: str, axes: Iterable[str]) -> bool:
    """Whether an axis changes the energy of an operation or of a byte."""
    return any(ENERGY_NUMBER.fullmatch(changed) for changed in changed_paths(accelerator, path, axes))


def mark_roles(
    axes: Sequence[Axis], accelerators: Sequence[Accelerator], rate_paths: Set[str], tabulated: Set[str] = frozenset()
) -> tuple[Axis, ...]:
    """Set the roles of the axes that have none: tabulated or rate, if they change a number of that kind.

    Where a rate is not a product of functions of one axis each, as a sum of two axes, all but the longest of these axes are tabulated.
    """
    names, marked = [axis.path for axis in axes], list[Axis]()
    for axis in axes:
        changed = {path for accelerator in accelerators for path in changed_paths(accelerator, axis.path, names)}
        role = "tabulated" if changed & tabulated else "rate" if changed & rate_paths else "unused"
        marked.append(replace(axis, role=role) if axis.role == "unused" else axis)
    joined = {each for one in accelerators for path in rate_paths for each in one.links.joined(path, names)}
    for group in joined:
        members = sorted((axis for axis in marked if axis.path in group and axis.role == "rate"), key=len)
        outer = {axis.path for axis in members[:-1]}
        marked = [replace(axis, role="tabulated") if axis.path in outer else axis for axis in marked]
    return tuple(marked)


def check_linked_values(
    axes: Sequence[Axis], accelerators: Sequence[Accelerator], document: YamlDocument, problems: ProblemCollector
) -> None:
    """Collect the problems of numbers that follow from the axes: at each value of an axis, and at the corners of the grid."""
    numeric = {axis.path: axis.values for axis in axes if axis.values.dtype.kind == "f"}
    for accelerator in accelerators if numeric else ():
        for path in accelerator.links.dependents(numeric):
            used = [axis for axis in numeric if axis in accelerator.links.sources(path, numeric)]
            with problems.collect(*document.locate(("axes", used[0]))):
                _check_values(accelerator, path, {axis: numeric[axis] for axis in used})


def _check_values(accelerator: Accelerator, path: str, values: Mapping[str, np.ndarray]) -> None:
    """Raise InputError for a linked number that some values of the axes make invalid."""
    links, kind = accelerator.links, type(accelerator.at(path))
    corners = np.array(list(product(*([column.min(), column.max()] for column in values.values()))))
    grids = [{axis: column} for axis, column in values.items() if len(values) > 1 and accelerator.value(axis) is not None]
    grids += [dict(values)] if len(values) == 1 else [dict(zip(values, corners.T, strict=True))]
    for grid in grids:
        numbers = np.ravel(np.asarray(links.evaluate(grid, accelerator.value)[path]))
        real = np.where(np.isreal(numbers) & np.isfinite(numbers), np.real(numbers), -1.0)
        fractions = real[real % 1 > 0][:1]
        for number in {float(real.min()), float(real.max()), *fractions.tolist()}:
            try:
                kind.model_validate(f"{number!r} {kind.unit}".strip())
            except ValidationError as error:
                ((_, reason, _),) = explain_validation_error(kind, error)
                what = f"'{path}' follows from it as {links.formulas[path].text}: {reason}"
                raise InputError(what, "write other values, or another link") from error
