"""Hypothetical variants in a search: patterns that nobody pruned a network to, whose accuracy is assumed.

An accuracy drop that the specification states is compared with the tolerance. Without one, a variant with the densities of a measured
one is assumed to lose as much, and is left out where only other densities have a known accuracy. Any other variant counts as accurate
enough: whoever lists the pattern assumes that. Each network has one warning that says so, and how the accuracies could be estimated.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np

from dse.accuracy.reference_curve import choose_curve
from dse.base import catalog
from dse.base.errors import InputError
from dse.schema.search import AccuracyTolerance
from dse.schema.workload_selection import WorkloadSelection
from dse.sweeping.variants import list_hypothetical
from dse.workload import Variant, Workload
from dse.workload.accuracy import ROUNDING_TOLERANCE, accuracy_loss
from dse.workload.accuracy_drop import AccuracyDrop

MAX_LISTED = 6  # patterns in a warning

Basis = Literal["stated", "source", "none"]  # of an assumption: a stated drop, the loss of the source of the densities, or nothing


def select_assumed(workload: Workload, selection: WorkloadSelection, tolerance: AccuracyTolerance) -> list[Variant]:
    """The hypothetical variants of a selection whose assumed accuracy drop, where there is one, is within the tolerance."""
    return [variant for variant, _ in _list_assumed(workload, selection, tolerance) if _is_within(variant, workload, tolerance)]


def describe_assumptions(name: str, workload: Workload, selection: WorkloadSelection, tolerance: AccuracyTolerance) -> Iterator[str]:
    """Warnings about the hypothetical variants of a network: what is assumed of them, and which the tolerance excludes."""
    groups: dict[Basis, list[Variant]] = {}
    for variant, basis in _list_assumed(workload, selection, tolerance):
        groups.setdefault(basis, []).append(variant)
    if "none" in groups:
        yield _describe_unstated(name, workload, groups["none"], tolerance)
    if patterns := list(dict.fromkeys(str(variant.pattern) for variant in groups.get("source", ()))):
        are, have = ("is", "it has") if len(patterns) == 1 else ("are", "they have")
        yield f"'{name}': {_join(patterns)} {are} assumed to lose as much accuracy as the measured variants whose densities {have}"
    if excluded := [variant for variant in groups.get("stated", ()) if not _is_within(variant, workload, tolerance)]:
        listed = list(dict.fromkeys(f"{_pattern_text(variant)} ({variant.assumed_drop})" for variant in excluded))
        whose = "its assumed accuracy drop is" if len(listed) == 1 else "their assumed accuracy drops are"
        yield f"'{name}': the search leaves out {_join(listed)}: {whose} above '{tolerance}'"


def _list_assumed(workload: Workload, selection: WorkloadSelection, tolerance: AccuracyTolerance) -> Iterator[tuple[Variant, Basis]]:
    """The hypothetical variants with what is assumed of their accuracy, and its basis.

    Where some sources of densities have a known accuracy, variants with the densities of the others are left out, as these sources are.
    """
    pairs = list_hypothetical(workload, selection)
    has_known = any(source is not None and np.isfinite(source.accuracy) for _, source in pairs)
    for variant, source in pairs:
        assumed = replace(variant, accuracy_kind="assumed")
        if variant.assumed_drop is not None:
            yield assumed, "stated"
        elif source is None or not has_known:
            yield assumed, "none"
        elif (drop := _drop_of(source, workload, tolerance)) is not None:
            yield replace(assumed, assumed_drop=drop), "source"


def _drop_of(source: Variant, workload: Workload, tolerance: AccuracyTolerance) -> AccuracyDrop | None:
    """The measured accuracy drop of a variant in the unit of the tolerance, at least 0; None if it cannot be compared with that."""
    metric = workload.description.metric
    loss = accuracy_loss(source.accuracy, source.dense_accuracy, metric.direction)
    if source.metric != metric.name or np.isnan(loss):
        return None
    return AccuracyDrop(max(loss, 0.0) * (100 / abs(source.dense_accuracy) if tolerance.relative else 1.0), tolerance.relative)


def _is_within(variant: Variant, workload: Workload, tolerance: AccuracyTolerance) -> bool:
    if variant.assumed_drop is None:
        return True
    return variant.assumed_drop.in_unit(tolerance.relative, workload.dense.accuracy) <= tolerance.max_drop + ROUNDING_TOLERANCE


def _describe_unstated(name: str, workload: Workload, variants: Sequence[Variant], tolerance: AccuracyTolerance) -> str:
    """That variants without a stated drop count as accurate enough, what measurements say, and how to estimate the accuracies."""
    patterns = list(dict.fromkeys(map(_pattern_text, variants)))
    counts = f"{_join(patterns)} {'counts' if len(patterns) == 1 else 'count'} as accurate enough by assumption, without an 'accuracy_drop'"
    return "; ".join([f"'{name}': {counts}", *_measured_losses(workload, variants, tolerance), *_how_to_estimate(workload, patterns)])


def _measured_losses(workload: Workload, variants: Sequence[Variant], tolerance: AccuracyTolerance) -> Iterator[str]:
    """The least measured loss of each pattern of fixed density of which every measured variant loses more than the tolerance."""
    metric = workload.description.metric
    for pattern in dict.fromkeys(variant.pattern for variant in variants if variant.pattern.density is not None):
        measured = [v for v in workload.variants if v.pattern == pattern and v.metric == metric.name and not v.has_inferred_accuracy]
        losses = [
            (accuracy_loss(v.accuracy, v.dense_accuracy, metric.direction), abs(v.dense_accuracy), v.method)
            for v in measured
            if np.isfinite(v.accuracy - v.dense_accuracy)
        ]
        shares = [loss * 100 / dense if tolerance.relative else loss for loss, dense, _ in losses]
        if losses and min(shares) > tolerance.max_drop + ROUNDING_TOLERANCE:
            loss, _, method = min(losses)
            yield f"measured, {pattern} loses at least {loss:.3g} of {metric.name} ({method})"


def _how_to_estimate(workload: Workload, patterns: Sequence[str]) -> Iterator[str]:
    """The command that estimates the accuracies of patterns, where the network has a measured curve to read them from."""
    if workload.mapping is not None:
        return
    with suppress(InputError):
        metric = choose_curve(workload).measured.metric.name
        listed = " ".join(patterns) if len(patterns) <= MAX_LISTED else "..."
        unit = "" if metric == workload.description.metric.name else f" in '{metric}'"
        yield f"'dse accuracy estimate {_reference(workload)} --patterns {listed}' gives estimates{unit}"


def _reference(workload: Workload) -> str:
    """The name of the network in the catalogue, or its folder."""
    shipped = catalog.find_named(workload.folder.name)
    return workload.folder.name if any(path == workload.folder for path in shipped) else str(workload.folder)


def _pattern_text(variant: Variant) -> str:
    """The pattern, with its sparsity where the pattern leaves it open, as 'dse accuracy estimate' reads it: 'block:16x16@0.8'."""
    return str(variant.pattern) if variant.pattern.density is not None else f"{variant.pattern}@{variant.nominal_sparsity:g}"


def _join(texts: Sequence[str]) -> str:
    """'a', 'a and b', or 'a, b and c'; of many the first, and how many others."""
    *others, last = texts if len(texts) <= MAX_LISTED else [*texts[: MAX_LISTED - 1], f"{len(texts) - MAX_LISTED + 1} others"]
    return f"{', '.join(others)} and {last}" if others else last
