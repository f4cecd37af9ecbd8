"""Realised resource reduction: what of a reduction in work is left when peaks and efficiencies are counted (Gale 2022).

R = W / (P E) is what a computation takes of a resource. R3 = (W_d / (P_d E_d)) / (W_s / (P_s E_s)) is dense over sparse: above
1 sparsity pays. Storage, communication and computation each have theirs. ("Sparsity in Deep Neural Networks", SIGARCH.)
"""

import json
from collections.abc import Sequence
from typing import Any

from dse.base import catalog
from dse.base.errors import InputError
from dse.model.peak import open_runs
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.compute_unit import Run, Unit
from dse.sparsity.kinds import DENSE

Row = dict[str, Any]


def realised(work: float, peak: float = 1.0, efficiency: float = 1.0) -> float:
    """R3 [1] for reductions of work W_d / W_s, and the ratios P_s / P_d and E_s / E_d."""
    return work * peak * efficiency


def reduction(sparsity: float) -> float:
    """W_d / W_s [1] of work in proportion to the weights kept."""
    return 1 / (1 - sparsity)


def break_even(peak: float, efficiency: float) -> float:
    """The sparsity at which R3 is 1: 1 - P_s E_s / (P_d E_d), 0 if even dense weights would gain."""
    return max(0.0, 1 - peak * efficiency)


def efficiency_for(sparsity: float, peak: float, dense_efficiency: float) -> float:
    """E_s [1] that breaks even at a sparsity."""
    return (1 - sparsity) * dense_efficiency / peak


def deficit(needed: float, reached: float) -> float:
    """How many times too small a reduction is [1]."""
    return needed / reached


def csr_storage(value: float, index: float, pointer: float, nonzeros: float, rows: float) -> float:
    """E of CSR as storage [1], from the bits of a value, an index and a pointer: the share that is values."""
    return value * nonzeros / ((value + index) * nonzeros + pointer * (rows + 1))


def of_workload(compute: float, traffic: float) -> float:
    """R3 [1] where arithmetic and memory traffic overlap fully and the dense computation takes as long in both: the smaller one.

    For a workload bound by memory before and after, the R3 of the traffic alone.
    """
    return min(compute, traffic)


def report(names: Sequence[str], dtype: str, sparsity: float, dense: float | None, sparse: float | None, as_json: bool) -> str:
    """Report the break-even sparsity of every run of devices, and what is missing at `sparsity`; raises InputError."""
    for share in (dense, sparse):
        if share is not None and not 0 < share <= 1:
            raise InputError(f"an efficiency of {share:g} is out of range", "write a share of the peak, 0 < efficiency <= 1")
    if not 0 <= sparsity < 1:
        raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number of at least 0 and below 1")
    devices = [read_accelerator(catalog.find_path("accel_models", name)) for name in names or catalog.list_names("accel_models")]
    rows = [row for device in devices for row in runs(device, dtype, sparsity, dense, sparse)]
    if not rows:
        raise InputError(f"no run of {', '.join(names) or 'any device'} computes in '{dtype}'", "see 'dse list accelerators --json'")
    return json.dumps(rows, indent=2) if as_json else "\n".join([_table(rows), *_unstated(rows)])


def _unstated(rows: Sequence[Row]) -> list[str]:
    """Name the devices whose efficiencies count as 1 because their descriptions state none."""
    names = [
        device for device in dict.fromkeys(row["device"] for row in rows) if not any(r["stated"] for r in rows if r["device"] == device)
    ]
    return [f"no efficiencies are stated for {', '.join(names)}: E_d and E_s count as 1, as in 'sol'"] if names else []


def runs(device: Accelerator, dtype: str, sparsity: float, dense: float | None, sparse: float | None) -> list[Row]:
    """Compare each sparse run with the dense run that is fastest, the one with the highest peak x efficiency.

    `dense` and `sparse` replace the efficiencies that the description states.
    """
    having = {name: unit for name, unit in device.units.items() if dtype in unit.peak}
    if not having:
        return []
    baselines = [
        (unit.peak[dtype].value, dense or run.efficiency.value, bool(dense or run.efficiency.text))
        for unit in having.values()
        for run in dense_runs(unit, dtype)
    ]
    dense_peak, dense_efficiency, dense_stated = max(baselines, key=lambda one: one[0] * one[1])
    rows = []
    for name, unit in having.items():
        usable = {key: run for key, run in open_runs(unit, dtype).items() if run.pattern != DENSE}
        for key, run in usable.items():
            compared = _row(run, unit.peak[dtype].value / dense_peak, dense_efficiency, sparse or run.efficiency.value, sparsity)
            about = {"device": device.name, "run": f"{name}.{key}", "pattern": str(run.pattern)}
            rows.append(about | compared | {"stated": dense_stated or bool(sparse or run.efficiency.text)})
    return rows


def dense_runs(unit: Unit, dtype: str) -> list[Run]:
    """The dense runs of a unit: those listed for the dtype, else the one that every unit has."""
    return [run for run in open_runs(unit, dtype).values() if run.pattern == DENSE]


def _row(run: Run, peak: float, dense: float, sparse: float, sparsity: float) -> Row:
    at = sparsity if run.pattern.density is None else 1 - run.pattern.density
    gain = run.gain.value if run.gain else float("inf")
    even, r3 = break_even(peak, sparse / dense), realised(min(reduction(at), gain), peak, sparse / dense)
    missing = max(1.0, 1 / r3)
    return {
        "peak_ratio": peak, "dense_efficiency": dense, "sparse_efficiency": sparse, "break_even": even if reduction(even) <= gain else None,
        "sparsity": at, "r3": r3, "missing": missing, "efficiency_suffices": missing * sparse <= 1,
    }  # fmt: skip


def _table(rows: Sequence[Row]) -> str:
    head = ("device", "run", "pattern", "P_s/P_d", "E_d", "E_s", "breaks even at", "R3 at", "W, P or E must grow", "E alone")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)


def _cells(row: Row) -> tuple[str, ...]:
    even = "never: gain" if row["break_even"] is None else f"{row['break_even']:.1%}"
    grow = "" if row["missing"] == 1 else f"x {row['missing']:.3g}"
    alone = "" if row["missing"] == 1 else "suffices" if row["efficiency_suffices"] else "is too little"
    shares = (f"{row[key]:.3g}" for key in ("peak_ratio", "dense_efficiency", "sparse_efficiency"))
    return (row["device"], row["run"], row["pattern"], *shares, even, f"{row['sparsity']:.4g}: {row['r3']:.3g}", grow, alone)
