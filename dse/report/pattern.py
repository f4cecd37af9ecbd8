"""`dse pattern`: the storage of a sparsity pattern in each format, and the shipped devices that run it."""

import re
import textwrap
from typing import Any

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.table_format import Row, format_json
from dse.model.stored_weights import gathered_pattern
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.unit_run import Run
from dse.sparsity.format import Combinatorial, DenseFormat, candidate_formats
from dse.sparsity.grammar import parse
from dse.sparsity.kinds import DENSE, VNM_COLUMNS, BlockFamily, Structured, VNMFamily
from dse.sparsity.mask import check_matrix_size
from dse.sparsity.pattern import Pattern
from dse.sparsity.windows import window_cover

LINE_WIDTH = 132
RunKey = tuple[str, str, float | None]  # name of the run, storage pattern, gain (None: 1 / density)


def report_pattern(text: str, density: float | None, shape_text: str, value_bits: float, as_json: bool) -> str:
    """Report on a pattern at a density (None: that of the pattern) in a matrix of weights; raises InputError."""
    pattern, shape = parse(text), _parse_shape(shape_text)
    density = _checked_density(pattern, density)
    if not 0 < value_bits <= 1024:
        raise InputError(f"weights of {value_bits:g} bit are out of range", "write a number above 0 and at most 1024")
    check_matrix_size(pattern, *shape)
    formats, devices, windows = format_rows(pattern, density, shape, value_bits), device_rows(pattern), window_rows(pattern)
    if as_json:
        return format_json({"pattern": str(pattern), "density": density, "formats": formats, "devices": devices, "windows": windows})
    matrix = f"({shape[0]} x {shape[1]} weights of {value_bits:g} bit; expected sizes of random masks where a size depends on the mask)"
    return "\n".join(
        [f"{pattern}: density {density:g}", "", *_format_lines(formats), matrix, "", *_device_lines(devices), *_window_lines(windows)]
    )


def _parse_shape(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"[1-9]\d{0,8}x[1-9]\d{0,8}", text):
        raise InputError(f"'{text}' is not a valid matrix shape", "write rows x columns, as in '4096x11008'")
    rows, columns = map(int, text.split("x"))
    return rows, columns


def _checked_density(pattern: Pattern, density: float | None) -> float:
    """The density of the pattern, which is that of the user only where the pattern has none."""
    if isinstance(pattern, BlockFamily | VNMFamily):
        raise InputError(f"'{pattern}' is a family of patterns", "name one of its members")
    if density is not None and not 0 < density <= 1:
        raise InputError(f"a density of {density:g} is out of range", "write a number above 0 and at most 1")
    if pattern.density is not None:
        return float(pattern.density)
    if density is None:
        raise InputError(f"'{pattern}' has no density of its own", "add one, as in '--density 0.1'")
    return density


def format_rows(pattern: Pattern, density: float, shape: tuple[int, int], value_bits: float) -> list[Row]:
    """Storage of an [m, k] matrix in each format that can hold the pattern, at its best index widths, the smallest first.

    `stored` is the share of elements that are stored, `metadata` the metadata bits for each nonzero weight, `size` the size
    relative to that of the dense matrix.
    """
    m, k = map(float, shape)
    stored = float(pattern.stored_elements(m, k, density))
    smallest: dict[object, Row] = {}
    for form in [*candidate_formats(pattern, *shape, stored), Combinatorial(), DenseFormat()]:
        if form.can_store(pattern):
            cost = form.cost(pattern, m, k, stored)
            row = {
                "format": describe_format(form),
                "stored": float(cost.elements) / (m * k),
                "metadata": float(cost.metadata_bits) / (density * m * k),
                "size": float(value_bits * cost.elements + cost.metadata_bits) / (value_bits * m * k),
            }
            kind = form.kind, getattr(form, "order", None)
            smallest[kind] = min(smallest.get(kind, row), row, key=lambda row: row["size"])
    return sorted(smallest.values(), key=lambda row: row["size"])


def describe_format(form: Any) -> str:
    """A format in a few words: 'csr index=12 pointer=24'."""
    fields = {name: getattr(form, name) for name in type(form).model_fields if name not in ("kind", "levels")}
    texts = {name: f"{field.value:g}" if hasattr(field, "value") else str(field) for name, field in fields.items() if field is not None}
    ranks = [rank.kind for rank in getattr(form, "levels", ())]
    return " ".join([form.kind, *(f"{name}={text}" for name, text in texts.items()), *ranks])


