"""The tables of `dse validate`: errors of each rung, kernel by kernel, sparsity by sparsity, set by set."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from dse.calibrate.fidelities import RUNGS
from dse.calibrate.validate.shapes import APART, Point, errors

Row = dict[str, Any]


ABOUT = ("set", "split", "device", "kernel", "family", "dtype", "quantity")


def rows(points: Sequence[Point]) -> list[Row]:
    """One row for each set, split, device, kernel and quantity; then one for each set as a whole."""
    each = _grouped(points, lambda p: tuple(getattr(p, name) for name in ABOUT))
    single = [_row(group, dict(zip(ABOUT, key, strict=True))) for key, group in each]
    wide = [
        (key, group)
        for key, group in _grouped(points, lambda p: (p.set, p.split, p.quantity))
        if len({(p.device, p.kernel) for p in group}) > 1
    ]
    return single + [_row(group, {"set": s, "split": split, "kernel": "all", "quantity": quantity}) for (s, split, quantity), group in wide]


def _grouped(points: Sequence[Point], key: Callable[[Point], tuple[str, ...]]) -> list[tuple[tuple[str, ...], list[Point]]]:
    return [(found, list(group)) for found, group in groupby(sorted(points, key=key), key)]


def _row(points: Sequence[Point], about: Row) -> Row:
    each = {rung: errors(points, rung) for rung in RUNGS}
    sparsities = sorted({round(p.sparsity, 2) for p in points})
    by = {s: errors([p for p in points if round(p.sparsity, 2) == s], "calibrated")["mape"] for s in sparsities}
    return about | {"launches": len(points), "shapes": len({p.shape for p in points}), "errors": each, "by_sparsity": by}


def pays(found: Sequence[Row]) -> list[str]:
    """The sets, times and speedups apart, whose left-out shapes, left-out devices or networks `calibrated` does not predict better than
    `sol`."""
    worse, mine = [], [row for row in found if row["split"] in TITLES]
    for key in dict.fromkeys((row["set"], row["split"], row["quantity"]) for row in mine):
        those = [row for row in mine if (row["set"], row["split"], row["quantity"]) == key and row["kernel"] != "all"]
        mean = {
            rung: np.average([row["errors"][rung]["mape"] for row in those], weights=[row["launches"] for row in those]) for rung in RUNGS
        }
        if mean["calibrated"] >= mean["sol"]:
            worse.append(f"{key[0]}, {TITLES[key[1]]}, {key[2]}: calibrated {mean['calibrated']:.1%}, sol {mean['sol']:.1%}")
    return worse


def table(found: Sequence[Row], markdown: bool = False) -> str:
    """As text, or as Markdown: mean errors of all rungs, then what else is to be said of `calibrated`."""
    parts = []
    for split in sorted({row["split"] for row in found}, key=lambda split: (*(split != first for first in TITLES), split)):
        title = TITLES.get(split, f"transferred from {split}")
        cells = [HEAD, *(_cells(row) for row in found if row["split"] == split)]
        parts.append(f"{title}\n\n" + (_markdown(cells) if markdown else _aligned(cells)))
    return "\n\n".join(parts)


def brief(found: Sequence[Row], markdown: bool = False) -> str:
    """Mean errors of each kernel alone, on the rungs that differ where no memory binds; no single devices, no means over sets."""
    parts = []
    for split in (split for split in TITLES if any(row["split"] == split for row in found)):
        mine = [row for row in found if row["split"] == split and row["kernel"] != "all"]
        cells = [(_name(row), row["quantity"], *(f"{100 * row['errors'][rung]['mape']:.0f}%" for rung in BRIEF)) for row in mine]
        lines = [(f"kernel, {TITLES[split]}", "of", *BRIEF), *cells]
        parts.append(_markdown(lines) if markdown else _aligned(lines))
    return "\n\n".join(parts)


TITLES = {
    "shapes": "leave-one-shape-out",
    "devices": "leave-one-device-out",
    "networks": "whole networks",
}
BRIEF = ("sol", "r3", "calibrated")
HEAD = ("set", "kernel", "of", "n", *RUNGS, "median", "worst", "bias", "tau", f"tau > {APART:.0%}", "calibrated, by sparsity")


def _cells(row: Row) -> list[str]:
    means = [_percent(row["errors"][rung]["mape"]) for rung in RUNGS]
    best = row["errors"]["calibrated"]
    more = [
        _percent(best["median"]),
        _percent(best["worst"]),
        f"{best['bias']:+.0%}",
        *("" if np.isnan(best[name]) else f"{best[name]:.2f}" for name in ("tau", "tau_apart")),
    ]
    by = ", ".join(f"{100 * s:.3g}%: {100 * e:.0f}" for s, e in row["by_sparsity"].items()) if len(row["by_sparsity"]) > 1 else ""
    return [row["set"], _name(row), row["quantity"], str(row["launches"]), *means, *more, by]


def _name(row: Row) -> str:
    name = " ".join(row.get(key, "") for key in ("device", "kernel", "family", "dtype")).strip()
    return name.replace(" dense dense", " dense")


def _percent(error: float) -> str:
    if np.isnan(error):
        return ""
    return f"{100 * error:.1f}%" if error < 1 else f"{100 * error:.0f}%"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rest))
