"""YAML files whose every error names a line: read, check for duplicate keys, validate against a schema.

The loader follows the YAML 1.2 core schema, so that `2:4` and `no` are text and `1e-9` is a number
(PyYAML's own reads them as 124, False and text).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError
from yamlcore import CCoreDumper, CCoreLoader

from dse.base.errors import InputError, Problem
from dse.base.regular_file import check_regular
from dse.base.strict_model import KeyPath, explain_validation_error

Model = TypeVar("Model", bound=BaseModel)


MAX_KEYS = 200_000
MAX_LEVELS = 100
MAX_DIGITS = 300  # of a whole number: more than any float holds
MAX_BYTES = 100_000_000
_TOO_DEEP = (f"nested more than {MAX_LEVELS} levels deep, or an anchor contains itself", "write fewer levels")
_TOO_LARGE = ("the file is too large, or its aliases multiply", f"write at most {MAX_KEYS} keys and items")
_INTEGER = "tag:yaml.org,2002:int"
_TAGS: dict[type[yaml.Node], set[str]] = {
    yaml.ScalarNode: {_INTEGER, *(f"tag:yaml.org,2002:{name}" for name in ("str", "float", "bool", "null"))},
    yaml.SequenceNode: {"tag:yaml.org,2002:seq"},
    yaml.MappingNode: {"tag:yaml.org,2002:map"},
}


@dataclass(frozen=True)
class YamlDocument:
    """A YAML mapping, with the line on which each of its keys and items stands; `in_memory`: no file holds it, so errors name no line."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    text: str
    in_memory: bool = False
    prefix: KeyPath = ()  # where this mapping stands in a larger document

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def make_problem(self, loc: KeyPath, what: str, fix: str) -> Problem:
        return Problem(what, fix, *self.locate(loc))

    def locate(self, loc: KeyPath) -> tuple[Path | None, int | None, str]:
        """File, line and dotted path of `loc`."""
        return (None, None, self.dotted(loc)) if self.in_memory else (self.path, self.line(loc), self.dotted(loc))

    def line(self, loc: KeyPath) -> int:
        """The line of `loc`, or of the nearest thing around it that the file has."""
        known = self._present(loc)
        return next(self.lines[known[:n]] for n in range(len(known), -1, -1) if known[:n] in self.lines)

    def dotted(self, loc: KeyPath) -> str:
        present = self._present(loc)
        last = loc[-1:]
        missing = last if last != present[-1:] and last != ("value",) and not isinstance(loc[-1], int) else ()
        return ".".join(str(part) for part in self.prefix + present + missing)

    def _present(self, loc: KeyPath) -> KeyPath:
        """`loc` without the parts that the file does not have: union tags, keys left out."""
        found: KeyPath = ()
        for part in loc:
            if (*found, part) in self.lines:
                found += (part,)
        return found

    def section(self, at: KeyPath) -> "YamlDocument":
        """The mapping at `at` as a document of its own, whose problems are located in this one."""
        data: Any = self.data
        for part in at:
            data = data[part]
        lines = {loc[len(at) :]: line for loc, line in self.lines.items() if loc[: len(at)] == at}
        return replace(self, data=data, lines=lines, text=_dump(data), prefix=self.prefix + at)

    def validate(self, model: type[Model], data: Any = None, below: KeyPath = ()) -> Model:
        """The document (or `data`, from the place `below`, in its stead) as `model`; raises InputError with every problem.

        A validator finds the whole of it as its context.
        """
        data = self.data if data is None else data
        try:
            return model.model_validate(data, context=data)
        except ValidationError as error:
            raise InputError.from_problems(
                self.make_problem((*below, *loc), what, fix) for loc, what, fix in explain_validation_error(model, error)
            ) from error


def load_document(given: Path | Mapping[str, Any]) -> YamlDocument:
    """Read one YAML mapping, from a file or as it is given; raises InputError for a file that is missing, empty, not YAML, or has a key
    twice, and for a mapping that no YAML file can hold. A mapping names other files from the working directory.
    """
    if isinstance(given, Path):
        return parse_document(given, read_text(given))
    try:
        text = _dump(_plain(given))
    except (yaml.YAMLError, RecursionError) as error:
        what = str(error.args[0]) if isinstance(error, yaml.YAMLError) and error.args else "it contains itself"
        fix = "use text, numbers, truth values, lists and mappings"
        raise InputError(f"the mapping cannot be written as YAML: {what}", fix) from error
    return replace(parse_document(Path.cwd() / "mapping", text), in_memory=True)


def _dump(data: Any) -> str:
    return yaml.dump(data, Dumper=CCoreDumper, sort_keys=False, allow_unicode=True)


