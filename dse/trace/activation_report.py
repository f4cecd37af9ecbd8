"""A table of the recorded inputs of a traced network: one row a layer."""

from typing import Any

import numpy as np

from dse.base.table_format import format_narrow_table, none_if_nan
from dse.sparsity.activation_statistics import ActivationStatistics
from dse.sparsity.expectation import any_of
from dse.trace.trace import TracedState

MAX_LISTED = 20  # layers in a text; trace.json lists all
UNION_TOKENS = 16  # tokens whose union is listed; fewer if fewer were recorded
LISTED_PATTERNS = ("2:4", "4:8", "8:16")
TITLE = """recorded inputs of layers: 'need' is the share of the channels that any of the tokens 'together' needs, 'over N:M' the share of
the groups of M channels with more than N nonzeros"""


def report_activations(states: list[TracedState]) -> list[dict[str, Any]]:
    """A row for each recorded input: its spread, what groups of tokens need, and what the N:M patterns of half density lose."""
    layers = {name: counted for state in states for name, counted in state.activations.items()}
    return [{"layer": name, **_report_recording(counted)} for name, counted in layers.items()]


def _report_recording(counted: ActivationStatistics) -> dict[str, Any]:
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


def format_activations(rows: list[dict[str, Any]]) -> str:
    """A table of the recorded inputs, numbers with three digits; trace.json has them all."""
    cells = [{name: f"{value:.3g}" if isinstance(value, float) else str(value or "") for name, value in row.items()} for row in rows]
    more = f"... and {len(rows) - MAX_LISTED} more in statistics/activations.csv" if len(rows) > MAX_LISTED else ""
    return "\n".join(filter(None, (TITLE, format_narrow_table(cells[:MAX_LISTED]), more)))
