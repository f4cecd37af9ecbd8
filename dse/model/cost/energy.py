"""Energy of work that is done, whoever counted it.

energy = per operation * (done + gated share * gated + skipped share * skipped) + per byte * bytes + static power * time
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dse.model.cost import power
from dse.model.cost.coefficients import fitted, published
from dse.model.cost.design import Design, Values, width
from dse.model.cost.scaling import energy as energy_scale


@dataclass(frozen=True)
class Counts:
    """Operations of one unit at one precision [FLOP] and bytes by memory level [B].

    A multiply-add is 2 FLOP. Those with a zero operand are gated (they take their slot, but nothing switches) or skipped
    (they take none); any of the counts may be an array.
    """

    done: Values
    gated: Values
    skipped: Values
    moved: Mapping[str, Values]


def operation(design: Design, unit: str, dtype: str) -> Values:
    """Energy of an operation [J/FLOP], operands and results brought to it from on chip."""
    chosen = fitted().power.matrix if unit == design.matrix_unit else fitted().power.vector
    return chosen.value * width(dtype) * energy_scale(design.process)


def byte(design: Design, level: str) -> Values:
    """Energy of a byte that a memory level reads or writes [J/B]."""
    return published().dram.value if level == design.accelerator.outermost else power.sram_energy(design)


def dynamic(design: Design, unit: str, dtype: str, counts: Counts) -> Values:
    """Energy of the work itself [J]: what a unit of `design` computes in `dtype`, and the bytes that move for it."""
    known = published()
    operations = counts.done + known.gated.value * counts.gated + known.skipped.value * counts.skipped
    return operation(design, unit, dtype) * operations + sum(byte(design, level) * moved for level, moved in counts.moved.items())


def energy(design: Design, unit: str, dtype: str, counts: Counts, time: Values) -> Values:
    """Energy [J] of work that takes `time` [s], leakage of the whole chip included; raises InputError."""
    return dynamic(design, unit, dtype, counts) + power.static(design) * time
