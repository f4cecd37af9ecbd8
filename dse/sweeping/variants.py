"""Which network states a sweep evaluates: measured variants, and hypothetical ones made from patterns."""

from typing import Any

import numpy as np

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.yaml_document import YamlDocument
from dse.schema.workload_selection import HypotheticalPatterns, WorkloadSelection
from dse.sparsity.pattern import Pattern
from dse.workload import Variant, Workload


def select_variants(
    workload: Workload, selection: WorkloadSelection, document: YamlDocument, at: tuple[Any, ...], problems: ProblemCollector
) -> list[Variant]:
    """The measured variants chosen, then the hypothetical ones made from `patterns`."""
    measured: list[Variant] = []
    methods = _methods(workload, selection, document, (*at, "methods"), problems)
    with problems.collect(*document.locate((*at, "sparsities"))):
        measured = [variant for method in methods for variant in workload.select_variants(method)]
        if selection.sparsities is not None:
            measured = _with_sparsities(workload, methods, selection.sparsities)
    made: list[Variant] = []
    for index, patterns in enumerate(selection.patterns):
        with problems.collect(*document.locate((*at, "patterns", index))):
            made += hypothetical(workload, patterns, measured)
    if selection.methods == "all" and not workload.variants and not selection.patterns:
        return [workload.dense]  # nobody's pruning ships with it: what is left is the network itself
    return measured + made


def _methods(
    workload: Workload, selection: WorkloadSelection, document: YamlDocument, at: tuple[Any, ...], problems: ProblemCollector
) -> list[str]:
    if selection.methods == "all":
        return workload.methods
    for index, method in enumerate(selection.methods):
        if method not in (*workload.methods, "dense"):
            fix = did_you_mean(method, [*workload.methods, "dense"])
            problems.add(document.make_problem((*at, index), f"'{workload.name}' has no method '{method}'", fix))
    return [method for method in selection.methods if method in (*workload.methods, "dense")]


def _with_sparsities(workload: Workload, methods: list[str], sparsities: tuple[float, ...]) -> list[Variant]:
    """Variants of each sparsity; a method may lack one that another has, but some method must have it."""
    found: dict[int, Variant] = {}
    for sparsity in sparsities:
        having = [variant for method in methods for variant in workload.find_variants(method, sparsity)]
        if not having:
            known = sorted({variant.nominal_sparsity for method in methods for variant in workload.select_variants(method)})
            what = f"no chosen method of '{workload.name}' has sparsity {sparsity:g}"
            raise InputError(what, f"write one of {', '.join(f'{value:g}' for value in known)}")
        found |= {id(variant): variant for variant in having}
    return [variant for variant in workload.variants if id(variant) in found]


def hypothetical(workload: Workload, patterns: HypotheticalPatterns, measured: list[Variant]) -> list[Variant]:
    """Variants of patterns that nobody has pruned the network to; raises InputError where densities cannot be had, or no layer has
    room for a block."""
    for pattern in patterns.list:
        _check_room(workload, pattern)
    return [variant for pattern in patterns.list for variant in _densities(workload, patterns, pattern, measured)]


def _densities(workload: Workload, patterns: HypotheticalPatterns, pattern: Pattern, measured: list[Variant]) -> list[Variant]:
    if patterns.densities == "own" and pattern.density is not None:  # the specification lets no other through
        return [workload.hypothetical_variant(pattern, workload.own_density(pattern), 1 - pattern.density, "own")]
    if isinstance(patterns.densities, tuple):
        sources = [(np.full(len(workload.layers), share), 1 - share, f"uniform {share:g}") for share in patterns.densities]
    elif measured:
        sources = [(source.density, source.nominal_sparsity, f"{source.method} {source.nominal_sparsity:g}") for source in measured]
    else:
        raise InputError("there is no method to take densities from", "list one under 'methods'")
    for density, _, origin in sources:
        _check_fixed(workload, pattern, density, origin)
    return [workload.hypothetical_variant(pattern, density, nominal, origin) for density, nominal, origin in sources]


def _check_room(workload: Workload, pattern: Pattern) -> None:
    layers, (rows, columns) = workload.layers, pattern.tile
    if pattern.has_free_tiles and not np.any(layers.prunable & (layers.m >= rows) & (layers.k >= columns)):
        largest = int(np.argmax(layers.weights * layers.prunable))
        what = f"a block of '{pattern}', {rows}x{columns}, is larger than every layer of '{workload.name}'"
        raise InputError(what, f"take a smaller one: the largest layer is {layers.m[largest]:g}x{layers.k[largest]:g}")


def _check_fixed(workload: Workload, pattern: Pattern, density: np.ndarray, origin: str) -> None:
    """An N:M has its own density and no other."""
    prunable = workload.layers.prunable
    if pattern.density is not None and not np.allclose(density[prunable], workload.own_density(pattern)[prunable], rtol=0, atol=1e-9):
        what = f"'{pattern}' has density {pattern.density:g}, but '{origin}' has others"
        raise InputError(what, "write 'densities: own' for it, in an entry of its own: 'patterns: [{list: ...}, {list: ...}]'")
