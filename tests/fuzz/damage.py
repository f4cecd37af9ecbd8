"""Ways to damage an input: bytes, numbers and words in text, values in JSON, members of zip archives."""

import io
import json
import math
import re
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (
    0, -1, 1, 2, 3, 7, 255, 1000, 65_537, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**9, 10**12, 10**15, 10**30, -(2**63),
    0.5, -0.0, 1e-300, 1e300, math.inf, -math.inf, math.nan,
)  # fmt: skip
WORDS = (
    "", " ", "x", "../x", "/etc/hostname", ".", "..", "a/b", "\x00", "\n", "\t", "é", "名前", "\u202e", "\ud800", "nan", "inf", "-1", "0x10", "1e999", "1_000",
    "1,5", "true", "null", "None", "[]", "{}", "2:4", "dense", "9" * 400, "x" * 5000, "%s", "'", '"', "=1+1", "- a", "#",
)  # fmt: skip
VALUES = (*NUMBERS, *WORDS, None, True, False, [], {}, [[]], [0], [-1, 3], ["x"], {"x": 1}, 10**400, [2**62] * 5, [[[]]] * 3)


def text(random: Random, given: bytes) -> bytes:
    """One damaged token of a text: a number, a word or a delimiter, or a line that is repeated, moved or lost."""
    tokens = re.split(rb"(-?\d+\.?\d*|\w+|[^\w\s]|\s)", given)
    places = [place for place, token in enumerate(tokens) if token.strip()]
    action = random.randrange(6)
    if action < 3 and places:
        value = str(random.choice(NUMBERS if random.random() < 0.6 else WORDS)).encode("utf-8", "surrogatepass")
        tokens[random.choice(places)] = value
        return b"".join(tokens)
    if action == 3 and places:
        first, second = random.choice(places), random.choice(places)
        tokens[first], tokens[second] = tokens[second], tokens[first]
        return b"".join(tokens)
    lines = given.splitlines(keepends=True) or [b""]
    line = random.randrange(len(lines))
    changed = (lines[:line] + lines[line + 1 :], lines[: line + 1] + lines[line:], [*lines[line:], *lines[:line]], [lines[line]] * 3)
    return b"".join(random.choice(changed))


def data(random: Random, given: bytes) -> bytes:
    """Truncated, flipped, overwritten, moved, repeated or replaced bytes."""
    if not given:
        return random.randbytes(random.randrange(100))
    start = random.randrange(len(given))
    stop = min(len(given), start + random.choice((1, 2, 4, 8, 64)))
    return random.choice(_BYTES)(random, given, start, stop)


_BYTES: tuple[Callable[[Random, bytes, int, int], bytes], ...] = (
    lambda random, given, start, stop: given[:start],
    lambda random, given, start, stop: given[start:],
    lambda random, given, start, stop: given[:start] + bytes([given[start] ^ 1 << random.randrange(8)]) + given[start + 1 :],
    lambda random, given, start, stop: given[:start] + bytes([given[start] ^ 1 << random.randrange(8)]) + given[start + 1 :],
    lambda random, given, start, stop: given[:start] + random.randbytes(stop - start) + given[stop:],
    lambda random, given, start, stop: (
        given[:start] + random.choice((b"\x00", b"\xff", b"\x7f", b"0", b"9")) * (stop - start) + given[stop:]
    ),
    lambda random, given, start, stop: given[:start] + given[stop:],
    lambda random, given, start, stop: given[:stop] + given[start:],
    lambda random, given, start, stop: given + given,
    lambda random, given, start, stop: given[:start] + b"\xff\xff\xff\xff\xff\xff\xff\x7f" + given[start + 8 :],
    lambda random, given, start, stop: random.choice(
        (b"", b"\x00", b"PK\x03\x04", b"\x80\x02", b"\x93NUMPY", b"{", b"name: x\n", b"\xef\xbb\xbf")
    ),
)


def value(random: Random, given: Any) -> Any:
    """A copy of nested lists and mappings in which one value, key or item is changed, added, lost or exchanged."""
    changed = json.loads(json.dumps(given))
    holders = [holder for holder in _holders(changed) if holder]
    if not holders:
        return random.choice(VALUES)
    holder = random.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key, other = random.choice(keys), random.choice(keys)
    action = random.randrange(8)
    if action < 4:
        holder[key] = random.choice(VALUES)
    elif action == 4:
        del holder[key]
    elif action == 5:
        holder[key], holder[other] = holder[other], holder[key]
    elif action == 6 and isinstance(holder, dict):
        holder[random.choice(WORDS)] = holder.pop(key)
    elif isinstance(holder, list):
        holder += holder[: random.randrange(5)]
    elif isinstance(holder[key], int | float):
        holder[key] = random.choice((-holder[key], holder[key] * 2**20, holder[key] + 1, float(holder[key]), str(holder[key])))
    return changed


def _holders(given: Any) -> list[Any]:
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return [found for part in inner for found in _holders(part)] + ([given] if isinstance(given, dict | list) else [])


def as_json(random: Random, given: bytes) -> bytes:
    """A JSON text of which one value is changed."""
    return json.dumps(value(random, json.loads(given))).encode("utf-8", "surrogatepass")


def archive(random: Random, given: bytes, inside: Callable[[Random, str, bytes], bytes]) -> bytes:
    """A zip archive with one member changed by `inside`, renamed, lost or given twice; its checksums are right."""
    with zipfile.ZipFile(io.BytesIO(given)) as held:
        members = [(member.filename, held.read(member), member.compress_type) for member in held.infolist()]
    place, action = random.randrange(len(members)), random.randrange(8)
    name, content, method = members[place]
    if action < 4:
        members[place] = (name, inside(random, name, content), method)
    elif action == 4:
        members[place] = (random.choice((*WORDS[:18], name + "x", name.upper(), "../" + name)).replace("\ud800", ""), content, method)
    elif action == 5:
        del members[place]
    elif action == 6:
        members.append((name, inside(random, name, content), method))
    else:
        members[place] = (name, content, random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
    return zipped(members)


def zipped(members: list[tuple[str, bytes, int]]) -> bytes:
    import warnings

    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as made:
        warnings.simplefilter("ignore")  # of a name that comes twice
        for name, content, method in members:
            made.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()
