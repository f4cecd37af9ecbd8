"""Area of a design: the sum over drivers of coefficient * driver.

    area  = rest + fixed * rest / (rest + half)
    rest  = matrix * (operations a cycle of the matrix unit) * (1 + sparsity share) * s_logic
            + vector * (operations a cycle of all other units) * s_logic + sram * (capacity on chip) * s_sram + interface

The matrix unit is the one with the highest peak, such as tensor cores. `fixed`, `matrix`, `vector` and `sram` are coefficients of
fitted.yaml, `half` is `fixed_half` of coefficients.yaml. s_logic and s_sram scale with the process. Operations a cycle are the peak over
its clock: a unit that reaches its peak at a lower clock needs more multipliers. The fixed area (links to the host and to other chips,
control) is that of a large die, and a small one has a share of it. The coefficients belong to a family of designs (`cost.family`). A
published area includes what the model does not know about a device, so a variation of the device is anchored to it.

The sparsity share is the area that sparse patterns add to a matrix unit, relative to the area of the dense unit:

    selection * inputs       a multiplexer in front of each multiplier selects its operand: m - n additional inputs for n of m
    unstructured             routing from anywhere, for patterns with any fraction of nonzeros
    delivery * (gain - 1)    the operands that are selected from have to arrive in the same cycle

A choice that several multipliers share (blocks, vectors, rows) is divided among them; whole rows and columns cost nothing, nor do blocks of
a whole tile. The runs of a unit share one selection network: the widest one. Vector units need none, because each lane has its own
operands. All shares are assumed (see `coefficients.yaml`).

The interface to memory outside the die is that of a channel (as described, or of its memory technology), as many as the bandwidth takes,
otherwise that of HBM2E. It is mostly physical layer, which does not shrink (LLMCompass, Zhang et al. 2024, cost_model.py, where only its
controller does).

    interface = area of a channel * bandwidth / (width * rate)
"""

from math import inf, prod

from dse.model.cost.clock import unit_clock
from dse.model.cost.coefficients import (
    DEFAULT_TECHNOLOGY,
    AreaCoefficients,
    check_process,
    fitted_coefficients,
    logic_area_scale,
    published_coefficients,
    sram_area_scale,
)
from dse.model.cost.design import Design, relative_width
from dse.schema.memory_technology import BITS_PER_BYTE, memory_technologies
from dse.schema.unit_run import Run
from dse.sparsity.hierarchy import Hierarchy
from dse.sparsity.kinds import NM, VNM, VNM_COLUMNS, Block, BlockFamily, VNMFamily
from dse.sparsity.pattern import FloatOrArray, Pattern


def sparsity_area_share(design: Design) -> FloatOrArray:
    """Area that the enabled runs of the matrix unit add, relative to the unit [1]."""
    unit = design.matrix_unit
    runs = design.accelerator.units[unit].runs
    shares = [_run_share(design, f"units.{unit}.runs.{name}", run) for name, run in runs.items() if run.enabled]
    return design.maximum([0.0, *shares])


def _run_share(design: Design, path: str, run: Run) -> FloatOrArray:
    sharing_elements = prod(float(size) for size in run.pattern.granularity)
    if sharing_elements == inf or run.pattern.stores_zeros:
        return 0.0
    pattern_gain = published_coefficients().provisioned_gain.value if run.pattern.density is None else 1 / run.pattern.density
    gain = pattern_gain if run.gain is None else design.value(f"{path}.gain")
    return selection_network_share(run.pattern) + published_coefficients().delivery.value * (gain - 1) / sharing_elements


def selection_network_share(pattern: Pattern) -> float:
    """Area of the network that selects operands, relative to the unit [1]."""
    published = published_coefficients()
    match pattern:
        case NM(n, m, v):
            return published.selection.value * (m - n) / v
        case VNM(v, n, m):
            return published.selection.value * ((m - VNM_COLUMNS) / v + VNM_COLUMNS - n)
        case VNMFamily(_, n):  # columns are gathered on the way to the unit
            return published.selection.value * (VNM_COLUMNS - n)
        case Block():
            return published.unstructured.value / prod(pattern.tile)
        case BlockFamily(base):
            return selection_network_share(base)
        case Hierarchy(NM(n, m), inner):  # an inner tile is selected as a whole
            return published.selection.value * (m - n) / inner.tile[0] + selection_network_share(inner)
        case Hierarchy(outer, inner):
            return selection_network_share(outer) + selection_network_share(inner)
    return 0.0


def operations_per_cycle(design: Design, unit: str) -> FloatOrArray:
    """Multipliers and adders of a unit, as operations a cycle on 16-bit operands [FLOP]: precisions share them, so the largest counts.

    In a block the registers, selectors and adder trees of many dataflows surround each multiplier, and their area grows with the width.
    """
    peaks = design.accelerator.units[unit].peak
    relative = relative_width if design.accelerator.cost.family == "block" else relative_multiplier_area
    rates = [relative(dtype) * design.value(f"units.{unit}.peak.{dtype}") for dtype in peaks]
    return design.maximum(rates) / unit_clock(design, unit)


