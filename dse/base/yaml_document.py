"""Read YAML files, refuse duplicate keys, and validate them against a schema; every error names a line.

The loader follows the YAML 1.2 core schema: `2:4` and `no` are text and `1e-9` is a number (PyYAML alone reads them as 124, False
and text).
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
from dse.base.input_file import read_text
from dse.base.strict_model import KeyPath, explain_validation_error

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


MAX_KEYS = 200_000
MAX_LEVELS = 100
MAX_DIGITS = 300  # of a whole number; about as many as a float can hold
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
    """A YAML mapping with the line of each of its keys and items; `in_memory`: it was not read from a file, so errors name no line."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    text: str
    in_memory: bool = False
    prefix: KeyPath = ()  # the place of this mapping in a larger document

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def make_problem(self, loc: KeyPath, message: str, fix: str) -> Problem:
        return Problem(message, fix, *self.locate(loc))

    def locate(self, loc: KeyPath) -> tuple[Path | None, int | None, str]:
        """File, line and dotted path of the value at `loc`."""
        return (None, None, self._dotted_path(loc)) if self.in_memory else (self.path, self._line(loc), self._dotted_path(loc))

    def _line(self, loc: KeyPath) -> int:
        """The line of `loc`, or of the innermost value around it that the file has."""
        present = self._present_keys(loc)
        return next(self.lines[present[:n]] for n in range(len(present), -1, -1) if present[:n] in self.lines)

    def _dotted_path(self, loc: KeyPath) -> str:
        """The keys of `loc` that the file has, and a missing last key, as text; without the `value` of a quantity written as one text."""
        loc = loc[:-1] if loc[-1:] == ("value",) and loc not in self.lines else loc
        present = self._present_keys(loc)
        missing = loc[-1:] if loc[-1:] != present[-1:] and not isinstance(loc[-1], int) else ()
        return ".".join(str(key) for key in self.prefix + present + missing)

    def _present_keys(self, loc: KeyPath) -> KeyPath:
        """`loc` without the keys that the file does not have: union tags of pydantic, and keys that were left out."""
        present: KeyPath = ()
        for key in loc:
            if (*present, key) in self.lines:
                present += (key,)
        return present

    def section(self, loc: KeyPath) -> "YamlDocument":
        """The mapping at `loc` as a document, whose problems keep the file, lines and dotted paths of this one."""
        data: Any = self.data
        for key in loc:
            data = data[key]
        lines = {known[len(loc) :]: line for known, line in self.lines.items() if known[: len(loc)] == loc}
        return replace(self, data=data, lines=lines, text=_dump(data), prefix=self.prefix + loc)

    def validate(self, model: type[Model], data: object = None, parent: KeyPath = ()) -> Model:
        """Validate the document as `model`, or `data` in its place, which belongs at `parent`; raises InputError with every problem.

        Validators get all of the data as their context.
        """
        data = self.data if data is None else data
        try:
            return model.model_validate(data, context=data)
        except ValidationError as error:
            explained = explain_validation_error(model, error)
            raise InputError.from_problems(self.make_problem((*parent, *loc), message, fix) for loc, message, fix in explained) from error


def load_document(source: Path | Mapping[str, object]) -> YamlDocument:
    """Load a YAML mapping from a file, or from a mapping with the contents of one.

    Raises InputError if the file is missing, empty, not YAML or repeats a key, and if a mapping has values that YAML cannot hold. Relative
    paths in a mapping start from the working directory.
    """
    if isinstance(source, Path):
        return parse_document(source, read_text(source))
    try:
        text = _dump(to_yaml_types(source))
    except (yaml.YAMLError, RecursionError) as error:
        reason = str(error.args[0]) if isinstance(error, yaml.YAMLError) and error.args else "it contains itself"
        fix = "use text, numbers, truth values, lists and mappings"
        raise InputError(f"the mapping cannot be written as YAML: {reason}", fix) from error
    return replace(parse_document(Path.cwd() / "mapping", text), in_memory=True)


