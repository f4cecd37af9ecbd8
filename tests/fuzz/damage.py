"""Ways to damage an input: bytes, numbers and words in text, values in JSON, members of zip archives, and whole files by their ending."""

import io
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
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


def damaged_file(random: Random, name: str, given: bytes) -> bytes:
    """The content of a file, damaged in a way that suits the ending of its name."""
    suffix, rate = Path(name).suffix, random.random()
    if suffix == ".json" and rate < 0.8:
        return as_json(random, given)
    if suffix in (".csv", ".yaml", ".smtx") and rate < 0.85:
        return text(random, given)
    if suffix in (".npz", ".pt", ".pt2", ".pth", ".bin") and rate < 0.7 and zipfile.is_zipfile(io.BytesIO(given)):
        return archive(random, given, _damaged_member)
    if suffix == ".npy" and rate < 0.6:
        return _header_changed(random, given)
    if suffix == ".safetensors" and rate < 0.7:
        length = struct.unpack("<Q", given[:8])[0]
        header = as_json(random, given[8 : 8 + length])
        return struct.pack("<Q", len(header)) + header + given[8 + length :]
    return data(random, given)


def _damaged_member(random: Random, name: str, given: bytes) -> bytes:
    if name.endswith(".json") and random.random() < 0.9:
        return as_json(random, given)
    if name.endswith(".npy") and random.random() < 0.6:
        return _header_changed(random, given)
    return data(random, given)


def _header_changed(random: Random, given: bytes) -> bytes:
    """The header of an array, of the same length where it can be, so that only what it says is wrong."""
    match = re.search(rb"\{.*\}", given)
    if match is None:
        return data(random, given)
    shape = random.choice(("(8, 12)", "(96,)", "(1000000000000, 12)", "(9999999999999999999999, 8)", "(-8, 12)", "(8, -12)", "(8, '12')", "8", "(0, 12)",
                           "(2**40, 2)", "(True, 96)", "()", "(8.0, 12)", "(4611686018427387904, 4)", "(1073741824, 64)"))  # fmt: skip
    descr = random.choice(
        ("'<f4'", "'<f4'", "'<f4'", "'|O'", "'<U9'", "'>f4'", "'<i8'", "'<f2'", "'<c8'", "'|V4'", "'nonsense'", "[('a', '<f4')]", "3")
    )
    header = f"{{'descr': {descr}, 'fortran_order': {random.choice(('False', 'True', '3'))}, 'shape': {shape}, }}".encode()
    room = match.end() - match.start()
    return given[: match.start()] + header.ljust(room)[: max(room, len(header))] + given[match.end() :]


def replace_by_strange_file(random: Random, path: Path) -> None:
    """Put a folder, a link, a device or a pipe in the place of a file."""
    kept = path.with_name(path.name + ".kept")
    path.rename(kept)
    action = random.randrange(7)
    if action == 0:
        path.mkdir()
    elif action == 1:
        path.symlink_to(path.name)
    elif action == 2:
        path.symlink_to("/dev/zero")
    elif action == 3:
        path.symlink_to("/dev/null")
    elif action == 4:
        os.mkfifo(path)
    elif action == 5:
        path.symlink_to("missing")
    else:
        path.symlink_to(path.parent)
