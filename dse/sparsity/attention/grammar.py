"""Parse the text of attention patterns: `causal`, `window:4096`, `window:512+global:4`, `topk:2048`, `block:64x64@0.25`."""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from dse.base.errors import InputError
from dse.base.strict_model import field_error, validation_errors
from dse.sparsity.attention.chosen import BlockShare, TopBlocks, TopTokens
from dse.sparsity.attention.kinds import CAUSAL, FULL, Around, Chunk, TokenUnion
from dse.sparsity.attention.pattern import AttentionPattern

KNOWN_FORMS = (
    "'full', 'causal', 'window:4096', 'window:512+global:4', 'strided:128', 'window:128+strided:128', 'chunk:8192', 'around:64', "
    "'topk:2048', 'topk:16x64' or 'block:64x64@0.25'"
)
SIZE = r"([1-9][0-9]{0,8})"
UNION_PARTS = {"window": "window", "global": "sinks", "strided": "stride"}  # in text: in TokenUnion


def _forms() -> list[tuple[str, Callable[..., AttentionPattern]]]:
    """Each form as a regular expression, and the function that builds the pattern from its numbers."""
    return [
        ("full", lambda: FULL),
        ("causal", lambda: CAUSAL),
        (f"around:{SIZE}", lambda distance: Around(int(distance))),
        (f"chunk:{SIZE}", lambda size: Chunk(int(size))),
        (f"topk:{SIZE}", lambda tokens: TopTokens(int(tokens))),
        (f"topk:{SIZE}x{SIZE}", lambda blocks, size: TopBlocks(int(blocks), int(size))),
        (f"block:{SIZE}x{SIZE}@([01]|0?\\.[0-9]{{1,6}}|1\\.0)", _block_share),
    ]


@lru_cache(maxsize=1024)  # tables name the same pattern many times
def parse_attention(text: str) -> AttentionPattern:
    """Parse an attention pattern and return its canonical form; raises InputError."""
    written = text.strip().lower()
    for form, build in _forms():
        if match := re.fullmatch(form, written):
            return build(*match.groups())
    return _parse_union(text, written)


def _block_share(rows: str, columns: str, share: str) -> AttentionPattern:
    kept = Fraction(share)
    if not kept:
        raise InputError(f"'block:{rows}x{columns}@{share}' keeps no block", "write a share above 0 and up to 1, as in 'block:64x64@0.25'")
    return CAUSAL if kept == 1 else BlockShare(int(rows), int(columns), kept)


def _parse_union(text: str, written: str) -> AttentionPattern:
    sizes: dict[str, int] = {}
    for part in written.split("+"):
        match = re.fullmatch(f"({'|'.join(UNION_PARTS)}):{SIZE}", part.strip())
        if match is None:
            raise InputError(f"'{text}' is not an attention pattern (see '{part.strip()}')", f"write {KNOWN_FORMS}")
        name = UNION_PARTS[match[1]]
        if name in sizes:
            raise InputError(f"'{text}' has two parts '{match[1]}'", "write the larger window, or the smaller stride, alone")
        sizes[name] = int(match[2])
    return _canonical_union(**sizes)


def _canonical_union(window: int = 0, sinks: int = 0, stride: int = 0) -> AttentionPattern:
    """A stride of 1 is `causal`; a window that ends in a key of the stride is one shorter."""
    if stride == 1:
        return CAUSAL
    return TokenUnion(window - 1 if stride and window % stride == 1 else window, sinks, stride)


def _validate_attention(value: object) -> AttentionPattern:
    if isinstance(value, AttentionPattern):
        return value
    if not isinstance(value, str):
        raise field_error(f"'{value}' is not an attention pattern", "write text, as in 'causal'")
    with validation_errors():
        return parse_attention(value)


ATTENTION_EXAMPLES = [
    "causal",
    "window:4096",
    "window:512+global:4",
    "strided:128",
    "chunk:8192",
    "around:64",
    "topk:2048",
    "topk:16x64",
    "block:64x64@0.25",
]
AttentionField = Annotated[
    AttentionPattern,
    PlainValidator(_validate_attention),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ATTENTION_EXAMPLES}),
]  # an attention pattern in a description
