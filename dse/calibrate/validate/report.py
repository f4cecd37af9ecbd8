"""Tables of `dse validate`: errors of each fidelity by kernel, by sparsity and over each set."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from dse.calibrate.predictions import FIDELITIES
from dse.calibrate.validate.comparison import MIN_DIFFERENCE, Comparison, compute_errors, compute_reliability, mean_error
from dse.schema.model_options import Fidelity

Row = dict[str, Any]  # keys of the JSON output

SPLIT_TITLES = {
    "shapes": "leave-one-shape-out",
    "halves": "random halves",
    "windows": "random halves, launches with a window shorter than their keys",
    "devices": "leave-one-device-out",
    "few": "five shapes of the device",
    "experts": "mixtures of experts, predicted by plain products",
    "networks": "whole networks",
}
BRIEF_FIDELITIES: tuple[Fidelity, ...] = ("sol", "r3", "calibrated")  # those that differ where no kernel is bound by memory
IDENTITY = ("set", "split", "device", "kernel", "family", "dtype", "quantity")
HEADER = (
    "set", "kernel", "of", "n", *FIDELITIES, "median", "worst", "bias", "tau", f"tau > {MIN_DIFFERENCE:.0%}",
    "right side of 1", "in 90% interval", "calibrated, by sparsity",
)  # fmt: skip


def summarize(comparisons: Sequence[Comparison]) -> list[Row]:
    """One row for each set, split, device, kernel and quantity, then one for each set with several kernels."""
    by_kernel = _group(comparisons, lambda c: tuple(getattr(c, name) for name in IDENTITY))
    rows = [_summarize_group(group, dict(zip(IDENTITY, key, strict=True))) for key, group in by_kernel]
    for (set_name, split, quantity), group in _group(comparisons, lambda c: (c.set, c.split, c.quantity)):
        if len({(c.device, c.kernel) for c in group}) > 1:
            rows.append(_summarize_group(group, {"set": set_name, "split": split, "kernel": "all", "quantity": quantity}))
    return rows


def _group(
    comparisons: Sequence[Comparison], key: Callable[[Comparison], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Comparison]]]:
    return [(value, list(group)) for value, group in groupby(sorted(comparisons, key=key), key)]


def _summarize_group(comparisons: Sequence[Comparison], identity: Row) -> Row:
    sparsities = sorted({round(c.sparsity, 2) for c in comparisons})
    by_sparsity = {s: mean_error([c for c in comparisons if round(c.sparsity, 2) == s], "calibrated") for s in sparsities}
    return identity | {
        "launches": len(comparisons),
        "shapes": len({c.shape for c in comparisons}),
        "errors": {fidelity: compute_errors(comparisons, fidelity) for fidelity in FIDELITIES},
        "by_sparsity": by_sparsity,
    }


def find_failures(rows: Sequence[Row]) -> list[str]:
    """The sets, by split and quantity, on which `calibrated` has no smaller mean error than `sol`."""
    failures = []
    kernel_rows = [row for row in rows if row["kernel"] != "all"]
    for set_name, split, quantity in dict.fromkeys((row["set"], row["split"], row["quantity"]) for row in kernel_rows):
        of_set = [row for row in kernel_rows if (row["set"], row["split"], row["quantity"]) == (set_name, split, quantity)]
        mean = {
            fidelity: np.average([row["errors"][fidelity]["mape"] for row in of_set], weights=[row["launches"] for row in of_set])
            for fidelity in FIDELITIES
        }
        if mean["calibrated"] >= mean["sol"]:
            errors = f"calibrated {mean['calibrated']:.1%}, sol {mean['sol']:.1%}"
            failures.append(f"{set_name}, {SPLIT_TITLES[split]}, {quantity}: {errors}")
    return failures


def format_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """All rows as aligned text or Markdown: mean errors of each fidelity, then further statistics of `calibrated`."""
    parts = []
    for split, title in SPLIT_TITLES.items():
        if cells := [_format_row(row) for row in rows if row["split"] == split]:
            parts.append(f"{title}\n\n{format_lines([HEADER, *cells], markdown)}")
    return "\n\n".join(parts)


def format_brief_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Mean errors of each kernel as aligned text or Markdown, without means over sets."""
    parts = []
    for split, title in SPLIT_TITLES.items():
        kernel_rows = [row for row in rows if row["split"] == split and row["kernel"] != "all"]
        if kernel_rows:
            cells = [(_kernel_name(row), row["quantity"], *_brief_errors(row)) for row in kernel_rows]
            parts.append(format_lines([(f"kernel, {title}", "of", *BRIEF_FIDELITIES), *cells], markdown))
    return "\n\n".join(parts)


def format_reliability(comparisons: Sequence[Comparison], markdown: bool = False) -> str:
    """How often measured speedups exceeded one, by split and by the probability that was predicted; empty without intervals of speedups."""
    parts = []
    for split, title in SPLIT_TITLES.items():
        bins = compute_reliability([comparison for comparison in comparisons if comparison.split == split])
        header = (f"predicted probability of a speedup, {title}", "n", "mean", "measured above 1")
        cells = [(f"{b.low:.0%} to {b.high:.0%}", str(b.speedups), f"{b.mean_predicted:.1%}", f"{b.share_faster:.1%}") for b in bins]
        parts += [format_lines([header, *cells], markdown)] if bins else []
    return "\n\n".join(parts)


def _brief_errors(row: Row) -> list[str]:
    return [f"{100 * row['errors'][fidelity]['mape']:.0f}%" for fidelity in BRIEF_FIDELITIES]


def _format_row(row: Row) -> list[str]:
    calibrated = row["errors"]["calibrated"]
    by_sparsity = [f"{100 * sparsity:.3g}%: {100 * error:.0f}" for sparsity, error in row["by_sparsity"].items()]
    return [
        row["set"], _kernel_name(row), row["quantity"], str(row["launches"]),
        *(_format_error(row["errors"][fidelity]["mape"]) for fidelity in FIDELITIES),
        _format_error(calibrated["median"]), _format_error(calibrated["worst"]), f"{calibrated['bias']:+.0%}",
        *("" if np.isnan(calibrated[name]) else f"{calibrated[name]:.2f}" for name in ("tau", "tau_apart")),
        *("" if np.isnan(calibrated[name]) else f"{calibrated[name]:.0%}" for name in ("right_side", "coverage")),
        ", ".join(by_sparsity) if len(by_sparsity) > 1 else "",
    ]  # fmt: skip


def _kernel_name(row: Row) -> str:
    name = " ".join(row.get(key, "") for key in ("device", "kernel", "family", "dtype")).strip()
    return name.replace(" dense dense", " dense")


def _format_error(error: float) -> str:
    if np.isnan(error):
        return ""
    return f"{100 * error:.1f}%" if error < 1 else f"{100 * error:.0f}%"


def format_lines(lines: Sequence[Sequence[str]], markdown: bool) -> str:
    """A header and lines of cells as aligned text or Markdown."""
    if markdown:
        header, *rest = lines
        return "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rest))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
