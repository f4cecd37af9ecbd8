"""What it takes a matrix unit to run a sparse pattern: area over that of its dense self.

    selection * inputs       a multiplexer in front of each multiplier picks its operand: m - n further inputs for n of m
    unstructured             routing from anywhere, where any fraction may be kept
    delivery * (gain - 1)    the operands that are chosen from have to arrive, in the same cycle

What is chosen once for several multipliers (blocks, vectors, rows that share a choice) is divided among them; whole rows and
columns cost nothing, nor do blocks of a tile. The networks of one unit are one: the widest that it needs. Vector units, whose
lanes have operands of their own, need none. The shares are assumed (see `coefficients.yaml`).
"""

from math import inf, prod

from dse.model.cost.coefficients import published
from dse.model.cost.design import Design, Values
from dse.schema.compute_unit import Run
from dse.sparsity.hierarchy import Hierarchy
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, BlockFamily, VNMFamily
from dse.sparsity.pattern import Pattern


def overhead(design: Design) -> Values:
    """Area that the enabled runs of the matrix unit add, over that of the unit [1]."""
    unit = design.matrix_unit
    runs = design.accelerator.units[unit].runs
    return design.largest([0.0, *(_of_run(design, f"units.{unit}.runs.{name}", run) for name, run in runs.items() if run.enabled)])


def _of_run(design: Design, path: str, run: Run) -> Values:
    shares = prod(float(size) for size in run.pattern.granularity)
    if shares == inf or run.pattern.stores_zeros:
        return 0.0
    own = published().provisioned_gain.value if run.pattern.density is None else 1 / run.pattern.density
    gain = own if run.gain is None else design.value(f"{path}.gain")
    return network(run.pattern) + published().delivery.value * (gain - 1) / shares


def network(pattern: Pattern) -> float:
    """Of the network that selects operands, over the area of the unit [1]."""
    known = published()
    match pattern:
        case NM(n, m, v):
            return known.selection.value * (m - n) / v
        case VNM(v, n, m):
            return known.selection.value * ((m - VNM_COLUMNS) / v + VNM_COLUMNS - n)
        case VNMFamily(_, n):  # columns are gathered on the way to the unit
            return known.selection.value * (VNM_COLUMNS - n)
        case Block():
            return known.unstructured.value / prod(pattern.tile)
        case BlockFamily(base):
            return network(base)
        case Hierarchy(NM(n, m), inner):  # an inner tile is taken whole
            return known.selection.value * (m - n) / inner.tile[0] + network(inner)
        case Hierarchy(outer, inner):
            return network(outer) + network(inner)
    return 0.0
