"""Select the network variants of a sweep: measured ones, and hypothetical ones, derived from patterns."""

import itertools

import numpy as np
from jaxtyping import Float

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.strict_model import KeyPath
from dse.base.yaml_document import YamlDocument
from dse.schema.workload_selection import HypotheticalPatterns, WorkloadSelection
from dse.sparsity.pattern import Pattern
from dse.workload import Variant, Workload


def select_variants(
    workload: Workload, selection: WorkloadSelection, document: YamlDocument, key: KeyPath, problems: ProblemCollector
) -> list[Variant]:
    """The measured variants of a selection, then its hypothetical ones; `key`: of the selection in the document."""
    measured: list[Variant] = []
    methods = _select_methods(workload, selection, document, (*key, "methods"), problems)
    with problems.collect(*document.locate((*key, "sparsities"))):
        measured = _select_measured(workload, methods, selection.sparsities)
    hypothetical: list[Variant] = []
    for index, patterns in enumerate(selection.patterns):
        with problems.collect(*document.locate((*key, "patterns", index))):
            hypothetical += make_hypothetical_variants(workload, patterns, measured)
    if selection.methods == "all" and not workload.variants and not selection.patterns:
        return [workload.dense]  # the workload ships without pruned variants
    return measured + hypothetical


def list_hypothetical(workload: Workload, selection: WorkloadSelection) -> list[tuple[Variant, Variant | None]]:
    """The hypothetical variants of a selection that `select_variants` has checked, each with the measured one whose densities it has."""
    measured = list[Variant]()
    if any(patterns.densities == "from_method" for patterns in selection.patterns):
        methods = workload.methods if selection.methods == "all" else list(selection.methods)
        measured = _select_measured(workload, methods, selection.sparsities)
    pairs = list[tuple[Variant, Variant | None]]()
    for patterns in selection.patterns:
        sources = measured if patterns.densities == "from_method" else [None]
        pairs += zip(make_hypothetical_variants(workload, patterns, measured), itertools.cycle(sources), strict=False)
    return pairs


def check_assumed_drops(
    workload: Workload, selection: WorkloadSelection, relative: bool, document: YamlDocument, key: KeyPath, problems: ProblemCollector
) -> None:
    """Collect the assumed accuracy drops that cannot be compared with a tolerance: in % if `relative`, otherwise in points."""
    other, own = ("in points", "in %") if relative else ("in %", "in points")
    for index, patterns in enumerate(selection.patterns):
        for pattern, drop in patterns.accuracy_drop.items():
            if np.isnan(drop.in_unit(relative, workload.dense.accuracy)):
                what = f"the accuracy drop of '{pattern}' is {other}, and the tolerance {own}; {_dense_accuracy_text(workload)}"
                location = (*key, "patterns", index, "accuracy_drop")
                problems.add(document.make_problem(location, what, f"write the drop {own}"))


def _select_methods(
    workload: Workload, selection: WorkloadSelection, document: YamlDocument, key: KeyPath, problems: ProblemCollector
) -> list[str]:
    if selection.methods == "all":
        return workload.methods
    if not selection.methods and not selection.patterns:
        fix = "write 'all', a method, or 'patterns'"
        problems.add(document.make_problem(key, f"no variant of '{workload.name}' is selected", fix))
    available = (*workload.methods, "dense")
    for index, method in enumerate(selection.methods):
        if method not in available:
            message = f"'{workload.name}' has no method '{method}'"
            problems.add(document.make_problem((*key, index), message, did_you_mean(method, available)))
    return [method for method in selection.methods if method in available]


def _select_measured(workload: Workload, methods: list[str], sparsities: tuple[float, ...] | None) -> list[Variant]:
    if sparsities is None:
        return [variant for method in methods for variant in workload.select_variants(method)]
    return _with_sparsities(workload, methods, sparsities)


