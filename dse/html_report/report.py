"""Build a report: read the results, make a section of each, and render the page."""

from typing import Any

from dse.base.errors import ProblemCollector
from dse.html_report import sweep_section, validation_section
from dse.html_report.document import render_document
from dse.html_report.results_files import Results

Section = dict[str, Any]
OVERVIEW_HEADER = ("dataset", "network", "batch", "pruning", "design", "speedup", "time", "accuracy", "limited by")


def build_report(all_results: list[Results], title: str, maximize: list[str], minimize: list[str]) -> str:
    """The text of the page; raises one InputError with the problems of all results."""
    problems, sections = ProblemCollector(), list[Section]()
    for results in all_results:
        with problems.collect(results.path):
            sections.append(_build_section(results, maximize, minimize))
    problems.raise_if_any()
    _make_names_distinct(sections)
    return render_document(
        title or ", ".join(section["name"] for section in sections), {"sections": sections, "overview": _overview(sections)}
    )


def _build_section(results: Results, maximize: list[str], minimize: list[str]) -> Section:
    if results.kind == "validation":
        return validation_section.build_section(results)
    if results.kind == "search":
        from dse.html_report import search_section  # Optuna takes a second to import

        return search_section.build_section(results)
    return sweep_section.build_section(results, maximize, minimize)


def _make_names_distinct(sections: list[Section]) -> None:
    names = [section["name"] for section in sections]
    for number, section in enumerate(sections):
        if names.count(section["name"]) > 1:
            section["name"] += f" ({names[: number + 1].count(section['name'])})"


def _overview(sections: list[Section]) -> dict[str, object] | None:
    """The best result of every dataset, and the axes of a chart of all fronts; None for a single dataset."""
    if len(sections) == 1:
        return None
    rows = [
        [section["name"], *(row[name] for name in ("workload", "batch", "variant", "design", "speedup", "latency", "accuracy", "limit"))]
        for section in sections
        for row in section.get("answers", [])[:3]
    ]
    compared = [section for section in sections if "columns" in section]
    numeric = [{column["name"] for column in section["columns"] if "labels" not in column} for section in compared]
    common = set.intersection(*numeric) if len(numeric) > 1 else set()
    axes = [name for name in ("latency", "speedup", "performance", "accuracy_drop", "area", "power", "sparsity") if name in common]
    x, y = (axes[0], axes[1]) if len(axes) > 1 else ("", "")
    return {"header": OVERVIEW_HEADER, "rows": rows, "x": x, "y": y, "sections": [section["name"] for section in compared]}