def relative_multiplier_area(dtype: str) -> float:
    """Area of the multiplier and adder of a dtype relative to one of 16-bit floating point [1].

    A floating-point unit that runs fp8 at twice the rate of fp16 uses the same area. Integer multipliers are smaller and grow with the
    square of their width.
    """
    if dtype.startswith("int"):
        return published_coefficients().integer_multiplier.value * (2 * relative_width(dtype)) ** 2
    return relative_width(dtype)


def area_drivers(design: Design) -> dict[str, FloatOrArray]:
    """What each fitted coefficient is multiplied by, with the scaling of the process to 7 nm."""
    logic, vector_units = logic_area_scale(design), [name for name in design.accelerator.units if name != design.matrix_unit]
    return {
        "fixed": 0.0 if design.accelerator.cost.family == "block" else 1.0,
        "matrix": operations_per_cycle(design, design.matrix_unit) * (1 + sparsity_area_share(design)) * logic,
        "vector": sum(operations_per_cycle(design, name) for name in vector_units) * logic,
        "sram": on_chip_capacity(design) * sram_area_scale(design),
    }


def channel_count(design: Design, memory: str) -> FloatOrArray | None:
    """Channels, devices or stacks that the bandwidth of a memory level takes; None where width, rate or bandwidth is not known."""
    bandwidth, width, rate = (design.value(f"memory.{memory}.{key}") for key in ("bandwidth", "width", "rate"))
    return None if bandwidth is None or width is None or rate is None else bandwidth * BITS_PER_BYTE / (width * rate)


def interface_area(design: Design) -> FloatOrArray:
    """Area [m^2] of the interfaces of all memory levels outside the die."""
    default = memory_technologies()[DEFAULT_TECHNOLOGY]
    total: FloatOrArray = 0.0
    for name in design.accelerator.memory:
        bandwidth = design.value(f"memory.{name}.bandwidth")
        if bandwidth is None or design.is_on_chip(name):
            continue
        interface, channels = design.value(f"memory.{name}.interface"), channel_count(design, name)
        if interface is None or channels is None:
            total = total + default.interface.value * bandwidth / default.bandwidth.value
        else:
            total = total + interface * channels
    return total


def on_chip_capacity(design: Design) -> FloatOrArray:
    """Capacity [B] of all memory levels on the die that state one."""
    capacities = [design.value(f"memory.{name}.capacity") for name in design.accelerator.memory if design.is_on_chip(name)]
    return sum(capacity for capacity in capacities if capacity is not None)


def area_by_part(design: Design, coefficients: AreaCoefficients | None = None) -> dict[str, FloatOrArray]:
    """Area [m^2] of each part of a design by the model alone; raises InputError for a missing or unknown process."""
    return _area_and_parts(design, coefficients)[1]


def modelled_area(design: Design, coefficients: AreaCoefficients | None = None) -> FloatOrArray:
    """Area [m^2] by the model alone; raises InputError for a missing or unknown process."""
    return _area_and_parts(design, coefficients)[0]


def _area_and_parts(design: Design, coefficients: AreaCoefficients | None) -> tuple[FloatOrArray, dict[str, FloatOrArray]]:
    check_process(design)
    coefficients = coefficients or fitted_coefficients().area.of(design.accelerator.cost.family)
    areas = {name: getattr(coefficients, name).value * driver for name, driver in area_drivers(design).items()}
    fixed, stated = areas.pop("fixed"), design.value("cost.fixed")
    areas["interface"] = interface_area(design)
    rest = sum(areas.values())
    fixed = fixed * fixed_share(rest) if stated is None else stated
    return rest + fixed, {"fixed": fixed} | areas


def fixed_share(rest: FloatOrArray) -> FloatOrArray:
    """Share of the fixed area of a large die that a die has whose other parts take `rest` [m^2]."""
    return rest / (rest + published_coefficients().fixed_half.value)


def area(design: Design) -> FloatOrArray:
    """Area [m^2]: the published one plus the modelled difference to the published design; raises InputError."""
    if design.is_published and design.value("cost.area") is not None:
        check_process(design)
        return design.value("cost.area")
    return anchor_to_published(design, "cost.area", modelled_area(design), modelled_area(design.published))


def anchor_to_published(design: Design, path: str, modelled: FloatOrArray, modelled_base: FloatOrArray) -> FloatOrArray:
    """The published figure at `path` plus the modelled difference; the modelled figure if none is published.

    The difference is scaled down if the model overestimates the published figure, so that the result stays above 0 and increases with
    each number of the design.
    """
    published = design.value(path)
    if published is None:
        return modelled
    scale = design.array_module.minimum(1.0, published / modelled_base)
    return modelled * scale + (published - modelled_base * scale)  # two operations on an array of designs
