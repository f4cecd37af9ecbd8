"""Build a report: read the results, make a section of each, and render the page.

The page is one file that loads nothing: a template, the style, the scripts, plotly.js and the data.
"""

import json
from html import escape
from importlib.resources import files

from dse.base.errors import InputError, ProblemCollector
from dse.html_report import sweep_section, validation_section
from dse.html_report.display import PageContents
from dse.html_report.results_files import Results

Section = PageContents
OVERVIEW_HEADER = ("dataset", "network", "batch", "pruning", "design", "speedup", "time", "accuracy", "limited by")
ASSETS = files("dse.html_report") / "assets"
SCRIPTS = ("data.js", "charts.js", "table.js", "page.js")  # in the order in which they are read


def build_report(all_results: list[Results], title: str, maximize: list[str], minimize: list[str]) -> str:
    """The text of the page; raises one InputError with the problems of all results."""
    problems, sections = ProblemCollector(), list[Section]()
    for results in all_results:
        with problems.collect(results.path):
            sections.append(_build_section(results, maximize, minimize))
    problems.raise_if_any()
    _make_names_distinct(sections)
    return _render_document(
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


def _render_document(title: str, contents: dict[str, object]) -> str:
    """The text of the page; raises InputError where plotly is not installed."""
    values = {
        "TITLE": escape(title),
        "STYLE": _read("page.css"),
        "DATA": _safe_json(contents),
        "PLOTLY": _plotly_script(),
        "SCRIPT": "\n".join(_read(name) for name in SCRIPTS),
    }
    parts = _read("page.html").split("@@")  # alternately text and names of values
    return "".join(part if number % 2 == 0 else values[part] for number, part in enumerate(parts))


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _safe_json(contents: dict[str, object]) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(contents, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _plotly_script() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise InputError("plotly is not installed", "install it: pip install 'sparse-dse[report]'") from error
    return get_plotlyjs().replace("</script", "<\\/script")
