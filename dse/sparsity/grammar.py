"""Parse the text of patterns: `2:4`, `block:16x16`, `64:2:8`, `block:32x32/2:4` (see `dse.sparsity.kinds`)."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, StringConstraints, ValidationInfo, WithJsonSchema

from dse.base.errors import InputError
from dse.base.strict_model import field_error, validation_errors
from dse.sparsity.hierarchy import Hierarchy, canonicalize
from dse.sparsity.kinds import DENSE, NM, UNSTRUCTURED, VNM, VNM_COLUMNS, Block, BlockFamily, Dense, Structured, VNMFamily
from dse.sparsity.pattern import Pattern

KNOWN_FORMS = (
    "'dense', 'unstructured', 'row', 'column', 'channel', '2:4', '1:4x32', '64:2:8', 'block:16x16', 'vector:8', "
    "or levels as in 'block:32x32/2:4'"
)
NUMBER = r"[0-9]{1,9}"
MAX_COLUMNS = 999_999_999  # of all levels together; the largest number in a pattern
MAX_CHARACTERS = 200
MAX_LEVELS = 8  # properties of a pattern are computed recursively, some of them twice


def _forms() -> list[tuple[list[str], Callable[..., Pattern]]]:
    """Each form of a level as a list of regular expressions, and the function that builds the pattern from its numbers."""
    return [
        (["dense"], lambda: DENSE),
        (["unstructured"], lambda: UNSTRUCTURED),
        (["row"], lambda: Structured("row")),
        (["column"], lambda: Structured("column")),
        (["channel"], lambda: Structured("channel")),
        (["vector:", NUMBER], lambda v: _block(v, 1)),
        (["block:", NUMBER, "x", NUMBER], _block),
        (["block:", NUMBER, "x", NUMBER, r"\*"], lambda r, c: BlockFamily(_block(r, c))),
        ([NUMBER, ":", NUMBER], _nm),
        ([NUMBER, ":", NUMBER, "x", NUMBER], _nm),
        ([NUMBER, ":", NUMBER, ":", NUMBER], _vnm),
        ([NUMBER, ":", NUMBER, ":", r"\*"], lambda v, n: VNMFamily(*_check_vnm(v, n, VNM_COLUMNS)[:2])),
    ]


def parse(text: str, names: Mapping[str, Pattern] | None = None) -> Pattern:
    """Parse a pattern and return its canonical form; a level may also be one of `names`.

    Raises InputError that says what is wrong, and at which character.
    """
    return canonicalize(_parse_as_written(text, names or {}))


_parse_plain = lru_cache(maxsize=1024)(parse)  # tables name the same pattern thousands of times


def _parse_as_written(text: str, names: Mapping[str, Pattern]) -> Pattern:
    """Parse a pattern without simplifying its levels, because an outer N:M counts the tiles of an inner level as it is written."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the pattern '{text[:40]}...' has {len(text)} characters", f"write at most {MAX_CHARACTERS}")
    levels, start = [], 0
    for part in text.split("/"):
        levels.append(names[part.strip()] if part.strip() in names else _parse_level(text, part, start))
        start += len(part) + 1
    if (count := sum(map(_count_levels, levels))) > MAX_LEVELS:
        raise InputError(f"'{text}' has {count} levels", f"write at most {MAX_LEVELS}")
    pattern = levels.pop()
    while levels:
        pattern = _nest(levels.pop(), pattern)
    return pattern


def _count_levels(pattern: Pattern) -> int:
    return 1 + _count_levels(pattern.inner) if isinstance(pattern, Hierarchy) else 1


def as_pattern(pattern: Pattern | str) -> Pattern:
    """Parse a pattern if it is text; raises InputError."""
    return parse(pattern) if isinstance(pattern, str) else pattern


@lru_cache(maxsize=1024)  # patterns share their levels
def _parse_level(text: str, part: str, start: int) -> Pattern:
    """Parse one level, which begins at character `start` of the text."""
    level, matched = part.strip().lower(), 0
    for tokens, build in _forms():
        length = _matched_length(tokens, level)
        if length == len(level) and (match := re.fullmatch("".join(_capture_number(token) for token in tokens), level)):
            return build(*map(int, match.groups()))
        matched = max(matched, length)
    place = start + len(part) - len(part.lstrip()) + matched
    where = f" (see character {place + 1}, '{text[place]}')" if place < len(text) else " (it ends too early)"
    raise InputError(f"'{text}' is not a pattern{where}", f"write {KNOWN_FORMS}")


def _capture_number(token: str) -> str:
    return f"({token})" if token == NUMBER else token


def _matched_length(tokens: list[str], text: str) -> int:
    """The number of characters of the text that the first tokens of a form match."""
    length = 0
    for token in tokens:
        if match := re.compile(token).match(text, length):
            length = match.end()
            continue
        literal = token.replace("\\", "") if token != NUMBER else ""
        while literal and length < len(text) and text[length] == literal[0]:
            length, literal = length + 1, literal[1:]
        break
    return length


