"""The vocabulary of the package: a retired word appears only with a standard meaning that ALLOWED names, with its reason.

    python -m tests.test_language      prints the remaining uses of retired words, with their reasons

Words are looked up in identifiers, docstrings, comments, messages, data and documentation. Retired words that everybody needs in their
usual sense (state, point, structure, part, line, stored, done, more) cannot be searched for, and are left to review.
"""

import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SEARCHED = ("dse", "docs", "tests/benchmarks", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".py", ".md", ".yaml", ".csv", ".ipynb"}
RETIRED = {  # what to write instead: the words that it replaces
    "report, raise or warn": "told tell tells telling remark remarks alarm alarms",
    "the name of the quantity, or 'located'": "found",
    "request, query or spec": "ask asks asked asking question questions",
    "evaluate or score": "judge judges judged judging worth",
    "latency or time": "spent",
    "overhead, or 'next to'": "beside",
    "slowdown": "slowed",
    "breakdown": "charge charges charged",
    "executions": "kept ways",
    "alternatives": "rivals",
    "layer terms": "timed",
    "samples": "draw draws drawn drawing",
    "chunk": "piece pieces",
    "compiled": "made prepared",
    "local search": "polish climb climbs",
    "archive": "outcome outcomes",
    "feasible": "tolerated",
    "fidelity": "ladder ladders rung rungs",
    "granularity": "grain grains",
    "dominance filter": "sieve",
    "Belady (MIN)": "farthest",
    "outer loop axis": "in-turn in_turn",
    "incremental cost": "trial trials",
    "detect": "recognise recognised",
    "objective": "goal goals",
    "fix": "mend mends mended",
    "the same": "alike",
    "the condition itself": "whatever",
    "is, or has": "stands stood lives",
}


class Use(NamedTuple):
    """A standard meaning of retired `words`: the pattern covers the use, in files whose path matches `place`."""

    words: str
    place: str
    pattern: str
    reason: str


ALLOWED: tuple[Use, ...] = (
    Use("ask tell", "*", r"[Aa]sk and tell|ask_batch|study\.(?:ask|tell)", "the interface of Optuna, and a key of search files"),
    Use("tell", "dse/*", r"file\.tell\(\)", "position in a file, Python's name"),
    Use("found", "dse/*", r"FileNotFoundError|tag_not_found", "names of Python and pydantic"),
    Use("question", "docs/explanation/findings.md", r"third open question of the Sparsity Roofline", "what the paper calls it"),
    Use("kept", "*", r"(?:is|are|was|were|be|and) kept\b", "retained: files, rows and results that are not discarded"),
    Use("kept", "dse/sparsity/*", r"\w*kept\w*", "the weights, tiles and places that pruning keeps: the word of the field"),
    Use("kept", "docs/reference/number-formats.md", r"\w*kept\w*", "the values that pruning keeps, also in the text of a format"),
    Use("kept", "dse/base/number_format.py", r"\w*kept\w*", "the values that pruning keeps, also in the text of a format"),
    Use("kept", "dse/*", r"kept_(?:blocks|share|together)|columns_kept|kept (?:weight|column|band)|share kept", "what pruning keeps"),
    Use("kept", "dse/model/stored_weights.py", r"kept = layers|, kept[,)]|\[0\]\.kept", "what pruning keeps"),
    Use("kept", "dse/calibrate/*", r"\bkept\b", "what pruning keeps"),
    Use("kept", "docs/*", r"(?:columns|weights|each|or) kept\b|kept (?:or dropped|weight|one|position|tiles)", "what pruning keeps"),
    Use("ways", "dse/sparsity/rank.py", r"chosen in more than 2\^62 ways", "combinations, the word of combinatorics"),
    Use("rivals", "*", r"`rivals`|\"rivals\"", "a variable of results, which outside users read"),
    Use("timed", "*", r"\b(?:is|are|were|be|not) timed|timed_kernels", "measured with a timer"),
    Use("slowed", "dse/*", r"slowed_work", "work multiplied by the slowdown"),
    Use("draw draws drawn drawing", "dse/plot/*", r"(?i:\w*draw\w*)", "to draw a figure: Matplotlib's word"),
    Use("draw drawn", "dse/cli/*", r"(?i:\w*draw\w*)", "to draw a figure"),
    Use("draw", "dse/schema/*", r"draw 'speedup'|figures to draw", "to draw a figure"),
    Use(
        "draw draws drawn",
        "docs/*",
        r"Draw figures|figures to draw|draws? (?:\[?any|the figures|predicted)|(?:be|or) drawn",
        "to draw a figure",
    ),
    Use("draws", "README.md", r"draws the figure", "to draw a figure"),
    Use("draws", "*", r"--draws|\bdraws: \[\]|\"draws\"", "the former name of an option of `dse calibrate`, and a key of its files"),
    Use("draw", "dse/model/cost/coefficients.yaml", r"idle boards draw", "to draw power"),
    Use("piece pieces", "dse/model/piecewise_linear.py", r"\w*pieces?\b", "a piece of a piecewise-linear function"),
    Use("pieces", "dse/sweeping/*", r"`pieces`|pieces: int|pieces=max|shapes\.pieces", "pieces of a piecewise-linear function"),
    Use("piece pieces", "dse/sweeping/zarr_store.py", r"\"pieces?\"", "a key of the files in a store"),
    Use("polish", "*", r"`polish`|\"polish\"|polish: bool|(?:search|self)\.polish", "a key of search files"),
    Use("tolerated", "dse/*", r"tolerated (?:accuracy drop|loss)", "within an accuracy tolerance: its usual name"),
    Use("farthest", "*", r"farthest next use|_evict_farthest", "Belady's rule in his words"),
    Use("farthest", "dse/*", r"farthest (?:from 1|below)", "the largest distance"),
    Use("trial trials", "dse/searching/*", r"(?i:\w*trials?\w*)", "Optuna's word for an evaluated design"),
    Use("trials", "dse/schema/search.py", r"\w*trials\w*", "a key of search files, after Optuna"),
    Use("trials polish", "dse/schema/templates/*", r"trials: \d|polish: false", "keys of search files"),
    Use("trials", "tests/benchmarks/samplers.py", r"trials=", "a key of search files"),
    Use("trial trials", "docs/*", r"(?i:trials?)", "Optuna's word for an evaluated design, and a key of search files"),
    Use("trials", "dse/sparsity/expectation.py", r"trials", "Bernoulli trials"),
    Use("whatever made", "dse/model/efficiency/*", r"whatever a sweep makes|intervals are made of", "plain English"),
)


