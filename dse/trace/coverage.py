"""The coverage report of a trace: which operators were understood, which were skipped, and their share of the multiply-adds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypedDict

import numpy as np

from dse.base.table_format import format_narrow_table, none_if_nan
from dse.base.units import format_count
from dse.networks.layers import WITH_WEIGHTS, LayerArrays
from dse.readers.named_tensors import RUNS_ONCE_NOTE
from dse.readers.parsed_network import Operator, ParsedNetwork
from dse.sparsity.activation_statistics import ActivationStatistics
from dse.sparsity.expectation import any_of
from dse.trace.trace import CountOptions, TracedState

MIN_COVERAGE = 0.95  # of the multiply-adds; below, a warning is given
MAX_LISTED = 20  # operators and layers in a text; trace.json lists all operators


class StateReport(TypedDict):
    """One network state."""

    method: str
    pattern: str
    nominal_sparsity: float
    sparsity: float
    layers: int
    layout: str
    dtypes: dict[str, int]


class CoverageReport(TypedDict):
    """The contents of trace.json."""

    source: str
    format: str
    layers: int
    macs: float  # of one sample
    parameters: float
    coverage: float
    coverage_of: str  # what the coverage counts: multiply-adds or weights
    became: dict[str, dict[str, int]]  # operators by what became of them and by kind
    skipped: list[dict[str, object]]  # operators
    shared: list[list[str]]
    tolerance: float
    states: list[StateReport]
    activations: list[dict[str, object]]  # recorded inputs of layers
    notes: list[str]
    warnings: list[str]


def make_report(network: ParsedNetwork, states: list[TracedState], options: CountOptions) -> CoverageReport:
    """The coverage report of a traced network."""
    layers = LayerArrays.from_rows(list(network.layers))
    return {
        "source": network.path.name.encode("utf-8", "replace").decode(),
        "format": network.format,
        "layers": len(layers),
        "macs": layers.macs,
        "parameters": layers.parameters,
        "coverage": coverage(network),
        "coverage_of": _covered_quantity(network),
        "became": {became: _count_kinds(network, became) for became in ("layer", "fused", "skipped")},
        "skipped": [asdict(operator) for operator in _skipped(network)],
        "shared": [list(names) for names in network.shared],
        "tolerance": options.tolerance,
        "states": [_report_state(state) for state in states],
        "activations": report_activations(states),
        "notes": list(network.notes),
        "warnings": coverage_warnings(network, states),
    }


def coverage(network: ParsedNetwork) -> float:
    """Multiply-adds of the layers over those of the layers and the skipped operators, of which only a lower bound is known."""
    understood = LayerArrays.from_rows(list(network.layers)).macs
    total = understood + sum(operator.macs for operator in _skipped(network))
    return understood / total if total else 0.0


def _skipped(network: ParsedNetwork) -> list[Operator]:
    return [operator for operator in network.operators if operator.became == "skipped"]


def _covered_quantity(network: ParsedNetwork) -> str:
    """The quantity of which the coverage is a share: multiply-adds, or weights if it is unknown how often a layer runs."""
    return "weights" if RUNS_ONCE_NOTE in network.notes else "multiply-adds"


def _count_kinds(network: ParsedNetwork, became: str) -> dict[str, int]:
    return dict(Counter(_kind(operator) for operator in network.operators if operator.became == became))


def _kind(operator: Operator) -> str:
    return f"{operator.kind} ({operator.reason})" if operator.became == "fused" and operator.reason else operator.kind


def _report_state(state: TracedState) -> StateReport:
    return {
        "method": state.method,
        "pattern": str(state.pattern),
        "nominal_sparsity": state.nominal_sparsity,
        "sparsity": state.sparsity,
        "layers": len(state.nonzeros),
        "layout": state.layout,
        "dtypes": dict(Counter(state.dtypes.values())),
    }


def coverage_warnings(network: ParsedNetwork, states: list[TracedState]) -> list[str]:
    """Warnings about a trace: low coverage, skipped operators, missing weights or masks."""
    warnings = []
    if (share := coverage(network)) < MIN_COVERAGE:
        warnings.append(f"only {share:.1%} of the {_covered_quantity(network)} are covered: predictions may be far off")
    if skipped := [f"{operator.kind} {operator.name}" for operator in _skipped(network)]:
        what = f"{len(skipped)} operators or tensors of {network.path.name} were not understood and are left out"
        warnings.append(f"{what}: {_join_first(skipped)}")
    if not any(state.nonzeros for state in states):
        warnings.append("the source holds no weights, so there is no pruned variant")
    elif all(state.is_dense for state in states):
        warnings.append("no weight is zero: the network is dense, and there is no pruned variant")
    return warnings + _warn_of_missing_masks(network, states)


def _warn_of_missing_masks(network: ParsedNetwork, states: list[TracedState]) -> list[str]:
    """Warn of states that lack the mask of a prunable layer, which counts as dense."""
    sizes = {row.name: (row.m or 0) * (row.k or 0) * row.count for row in network.layers if row.kind in WITH_WEIGHTS and row.prunable}
    warnings = []
    for state in states:
        missing = [name for name in sizes if name not in state.nonzeros]
        if state.nonzeros and missing:
            share = 1 - sum(sizes[name] for name in missing) / sum(sizes.values())
            masks = f"masks for {len(sizes) - len(missing)} of {len(sizes)} layers, {share:.1%} of the weights"
            state_name = f"{state.method} {state.nominal_sparsity:g}"
            warnings.append(f"{state_name} has {masks}; the others count as dense: {_join_first(missing)}")
    return warnings


def _join_first(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


def format_report(report: CoverageReport) -> str:
    """The coverage report as text."""
    size = f"{report['layers']}; {format_count(report['macs'])}MAC a sample; {format_count(report['parameters'])} parameters"
    became = report["became"]
    lines = [
        ("source", f"{report['source']} ({report['format']})"),
        ("layers", size),
        ("understood", _format_kinds(became["layer"])),
        ("fused", _format_kinds(became["fused"])),
        ("skipped", _format_kinds(became["skipped"])),
        ("coverage", f"{report['coverage']:.2%} of the {report['coverage_of']}"),
        *(("skipped", f"{operator['kind']} {operator['name']}: {operator['reason']}") for operator in report["skipped"][:MAX_LISTED]),
        *(("shared", " = ".join(names)) for names in report["shared"]),
        ("zero", f"|w| <= {report['tolerance']:g}"),
        *(("state", _format_state(state)) for state in report["states"]),
        *(("assumed", note) for note in report["notes"]),
    ]
    text = "\n".join(f"{label:<11} {text}" for label, text in lines if text)
    return f"{text}\n\n{format_activations(report['activations'])}\n" if report["activations"] else text


def _format_kinds(counts: dict[str, int]) -> str:
    """Kinds of operators with their counts, the most frequent first."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items(), key=lambda item: -item[1]))


