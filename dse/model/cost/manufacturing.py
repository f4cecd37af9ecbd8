"""Manufacturing cost of a design: its good dies and, for memory in stacks, the silicon interposer [USD].

    dies per wafer = pi (d/2)^2 / A - pi d / sqrt(2 A)       de Vries (2005): whole dies on a wafer of diameter d
    yield          = (1 + A D / alpha)^-alpha                negative binomial (Stapper 1989), D defects per area, clustered by alpha
    die cost       = wafer price / (dies per wafer * yield)

Not included: memory, package substrate, assembly, test, masks, design and margin. A die that a wafer cannot hold has an infinite cost.
"""

from functools import cache
from math import pi

import numpy as np
from pydantic import Field

from dse.base.strict_model import StrictModel
from dse.base.units import Area, Length, Quantity, SourceKind
from dse.base.yaml_document import load_document
from dse.model.cost.area import area, channel_count
from dse.model.cost.coefficients import FOLDER, check_process
from dse.model.cost.design import Design
from dse.sparsity.pattern import FloatOrArray

STACKED = ("hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4")  # technologies that need an interposer


class WaferPrice(StrictModel):
    """Price of a processed wafer of one process."""

    process: Length
    price: float = Field(gt=0, description="USD")
    source: str
    kind: SourceKind = "datasheet"
    unverified: bool = False


class ManufacturingFigures(StrictModel):
    """Content of `manufacturing.yaml`."""

    source: str
    wafers: tuple[WaferPrice, ...] = Field(min_length=2)
    diameter: Length
    defects_per_m2: Quantity  # a plain number
    clustering: Quantity
    interposer_wafer: WaferPrice
    stack: Area


@cache
def manufacturing_figures() -> ManufacturingFigures:
    """Load `manufacturing.yaml`."""
    return load_document(FOLDER / "manufacturing.yaml").validate(ManufacturingFigures)


def dies_per_wafer(die_area: FloatOrArray) -> FloatOrArray:
    """Whole dies of an area [m^2] on a wafer; 0 where not even one fits by this formula."""
    diameter = manufacturing_figures().diameter.value
    return np.maximum(pi * (diameter / 2) ** 2 / die_area - pi * diameter / np.sqrt(2 * np.asarray(die_area)), 0.0)


def die_yield(die_area: FloatOrArray) -> FloatOrArray:
    """Share of the dies of an area [m^2] without a defect."""
    figures = manufacturing_figures()
    return (1 + np.asarray(die_area) * figures.defects_per_m2.value / figures.clustering.value) ** -figures.clustering.value


def wafer_price(process: FloatOrArray) -> FloatOrArray:
    """Price of a wafer [USD] of a process [m], interpolated linearly in the logarithms."""
    nodes = sorted(manufacturing_figures().wafers, key=lambda node: node.process.value)
    return np.exp(np.interp(np.log(process), np.log([node.process.value for node in nodes]), np.log([node.price for node in nodes])))


def die_cost(die_area: FloatOrArray, process: FloatOrArray) -> FloatOrArray:
    """Cost [USD] of a good die of an area [m^2]."""
    with np.errstate(divide="ignore"):
        return wafer_price(process) / (dies_per_wafer(die_area) * die_yield(die_area))


def interposer_cost(design: Design, die_area: FloatOrArray) -> FloatOrArray:
    """Cost [USD] of the silicon under a die and its memory stacks, whose defects are neglected; 0 without stacks."""
    stacks = sum(_stacks(design, name) for name in design.accelerator.memory)
    figures = manufacturing_figures()
    with np.errstate(divide="ignore"):
        price = figures.interposer_wafer.price / dies_per_wafer(die_area + stacks * figures.stack.value)
    return np.where(np.asarray(stacks) > 0, price, 0.0)


def _stacks(design: Design, memory: str) -> FloatOrArray:
    """Stacks of memory that the bandwidth of a level takes; 0 for other technologies."""
    count = channel_count(design, memory) if design.accelerator.memory[memory].technology in STACKED else None
    return 0.0 if count is None else count


def describe_assumptions() -> str:
    """One line that says what the cost contains and which of its figures are assumed or were not read at their source."""
    figures = manufacturing_figures()
    named = [(f"wafer at {node.process.text}", node) for node in figures.wafers] + [("interposer wafer", figures.interposer_wafer)]
    named += [("defect density", figures.defects_per_m2), ("clustering", figures.clustering), ("area of a stack", figures.stack)]
    assumed = ", ".join(name for name, part in named if part.kind == "assumed")
    unverified = ", ".join(name for name, part in named if part.unverified)
    included = "good die and interposer, without memory, substrate, test, design and margin"
    return f"{included}; assumed: {assumed}; not read at their source: {unverified}"


def manufacturing_cost(design: Design) -> FloatOrArray:
    """Cost [USD] of the good die and its interposer; raises InputError for a missing or unknown process."""
    check_process(design)
    die_area = area(design)
    return die_cost(die_area, design.process) + interposer_cost(design, die_area)