def device_rows(pattern: Pattern) -> list[Row]:
    """The runs of shipped devices that execute the pattern: storage pattern and largest gain, with all devices that have such a run."""
    devices: dict[RunKey, list[str]] = {}
    for name in catalog.list_names("accel_models"):
        accelerator = read_accelerator(catalog.find_path("accel_models", name))
        for key in _runs(accelerator, pattern):
            devices.setdefault(key, []).append(name)
    return [{"run": run, "as": storage, "gain": gain, "devices": names} for (run, storage, gain), names in devices.items()]


def _runs(accelerator: Accelerator, pattern: Pattern) -> list[RunKey]:
    runs: list[RunKey] = []
    for unit_name, unit in accelerator.units.items():
        if isinstance(pattern, Structured):
            runs.append((f"{unit_name}.dense", "a smaller matrix", None))
        for name, run in unit.runs.items():
            vnm = gathered_pattern(run.pattern, pattern)
            storage = vnm or run.pattern.storage_pattern_for(pattern)
            if run.enabled and run.pattern != DENSE and storage is not None:
                columns_ratio = vnm.m / VNM_COLUMNS if vnm is not None else 1.0
                runs.append((f"{unit_name}.{name}", str(storage), _largest_gain(run, storage, columns_ratio)))
    return runs


def window_rows(pattern: Pattern) -> list[Row]:
    """How windows of each N:M that a shipped device runs cover the pattern, the fewest stored elements first.

    `windows`: for each `group` of columns; `expansion`: columns after expansion over k; `stored`: share of the elements that is stored.
    N:M that contain the pattern need no windows and are left out.
    """
    paths = [catalog.find_path("accel_models", name) for name in catalog.list_names("accel_models")]
    units = [unit for path in paths for unit in read_accelerator(path).units.values()]
    patterns = dict.fromkeys(run.pattern for unit in units for run in unit.runs.values())
    covers = [window_cover(pattern, unit) for unit in patterns if unit.storage_pattern_for(pattern) is None]
    rows = [
        {
            "of": str(cover.unit),
            "windows": len(cover.starts),
            "group": cover.group,
            "expansion": cover.expansion,
            "stored": cover.stored_share,
        }
        for cover in covers
        if cover is not None
    ]
    return sorted(rows, key=lambda row: (row["stored"], row["expansion"]))


def _window_lines(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = [f"{row['of']:12}{row['windows']} for {row['group']:<10}{row['expansion']:<12.4g}{row['stored']:<10.4g}" for row in rows]
    header = f"{'windows of':12}{'for columns':16}{'expanded k':12}stored"
    return ["", header, *(line.rstrip() for line in lines), "(a run executes them if it says 'expanded')"]


def _largest_gain(run: Run, storage: Pattern, columns_ratio: float) -> float | None:
    """The smaller of the gain cap, which counts from the columns that the unit sees, and 1 / density; None without both."""
    cap = [run.gain.value * columns_ratio] if run.gain else []
    reduction = [1 / storage.density] if storage.density else []
    return min(cap + reduction, default=None)


def _format_lines(rows: list[Row]) -> list[str]:
    header = f"{'format (widths in bits)':42}{'stored':>8}{'metadata bits for each nonzero':>32}{'of dense':>10}"
    return [header, *(f"{row['format']:42}{row['stored']:>8.4g}{row['metadata']:>32.4g}{row['size']:>10.4g}" for row in rows)]


def _device_lines(rows: list[Row]) -> list[str]:
    if not rows:
        return ["no shipped device runs it faster than dense"]
    lines = [f"{'run':28}{'stored as':24}{'gain at most':14}devices"]
    for row in rows:
        gain = "1 / density" if row["gain"] is None else format(row["gain"], "g")
        text = f"{row['run']:28}{row['as']:24}{gain:14}" + ", ".join(row["devices"])
        lines += textwrap.wrap(text, LINE_WIDTH, subsequent_indent=" " * 66, drop_whitespace=False, break_on_hyphens=False)
    return [*(line.rstrip() for line in lines), "(the gain is over the dense peak of the same unit)"]
