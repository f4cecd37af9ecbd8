"""Expressions, objectives and constraints of searches: parsed, checked, evaluated."""

from pathlib import Path
from random import Random

import numpy as np

from dse.base import expression
from dse.base.yaml_document import parse_document
from dse.schema.search import SEARCH_RESULTS, SearchSpec
from tests.fuzz import odd
from tests.fuzz.outcome import call

CASES = 300
_FUNCTIONS = ("log", "exp", "sqrt", "abs", "minimum", "maximum", "eval", "sin", "log10", "__import__", "max")
_OPERATORS = (" + ", " - ", " * ", " / ", "**", "**", "//", " % ", "@", " and ", " if x else ", "<", "=", ":=", ", ", "&")
_ATOMS = (
    "True",
    "None",
    "'a'",
    "...",
    "lambda: 1",
    "[1]",
    "{}",
    "()",
    "(1,)",
    "x",
    "performance.real",
    "area[0]",
    "-1",
    "1e308",
    "1e400",
    "0",
    "0.0",
    "2j",
    "f'{x}'",
    "await x",
    "yield",
    "*area",
)


def case(random: Random, folder: Path) -> str:
    text = _nested(random) if random.random() < 0.05 else _expression(random, random.choice([0, 1, 2, 3, 4, 8]))
    if random.random() < 0.15:
        text = odd.damaged(random, text)
    (folder / "expression").write_text(text, encoding="utf-8", errors="surrogatepass")
    outcome = call(expression.parse_expression, text, SEARCH_RESULTS)
    if outcome == "accepted":
        _evaluate(text, random)
    return f"{outcome}, search {_search(random, text, folder)}"


def _expression(random: Random, depth: int) -> str:
    """A tree of so many levels."""
    chance = random.random()
    if depth <= 0 or chance < 0.1:
        chance = random.random()
        if chance < 0.55:
            return random.choice([*SEARCH_RESULTS])
        return odd.number(random) if chance < 0.85 else random.choice(_ATOMS) if chance < 0.93 else f"{random.uniform(-1000, 1000):g}"
    if chance < 0.65:
        left, right = _expression(random, depth - 1), _expression(random, depth - random.randint(1, depth))
        operator = random.choice(_OPERATORS[:6] if random.random() < 0.93 else _OPERATORS)
        return f"({left}){operator}({right})" if random.random() < 0.6 else f"{left}{operator}{right}"
    if chance < 0.9:
        name = random.choice(_FUNCTIONS[:6] if random.random() < 0.93 else _FUNCTIONS)
        count = 2 if name.endswith("mum") else 1
        count = count if random.random() < 0.95 else random.randint(0, 3)
        return f"{name}({', '.join(_expression(random, depth - 1) for _ in range(count))})"
    return f"{random.choice(['-', '-', '+', '~', 'not '])}{_expression(random, depth - 1)}"


def _nested(random: Random) -> str:
    depth = random.choice([10, 90, 100, 120, 160, 240, 249, 10_000, 100_000])
    opened, closed = random.choice(
        [("(", ")"), ("-", ""), ("abs(", ")"), ("[", "]"), ("1**", ""), ("9**", ""), ("area+", ""), ("~", ""), ("1-(", ")")]
    )
    return opened * depth + random.choice(["1", "area", "", "9"]) + closed * depth


def _evaluate(text: str, random: Random) -> None:
    """Of arrays and of single numbers, ordinary and not: a real number or NaN for each, without a warning."""
    parsed = expression.parse_expression(text, SEARCH_RESULTS)
    columns = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [np.inf, np.nan, 1e308], [1e-300, 1e300, -0.0]])
    results = {name: columns[random.randrange(4)] for name in SEARCH_RESULTS}
    value = np.asarray(parsed.evaluate(results))
    assert value.dtype.kind == "f", value.dtype
    assert value.shape in ((), (3,))
    single = np.asarray(parsed.evaluate({name: float(values[0]) for name, values in results.items()}))
    assert single.dtype.kind == "f", single.dtype
    assert single.shape == ()


def _search(random: Random, text: str, folder: Path) -> str:
    """The same text as an objective or as a side of a constraint, in a file."""
    form = random.choice(["{} <= {}", "{} >= {}", "{}<={}", "{} == {}", "{} <= {} <= 3"])
    left, right = (
        (text, odd.number(random)) if random.random() < 0.6 else (random.choice([*SEARCH_RESULTS, "accuracy_drop"]), _bound(random))
    )
    written = text if random.random() < 0.3 else form.format(left, right)
    key = "constraints" if written != text else random.choice(["maximize", "minimize"])
    path = folder / "spec.yaml"

    def check() -> None:
        document = parse_document(path, f'{key}: ["{_quoted(written)}"]\n')
        for limit in document.validate(SearchSpec).bounds:
            assert np.isfinite(limit.bound)
            assert limit.bound != 0

    return call(check, names=path.name)


def _bound(random: Random) -> str:
    number, unit = odd.number(random), random.choice(["", " mm^2", " W", " ms", "%", " %", " J", "W" * 50])
    return f"{number}{unit}"


def _quoted(text: str) -> str:
    """For a double-quoted YAML text."""
    return "".join(f"\\U{ord(c):08x}" if not c.isalnum() or ord(c) > 126 else c for c in text)
