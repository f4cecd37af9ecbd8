"""The section of a report about a validation: predicted against measured times and speedups, with the errors of each kernel."""

import numpy as np
import pandas as pd

from dse.html_report.display import PageContents, round_numbers
from dse.html_report.results_files import Results
from dse.plot.selection import Table

MAX_ROWS = 10_000  # comparisons in the page


def build_section(results: Results) -> PageContents:
    """The contents of the section, as the page reads them."""
    table = results.table
    fidelities = [name for name in ("sol", "r3", "capacity", "calibrated") if name in table.columns]
    shown = table if len(table) <= MAX_ROWS else table.sample(MAX_ROWS, random_state=0).sort_index()
    labels = [name for name in ("kernel", "quantity", "split", "shape", "device", "family", "dtype") if name in table.columns]
    numbers = ["measured", *(name for name in ("sparsity",) if name in table.columns), *fidelities]
    columns = {name: shown[name].astype(str).tolist() for name in labels} | {name: round_numbers(shown[name]) for name in numbers}
    return {
        "name": results.name,
        "kind": "validation",
        "fidelities": fidelities,
        "headline": [_headline(table, quantity, fidelities) for quantity in dict.fromkeys(table.quantity)],
        "certainty": [
            f"{len(table):,} comparisons; a split says which measurements a fit had not seen. The page shows {len(shown):,} of them."
        ],
        "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "errors": _error_table(table, fidelities),
    }


def _headline(table: pd.DataFrame, quantity: str, fidelities: list[str]) -> str:
    rows = table[table.quantity == quantity]
    errors = ", ".join(f"{name} {_error(rows, name):.0%}" for name in fidelities)
    return f"Mean absolute relative error of the predicted {quantity} over {len(rows):,} comparisons: {errors}."


def _error(rows: Table, fidelity: str) -> float:
    """Mean absolute relative error."""
    return float(np.nanmean(np.abs(rows[fidelity] / rows.measured - 1)))


def _error_table(table: pd.DataFrame, fidelities: list[str]) -> PageContents:
    keys = ["device", "kernel", "quantity", "split"]
    rows = []
    for _, group in table.groupby(keys, sort=False):
        errors = [round(100 * _error(group, name), 1) for name in fidelities]
        rows.append([*(str(group[key].iloc[0]) for key in keys), len(group), *errors])
    return {
        "header": [*keys, "comparisons", *(f"error of {name} [%]" for name in fidelities)],
        "rows": rows,
    }
