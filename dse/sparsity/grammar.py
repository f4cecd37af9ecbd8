"""From text to patterns: `2:4`, `block:16x16`, `64:2:8`, `block:32x32/2:4` (see `dse.sparsity.kinds`)."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, StringConstraints, ValidationInfo, WithJsonSchema

from dse.base.errors import InputError
from dse.base.strict_model import field_error
from dse.sparsity.kinds import (
    DENSE,
    NM,
    UNSTRUCTURED,
    VNM,
    VNM_COLUMNS,
    Block,
    BlockFamily,
    Dense,
    Hierarchy,
    Structured,
    VNMFamily,
    canonicalize,
)
from dse.sparsity.pattern import Pattern

KNOWN_FORMS = (
    "'dense', 'unstructured', 'row', 'column', 'channel', '2:4', '1:4x32', '64:2:8', 'block:16x16', 'vector:8', "
    "or levels as in 'block:32x32/2:4'"
)
NUMBER = r"[0-9]{1,9}"
MAX_COLUMNS = 999_999_999  # of all levels together: as much as one number of a pattern can say
MAX_CHARACTERS = 200
MAX_LEVELS = 8  # the properties of a pattern are found level by level, some of them twice


def _forms() -> list[tuple[list[str], Callable[..., Pattern]]]:
    """Each form as its pieces, so that a mistake can be placed, and what it makes of its numbers."""
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
        ([NUMBER, ":", NUMBER, ":", r"\*"], lambda v, n: VNMFamily(*_checked_vnm(v, n, VNM_COLUMNS)[:2])),
    ]


def parse(text: str, names: Mapping[str, Pattern] | None = None) -> Pattern:
    """The canonical pattern that `text` describes, level by level, by a form or by one of `names` (patterns as written); raises
    InputError with what is impossible about it, and at which character."""
    return canonicalize(_written(text, names or {}))


def _written(text: str, names: Mapping[str, Pattern]) -> Pattern:
    """The pattern with its levels as written: an outer N:M counts tiles of them, so a level must not be simplified on its own."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the pattern '{text[:40]}...' has {len(text)} characters", f"write at most {MAX_CHARACTERS}")
    found, start = [], 0
    for part in text.split("/"):
        found.append(names[part.strip()] if part.strip() in names else _level(text, part, start))
        start += len(part) + 1
    if (levels := sum(map(_levels, found))) > MAX_LEVELS:
        raise InputError(f"'{text}' has {levels} levels", f"write at most {MAX_LEVELS}")
    pattern = found.pop()
    while found:
        pattern = _nested(found.pop(), pattern)
    return pattern


def _levels(pattern: Pattern) -> int:
    return 1 + _levels(pattern.inner) if isinstance(pattern, Hierarchy) else 1


def as_pattern(pattern: Pattern | str) -> Pattern:
    """A pattern, or the one that a text names; raises InputError."""
    return parse(pattern) if isinstance(pattern, str) else pattern


@lru_cache(maxsize=1024)  # tables name the same pattern thousands of times
def _level(text: str, part: str, start: int) -> Pattern:
    wanted, reached = part.strip().lower(), 0
    for pieces, build in _forms():
        length = _matched(pieces, wanted)
        if length == len(wanted) and (match := re.fullmatch("".join(_grouped(piece) for piece in pieces), wanted)):
            return build(*map(int, match.groups()))
        reached = max(reached, length)
    place = start + len(part) - len(part.lstrip()) + reached
    where = f" (see character {place + 1}, '{text[place]}')" if place < len(text) else " (it ends too early)"
    raise InputError(f"'{text}' is not a pattern{where}", f"write {KNOWN_FORMS}")


def _grouped(piece: str) -> str:
    return f"({piece})" if piece == NUMBER else piece


def _matched(pieces: list[str], text: str) -> int:
    """How many characters of the text the first pieces of a form account for."""
    length = 0
    for piece in pieces:
        if match := re.compile(piece).match(text, length):
            length = match.end()
            continue
        literal = piece.replace("\\", "") if piece != NUMBER else ""
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