def _plain(value: Any) -> Any:
    """Mappings, sequences, paths and NumPy values as what YAML knows."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def parse_document(path: Path, text: str) -> YamlDocument:
    """The document that `text` holds; `path` names it in errors. Raises InputError."""
    _checked(path, text, lambda: _check_nesting(path, text))
    loader = _Loader(text)
    node = _checked(path, text, loader.get_single_node)
    if node is None:
        raise InputError("the file is empty", "describe something in it; 'dse schema' shows how", path, 1)
    if not isinstance(node, yaml.MappingNode):
        raise InputError("not a YAML mapping", "start with 'name: ...'", path, node.start_mark.line + 1)
    walk = _Walk(path, loader, {(): 1}, [])
    walk.visit(node, ())
    if walk.problems:
        raise InputError.from_problems(walk.problems)
    return YamlDocument(path, loader.construct_document(node), walk.lines, text)


class _Loader(CCoreLoader):
    """A loader whose mappings have text as keys, as it stands in the file: `1e3: x` has the key '1e3'."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


def _checked(path: Path, text: str, step: Callable[[], Any]) -> Any:
    """The result of a step of reading; raises InputError for what the parser objects to."""
    try:
        return step()
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InputError(f"not YAML: {error.reason}", "remove it", path, line) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = f"not YAML: {getattr(error, 'problem', None) or 'unreadable'}"
        raise InputError(what, "fix the syntax on or just before this line", path, mark.line + 1 if mark else 1) from error


def _check_nesting(path: Path, text: str) -> None:
    """Raises InputError for a file that is too deep or too long to be composed: libyaml composes by recursion on the C stack."""
    depth, keys = 0, 0
    for event in yaml.parse(text, Loader=CCoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            keys += 1
        if depth > MAX_LEVELS:
            raise InputError(*_TOO_DEEP, path, event.start_mark.line + 1)
        if keys > 2 * MAX_KEYS:
            raise InputError(*_TOO_LARGE, path, event.start_mark.line + 1)


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; raises InputError for one that can't be read, is too large or not text."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not a text file (UTF-8)", "give a YAML or CSV file", path, 1) from error
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise InputError(reason, "give a file that exists and can be read", path) from error
    if len(data) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES / 1e6:g} MB", "split it, or keep what is needed", path)
    return text


@dataclass
class _Walk:
    """Visits every node: collects the line of each key and item, and a problem for each key given twice or not text, and for each
    value that can't be read. Aliases are followed, so that what they multiply counts."""

    path: Path
    loader: _Loader
    lines: dict[KeyPath, int]
    problems: list[Problem]

    def visit(self, node: yaml.Node, loc: KeyPath) -> None:
        """Visit `node` and everything below it; raises InputError for too many of them."""
        line = node.start_mark.line + 1
        if len(loc) > MAX_LEVELS or len(self.lines) > MAX_KEYS:
            raise InputError(*(_TOO_DEEP if len(loc) > MAX_LEVELS else _TOO_LARGE), self.path, line)
        if node.tag not in _TAGS[type(node)]:
            self._add(f"the tag '{node.tag}' cannot stand here", "remove it", line, loc)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[*loc, index] = item.start_mark.line + 1
                self.visit(item, (*loc, index))
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._visit_pair(key, value, loc)
        elif problem := _scalar_problem(self.loader, node):
            self._add(*problem, line, loc)

    def _visit_pair(self, key: yaml.Node, value: yaml.Node, loc: KeyPath) -> None:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            self._add("a list or a mapping is written as a key", "write text", line, loc)
            return
        here = (*loc, key.value)
        if here in self.lines:
            self._add(f"key '{key.value}' is given twice", f"keep one (the first is on line {self.lines[here]})", line, here)
        else:
            self.lines[here] = line
            self.visit(value, here)

    def _add(self, what: str, fix: str, line: int, loc: KeyPath) -> None:
        self.problems.append(Problem(what, fix, self.path, line, ".".join(map(str, loc))))


def _scalar_problem(loader: _Loader, node: yaml.Node) -> tuple[str, str] | None:
    """What is wrong with a single value, and the fix."""
    if node.tag == _INTEGER and len(node.value) > MAX_DIGITS:
        return f"a whole number of {len(node.value)} digits", f"write at most {MAX_DIGITS}"
    try:
        loader.construct_object(node)
    except (ValueError, LookupError):  # an explicit tag: `!!int x`, `!!bool x`
        return f"'{node.value}' does not have the type of its tag '{node.tag}'", "remove the tag"
    return None
