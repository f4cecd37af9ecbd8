"""Damaged YAML and CSV files: changed trees, changed cells, changed bytes."""

import csv
import io
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import yaml
from yamlcore import CoreDumper, CoreLoader

from tests.fuzz import odd

_MARK = "placeholder{}placeholder"
_RAW = (
    "null", "true", "[]", "{}", "[1, 2]", "{a: 1}", "{value: 1}", "{value: nan, kind: datasheet}", "2026-11-21", "!!int 3", "!!float 3", "!!python/none x",
    "!!python/object/apply:os.system [true]", "!!binary aGk=", "!!set {a, b}", "!!timestamp 2026-11-21", "!local x", "&a [*a]", "&a {b: *a}", "*missing", "<<",
    "{<<: {a: 1}}", "{<<: [1, 2]}", "{? [1, 2] : 3}", "{? {a: 1} : 3}", "{1: 2}", "{1.0: 2, 1: 3}", "{null: 2}", "{true: 2}", "|\n  text\n", "'", '"', "[", "{", "@", "%",
    '"\\0"', '"\\x1b[31m"', '"\\ud800"', '"\\U0010ffff"', "0x10", "0o17", "1_000", "12:30:45", "1:8", "[[[[[[[[]]]]]]]]", "{list: [1:8], densities: own}", "- a",
    "{from: 1, to: 2}", "{from: 0, to: 1e308, steps: 3, scale: log}", "{from: 1 TB/s, to: 8 TB/s, steps: 10000000}", "{from: 8 TB/s, to: 1 TB/s, steps: 3}",
    "{from: 1, to: 2, steps: 2.5}", "{from: nan, to: inf, steps: 3}", "{kind: csr, index: 1e400 bit}", "{kind: nm_index}", "{kind: levels}",
)  # fmt: skip
_KEYS = (
    "",
    "name",
    "source",
    "value",
    "kind",
    "peak",
    "runs",
    "memory",
    "axes",
    "search",
    "0",
    "1",
    "1e9",
    "1e400",
    "null",
    "true",
    "~",
    "a b",
    "a.b",
    "a/b",
    "é",
    "\x01",
    "<<",
    "=",
    "x" * 300,
)
_BOMB = "bomb0: &b0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"bomb{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 10))


def yaml_text(random: Random, text: str) -> bytes:
    """A YAML file made of `text` with some damage to its tree, to its text or to both."""
    if random.random() < 0.7:
        text = _changed_tree(random, text)
    if random.random() < 0.35:
        text = random.choice(_TEXTS)(random, text)
    encoded = text.encode("utf-8", errors="surrogatepass")
    return _BYTES[random.randrange(len(_BYTES))](random, encoded) if random.random() < 0.1 else encoded


def csv_text(random: Random, text: str) -> bytes:
    """A CSV file made of `text` with some damage to its cells, rows or bytes."""
    rows = list(csv.reader(io.StringIO(text)))
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        if rows:
            random.choice(_ROWS)(random, rows)
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    text = written.getvalue()
    if random.random() < 0.15:
        text = random.choice([_damage, _cut, _windows_lines, _double_line, _drop_line])(random, text)
    encoded = text.encode("utf-8", errors="surrogatepass")
    return _BYTES[random.randrange(len(_BYTES))](random, encoded) if random.random() < 0.1 else encoded


