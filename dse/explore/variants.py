"""Which network states a sweep evaluates: measured variants, and hypothetical ones made from patterns."""

from typing import Any

import numpy as np

from dse.document import Document
from dse.errors import BadInput, Collector
from dse.sparsity.pattern import Pattern
from dse.spec import Patterns, Selection
from dse.workload import Variant, Workload


def select(workload: Workload, selection: Selection, document: Document, at: tuple[Any, ...], problems: Collector) -> list[Variant]:
    """The measured variants chosen, then the hypothetical ones made from `patterns`."""
    methods = workload.methods if selection.methods == "all" else selection.methods
    measured: list[Variant] = []
    for method in methods:
        key = "methods" if method not in workload.methods else "sparsities"
        with problems.at(*document.place((*at, key))):
            for sparsity in selection.sparsities or (None,):
                measured += _one_method(workload, method, sparsity, selection)
    made: list[Variant] = []
    for index, patterns in enumerate(selection.patterns):
        with problems.at(*document.place((*at, "patterns", index))):
            made += hypothetical(workload, patterns, measured)
    if not measured and not made and not problems.problems:
        problems.add(document.problem(at, f"selects no variant of '{workload.name}'", "widen methods or sparsities, or add patterns"))
    return measured + made


def _one_method(workload: Workload, method: str, sparsity: float | None, selection: Selection) -> list[Variant]:
    """Under `methods: all`, methods that lack one of the sparsities are passed over."""
    try:
        return workload.select(method, sparsity)
    except BadInput:
        if selection.methods == "all" and sparsity is not None:
            return []
        raise


def hypothetical(workload: Workload, patterns: Patterns, measured: list[Variant]) -> list[Variant]:
    """Variants of patterns that nobody has pruned the network to; raises BadInput where densities cannot be had."""
    return [variant for pattern in patterns.list for variant in _densities(workload, patterns, pattern, measured)]


def _densities(workload: Workload, patterns: Patterns, pattern: Pattern, measured: list[Variant]) -> list[Variant]:
    layers = workload.layers
    if patterns.densities == "own" and pattern.density is not None:  # the specification lets no other through
        density = pattern.kept(layers.m, layers.k) / (layers.m * layers.k)
        return [workload.from_densities(pattern, density, 1 - pattern.density, "own")]
    if isinstance(patterns.densities, tuple):
        sources = [(np.full(len(layers), share), 1 - share, f"uniform {share:g}") for share in patterns.densities]
    elif measured:
        sources = [(source.density, source.nominal_sparsity, f"{source.method} {source.nominal_sparsity:g}") for source in measured]
    else:
        raise BadInput.one("there is no method to take densities from", "list one under 'methods'")
    for density, _, origin in sources:
        _check_fixed(pattern, density[layers.prunable], origin)
    return [workload.from_densities(pattern, density, nominal, origin) for density, nominal, origin in sources]


def _check_fixed(pattern: Pattern, density: np.ndarray, origin: str) -> None:
    """An N:M has density N/M and no other."""
    if pattern.density is not None and not np.allclose(density, pattern.density, rtol=0, atol=1e-9):
        what = f"'{pattern}' has density {pattern.density:g}, but '{origin}' has others"
        raise BadInput.one(what, "write 'densities: own' for it, in an entry of its own: 'patterns: [{list: ...}, {list: ...}]'")
