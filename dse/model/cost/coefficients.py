"""Coefficients of the cost model, each with its unit and source, and their scaling with the process.

Coefficients are given at 7 nm; the scales are relative to it.
"""

from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float
from pydantic import Field

from dse.base.errors import InputError
from dse.base.strict_model import StrictModel
from dse.base.units import Area, EnergyPerByte, EnergyPerOperation, Frequency, Length, Quantity, SourceKind
from dse.base.yaml_document import load_document
from dse.model.cost.design import Design
from dse.schema.device import DesignFamily
from dse.sparsity.pattern import FloatOrArray

FOLDER = Path(__file__).parent
REFERENCE_PROCESS = 7e-9  # m
PROCESS_PATH = "cost.process"  # the dotted path of the process in a description
DEFAULT_TECHNOLOGY = "hbm2e"  # of memory outside the die that states none


class AreaPerOperation(Quantity):
    """Area of the circuits that execute one operation a cycle."""

    unit, example = "m^2/FLOP", "0.001 mm^2/FLOP"


class AreaPerCapacity(Quantity):
    unit, example = "m^2/B", "0.6 mm^2/MB"


class PowerDensity(Quantity):
    unit, example = "W/m^2", "0.05 W/mm^2"


class ProcessNode(StrictModel):
    """Area of a transistor and of an SRAM bit cell in one process, and the clock at which the supply voltage counts as 1."""

    process: Length
    clock: Frequency
    transistor: Area
    bitcell: Area
    source: str
    kind: SourceKind = "datasheet"
    unverified: bool = False


class AreaCoefficients(StrictModel):
    """Coefficients of one family at 7 nm; operations are those on 16-bit floating-point operands, `fixed` is the area of a large die."""

    fixed: Area
    matrix: AreaPerOperation
    vector: AreaPerOperation
    sram: AreaPerCapacity


class AreaCoefficientsByFamily(StrictModel):
    """Area coefficients of GPUs, and of accelerators and blocks."""

    gpu: AreaCoefficients
    accelerator: AreaCoefficients

    def of(self, family: DesignFamily) -> AreaCoefficients:
        """The coefficients of a family; a block is an accelerator (without the fixed area, which `area_drivers` leaves out)."""
        return self.gpu if family == "gpu" else self.accelerator


class PowerCoefficients(StrictModel):
    """Coefficients at 7 nm and the reference clock; operations are those of 16-bit operands."""

    leakage: PowerDensity
    matrix: EnergyPerOperation
    vector: EnergyPerOperation


class PowerCoefficientsByFamily(StrictModel):
    """Power coefficients of GPUs, and of accelerators and blocks."""

    gpu: PowerCoefficients
    accelerator: PowerCoefficients

    def of(self, family: DesignFamily) -> PowerCoefficients:
        """The coefficients of a family; a block is an accelerator."""
        return self.gpu if family == "gpu" else self.accelerator


class FittedCoefficients(StrictModel):
    """Content of `fitted.yaml`."""

    command: str
    area: AreaCoefficientsByFamily
    power: PowerCoefficientsByFamily


class PublishedCoefficients(StrictModel):
    """Content of `coefficients.yaml`: published and assumed numbers, and the priors of the fit."""

    source: str
    scaling: tuple[ProcessNode, ...] = Field(min_length=2)
    energy_exponent: Quantity
    area_priors: AreaCoefficientsByFamily
    fixed_half: Area
    power_priors: PowerCoefficients
    voltage_floor: Quantity
    voltage_slope: Quantity
    prior_weights: dict[str, dict[str, float]]
    integer_multiplier: Quantity
    sram: EnergyPerByte
    sram_process: Length
    gated: Quantity
    skipped: Quantity
    selection: Quantity
    delivery: Quantity
    unstructured: Quantity
    provisioned_gain: Quantity
    stated_error: dict[str, Quantity]


@cache
def published_coefficients() -> PublishedCoefficients:
    """Load `coefficients.yaml`."""
    return load_document(FOLDER / "coefficients.yaml").validate(PublishedCoefficients)