def _changed_tree(random: Random, text: str) -> str:
    """The document with keys or values removed, added, renamed, exchanged or replaced by odd ones."""
    tree, raw = yaml.load(text, Loader=CoreLoader), []
    for _ in range(random.choice([1, 1, 1, 2, 2, 3, 8])):
        holder, key = random.choice([*_places(tree)] or [(None, None)])
        if holder is not None:
            random.choice(_CHANGES)(random, tree, holder, key, raw)
    written = yaml.dump(tree, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, default_flow_style=random.choice([None, False, True]))
    for number, snippet in enumerate(raw):
        written = written.replace(_MARK.format(number), snippet)
    return written


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping and list below `node`, with each of its keys."""
    for key, child in [*node.items()] if isinstance(node, dict) else [*enumerate(node)] if isinstance(node, list) else ():
        yield node, key
        yield from _places(child)


def _replace(random: Random, tree: Any, holder: Any, key: Any, raw: list[str]) -> None:
    """An odd value, written as it is (`raw`), not quoted by the YAML writer."""
    chance, old = random.random(), holder[key]
    if chance < 0.25 and isinstance(old, str):
        holder[key] = odd.damaged(random, old)
        return
    snippet = odd.number(random) if chance < 0.45 else random.choice(_RAW) if chance < 0.8 else odd.text(random)
    if chance > 0.9 and isinstance(old, str) and " " in old:
        snippet = f"{odd.number(random)} {old.split(' ', 1)[1]}"
    holder[key] = _MARK.format(len(raw))
    raw.append(snippet)


def _remove(random: Random, tree: Any, holder: Any, key: Any, raw: list[str]) -> None:
    del holder[key]


def _rename(random: Random, tree: Any, holder: Any, key: Any, raw: list[str]) -> None:
    if isinstance(holder, dict):
        name = odd.damaged(random, str(key)) if random.random() < 0.5 else random.choice(_KEYS)
        if random.random() < 0.3:
            raw.append(odd.number(random) if random.random() < 0.5 else random.choice(_RAW))
            name = _MARK.format(len(raw) - 1)
        items = [(name if k == key else k, v) for k, v in holder.items()]
        holder.clear()
        holder.update(items)


def _exchange(random: Random, tree: Any, holder: Any, key: Any, raw: list[str]) -> None:
    other, place = random.choice([*_places(tree)])
    holder[key], other[place] = other[place], holder[key]
    if _contains_itself(tree):
        holder[key], other[place] = other[place], holder[key]


def _contains_itself(node: Any, above: tuple[int, ...] = ()) -> bool:
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return id(node) in above or any(_contains_itself(child, (*above, id(node))) for child in inside if isinstance(child, dict | list))


def _deepen(random: Random, tree: Any, holder: Any, key: Any, raw: list[str]) -> None:
    depth = random.choice([1, 3, 30, 300, 3000, 30_000])
    opened, closed = random.choice([("[", "]"), ("{a: ", "}")])
    holder[key] = _MARK.format(len(raw))
    raw.append(opened * depth + (closed * depth if random.random() < 0.8 else ""))


def _add(random: Random, tree: Any, holder: Any, key: Any, raw: list[str]) -> None:
    value = holder[key]
    if isinstance(holder, dict):
        holder[random.choice(_KEYS)] = value
    else:
        holder.extend([value] * random.choice([1, 1, 100, 5000]))


def _damage(random: Random, text: str) -> str:
    return odd.damaged(random, text, most=8)


def _cut(random: Random, text: str) -> str:
    return text[: random.randrange(len(text) + 1)]


def _windows_lines(random: Random, text: str) -> str:
    return text.replace("\n", random.choice(["\r\n", "\r", "\n\r", "\x85", "\u2028"]))


def _double_line(random: Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    place = random.randrange(len(lines))
    return "".join([*lines[:place], *[lines[place]] * random.choice([2, 3, 2000]), *lines[place + 1 :]])


def _drop_line(random: Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    del lines[random.randrange(len(lines))]
    return "".join(lines)


def _tabs(random: Random, text: str) -> str:
    return text.replace("  ", "\t")


def _several(random: Random, text: str) -> str:
    return random.choice(
        [text + "---\n" + text, "---\n" + text, text + "...\n", "%YAML 1.1\n---\n" + text, "%TAG ! tag:x,2026:\n---\n" + text]
    )


def _bomb(random: Random, text: str) -> str:
    return text + "\n" + _BOMB + (f"bomb: *b{random.randint(0, 9)}\n" if random.random() < 0.5 else "")


def _merged(random: Random, text: str) -> str:
    return text + random.choice(
        ["\n<<: {name: x}\n", "\n<<: *a\n", "\nx: &x {<<: *x}\n", "\n<<: [{a: 1}, {b: 2}]\n", "\n? [a, b]\n: c\n", "\n? *x\n: &x c\n"]
    )


def _long(random: Random, text: str) -> str:
    return text + random.choice(
        ["\nx: [" + "1, " * 100_000 + "]\n", "\n" + "# comment\n" * 50_000, f"\nx: {'y' * 1_000_000}\n", "\n" * 100_000, "- " * 20_000]
    )


_TEXTS: tuple[Callable[[Random, str], str], ...] = (
    _damage, _damage, _cut, _windows_lines, _double_line, _drop_line, _drop_line, _tabs, _several, _bomb, _merged, _long,
)  # fmt: skip
_CHANGES = (_replace, _replace, _replace, _replace, _remove, _rename, _exchange, _deepen, _add)


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 4, 50]) if changed else 0):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


_BYTES: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip, _flip, _flip, lambda random, data: data[: random.randrange(len(data) + 1)], lambda random, data: b"\xef\xbb\xbf" + data,
    lambda random, data: data.decode("utf-8", "replace").encode("utf-16"), lambda random, data: random.randbytes(200),
    lambda random, data: data + b"\0" * 10, lambda random, data: b"", lambda random, data: b"\x1f\x8b" + data,
)  # fmt: skip


def _cell(random: Random, rows: list[list[str]]) -> None:
    row = random.choice(rows)
    if row:
        place = random.randrange(len(row))
        row[place] = (
            odd.damaged(random, row[place]) if random.random() < 0.3 else odd.number(random) if random.random() < 0.6 else odd.text(random)
        )


def _cells(random: Random, rows: list[list[str]]) -> None:
    """One column, the same odd value everywhere."""
    place, value = random.randrange(max(len(rows[0]), 1)), odd.number(random)
    for row in rows[1:]:
        row[place : place + 1] = [value]


def _heading(random: Random, rows: list[list[str]]) -> None:
    if rows[0]:
        place = random.randrange(len(rows[0]))
        rows[0][place] = random.choice([odd.damaged(random, rows[0][place]), odd.text(random), rows[0][0]])


def _row(random: Random, rows: list[list[str]]) -> None:
    place = random.randrange(len(rows))
    new: list[list[str]] = random.choice(
        [[], [rows[place]] * 2, [rows[place][:-1]], [[*rows[place], "x"]], [[]], [["" for _ in rows[place]]]]
    )
    rows[place : place + 1] = [list(row) for row in new]


_ROWS: tuple[Callable[[Random, list[list[str]]], None], ...] = (_cell, _cell, _cell, _cell, _cells, _heading, _row)