def _dump(data: object) -> str:
    return yaml.dump(data, Dumper=CCoreDumper, sort_keys=False, allow_unicode=True)


def to_yaml_types(value: object) -> object:
    """Convert mappings, sequences, paths and NumPy values to the types that YAML has."""
    if isinstance(value, Mapping):
        return {to_yaml_types(key): to_yaml_types(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_yaml_types(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def parse_document(path: Path, text: str) -> YamlDocument:
    """Parse a YAML mapping; `path` names it in errors. Raises InputError."""
    _report_syntax_errors(path, text, lambda: _check_nesting(path, text))
    loader = _Loader(text)
    node = _report_syntax_errors(path, text, loader.get_single_node)
    if node is None:
        raise InputError("the file is empty", "describe something in it; 'dse schema' shows how", path, 1)
    if not isinstance(node, yaml.MappingNode):
        raise InputError("not a YAML mapping", "start with 'name: ...'", path, node.start_mark.line + 1)
    checker = _NodeChecker(path, loader, {(): 1}, [])
    checker.visit(node, ())
    if checker.problems:
        raise InputError.from_problems(checker.problems)
    return YamlDocument(path, loader.construct_document(node), checker.lines, text)


class _Loader(CCoreLoader):
    """A loader that keeps keys as the text in the file: `1e3: x` has the key '1e3'."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, object]:
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


def _report_syntax_errors(path: Path, text: str, step: Callable[[], Result]) -> Result:
    """Run a step of reading; raises InputError for what the YAML parser objects to."""
    try:
        return step()
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InputError(f"not YAML: {error.reason}", "remove it", path, line) from error
    except yaml.YAMLError as error:
        mark, reason = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "unreadable"
        line = mark.line + 1 if mark else 1
        if "nesting depth" in reason:  # libyaml 0.2.6 and later stop at a depth of their own, before any event of the file
            raise InputError(*_TOO_DEEP, path, line) from error
        raise InputError(f"not YAML: {reason}", "fix the syntax on or just before this line", path, line) from error


def _check_nesting(path: Path, text: str) -> None:
    """Raise InputError for a file that is too deep or too long to be composed: libyaml composes by recursion on the C stack."""
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


@dataclass
class _NodeChecker:
    """Visits every node of a document and collects the line of each key and item, and the problems.

    Problems are duplicate keys, keys that are not text, and values that cannot be read. Aliases are followed, so that the nodes they
    multiply count towards the limits.
    """

    path: Path
    loader: _Loader
    lines: dict[KeyPath, int]
    problems: list[Problem]

    def visit(self, node: yaml.Node, loc: KeyPath) -> None:
        """Visit a node and all nodes below it; raises InputError if there are too many."""
        line = node.start_mark.line + 1
        if len(loc) > MAX_LEVELS or len(self.lines) > MAX_KEYS:
            raise InputError(*(_TOO_DEEP if len(loc) > MAX_LEVELS else _TOO_LARGE), self.path, line)
        if node.tag not in _TAGS[type(node)]:
            self._add(f"the tag '{node.tag}' is not allowed here", "remove it", line, loc)
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
        loc = (*loc, key.value)
        if loc in self.lines:
            self._add(f"key '{key.value}' is given twice", f"keep one (the first is on line {self.lines[loc]})", line, loc)
        else:
            self.lines[loc] = line
            self.visit(value, loc)

    def _add(self, message: str, fix: str, line: int, loc: KeyPath) -> None:
        self.problems.append(Problem(message, fix, self.path, line, ".".join(map(str, loc))))


def _scalar_problem(loader: _Loader, node: yaml.Node) -> tuple[str, str] | None:
    """Message and fix if a single value is invalid."""
    if node.tag == _INTEGER and len(node.value) > MAX_DIGITS:
        return f"a whole number of {len(node.value)} digits", f"write at most {MAX_DIGITS}"
    try:
        loader.construct_object(node)
    except (ValueError, LookupError):  # an explicit tag: `!!int x`, `!!bool x`
        return f"'{node.value}' does not have the type of its tag '{node.tag}'", "remove the tag"
    return None
