"""What `dse list` and `dse check` tell about descriptions, as tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dse import accelerator, catalog, spec, workload
from dse.document import read
from dse.errors import BadInput
from dse.readers import tables
from dse.units import Quantity

Rows = list[dict[str, Any]]

UNVERIFIED = "*"


def render(what: str | None, name: str | None, as_json: bool) -> str:
    """The tables asked for; raises BadInput."""
    if what == "variants":
        if name is None:
            raise BadInput.one("variants of which workload?", "write 'dse list variants NAME'")
        tables = {f"variants of {name}": variants(name)}
    else:
        tables = {key: make() for key, make in _TABLES.items() if what in (None, key)}
    if as_json:
        return json.dumps(tables if what is None else next(iter(tables.values())), indent=2, default=str)
    parts = [f"{title}\n\n{_table(rows)}" if len(tables) > 1 else _table(rows) for title, rows in tables.items()]
    if any(UNVERIFIED in part for part in parts):
        parts.append(f"{UNVERIFIED} not read at its source: verify before you rely on it")
    return "\n\n".join(parts)


def accelerators() -> Rows:
    return [_accelerator(accelerator.load(catalog.find("accel_models", name))) for name in catalog.names("accel_models")]


def _accelerator(found: accelerator.Accelerator) -> dict[str, Any]:
    outer = found.memory[found.outermost]
    units = list(found.units.values())
    patterns = dict.fromkeys(str(run.pattern) for unit in units for run in unit.runs.values())
    return {
        "name": found.name,
        "fp16/bf16": _best(units, ("fp16", "bf16")),
        "int8": _best(units, ("int8",)),
        "bandwidth": _shown(outer.bandwidth),
        "capacity": _shown(outer.capacity),
        "area": _shown(found.cost.area),
        "power": _shown(found.cost.power),
        "sparse patterns": " ".join(patterns),
        "": "hypothetical" if found.hypothetical else "",
        "source": found.source,
    }


def _best(units: list[accelerator.Unit], dtypes: tuple[str, ...]) -> str:
    peaks = [unit.peak[dtype] for unit in units for dtype in dtypes if dtype in unit.peak]
    return _shown(max(peaks, key=lambda peak: peak.value, default=None))


def _shown(quantity: Quantity | None) -> str:
    return "" if quantity is None else quantity.text + (UNVERIFIED if quantity.unverified else "")


def workloads() -> Rows:
    found = [tables.load(catalog.find("workloads", name)) for name in catalog.names("workloads")]
    return [
        {
            "name": w.name,
            "task": w.description.task,
            "metric": w.description.metric.name,
            "layers": len(w.layers),
            "weights": f"{(w.layers.weights * w.layers.count).sum() / 1e6:.4g} M",
            "GMAC": f"{(w.layers.m * w.layers.k * w.layers.n * w.layers.count * w.layers.has_flops).sum() / 1e9:.4g}",
            "variants": len(w.variants),
            "methods": " ".join(w.methods),
        }
        for w in found
    ]


def variants(reference: str) -> Rows:
    return [
        {
            "method": v.method,
            "pattern": str(v.pattern),
            "nominal": f"{v.nominal_sparsity:g}",
            "sparsity": f"{v.sparsity:.4f}",
            "accuracy": f"{v.accuracy:g}",
            "dense": f"{v.dense_accuracy:g}",
            "kind": v.accuracy_kind,
            "accuracy source": v.accuracy_source,
        }
        for v in tables.load(catalog.find("workloads", reference)).variants
    ]


def sweeps() -> Rows:
    found = [spec.load(catalog.find("sweeps", name))[0] for name in catalog.names("sweeps")]
    return [{"name": s.name, "description": " ".join(s.description.split())} for s in found]


_TABLES: dict[str, Callable[[], Rows]] = {"accelerators": accelerators, "workloads": workloads, "sweeps": sweeps}


def _table(rows: Rows) -> str:
    """Columns aligned; those without any content left out."""
    columns = [key for key in rows[0] if any(str(row[key]) for row in rows)] if rows else []
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in columns}
    lines = [columns, *([str(row[key]) for key in columns] for row in rows)]
    return "\n".join("  ".join(cell.ljust(widths[key]) for key, cell in zip(columns, line, strict=True)).rstrip() for line in lines)


def check(path: Path) -> str:
    """What kind of description `path` holds and what it is called; raises BadInput with all its problems."""
    if path.is_dir() or path.name == "workload.yaml":
        return f"workload '{tables.load(path).name}'"
    document = read(path)
    models = {"accelerator": accelerator.Accelerator, "sweep": spec.Spec, "workload": workload.Description}
    kind = max(models, key=lambda name: len(models[name].model_fields.keys() & document.data.keys()))
    if kind == "sweep":
        from dse.explore import plan

        return f"sweep '{plan.load(path).spec.name}'"
    return f"{kind} '{document.validate(models[kind]).name}'"