class Occurrence(NamedTuple):
    word: str
    path: str
    line: int
    context: str
    use: Use | None


REPLACEMENTS = {word: replacement for replacement, words in RETIRED.items() for word in words.split()}
SEPARATE, IN_CAMEL_CASE = "|".join(REPLACEMENTS), "|".join(word.capitalize() for word in REPLACEMENTS)
WORD = re.compile(rf"(?<![A-Za-z])(?i:{SEPARATE})(?![a-z])|(?<=[a-z])(?:{IN_CAMEL_CASE})(?![a-z])")


def find_occurrences(text: str, path: str) -> Iterator[Occurrence]:
    """Every use of a retired word in a text, whose white space is collapsed, so that a pattern may span lines."""
    tokens = [(line, token) for line, content in enumerate(text.splitlines(), start=1) for token in content.split()]
    starts = list(itertools.accumulate((len(token) + 1 for _, token in tokens), initial=0))
    joined = " ".join(token for _, token in tokens)
    uses = [use for use in ALLOWED if fnmatch(path, use.place)]
    covered = [(match.span(), use) for use in uses for match in re.finditer(use.pattern, joined)]
    for match in WORD.finditer(joined):
        word, (start, end) = match[0].lower(), match.span()
        allowed = (use for (low, high), use in covered if word in use.words.split() and low <= start and end <= high)
        line = tokens[bisect_right(starts, start) - 1][0]
        yield Occurrence(word, path, line, joined[max(0, start - 50) : end + 50], next(allowed, None))


def list_occurrences() -> list[Occurrence]:
    """Every use of a retired word in the files of SEARCHED."""
    roots = [ROOT / name for name in SEARCHED]
    files = sorted(file for root in roots for file in (root.rglob("*") if root.is_dir() else [root]) if file.suffix in SUFFIXES)
    return [use for file in files for use in find_occurrences(file.read_text(), file.relative_to(ROOT).as_posix())]


@pytest.fixture(scope="module")
def occurrences() -> list[Occurrence]:
    return list_occurrences()


def test_no_new_use_of_a_retired_word(occurrences: list[Occurrence]) -> None:
    new = [f"{o.path}:{o.line}: '{o.word}' in '{o.context}'; write {REPLACEMENTS[o.word]}" for o in occurrences if o.use is None]
    assert not new, "\n".join(["rewrite these, or add a standard meaning to ALLOWED with its reason:", *new])


def test_every_allowed_use_still_occurs(occurrences: list[Occurrence]) -> None:
    uses = {occurrence.use for occurrence in occurrences}
    assert not [use for use in ALLOWED if use not in uses], "remove what no file needs any more"


@pytest.mark.parametrize("text", ["what was found", "found_designs", "isFound", "FOUND = 1", "it is\n  told"])
def test_words_are_found_in_prose_and_identifiers(text: str) -> None:
    assert [occurrence.use for occurrence in find_occurrences(text, "dse/example.py")] == [None]


@pytest.mark.parametrize("text", ["profound", "foundation", "untold", "grained"])
def test_parts_of_words_are_not_found(text: str) -> None:
    assert not list(find_occurrences(text, "dse/example.py"))


def print_table() -> None:
    """Print the allowed uses of retired words as a Markdown table, then those without a reason."""
    found = list_occurrences()
    counts = Counter(occurrence.use for occurrence in found)
    print("| words | files | uses | pattern | reason |\n|---|---|---|---|---|")
    for use in ALLOWED:
        print(f"| {use.words} | {use.place} | {counts[use]} | `{use.pattern.replace('|', '&#124;')}` | {use.reason} |")
    for occurrence in found:
        if occurrence.use is None:
            print(f"{occurrence.path}:{occurrence.line}: {occurrence.word}: {occurrence.context}")


if __name__ == "__main__":
    print_table()