def _format_state(state: StateReport) -> str:
    name = f"{state['method']} {state['pattern']} {state['nominal_sparsity']:g}"
    sparsity = f"sparsity {state['sparsity']:.4f} of {state['layers']} layers"
    layout = "" if state["layout"] == "channels-last" else state["layout"]
    return ", ".join(filter(None, (f"{name}: {sparsity}", *state["dtypes"], layout)))


MAX_LISTED = 20  # layers in a text; trace.json lists all
UNION_TOKENS = 16  # tokens whose union is listed; fewer if fewer were recorded
LISTED_PATTERNS = ("2:4", "4:8", "8:16")
TITLE = """recorded inputs of layers: 'need' is the share of the channels that any of the tokens 'together' needs, 'over N:M' the share of
the groups of M channels with more than N nonzeros"""


def report_activations(states: list[TracedState]) -> list[dict[str, object]]:
    """A row for each recorded input: its spread, what groups of tokens need, and what the N:M patterns of half density lose."""
    layers = {name: counted for state in states for name, counted in state.activations.items()}
    return [{"layer": name, **_report_recording(counted)} for name, counted in layers.items()]


def _report_recording(counted: ActivationStatistics) -> dict[str, object]:
    unions = {group.tokens: group for group in counted.token_groups}
    group = unions.get(UNION_TOKENS) or counted.token_groups[-1]
    independent = float(any_of(np.array(counted.density), np.array(group.tokens)))
    over = {f"over {group.pattern}": group.over for group in counted.channel_groups if str(group.pattern) in LISTED_PATTERNS}
    return {
        "tokens": counted.tokens, "channels": counted.channels, "density": counted.density, "token std": counted.over_tokens.deviation,
        "channel std": counted.over_channels.deviation, "empty tokens": counted.over_tokens.empty,
        "empty channels": counted.over_channels.empty, "together": group.tokens, "need": group.union_density,
        "if independent": independent, "imbalance": none_if_nan(group.imbalance), **over,
    }  # fmt: skip


def format_activations(rows: list[dict[str, object]]) -> str:
    """A table of the recorded inputs, numbers with three digits; trace.json has them all."""
    cells = [{name: f"{value:.3g}" if isinstance(value, float) else str(value or "") for name, value in row.items()} for row in rows]
    more = f"... and {len(rows) - MAX_LISTED} more in statistics/activations.csv" if len(rows) > MAX_LISTED else ""
    return "\n".join(filter(None, (TITLE, format_narrow_table(cells[:MAX_LISTED]), more)))
