"""Assemble the page: a template, the style, the scripts, plotly.js and the data, all in one file that loads nothing."""

import json
from html import escape
from importlib.resources import files

from dse.base.errors import InputError

ASSETS = files("dse.html_report") / "assets"
SCRIPTS = ("data.js", "charts.js", "table.js", "page.js")  # in the order in which they are read


def render_document(title: str, contents: dict[str, object]) -> str:
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