def _with_sparsities(workload: Workload, methods: list[str], sparsities: tuple[float, ...]) -> list[Variant]:
    """Variants of the given sparsities. A method may lack one of them, but each must exist for some method."""
    selected: set[int] = set()
    for sparsity in sparsities:
        matching = [variant for method in methods for variant in workload.find_variants(method, sparsity)]
        if not matching:
            available = sorted({variant.nominal_sparsity for method in methods for variant in workload.select_variants(method)})
            message = f"no selected method of '{workload.name}' has sparsity {sparsity:g}"
            known = f"write one of {', '.join(f'{value:g}' for value in available)}"
            raise InputError(message, known if available else "select a method that has it, or leave out the sparsity")
        selected |= {id(variant) for variant in matching}
    return [variant for variant in workload.variants if id(variant) in selected]


def make_hypothetical_variants(workload: Workload, patterns: HypotheticalPatterns, measured: list[Variant]) -> list[Variant]:
    """Variants of patterns that the network was never pruned to.

    Raises:
        InputError: the densities cannot be determined, or no layer is as large as a block.
    """
    for pattern in patterns.list:
        _check_block_size(workload, pattern)
    return [variant for pattern in patterns.list for variant in _with_pattern(workload, patterns, pattern, measured)]


def _with_pattern(workload: Workload, patterns: HypotheticalPatterns, pattern: Pattern, measured: list[Variant]) -> list[Variant]:
    drop = patterns.accuracy_drop.get(pattern)
    if patterns.densities == "own" and pattern.density is not None:  # the schema refuses 'own' for other patterns
        return [workload.hypothetical_variant(pattern, workload.own_density(pattern), 1 - pattern.density, "own", drop)]
    if isinstance(patterns.densities, tuple):
        sources = [(np.full(len(workload.layers), density), 1 - density, f"uniform {density:g}") for density in patterns.densities]
    elif measured:
        sources = [(source.density, source.nominal_sparsity, f"{source.method} {source.nominal_sparsity:g}") for source in measured]
    else:
        raise InputError("there is no method to take densities from", "list one under 'methods'")
    for density, _, origin in sources:
        _check_density(workload, pattern, density, origin)
    return [workload.hypothetical_variant(pattern, density, sparsity, origin, drop) for density, sparsity, origin in sources]


def _dense_accuracy_text(workload: Workload) -> str:
    """Why the accuracy of the dense network is not known: no source gives it, or several give different ones."""
    values = {v.dense_accuracy for v in workload.variants if v.metric == workload.description.metric.name}
    known = sorted(value for value in values if np.isfinite(value))
    if not known:
        return f"the accuracy of dense '{workload.description.name}' is not known"
    return f"sources give different accuracies of dense '{workload.description.name}', {known[0]:g} to {known[-1]:g}"


def _check_block_size(workload: Workload, pattern: Pattern) -> None:
    layers, (rows, columns) = workload.layers, pattern.tile
    if pattern.has_free_tiles and not np.any(layers.prunable & (layers.m >= rows) & (layers.k >= columns)):
        largest = int(np.argmax(layers.weights * layers.prunable))
        message = f"a block of '{pattern}', {rows}x{columns}, is larger than every layer of '{workload.name}'"
        raise InputError(message, f"take a smaller one: the largest layer is {layers.m[largest]:g}x{layers.k[largest]:g}")


def _check_density(workload: Workload, pattern: Pattern, density: Float[np.ndarray, "layer"], origin: str) -> None:
    """N:M patterns have a density of their own and allow no other."""
    prunable = workload.layers.prunable
    if pattern.density is not None and not np.allclose(density[prunable], workload.own_density(pattern)[prunable], rtol=0, atol=1e-9):
        message = f"'{pattern}' has density {pattern.density:g}, but '{origin}' has others"
        raise InputError(message, "write 'densities: own' for it, in an entry of its own: 'patterns: [{list: ...}, {list: ...}]'")
