"""An explanation as text: one sentence of plain English, then tables, for the terminal, Markdown, CSV or JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Literal

from dse.base.table_format import Row, format_json, format_table
from dse.explaining.parts import ExplainedDifference, Part, format_value

Format = Literal["table", "csv", "json", "markdown"]
FORMATS = ("table", "csv", "json", "markdown")
MAX_GROUPS = 15  # shown as text; JSON has all
MAX_OTHERS = 4  # differences without effect that are named
BAR = 20  # characters of the largest part
MENTIONED = 3  # parts in a sentence
MENTIONED_SHARE = 0.01  # of the time
SMALL = 0.03  # share of the largest part below which a part is not mentioned


def format_explanation(explanation: ExplainedDifference, form: Format = "table") -> str:
    """The explanation in one of `FORMATS`; CSV has the parts alone."""
    if form == "json":
        return format_json(explanation.to_dict())
    if form == "csv":
        return _csv(explanation)
    tables = {
        "parts": part_rows(explanation),
        "layer groups": group_rows(explanation),
        "time by what bounds it": resource_rows(explanation),
        _reach_title(explanation): reach_rows(explanation),
    }
    format_rows = _markdown_table if form == "markdown" else format_table
    sections = [f"{title}\n{'' if form == 'table' else chr(10)}{format_rows(rows)}" for title, rows in tables.items() if rows]
    notes = _notes(explanation)
    ends = f"A: {explanation.a}\nB: {explanation.b}" if form == "table" else f"* A: {explanation.a}\n* B: {explanation.b}"
    return "\n\n".join([explanation.sentence, ends, *sections, *(["\n".join(notes)] if notes else [])])


def comparison_sentence(quantity: str, value_a: float, value_b: float, parts: Sequence[Part]) -> str:
    """'latency falls from 2.1 ms to 1.2 ms (0.57x): -0.6 ms by the bandwidth of dram (2039 GB/s -> 3350 GB/s), ...'."""
    texts = format_value(value_a, quantity), format_value(value_b, quantity)
    if not parts:
        return f"The {quantity} of both is {texts[0]}: nothing that differs between them changes it."
    verb = "rises" if value_b > value_a else "falls" if value_b < value_a else "stays the same"
    ratio = f" ({value_b / value_a:.3g}x)" if quantity != "speedup" and value_a else ""
    listed = [_part_text(part, quantity, value_b - value_a) for part in _mentioned(parts)]
    change = f"{verb} from {texts[0]} to {texts[1]}{ratio}" if value_a != value_b else f"{verb} at {texts[0]}"
    return f"The {quantity} {change}: {_join(listed)}."


def _part_text(part: Part, quantity: str, difference: float) -> str:
    amount = format_value(part.value, quantity, sign=True)
    share = f" ({part.share:.0%})" if difference and 0 <= part.share <= 1 + 1e-9 else ""
    change = f" ({part.a} to {part.b})" if part.a and part.b else ""
    dense = ""
    if part.through_dense and abs(part.through_dense) > SMALL * abs(part.value):
        baseline = "slower" if part.through_dense > 0 else "faster"
        dense = f", of which {format_value(part.through_dense, quantity, sign=True)} by a {baseline} dense baseline"
    return f"{amount}{share} by {part.label}{change}{dense}"


def _mentioned(parts: Sequence[Part]) -> list[Part]:
    largest = max((abs(part.value) for part in parts), default=0.0)
    return [part for part in parts[:MENTIONED] if abs(part.value) >= SMALL * largest]


def causes_sentence(
    name: str, ideal: float, real: float, parts: Sequence[Part], shares: Mapping[str, float], bounds: Mapping[str, float]
) -> str:
    """'2:4 gains 1.19x, not 2x: 41% of the time is in layers that are not pruned, 22% in sparse layers bound by dram; ...'.

    `shares`: of the time in layers that do not run sparse, by cause; `bounds`: of the time of layers that run sparse, by resource.
    """
    start = f"{name} {'gains' if real >= 1 else 'loses:'} {real:.3g}x, {'its ideal' if not parts else f'not {ideal:.3g}x'}"
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    places = [*ordered, *((f"sparse layers bound by {bound}", share) for bound, share in bounds.items())]
    mentioned = [f"{share:.0%} in {place}" for place, share in places if share >= MENTIONED_SHARE]
    mentioned[:1] = [text.replace(" in ", " of the time is in ", 1) for text in mentioned[:1]]
    lost = [f"{format_value(part.value, 'speedup', sign=True)} by {part.label}" for part in _mentioned(parts)]
    if not lost:
        return f"{start}."
    return f"{start}: {'; '.join(filter(None, [_join(mentioned), f'of the difference, {_join(lost)}']))}."


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def _result_name(explanation: ExplainedDifference) -> str:
    """What the last value of an explanation from the ideal is."""
    return "measured" if any(part.key == "not_predicted" for part in explanation.parts) else "predicted"


def _notes(explanation: ExplainedDifference) -> list[str]:
    notes, others = [], explanation.without_effect
    if others:
        more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
        notes.append(f"differ without effect on the {explanation.quantity}: {', '.join(others[:MAX_OTHERS])}{more}")
    if explanation.reach_target is not None and not explanation.reach:
        notes.append(f"{explanation.reach_target:g}x over dense is reached already, or no number alone changes the speedup")
    if explanation.method != "exact":
        notes.append(f"parts are means over {explanation.method}; they add up exactly")
    return notes


def part_rows(explanation: ExplainedDifference) -> list[Row]:
    """Rows of the parts: start, every part with its share, end."""
    quantity = explanation.quantity
    largest = max((abs(part.value) for part in explanation.parts), default=0.0) or 1.0
    first = explanation.a if explanation.a.startswith("ideal") else "A"
    rows: list[Row] = [{"part": first, "value": format_value(explanation.value_a, quantity, 4)}]
    for part in explanation.parts:
        rows.append({
            "part": part.label, "A": part.a, "B": part.b, "value": format_value(part.value, quantity, 4, sign=True),
            "share": f"{part.share:.1%}" if explanation.difference else None,
            "through dense": None if part.through_dense is None else format_value(part.through_dense, quantity, 3, sign=True),
            "": ("+" if part.value > 0 else "-") * max(round(BAR * abs(part.value) / largest), 1),
        })  # fmt: skip
    rows.append({"part": "B" if first == "A" else _result_name(explanation), "value": format_value(explanation.value_b, quantity, 4)})
    columns = ("part", "A", "B", "value", "share", "through dense", "")
    return [{column: row.get(column) for column in columns} for row in rows]


def group_rows(explanation: ExplainedDifference) -> list[Row]:
    """Rows of the layer groups, the largest difference first; small groups are summed."""
    a, b = explanation.heading_a, explanation.heading_b
    unit = "energy" if explanation.quantity == "energy" else "latency"
    total = sum(row.b for row in explanation.groups)
    rows: list[Row] = [
        {
            "layers": row.group, "number": str(row.layers), a: format_value(row.a, unit), b: format_value(row.b, unit),
            f"share of {b}": f"{row.b / total:.1%}" if total else None, f"{a}/{b}": f"{row.a / row.b:.3g}x" if row.a and row.b else None,
            f"bound in {a}": row.bound_a, f"bound in {b}": row.bound_b, "mainly": row.main,
        }
        for row in explanation.groups[:MAX_GROUPS]
    ]  # fmt: skip
    if rest := explanation.groups[MAX_GROUPS:]:
        sums = [sum(getattr(row, side) for row in rest) for side in ("a", "b")]
        cells = {"layers": f"{len(rest)} other groups", "number": str(sum(row.layers for row in rest))}
        cells |= {
            a: format_value(sums[0], unit),
            b: format_value(sums[1], unit),
            f"share of {b}": f"{sums[1] / total:.1%}" if total else None,
        }
        rows.append({column: cells.get(column) for column in rows[0]})
    return rows


def resource_rows(explanation: ExplainedDifference) -> list[Row]:
    """Rows of the resources."""
    a, b = explanation.heading_a, explanation.heading_b
    total_a, total_b = (sum(getattr(row, side) for row in explanation.resources) for side in ("a", "b"))
    return [
        {
            "bound by": row.resource, a: format_value(row.a, "latency"), f"share of {a}": f"{row.a / total_a:.1%}" if total_a else None,
            b: format_value(row.b, "latency"), f"share of {b}": f"{row.b / total_b:.1%}" if total_b else None,
        }
        for row in explanation.resources
    ]  # fmt: skip


def _reach_title(explanation: ExplainedDifference) -> str:
    return f"to reach {explanation.reach_target:g}x over dense, change one of these" if explanation.reach_target is not None else "reach"


def reach_rows(explanation: ExplainedDifference) -> list[Row]:
    """Rows of the numbers that may change: what they would have to be, or the best speedup that they allow."""
    rows: list[Row] = []
    for row in explanation.reach:
        cells: Row = {"number": row.key, "now": row.now, "needed": row.needed or "none", "factor": None, "latency then": None, "": None}
        if row.factor is not None and row.latency is not None:
            cells |= {"factor": f"{row.factor:.3g}x", "latency then": format_value(row.latency, "latency")}
        else:
            cells[""] = f"at most {row.best:.3g}x, {_place(row.at)}"
        rows.append(cells)
    return rows


def _place(factor: float) -> str:
    """Where a number allows the best speedup."""
    if factor == 1:
        return "as it is"
    return "as it grows" if factor == float("inf") else "as it shrinks" if factor == 0 else f"at {factor:.3g} times as much"


def _csv(explanation: ExplainedDifference) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["part", "a", "b", f"{explanation.quantity} [{explanation.unit}]", "share", f"through_dense [{explanation.unit}]"])
    writer.writerow(["a", explanation.a, "", repr(explanation.value_a), "", ""])
    for part in explanation.parts:
        dense = "" if part.through_dense is None else repr(part.through_dense)
        writer.writerow([part.key, part.a, part.b, repr(part.value), repr(part.share), dense])
    writer.writerow(["b", "", explanation.b, repr(explanation.value_b), "", ""])
    return lines.getvalue().removesuffix("\n")


def _markdown_table(rows: list[Row]) -> str:
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    cells = [[_escape(row[column]) for column in columns] for row in rows]
    lines = [columns, ["---"] * len(columns), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|")
