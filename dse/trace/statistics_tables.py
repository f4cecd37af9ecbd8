"""Tables of what a trace counted: a CSV file for each statistic, whose first columns name the variant and the layer."""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from dse.sparsity.activation_statistics import ActivationStatistics
from dse.sparsity.statistics import MaskStatistics
from dse.trace.trace import TracedState

Cell = str | float | bool | None
TableRow = tuple[Cell, ...]
KEY_COLUMNS = ("method", "pattern", "sparsity")


@dataclass(frozen=True)
class _Table:
    """A file of statistics: its columns, and its rows for one layer."""

    columns: tuple[str, ...]
    rows: Callable[[Any], Iterable[TableRow]]  # of the statistics of a layer


def state_key(state: TracedState) -> tuple[str, str, float]:
    """Method, pattern and nominal sparsity, which name a variant."""
    return (state.method, str(state.pattern), state.nominal_sparsity)


def write_statistics(folder: Path, states: list[TracedState]) -> None:
    """Write histograms of the masks, what patterns store of them, and statistics of the recorded activations."""
    for name, tables in STATISTICS.items():
        layers = [(state_key(state), *item) for state in states for item in getattr(state, name).items()]
        for file, table in tables.items() if layers else ():
            rows = ((*key, layer, *row) for key, layer, counted in layers for row in table.rows(counted))
            write_table(folder / file, (*KEY_COLUMNS, "layer", *table.columns), rows)


def _histogram(nonzeros: Int[np.ndarray, " line"]) -> Iterator[tuple[int, int]]:
    """Each number of nonzeros in a row or column, and how many have it."""
    yield from zip(*np.unique(nonzeros, return_counts=True), strict=True)


def _block_histogram(mask: MaskStatistics) -> Iterator[tuple[str, int, int]]:
    """Block size, nonzeros, and how many blocks have them."""
    for (rows, columns), histogram in mask.blocks.items():
        for nonzeros in np.flatnonzero(histogram):
            yield f"{rows}x{columns}", int(nonzeros), int(histogram[nonzeros])


def _stored_rows(mask: MaskStatistics) -> Iterator[tuple[str, float]]:
    """Pattern, and the elements that it stores."""
    yield from ((str(pattern), elements) for pattern, elements in mask.stored_elements().items())


def _activation_rows(counted: ActivationStatistics) -> Iterator[TableRow]:
    """Size, density and the spread of the densities of tokens and of channels."""
    spreads = (value for spread in (counted.over_tokens, counted.over_channels) for value in (spread.deviation, spread.empty))
    yield (counted.tokens, counted.channels, counted.density, *spreads)


def _token_rows(counted: ActivationStatistics) -> Iterator[TableRow]:
    yield from ((group.tokens, group.groups, group.union_density, group.imbalance) for group in counted.token_groups)


def _channel_rows(counted: ActivationStatistics) -> Iterator[TableRow]:
    yield from ((str(group.pattern), group.over, group.l1_share, group.l2_share) for group in counted.channel_groups)


STATISTICS = {  # by the attribute of a traced state
    "statistics": {
        "rows.csv": _Table(("nonzeros", "rows"), lambda mask: _histogram(mask.rows)),
        "columns.csv": _Table(("nonzeros", "columns"), lambda mask: _histogram(mask.columns)),
        "blocks.csv": _Table(("block", "nonzeros", "blocks"), _block_histogram),
        "stored.csv": _Table(("stored_as", "elements"), _stored_rows),
    },
    "activations": {
        "activations.csv": _Table(
            ("tokens", "channels", "density", "token_std", "empty_tokens", "channel_std", "empty_channels"), _activation_rows
        ),
        "activation_tokens.csv": _Table(("tokens", "groups", "union_density", "imbalance"), _token_rows),
        "activation_channels.csv": _Table(("activation_pattern", "groups_over", "l1_share", "l2_share"), _channel_rows),
    },
}


def write_table(path: Path, header: Iterable[str], rows: Iterable[TableRow]) -> None:
    """Write a table as CSV; its folder is created."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_format_cell(value) for value in row] for row in rows)


def _format_cell(value: Cell) -> Cell:
    """Truth values in lower case, floats in full precision but without a decimal point if they are whole; NaN is left blank."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and isnan(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value
