"""A pattern by itself: what each format takes to store it, and what each device would run it as."""

import json
import re
import textwrap
from typing import Any

from dse.base import catalog
from dse.base.errors import InputError
from dse.model.work import gathered
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.compute_unit import Run
from dse.sparsity.format import Combinatorial, DenseFormat, candidate_formats
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE, VNM_COLUMNS, BlockFamily, Structured, VNMFamily
from dse.sparsity.mask import check_matrix_size
from dse.sparsity.pattern import Pattern


def report(text: str, density: float | None, size: str, value: float, as_json: bool) -> str:
    """What there is to say of a pattern; raises InputError."""
    pattern, shape = parse(text), _shape(size)
    if isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(f"'{pattern}' is a family", "name one of its members")
    if pattern.density is None and density is None:
        raise InputError(f"'{pattern}' may keep any fraction", "say which, as in '--density 0.1'")
    if density is not None and not 0 < density <= 1:
        raise InputError(f"a density of {density:g} is out of range", "write a number above 0 and at most 1")
    if not 0 < value <= 1024:
        raise InputError(f"weights of {value:g} bit are out of range", "write a number above 0 and at most 1024")
    check_matrix_size(pattern, *shape)
    kept = float(pattern.density if pattern.density is not None else density or 0.0)
    found = {
        "pattern": str(pattern),
        "density": kept,
        "formats": formats(pattern, kept, shape, value),
        "devices": devices(pattern),
    }
    return json.dumps(found, indent=2) if as_json else _written(found, shape, value)


def _shape(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"[1-9]\d{0,8}x[1-9]\d{0,8}", text):
        raise InputError(f"'{text}' is no shape of a matrix", "write rows x columns, as in '4096x11008'")
    rows, columns = map(int, text.split("x"))
    return rows, columns


def formats(pattern: Pattern, density: float, shape: tuple[int, int], value: float) -> list[dict[str, Any]]:
    """What an [m, k] matrix of the pattern takes in each format that can hold it, at its best widths, the smallest first."""
    m, k = map(float, shape)
    stored, found = float(pattern.stored_elements(m, k, density)), {}
    for form in [*candidate_formats(pattern, *shape, stored), Combinatorial(), DenseFormat()]:
        if form.can_store(pattern):
            cost = form.cost(pattern, m, k, stored)
            row = {
                "format": written(form),
                "stored": float(cost.elements) / (m * k),
                "metadata": float(cost.metadata_bits) / (density * m * k),
            }
            row["size"] = float(value * cost.elements + cost.metadata_bits) / (value * m * k)
            kind = form.kind, getattr(form, "order", None)
            found[kind] = min(found.get(kind, row), row, key=lambda row: row["size"])
    return sorted(found.values(), key=lambda row: row["size"])


def written(form: Any) -> str:
    """A format in a few words: 'csr index=12 pointer=24'."""
    given = {name: getattr(form, name) for name in type(form).model_fields if name not in ("kind", "levels")}
    numbers = {name: f"{found.value:g}" if hasattr(found, "value") else str(found) for name, found in given.items() if found is not None}
    ranks = [rank.kind for rank in getattr(form, "levels", ())]
    return " ".join([form.kind, *(f"{name}={number}" for name, number in numbers.items()), *ranks])


def devices(pattern: Pattern) -> list[dict[str, Any]]:
    """The runs of shipped devices that take a mask of the pattern, as what they store it and the most that they gain; alike ones as one."""
    found: dict[Any, list[str]] = {}
    for name in catalog.list_names("accel_models"):
        device = read_accelerator(catalog.find_path("accel_models", name))
        for key in _runs(device, pattern):
            found.setdefault(key, []).append(name)
    return [{"run": run, "as": member, "gain": gain, "devices": names} for (run, member, gain), names in found.items()]


def _runs(device: Accelerator, pattern: Pattern) -> list[tuple[str, str, float | None]]:
    """Run, what the mask is stored as, and the most that the run speeds it up (None: as much as its density allows)."""
    found = []
    for unit, described in device.units.items():
        if isinstance(pattern, Structured):
            found.append((f"{unit}.dense", "a smaller matrix", None))
        for name, run in described.runs.items():
            narrow, contains = gathered(run.pattern, pattern), run.pattern.storage_pattern_for(pattern)
            if run.enabled and run.pattern != DENSE and (member := narrow or contains) is not None:
                wider = narrow.m / VNM_COLUMNS if narrow is not None else 1.0
                found.append((f"{unit}.{name}", str(member), _gain(run, member, wider)))
    return found


def _gain(run: Run, member: Pattern, wider: float) -> float | None:
    """The least of the cap (which counts from the columns that the unit sees) and 1 / density."""
    cap = [run.gain.value * wider] if run.gain else []
    own = [1 / member.density] if member.density else []
    return min(cap + own, default=None)


def _written(found: dict[str, Any], shape: tuple[int, int], value: float) -> str:
    lines = [f"{found['pattern']}: density {found['density']:g}", ""]
    lines += [f"{'format (widths in bits)':42}{'stored':>8}{'bits for each weight kept':>27}{'of dense':>10}"]
    lines += [f"{row['format']:42}{row['stored']:>8.4g}{row['metadata']:>27.4g}{row['size']:>10.4g}" for row in found["formats"]]
    lines += [f"({shape[0]} x {shape[1]} weights of {value:g} bit; random masks, where their size varies)", ""]
    if not found["devices"]:
        return "\n".join([*lines, "no shipped device runs it faster than dense"])
    lines += [f"{'run':28}{'stored as':24}{'gain at most':14}devices"]
    for row in found["devices"]:
        told = f"{row['run']:28}{row['as']:24}{'1 / density' if row['gain'] is None else format(row['gain'], 'g'):14}"
        lines += textwrap.wrap(
            told + ", ".join(row["devices"]), 132, subsequent_indent=" " * 66, drop_whitespace=False, break_on_hyphens=False
        )
    lines.append("(the gain is over the dense peak of the same unit)")
    return "\n".join(line.rstrip() for line in lines)
