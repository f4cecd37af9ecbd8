"""Coefficients of the cost model, each with its unit and source."""

from functools import cache
from pathlib import Path

from pydantic import Field

from dse.base.strict_model import StrictModel
from dse.base.units import Area, Length, Quantity, SourceKind
from dse.base.yaml_document import load_document

FOLDER = Path(__file__).parent


class AreaPerRate(Quantity):
    unit, example = "m^2*s/FLOP", "1 mm^2*s/TFLOP"


class AreaPerCapacity(Quantity):
    unit, example = "m^2/B", "0.6 mm^2/MB"


class AreaPerBandwidth(Quantity):
    unit, example = "m^2*s/B", "30 mm^2*s/TB"


class PowerDensity(Quantity):
    unit, example = "W/m^2", "0.05 W/mm^2"


class EnergyPerOperation(Quantity):
    unit, example = "J/FLOP", "0.5 pJ/FLOP"


class EnergyPerByte(Quantity):
    unit, example = "J/B", "48 pJ/B"


class ProcessNode(StrictModel):
    """Area of a transistor and of an SRAM bit cell in one process."""

    process: Length
    transistor: Area
    bitcell: Area
    source: str
    kind: SourceKind = "datasheet"
    unverified: bool = False


class AreaCoefficients(StrictModel):
    """Coefficients at 7 nm; rates are those of 16-bit operands."""

    fixed: Area
    matrix: AreaPerRate
    vector: AreaPerRate
    sram: AreaPerCapacity
    interface: AreaPerBandwidth


class PowerCoefficients(StrictModel):
    """Coefficients at 7 nm; operations are those of 16-bit operands."""

    leakage: PowerDensity
    matrix: EnergyPerOperation
    vector: EnergyPerOperation


class FittedCoefficients(StrictModel):
    """Content of `fitted.yaml`."""

    command: str
    area: AreaCoefficients
    power: PowerCoefficients


class PublishedCoefficients(StrictModel):
    """Content of `coefficients.yaml`: published and assumed numbers, and the priors of the fit."""

    source: str
    scaling: tuple[ProcessNode, ...] = Field(min_length=2)
    energy_exponent: Quantity
    area_priors: AreaCoefficients
    power_priors: PowerCoefficients
    prior_weights: dict[str, float]
    dram: EnergyPerByte
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
    groups = [("", published), ("area prior ", published.area_priors), ("power prior ", published.power_priors)]
    named = [(prefix + name, quantity) for prefix, group in groups for name, quantity in group if isinstance(quantity, Quantity)]
    named += [(f"sizes at {node.process.text}", node) for node in published.scaling]
    assumed = [name for name, quantity in named if quantity.kind == "assumed"]
    unverified = [name for name, quantity in named if quantity.unverified]
    return f"assumed: {', '.join(assumed)}; not read at their source: {', '.join(unverified)}"