def _nm(n: int, m: int, v: int = 1) -> Pattern:
    text = f"{n}:{m}" if v == 1 else f"{n}:{m}x{v}"
    if n > m:
        raise InputError(f"'{text}' keeps {n} of {m}, which is impossible", f"write N:M with N <= M, as in '{m}:{n}'")
    if n == 0:
        raise InputError(f"'{text}' keeps nothing", "write N:M with N >= 1, as in '2:4'")
    if v == 0:
        raise InputError(f"'{text}' is shared by no row", "write at least 1 row, as in '2:4x32'")
    return NM(n, m, v)


def _check_vnm(v: int, n: int, m: int) -> tuple[int, int, int]:
    if v == 0 or n == 0:
        raise InputError(f"'{v}:{n}:{m}' keeps nothing", "write V:N:M with V >= 1 and N >= 1, as in '64:2:8'")
    if n > VNM_COLUMNS or m < VNM_COLUMNS:
        message = f"'{v}:{n}:{m}' keeps {n} of {VNM_COLUMNS} columns chosen from {m}, which is impossible"
        raise InputError(message, f"write V:N:M with N <= {VNM_COLUMNS} <= M, as in '64:2:8'")
    return v, n, m


def _vnm(v: int, n: int, m: int) -> Pattern:
    return VNM(*_check_vnm(v, n, m))


def _block(rows: int, columns: int) -> Block:
    if rows == 0 or columns == 0:
        raise InputError(f"a block of {rows}x{columns} is empty", "write at least 1 row and 1 column, as in 'block:16x16'")
    return Block(rows, columns)


def _nest(outer: Pattern, inner: Pattern) -> Pattern:
    """Nest one level in another; raises InputError for an invalid combination."""
    text = f"{outer}/{inner}"
    if isinstance(outer, Dense):
        return inner
    if isinstance(inner, Dense):
        return outer
    if (
        isinstance(inner, BlockFamily | VNMFamily | Structured)
        or not isinstance(outer, Block | NM)
        or (isinstance(outer, NM) and outer.v > 1)
    ):
        raise InputError(f"'{text}' cannot be nested", "write block:RxC or N:M outside, and N:M, N:MxV, V:N:M or block:RxC inside")
    if inner.density is None and (isinstance(outer, Block) or outer.n == outer.m):
        keeps = "both levels keep" if isinstance(outer, Block) else f"'{outer}' keeps every tile, and each"
        raise InputError(f"in '{text}' {keeps} any fraction", f"write '{inner}' alone, which has the same masks")
    if isinstance(outer, Block) and (outer.rows % inner.tile[0] or outer.columns % inner.tile[1]):
        rows, columns = inner.tile
        raise InputError(f"tiles of {rows}x{columns} do not fill '{outer}'", f"write a block that is a multiple of {rows}x{columns}")
    nested = Hierarchy(outer, inner)
    if nested.tile[1] > MAX_COLUMNS:
        raise InputError(f"a group of '{text}' is {nested.tile[1]} columns wide", f"write levels of at most {MAX_COLUMNS} columns together")
    return nested


def _validate_pattern(value: object, info: ValidationInfo) -> Pattern:
    """Parse the pattern in a description, which may use names that the description defines."""
    if isinstance(value, Pattern):
        return canonicalize(value)
    if not isinstance(value, str):
        raise field_error(f"'{value}' is not a pattern", "write text, as in '2:4'")
    with validation_errors():
        aliases = read_pattern_aliases(info.context)
        return parse(value, aliases) if aliases else _parse_plain(value)


def _refuse_forms(name: str) -> str:
    """Raise a validation error for a name that is the text of a pattern."""
    if any(name == form[0] for form, _ in _forms()):
        raise field_error(f"'{name}' is a pattern already", "give yours another name")
    return name


PATTERN_EXAMPLES = ["2:4", "unstructured", "block:16x16", "block:16x16*", "64:2:8", "1:4x32", "block:32x32/2:4", "dense"]
PatternField = Annotated[
    Pattern, PlainValidator(_validate_pattern), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": PATTERN_EXAMPLES})
]  # a pattern in a description
PatternName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$"), AfterValidator(_refuse_forms)]
MAX_ALIASES = 100
PatternAliases = Annotated[
    dict[PatternName, PatternField], Field(max_length=MAX_ALIASES)
]  # user-defined names of patterns: `patterns:` of a description


def read_pattern_aliases(description: object) -> dict[str, Pattern]:
    """Read the pattern names that a description defines, which may build on each other, without invalid ones."""
    written = description.get("patterns") if isinstance(description, Mapping) else None
    if not isinstance(written, Mapping) or len(written) > MAX_ALIASES:
        return {}
    return _resolve_aliases(tuple((name, text) for name, text in written.items() if isinstance(text, str)))


@lru_cache(maxsize=16)  # every pattern of a description resolves these names
def _resolve_aliases(written: tuple[tuple[str, str], ...]) -> dict[str, Pattern]:
    """Parse patterns whose texts may use the names of each other."""
    patterns: dict[str, Pattern] = {}
    known = -1
    while known < len(patterns):  # until a round resolves no more names
        known = len(patterns)
        for name, text in written:
            if name not in patterns:
                with suppress(InputError):
                    patterns[name] = _parse_as_written(text, patterns)
    return patterns
