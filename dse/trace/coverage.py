"""The honesty report: what of a network was understood, what was not, and how much of its work that is."""

from collections import Counter
from typing import Any

from dse.base.units import format_count
from dse.networks.layers import WITH_WEIGHTS, LayerArrays
from dse.readers.named_tensors import ONCE
from dse.readers.parsed_network import Operator, ParsedNetwork
from dse.trace.trace import Counting, Traced

ENOUGH = 0.95  # of the multiply-adds; below, a prediction may be far off


def coverage(source: ParsedNetwork) -> float:
    """Share of the multiply-adds whose layers were understood, as far as the rest can be counted."""
    known = LayerArrays.from_rows(list(source.layers)).macs
    return known / total if (total := known + sum(o.macs for o in source.operators if o.became == "skipped")) else 0.0


def report(source: ParsedNetwork, states: list[Traced], counting: Counting) -> dict[str, Any]:
    layers = LayerArrays.from_rows(list(source.layers))
    return {
        "source": source.path.name.encode("utf-8", "replace").decode(),
        "format": source.format,
        "layers": len(layers),
        "macs": layers.macs,
        "parameters": layers.parameters,
        "coverage": coverage(source),
        "coverage_of": _counted_in(source),
        "became": {kind: _kinds(source, kind) for kind in ("layer", "fused", "skipped")},
        "skipped": [vars(operator) for operator in source.operators if operator.became == "skipped"],
        "shared": [list(names) for names in source.shared],
        "tolerance": counting.tolerance,
        "states": [_state(state) for state in states],
        "notes": list(source.notes),
        "remarks": remarks(source, states),
    }


def _counted_in(source: ParsedNetwork) -> str:
    """Without knowing how often a layer runs, its weights stand for its work."""
    return "weights" if ONCE in source.notes else "multiply-adds"


def _kinds(source: ParsedNetwork, became: str) -> dict[str, int]:
    return dict(Counter(_kind(operator) for operator in source.operators if operator.became == became))


def _kind(operator: Operator) -> str:
    return f"{operator.kind} ({operator.reason})" if operator.became == "fused" and operator.reason else operator.kind


def _state(state: Traced) -> dict[str, Any]:
    return {
        "method": state.method,
        "pattern": str(state.pattern),
        "nominal_sparsity": state.nominal,
        "sparsity": state.realised,
        "layers": len(state.nonzeros),
        "layout": state.layout,
        "dtypes": dict(Counter(state.dtypes.values())),
    }


def remarks(source: ParsedNetwork, states: list[Traced]) -> list[str]:
    """What a reader must know before using the trace."""
    found = []
    if (share := coverage(source)) < ENOUGH:
        found.append(f"only {share:.1%} of the {_counted_in(source)} are covered: predictions may be far off")
    if skipped := [f"{o.kind} {o.name}" for o in source.operators if o.became == "skipped"]:
        listed = ", ".join(skipped[:MOST]) + (", ..." if len(skipped) > MOST else "")
        found.append(f"{len(skipped)} operators or tensors of {source.path.name} were not understood and are left out: {listed}")
    if not any(state.nonzeros for state in states):
        found.append("the source holds no weights, so there is no pruned variant")
    elif all(state.dense for state in states):
        found.append("no weight is zero: the network is dense, and there is no pruned variant")
    return found + _incomplete(source, states)


def _incomplete(source: ParsedNetwork, states: list[Traced]) -> list[str]:
    """States that lack the mask of a layer: it counts as dense, which may not be meant."""
    sizes = {row.name: (row.m or 0) * (row.k or 0) * row.count for row in source.layers if row.kind in WITH_WEIGHTS and row.prunable}
    found = []
    for state in states:
        if state.nonzeros and (lacking := [name for name in sizes if name not in state.nonzeros]):
            share = 1 - sum(sizes[name] for name in lacking) / sum(sizes.values())
            listed = ", ".join(lacking[:MOST]) + (", ..." if len(lacking) > MOST else "")
            said = f"masks for {len(sizes) - len(lacking)} of {len(sizes)} layers, {share:.1%} of the weights"
            found.append(f"{state.method} {state.nominal:g} has {said}; the others count as dense: {listed}")
    return found


def render(told: dict[str, Any]) -> str:
    """The report as text."""
    lines = [
        ("source", f"{told['source']} ({told['format']})"),
        ("layers", f"{told['layers']}; {format_count(told['macs'])}MAC a sample; {format_count(told['parameters'])} parameters"),
        *((name, _listed(told["became"][key])) for name, key in (("understood", "layer"), ("fused", "fused"), ("skipped", "skipped"))),
        ("coverage", f"{told['coverage']:.2%} of the {told['coverage_of']}"),
        *(("skipped", f"{o['kind']} {o['name']}: {o['reason']}") for o in told["skipped"][:MOST]),
        *(("shared", " = ".join(names)) for names in told["shared"]),
        ("zero", f"|w| <= {told['tolerance']:g}"),
        *(("state", _spoken(state)) for state in told["states"]),
        *(("assumed", note) for note in told["notes"]),
    ]
    return "\n".join(f"{name:<11} {text}" for name, text in lines if text)


MOST = 20  # skipped operators listed; the report file has all of them


def _listed(kinds: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items(), key=lambda item: -item[1]))


def _spoken(state: dict[str, Any]) -> str:
    named = f"{state['method']} {state['pattern']} {state['nominal_sparsity']:g}"
    realised = f"sparsity {state['sparsity']:.4f} of {state['layers']} layers"
    layout = "" if state["layout"] == "channels-last" else state["layout"]
    return ", ".join(filter(None, (f"{named}: {realised}", *state["dtypes"], layout)))