def _checked_vnm(v: int, n: int, m: int) -> tuple[int, int, int]:
    if v == 0 or n == 0:
        raise InputError(f"'{v}:{n}:{m}' keeps nothing", "write V:N:M with V >= 1 and N >= 1, as in '64:2:8'")
    if n > VNM_COLUMNS or m < VNM_COLUMNS:
        what = f"'{v}:{n}:{m}' keeps {n} of {VNM_COLUMNS} columns chosen from {m}, which is impossible"
        raise InputError(what, f"write V:N:M with N <= {VNM_COLUMNS} <= M, as in '64:2:8'")
    return v, n, m


def _vnm(v: int, n: int, m: int) -> Pattern:
    return VNM(*_checked_vnm(v, n, m))


def _block(rows: int, columns: int) -> Block:
    if rows == 0 or columns == 0:
        raise InputError(f"a block of {rows}x{columns} is empty", "write at least 1 row and 1 column, as in 'block:16x16'")
    return Block(rows, columns)


def _nested(outer: Pattern, inner: Pattern) -> Pattern:
    """One level around another; raises InputError where the two don't go together."""
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
        raise InputError(f"'{text}' can't be nested", "write block:RxC or N:M outside, and N:M, N:MxV, V:N:M or block:RxC inside")
    if inner.density is None and (isinstance(outer, Block) or outer.n == outer.m):
        what = "both levels keep" if isinstance(outer, Block) else f"'{outer}' keeps every tile, and each"
        raise InputError(f"in '{text}' {what} any fraction", f"write '{inner}' alone, which has the same masks")
    if isinstance(outer, Block) and (outer.rows % inner.tile[0] or outer.columns % inner.tile[1]):
        rows, columns = inner.tile
        raise InputError(f"tiles of {rows}x{columns} do not fill '{outer}'", f"write a block that is a multiple of {rows}x{columns}")
    nested = Hierarchy(outer, inner)
    if nested.tile[1] > MAX_COLUMNS:
        raise InputError(f"a group of '{text}' is {nested.tile[1]} columns wide", f"write levels of at most {MAX_COLUMNS} columns together")
    return nested


def validate(value: Any, info: ValidationInfo) -> Pattern:
    if isinstance(value, Pattern):
        return canonicalize(value)
    if not isinstance(value, str):
        raise field_error(f"'{value}' is not a pattern", "write text, as in '2:4'")
    try:
        return parse(value, read_pattern_aliases(info.context))
    except InputError as error:
        raise field_error(error.problems[0].message, error.problems[0].fix) from error


def _unlike_forms(name: str) -> str:
    if any(name == form[0] for form, _ in _forms()):
        raise field_error(f"'{name}' is a pattern already", "give yours another name")
    return name


PATTERN_EXAMPLES = ["2:4", "unstructured", "block:16x16", "block:16x16*", "64:2:8", "1:4x32", "block:32x32/2:4", "dense"]
PatternField = Annotated[
    Pattern, PlainValidator(validate), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": PATTERN_EXAMPLES})
]  # a pattern as it stands in a description
PatternName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$"), AfterValidator(_unlike_forms)]
MAX_ALIASES = 100
PatternAliases = Annotated[
    dict[PatternName, PatternField], Field(max_length=MAX_ALIASES)
]  # patterns by names of one's own: `patterns:` of a description


def read_pattern_aliases(description: Any) -> dict[str, Pattern]:
    """The patterns that a description names; one may build on another. Those that make no sense are told where they are validated."""
    written = description.get("patterns") if isinstance(description, Mapping) else None
    if not isinstance(written, Mapping) or len(written) > MAX_ALIASES:
        return {}
    return _resolved(tuple((name, text) for name, text in written.items() if isinstance(text, str)))


@lru_cache(maxsize=16)  # every pattern of a description asks for its names
def _resolved(written: tuple[tuple[str, str], ...]) -> dict[str, Pattern]:
    """The patterns of names whose texts may name each other."""
    found: dict[str, Pattern] = {}
    known = -1
    while known < len(found):  # each round knows more names than the one before
        known = len(found)
        for name, text in written:
            if name not in found:
                with suppress(InputError):
                    found[name] = _written(text, found)
    return found
