"""What `dse list` and `dse check` tell about descriptions, as tables."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.units import Quantity, format_count
from dse.base.yaml_document import load_document
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.compute_unit import Unit
from dse.schema.sweep import SweepSpec, read_sweep
from dse.workload import schema, tables

if TYPE_CHECKING:
    from dse.sweeping.axis import Role
    from dse.sweeping.plan import Plan
    from dse.workload import Variant
    from dse.workload.accuracy import AccuracyCurve

Rows = list[dict[str, Any]]

UNVERIFIED = " (?)"


def render(what: str | None, name: str | None, as_json: bool) -> str:
    """The tables asked for; raises InputError."""
    if what == "variants":
        if name is None:
            raise InputError("variants of which workload?", "write 'dse list variants NAME'")
        found = {f"variants of {name}": variants(name)}
    else:
        found = {key: make() for key, make in _TABLES.items() if what in (None, key)}
    if as_json:
        return _json(found if what is None else next(iter(found.values())))
    parts = [f"{title}\n\n{_table(rows)}" if len(found) > 1 else _table(rows) for title, rows in found.items()]
    doubtful = any(isinstance(cell, Quantity) and cell.unverified for rows in found.values() for row in rows for cell in row.values())
    return "\n\n".join([*parts, f"{UNVERIFIED.strip()} not read at its source: verify before you rely on it"] if doubtful else parts)


def _json(found: Any) -> str:
    return json.dumps(found, indent=2, default=_plain)


def _plain(quantity: Quantity) -> dict[str, Any]:
    return {"value": quantity.value, "unit": quantity.unit, "text": quantity.text, "unverified": quantity.unverified}


def accelerators() -> Rows:
    return [_accelerator(read_accelerator(catalog.find_path("accel_models", name))) for name in catalog.list_names("accel_models")]


def _accelerator(found: Accelerator) -> dict[str, Any]:
    outer = found.memory[found.outermost]
    units = list(found.units.values())
    patterns = dict.fromkeys(str(run.pattern) for unit in units for run in unit.runs.values())
    return {
        "name": found.name,
        "fp16/bf16": _best(units, ("fp16", "bf16")),
        "int8": _best(units, ("int8",)),
        "bandwidth": outer.bandwidth,
        "capacity": outer.capacity,
        "area": found.cost.area,
        "power": found.cost.power,
        "sparse patterns": " ".join(patterns),
        "hypothetical": found.hypothetical,
        "source": found.source,
    }


def _best(units: list[Unit], dtypes: tuple[str, ...]) -> Quantity | None:
    peaks = [unit.peak[dtype] for unit in units for dtype in dtypes if dtype in unit.peak]
    return max(peaks, key=lambda peak: peak.value, default=None)


def _shown(cell: Any) -> str:
    if isinstance(cell, Quantity):
        return cell.text + (UNVERIFIED if cell.unverified else "")
    if isinstance(cell, bool) or cell is None:
        return "yes" if cell else ""
    if isinstance(cell, float) and not isinstance(cell, Count):
        return f"{cell:g}"
    return str(cell)


def workloads() -> Rows:
    found = [tables.load(catalog.find_path("workloads", name)) for name in catalog.list_names("workloads")]
    return [
        {
            "name": w.name,
            "task": w.description.task,
            "metric": w.description.metric.name,
            "parameters": Count(w.layers.parameters),
            "MAC": Count(w.layers.macs),
            "inputs": " ".join(f"{key}={value}" for key, value in w.description.inputs.items()),
            "layers": len(w.layers),
            "variants": len(w.variants),
            "methods": len(w.methods),
            "source": w.description.sources[0],
        }
        for w in found
    ]


def variants(reference: str) -> Rows:
    return [
        {
            "method": v.method,
            "pattern": str(v.pattern),
            "nominal": v.nominal_sparsity,
            "sparsity": round(v.sparsity, 4),
            "densities": v.densities_from or "traced",
            "metric": v.metric,
            "accuracy": _known(v.accuracy),
            "dense": _known(v.dense_accuracy),
            "kind": v.accuracy_kind,
            "accuracy source": v.accuracy_source,
        }
        for v in tables.load(catalog.find_path("workloads", reference)).variants
    ]


def iso(reference: str, drop: float, relative: bool, as_json: bool) -> str:
    """How sparse each method and pattern of a workload may be at a tolerated loss, as a table; raises InputError."""
    from dse.workload import accuracy

    found = [_iso(curve, drop, relative) for curve in accuracy.accuracy_curves(tables.load(catalog.find_path("workloads", reference)))]
    found.sort(key=lambda row: (row["metric"], -(row["sparsity"] or 0)))
    return _json(found) if as_json else _table(found)


def _iso(curve: "AccuracyCurve", drop: float, relative: bool) -> dict[str, Any]:
    state = None if math.isnan(curve.dense_accuracy) else curve.iso(drop, relative)
    reached = state or curve.sparsest
    return {
        "method": curve.sparsest.method,
        "pattern": str(curve.sparsest.pattern),
        "sparsity": state and round(state.sparsity, 4),
        "accuracy": state and round(float(state.accuracy), 4),
        "dense": _known(curve.dense_accuracy),
        "set by": _set_by(curve, state),
        "includes": curve.sparsest.combined_with,
        "metric": curve.metric.name,
        "kind": reached.accuracy_kind,
        "densities": reached.densities_from or "traced",
        "accuracy source": reached.accuracy_source,
    }


def _set_by(curve: "AccuracyCurve", state: "Variant | None") -> str:
    """What keeps an answer from being sparser, or why there is none."""
    if math.isnan(curve.dense_accuracy):
        return "none: the source names no dense network"
    if state is None:
        return f"none: loses {min(curve.loss(curve.sparsities)):.4g} or more"
    if not curve.is_continuous:
        return "the pattern"
    return "the range measured" if state is curve.points[-1] else "the drop"


class Count(float):
    """A large number, shown with four digits and a prefix."""

    def __str__(self) -> str:
        return format_count(self)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def sweeps() -> Rows:
    found = [read_sweep(catalog.find_path("sweeps", name))[0] for name in catalog.list_names("sweeps")]
    return [{"name": s.name, "description": " ".join(s.description.split())} for s in found]


_TABLES: dict[str, Callable[[], Rows]] = {"accelerators": accelerators, "workloads": workloads, "sweeps": sweeps}


def _table(rows: Rows) -> str:
    """Columns aligned; those without any content left out."""
    shown = [{key: _shown(cell) for key, cell in row.items()} for row in rows]
    columns = [key for key in (shown[0] if shown else ()) if any(row[key] for row in shown)]
    widths = {key: max(len(key), *(len(row[key]) for row in shown)) for key in columns}
    lines = [{key: key for key in columns}, *shown]
    return "\n".join("  ".join(line[key].ljust(widths[key]) for key in columns).rstrip() for line in lines)


def check(path: Path) -> str:
    """What kind of description `path` holds and what it is called; raises InputError with all its problems."""
    if path.is_dir() or path.name == "workload.yaml":
        return f"workload '{tables.load(path).name}'"
    document = load_document(path)
    models = {"accelerator": Accelerator, "sweep": SweepSpec, "workload": schema.Description}
    kind = max(models, key=lambda name: len(models[name].model_fields.keys() & document.data.keys()))
    if kind == "sweep":
        from dse.sweeping.plan_builder import load_plan

        if document.data.get("search"):
            from dse.searching import problem

            problem.load(path)
            return f"search '{document.data['name']}'"
        return f"sweep '{load_plan(path).spec.name}'"
    return f"{kind} '{document.validate(models[kind]).name}'"


ROLES: dict["Role", str] = {
    "rate": "scales a rate",
    "categorical": "changes what runs",
    "tabulated": "changes how many bytes move",
    "unused": "changes no latency",
}


def describe(plan: "Plan") -> str:
    """What a sweep would evaluate, and how large its results would be."""
    states = len(plan.variants) * len(plan.spec.batch) * len(plan.spec.dtype)
    layers = ", ".join(f"{len(workload.layers)} of {workload.name}" for workload in plan.workloads)
    lines = [
        f"sweep        {plan.spec.name} ({plan.document.path})",
        f"accelerators {', '.join(accelerator.name for accelerator in plan.accelerators)}",
        f"workloads    {', '.join(workload.name for workload in plan.workloads)}, {len(plan.variants)} variants",
        *(f"run on       {workload.name}: {workload.run_on}" for workload in plan.workloads if workload.run_on),
        *(f"axis         {axis.path}: {len(axis)} values ({ROLES[axis.role]})" for axis in plan.axes),
        f"evaluates    {plan.design_count} designs x {states} network states, layers: {layers}",
        f"results      at most {plan.result_bytes / 1e6:.3g} MB: {', '.join(plan.spec.store.variables)}",
        *(f"variant      {variant.workload}: {variant}" for variant in plan.variants),
    ]
    return "\n".join(lines)