@cache
def fitted_coefficients() -> FittedCoefficients:
    """Load `fitted.yaml`."""
    return load_document(FOLDER / "fitted.yaml").validate(FittedCoefficients)


def describe_uncertain_coefficients() -> str:
    """One line that names the assumed coefficients and those that were not read at their source."""
    published = published_coefficients()
    groups = [("", published), ("power prior ", published.power_priors)]
    groups += [(f"area prior {family} ", coefficients) for family, coefficients in published.area_priors]
    named = [(prefix + name, quantity) for prefix, group in groups for name, quantity in group if isinstance(quantity, Quantity)]
    named += [(f"sizes at {node.process.text}", node) for node in published.scaling]
    assumed = [name for name, quantity in named if quantity.kind == "assumed"]
    unverified = [name for name, quantity in named if quantity.unverified]
    return f"assumed: {', '.join(assumed)}; not read at their source: {', '.join(unverified)}"


def logic_area_scale(design: Design) -> FloatOrArray:
    """Area of logic relative to the same logic at 7 nm [1]."""
    return _relative_to_reference(design, "transistor")


def sram_area_scale(design: Design) -> FloatOrArray:
    """Area of SRAM relative to the same SRAM at 7 nm [1]."""
    return _relative_to_reference(design, "bitcell")


def reference_clock(design: Design) -> FloatOrArray:
    """Clock [Hz] at which the supply voltage of the process counts as 1."""
    return _interpolate(design, design.process, "clock")


def energy_scale(process: FloatOrArray) -> FloatOrArray:
    """Energy of a switching circuit relative to the same circuit at 7 nm [1]."""
    return (process / REFERENCE_PROCESS) ** published_coefficients().energy_exponent.value


def check_process(design: Design) -> None:
    """Raise InputError for a design without a process, or with one outside the table (which is unknown while JAX traces)."""
    name, span = design.accelerator.name, process_span()
    if design.process is None:
        raise InputError(f"'{name}' has no process, on which area, power and energy depend", f"add 'cost: {{process: 7 nm}}' ({span})")
    if design.array_module is np and not has_known_process(design):
        raise InputError(f"'{name}' has a process for which no circuit sizes are known", f"write one from {span}")


def process_span() -> str:
    """The processes for which circuit sizes are known, as in '3 to 28 nm'."""
    smallest, largest = _process_range()
    return f"{smallest * 1e9:g} to {largest * 1e9:g} nm"


def has_known_process(design: Design) -> bool:
    """Whether a design states a process that the table of circuit sizes covers, so that its area, power and energy are defined."""
    smallest, largest = _process_range()
    if design.process is None:
        return False
    # Unit conversion rounds: 7 nm may be 7.000000000000001e-09.
    return bool(np.min(design.process) >= smallest * (1 - 1e-9) and np.max(design.process) <= largest * (1 + 1e-9))


def _process_range() -> tuple[float, float]:
    nodes = [node.process.value for node in published_coefficients().scaling]
    return min(nodes), max(nodes)


def _relative_to_reference(design: Design, figure: str) -> FloatOrArray:
    """A figure of the process, by its name in the table of circuit sizes, relative to that at 7 nm."""
    return _interpolate(design, design.process, figure) / _interpolate(design, REFERENCE_PROCESS, figure)


def _interpolate(design: Design, process: FloatOrArray, figure: str) -> FloatOrArray:
    """A figure of a process [m], interpolated linearly in the logarithms between the published ones."""
    xp = design.array_module
    return xp.exp(xp.interp(xp.log(process), _log_figures("process"), _log_figures(figure)))


@cache
def _log_figures(figure: str) -> Float[np.ndarray, "node"]:
    """Logarithms of a figure of the published processes, the smallest process first."""
    nodes = sorted(published_coefficients().scaling, key=lambda node: node.process.value)
    return np.log([getattr(node, figure).value for node in nodes])
