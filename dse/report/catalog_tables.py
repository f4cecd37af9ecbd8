"""Tables of the catalogue: `dse list` (accelerators, workloads, sweeps, memory technologies, variants of a workload) and `dse iso`.

`dse iso` lists the highest sparsity of each pruning method and pattern within an allowed loss of accuracy.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.table_format import UNVERIFIED_MARK, LargeCount, Row, format_json, format_table, has_unverified, none_if_nan
from dse.base.units import EnergyPerByte, Quantity
from dse.model.cost.coefficients import ProcessNode, energy_scale, published_coefficients
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.compute_unit import Unit
from dse.schema.memory_technology import BITS_PER_BYTE, ON_CHIP, MemoryTechnology, memory_technologies
from dse.schema.sweep import read_sweep
from dse.workload import tables


def list_technologies() -> list[Row]:
    """Memory outside the die, one channel each; then SRAM on the die, by process."""
    outside = [_channel_row(name, technology) for name, technology in memory_technologies().items()]
    return outside + [_sram_row(node) for node in published_coefficients().scaling]


def _channel_row(name: str, technology: MemoryTechnology) -> Row:
    numbers: dict[str, Quantity] = {key: getattr(technology, key) for key in ("width", "rate", "energy", "interface")}
    return {
        "technology": name,
        "process": None,
        "width": technology.width,
        "rate": technology.rate,
        "bandwidth": technology.bandwidth,
        "energy": technology.energy,
        "interface": technology.interface,
        "capacities": ", ".join(capacity.text for capacity in technology.capacities),
        "bit cell": None,
        "assumed": ", ".join(key for key, number in numbers.items() if number.kind == "assumed"),
        "source": "; ".join(f"{key}: {number.source}" for key, number in numbers.items()),
    }


def _sram_row(node: ProcessNode) -> Row:
    published = published_coefficients()
    energy = published.sram.value * energy_scale(node.process.value) / energy_scale(published.sram_process.value)
    text = f"{float(energy) / BITS_PER_BYTE * 1e12:.2g} pJ/bit"
    return {
        "technology": ON_CHIP,
        "process": node.process,
        "width": None,
        "rate": None,
        "bandwidth": None,
        "energy": EnergyPerByte.model_validate({"value": text, "kind": "derived", "unverified": published.energy_exponent.unverified}),
        "interface": None,
        "capacities": "",
        "bit cell": node.bitcell.model_copy(update={"unverified": node.unverified}),
        "assumed": "",
        "source": f"energy: {published.sram.source}, scaled to the process; bit cell: {node.source}",
    }


if TYPE_CHECKING:
    from dse.workload import Variant
    from dse.workload.accuracy import AccuracyCurve


def list_catalog(kind: str | None, workload: str | None, as_json: bool) -> str:
    """One table (`kind`), or one for each kind of description. Kind `variants` needs a workload; raises InputError."""
    if kind == "variants":
        if workload is None:
            raise InputError("'dse list variants' needs a workload", "write 'dse list variants NAME'")
        lists = {f"variants of {workload}": list_variants(workload)}
    elif kind == "technologies":
        lists = {"memory technologies": list_technologies()}
    else:
        lists = {name: make_rows() for name, make_rows in LISTS.items() if kind in (None, name)}
    if as_json:
        return format_json(lists if kind is None else next(iter(lists.values())))
    tables_ = [f"{title}\n\n{format_table(rows)}" if len(lists) > 1 else format_table(rows) for title, rows in lists.items()]
    if any(map(has_unverified, lists.values())):
        tables_.append(f"{UNVERIFIED_MARK.strip()} not read at its source: verify before you rely on it")
    return "\n\n".join(tables_)


def list_accelerators() -> list[Row]:
    return [_accelerator_row(read_accelerator(catalog.find_path("accel_models", name))) for name in catalog.list_names("accel_models")]


def _accelerator_row(accelerator: Accelerator) -> Row:
    memory, units = accelerator.memory[accelerator.outermost], list(accelerator.units.values())
    return {
        "name": accelerator.name,
        "fp16/bf16": _highest_peak(units, ("fp16", "bf16")),
        "int8": _highest_peak(units, ("int8",)),
        "bandwidth": memory.bandwidth,
        "capacity": memory.capacity,
        "area": accelerator.cost.area,
        "power": accelerator.cost.power,
        "sparse patterns": " ".join(dict.fromkeys(str(run.pattern) for unit in units for run in unit.runs.values())),
        "hypothetical": accelerator.hypothetical,
        "source": accelerator.source,
    }


def _highest_peak(units: list[Unit], dtypes: tuple[str, ...]) -> Quantity | None:
    peaks = [unit.peak[dtype] for unit in units for dtype in dtypes if dtype in unit.peak]
    return max(peaks, key=lambda peak: peak.value, default=None)


def list_workloads() -> list[Row]:
    workloads = [tables.load(catalog.find_path("workloads", name)) for name in catalog.list_names("workloads")]
    return [
        {
            "name": workload.name,
            "task": workload.description.task,
            "metric": workload.description.metric.name,
            "parameters": LargeCount(workload.layers.parameters),
            "active weights": LargeCount(workload.layers.active_weights),
            "MAC": LargeCount(workload.layers.macs),
            "inputs": " ".join(f"{key}={value}" for key, value in workload.description.inputs.items()),
            "layers": len(workload.layers),
            "variants": len(workload.variants),
            "methods": len(workload.methods),
            "source": workload.description.sources[0],
        }
        for workload in workloads
    ]


def list_variants(reference: str) -> list[Row]:
    return [
        {
            "method": variant.method,
            "pattern": str(variant.pattern),
            "nominal": variant.nominal_sparsity,
            "sparsity": round(variant.sparsity, 4),
            "densities": variant.densities_from or "traced",
            "metric": variant.metric,
            "accuracy": none_if_nan(variant.accuracy),
            "low": none_if_nan(variant.accuracy_low),
            "high": none_if_nan(variant.accuracy_high),
            "dense": none_if_nan(variant.dense_accuracy),
            "kind": variant.accuracy_kind,
            "accuracy source": variant.accuracy_source,
        }
        for variant in tables.load(catalog.find_path("workloads", reference)).variants
    ]


def list_sweeps() -> list[Row]:
    specs = [read_sweep(catalog.find_path("sweeps", name))[0] for name in catalog.list_names("sweeps")]
    return [{"name": spec.name, "description": " ".join(spec.description.split())} for spec in specs]


LISTS: dict[str, Callable[[], list[Row]]] = {"accelerators": list_accelerators, "workloads": list_workloads, "sweeps": list_sweeps}


def list_iso_accuracy(workload: str, drop: float, relative: bool, as_json: bool) -> str:
    """A row for each accuracy curve of a workload, by metric and descending sparsity; raises InputError."""
    from dse.workload import accuracy

    curves = accuracy.accuracy_curves(tables.load(catalog.find_path("workloads", workload)))
    rows = sorted((_curve_row(curve, drop, relative) for curve in curves), key=lambda row: (row["metric"], -(row["sparsity"] or 0)))
    return format_json(rows) if as_json else format_table(rows)


def _curve_row(curve: "AccuracyCurve", drop: float, relative: bool) -> Row:
    variant = None if math.isnan(curve.dense_accuracy) else curve.iso(drop, relative)
    described = variant or curve.sparsest
    return {
        "method": curve.sparsest.method,
        "pattern": str(curve.sparsest.pattern),
        "sparsity": variant and round(variant.sparsity, 4),
        "accuracy": variant and round(float(variant.accuracy), 4),
        "low": variant and none_if_nan(round(float(variant.accuracy_low), 4)),
        "high": variant and none_if_nan(round(float(variant.accuracy_high), 4)),
        "dense": none_if_nan(curve.dense_accuracy),
        "set by": _limiting_factor(curve, variant),
        "includes": curve.sparsest.combined_with,
        "metric": curve.metric.name,
        "kind": described.accuracy_kind,
        "densities": described.densities_from or "traced",
        "accuracy source": described.accuracy_source,
    }


def _limiting_factor(curve: "AccuracyCurve", variant: "Variant | None") -> str:
    """What limits the sparsity, or why no variant is within the loss."""
    if math.isnan(curve.dense_accuracy):
        return "none: the source names no dense network"
    if variant is None:
        return f"none: loses {min(curve.loss(curve.sparsities)):.4g} or more"
    if not curve.is_continuous:
        return "the pattern"
    return "the range measured" if variant is curve.points[-1] else "the drop"
