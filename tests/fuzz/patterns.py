"""Patterns: nested deeply, of huge and odd numbers, damaged; parsed, compared, and reported by `dse pattern`."""

from pathlib import Path
from random import Random

from dse.base.errors import InputError
from dse.sparsity.grammar import PATTERN_EXAMPLES, parse
from dse.sparsity.kinds import BlockFamily, VNMFamily
from dse.sparsity.pattern import Pattern
from tests.fuzz import odd
from tests.fuzz.outcome import call, run_command

CASES = 300
_WORDS = (
    "dense",
    "unstructured",
    "row",
    "column",
    "channel",
    "2:4",
    "1:8",
    "block:16x16",
    "vector:8",
    "64:2:8",
    "2:4x32",
    "block:4x4*",
    "8:2:*",
)
_FORMS = ("{}:{}", "{}:{}x{}", "{}:{}:{}", "{}:{}:*", "block:{}x{}", "block:{}x{}*", "vector:{}", "{}", "tile:{}", "blck:{}x{}", "{}-{}")


def case(random: Random, folder: Path) -> str:
    text = _text(random)
    (folder / "pattern").write_text(text, encoding="utf-8", errors="surrogatepass")
    if random.random() < 0.1 and "\x00" not in text:  # no shell can pass that
        return "dse pattern: " + run_command(
            "pattern", f"--shape={odd.damaged(random, '4096x4096')}" if random.random() < 0.3 else "--shape=4096x4096",
            f"--density={odd.number(random) if random.random() < 0.3 else 0.25}", "--", text, names="", folder=folder, codes=(0, 2),
        )  # fmt: skip
    outcome = call(parse, text)
    if outcome == "accepted":
        _check_laws(parse(text), random)
    return outcome


def _text(random: Random) -> str:
    levels = random.choice([1, 1, 1, 1, 2, 2, 3, 4, 8, 40, 1000]) if random.random() < 0.9 else random.randint(1, 5000)
    few = [_level(random) for _ in range(min(levels, 5))]
    written = "/".join(few[place % len(few)] for place in range(levels))
    return odd.damaged(random, written) if random.random() < 0.2 else written


def _level(random: Random) -> str:
    chance = random.random()
    if chance < 0.3:
        return random.choice(_WORDS)
    if chance < 0.35:
        return odd.text(random)
    numbers = [_number(random) for _ in range(3)]
    return random.choice(_FORMS).format(*sorted(numbers, key=lambda number: (len(number), number)))


def _number(random: Random) -> str:
    if random.random() < 0.2:
        return odd.number(random)
    return str(random.choice([0, 1, 2, 3, 4, 7, 8, 16, 64, 1023, 65_537, 999_999_937, 999_999_999, 10**9]))


def _check_laws(pattern: Pattern, random: Random) -> None:
    """Canonical text means the same pattern; containment is reflexive; the density is a share."""
    assert parse(str(pattern)) == pattern
    assert pattern.is_below(pattern)
    assert pattern.density is None or 0 < pattern.density <= 1
    other = _other(random)
    if pattern.is_below(other) and not isinstance(pattern, BlockFamily | VNMFamily):  # weights are of one member of a family
        assert other.storage_pattern_for(pattern) is not None


def _other(random: Random) -> Pattern:
    try:
        return parse(_text(random))
    except InputError:
        return parse(random.choice(PATTERN_EXAMPLES))
