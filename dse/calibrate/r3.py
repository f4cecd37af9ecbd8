"""Realised resource reduction (R3): the speedup that remains of a reduction in work after peaks and efficiencies (Gale 2022).

A computation takes R = W / (P E) of a resource. R3 = (W_d / (P_d E_d)) / (W_s / (P_s E_s)) is dense over sparse: above 1 sparsity pays.
("Sparsity in Deep Neural Networks", SIGARCH.)
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.table_format import format_json
from dse.model.executions import enabled_runs
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.compute_unit import Unit
from dse.schema.unit_run import Run
from dse.sparsity.kinds import DENSE

Row = dict[str, Any]  # keys of the JSON output
HEADER = ("device", "run", "pattern", "P_s/P_d", "E_d", "E_s", "break-even sparsity", "sparsity: R3", "W, P or E must grow", "E alone")


def realised_reduction(work: float, peak: float = 1.0, efficiency: float = 1.0) -> float:
    """R3 [1] for a reduction of work W_d / W_s, and the ratios P_s / P_d and E_s / E_d."""
    return work * peak * efficiency


def work_reduction(sparsity: float) -> float:
    """W_d / W_s [1] of work in proportion to the weights kept."""
    return 1 / (1 - sparsity)


def break_even_sparsity(peak: float, efficiency: float) -> float:
    """The sparsity at which R3 is 1: 1 - P_s E_s / (P_d E_d); 0 if dense weights would run faster on the sparse unit already."""
    return max(0.0, 1 - peak * efficiency)


def format_report(names: Sequence[str], dtype: str, sparsity: float, dense: float | None, sparse: float | None, as_json: bool) -> str:
    """Report the break-even sparsity of every run of devices (default: all), and what is missing at `sparsity`.

    `dense` and `sparse` replace the efficiencies that the descriptions state. Raises InputError.
    """
    for efficiency in (dense, sparse):
        if efficiency is not None and not 0 < efficiency <= 1:
            raise InputError(f"an efficiency of {efficiency:g} is out of range", "write a share of the peak, 0 < efficiency <= 1")
    if not 0 <= sparsity < 1:
        raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number of at least 0 and below 1")
    devices = [read_accelerator(catalog.find_path("accel_models", name)) for name in names or catalog.list_names("accel_models")]
    rows = [row for device in devices for row in compare_runs(device, dtype, sparsity, dense, sparse)]
    if not rows:
        raise _no_run_error(devices, dtype)
    return format_json(rows) if as_json else "\n".join([_format_table(rows), *_note_unstated_efficiencies(rows)])


def _no_run_error(devices: Sequence[Accelerator], dtype: str) -> InputError:
    names = ", ".join(device.name for device in devices)
    if any(dtype in unit.peak for device in devices for unit in device.units.values()):
        what = f"{names} computes in '{dtype}', but has no sparse run, whose break-even sparsity there would be"
        return InputError(what, "add one to 'units.UNIT.runs' of a description of your own, see 'dse init accelerator'")
    return InputError(f"no unit of {names} computes in '{dtype}'", "see 'dse list accelerators --json'")


def _note_unstated_efficiencies(rows: Sequence[Row]) -> list[str]:
    """A note that names the devices whose efficiencies count as 1 because their descriptions state none."""
    devices = dict.fromkeys(row["device"] for row in rows)
    unstated = [device for device in devices if not any(row["stated"] for row in rows if row["device"] == device)]
    return [f"no efficiencies are stated for {', '.join(unstated)}: E_d and E_s count as 1, as in 'sol'"] if unstated else []


class DenseBaseline(NamedTuple):
    """Peak [FLOP/s] and efficiency [1] of a dense run, and whether the efficiency is stated."""

    peak: float
    efficiency: float
    is_stated: bool


def compare_runs(device: Accelerator, dtype: str, sparsity: float, dense: float | None, sparse: float | None) -> list[Row]:
    """Compare each sparse run of a device with its fastest dense run, the one with the highest peak x efficiency.

    `dense` and `sparse` replace the efficiencies that the description states.
    """
    units = {name: unit for name, unit in device.units.items() if dtype in unit.peak}
    if not units:
        return []
    baseline = _find_dense_baseline(units.values(), dtype, dense)
    rows = []
    for name, unit in units.items():
        peak_ratio = unit.peak[dtype].value / baseline.peak
        for key, run in enabled_runs(unit, dtype).items():
            if run.pattern != DENSE:
                about = {"device": device.name, "run": f"{name}.{key}", "pattern": str(run.pattern)}
                compared = _compare(run, peak_ratio, baseline.efficiency, sparse or run.efficiency.value, sparsity)
                rows.append(about | compared | {"stated": baseline.is_stated or bool(sparse or run.efficiency.text)})
    return rows


def _find_dense_baseline(units: Iterable[Unit], dtype: str, efficiency: float | None) -> DenseBaseline:
    baselines = [
        DenseBaseline(unit.peak[dtype].value, efficiency or run.efficiency.value, bool(efficiency or run.efficiency.text))
        for unit in units
        for run in _dense_runs(unit, dtype)
    ]
    return max(baselines, key=lambda baseline: baseline.peak * baseline.efficiency)


def _dense_runs(unit: Unit, dtype: str) -> list[Run]:
    """The dense runs that a unit lists for the dtype, else the one that every unit has."""
    return [run for run in enabled_runs(unit, dtype).values() if run.pattern == DENSE]


def _compare(run: Run, peak: float, dense: float, sparse: float, sparsity: float) -> Row:
    """R3 of a run at a sparsity (that of its pattern, if that sets one), for the ratio of peaks and both efficiencies."""
    at = sparsity if run.pattern.density is None else 1 - run.pattern.density
    gain = run.gain.value if run.gain else float("inf")
    break_even = break_even_sparsity(peak, sparse / dense)
    r3 = realised_reduction(min(work_reduction(at), gain), peak, sparse / dense)
    missing = max(1.0, 1 / r3)
    return {
        "peak_ratio": peak, "dense_efficiency": dense, "sparse_efficiency": sparse,
        "break_even": break_even if work_reduction(break_even) <= gain else None,
        "sparsity": at, "r3": r3, "missing": missing, "efficiency_suffices": missing * sparse <= 1,
    }  # fmt: skip


def _format_table(rows: Sequence[Row]) -> str:
    cells = [HEADER, *(_format_row(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)


def _format_row(row: Row) -> tuple[str, ...]:
    break_even = "never: gain" if row["break_even"] is None else f"{row['break_even']:.1%}"
    growth = "" if row["missing"] == 1 else f"x {row['missing']:.3g}"
    efficiency_alone = "" if row["missing"] == 1 else "suffices" if row["efficiency_suffices"] else "does not suffice"
    ratios = (f"{row[key]:.3g}" for key in ("peak_ratio", "dense_efficiency", "sparse_efficiency"))
    r3 = f"{row['sparsity']:.4g}: {row['r3']:.3g}"
    return (row["device"], row["run"], row["pattern"], *ratios, break_even, r3, growth, efficiency_alone)
