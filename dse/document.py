"""YAML files whose every error names a line: read, check for duplicate keys, validate against a schema.

The loader follows the YAML 1.2 core schema, so that `2:4` and `no` are text and `1e-9` is a number
(PyYAML's own reads them as 124, False and text).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yamlcore import CCoreLoader

from dse.errors import BadInput, Problem
from dse.regular import check_regular
from dse.schema import Loc, explained

Model = TypeVar("Model", bound=BaseModel)


MOST_KEYS = 200_000


@dataclass(frozen=True)
class Document:
    """A YAML mapping, with the line on which each of its keys and items stands."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[Loc, int]
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def problem(self, loc: Loc, what: str, fix: str) -> Problem:
        return Problem(what, fix, *self.place(loc))

    def place(self, loc: Loc) -> tuple[Path, int, str]:
        """File, line and dotted path of `loc`."""
        return self.path, self.line(loc), self.dotted(loc)

    def line(self, loc: Loc) -> int:
        """The line of `loc`, or of the nearest thing around it that the file has."""
        known = self._present(loc)
        return next(self.lines[known[:n]] for n in range(len(known), -1, -1) if known[:n] in self.lines)

    def dotted(self, loc: Loc) -> str:
        present = self._present(loc)
        last = loc[-1:]
        missing = last if last != present[-1:] and last != ("value",) and not isinstance(loc[-1], int) else ()
        return ".".join(str(part) for part in present + missing)

    def _present(self, loc: Loc) -> Loc:
        """`loc` without the parts that the file does not have: union tags, keys left out."""
        found: Loc = ()
        for part in loc:
            if (*found, part) in self.lines:
                found += (part,)
        return found

    def validate(self, model: type[Model], data: Any = None, below: Loc = ()) -> Model:
        """The document (or `data`, from the place `below`, in its stead) as `model`; raises BadInput with every problem.

        A validator finds the whole of it as its context.
        """
        data = self.data if data is None else data
        try:
            return model.model_validate(data, context=data)
        except ValidationError as error:
            raise BadInput(self.problem((*below, *loc), what, fix) for loc, what, fix in explained(model, error)) from error


def read(path: Path) -> Document:
    """Read one YAML mapping; raises BadInput for a file that is missing, empty, not YAML, or has a key twice."""
    return parse(path, read_text(path))


def parse(path: Path, text: str) -> Document:
    """The document that `text` holds; `path` names it in errors. Raises BadInput."""
    node = _checked(path, lambda: yaml.compose(text, Loader=CCoreLoader))
    if node is None:
        raise BadInput([Problem("the file is empty", "describe something in it; 'dse schema' shows how", path, 1)])
    if not isinstance(node, yaml.MappingNode):
        raise BadInput([Problem("not a YAML mapping", "start with 'name: ...'", path, node.start_mark.line + 1)])
    lines: dict[Loc, int] = {(): 1}
    if twice := _checked(path, lambda: list(_walk(node, (), lines, path))):
        raise BadInput(twice)
    return Document(path, _checked(path, lambda: yaml.load(text, Loader=CCoreLoader)), lines, text)


def _checked(path: Path, step: Callable[[], Any]) -> Any:
    """A step of reading; what the parser objects to becomes a BadInput."""
    try:
        return step()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = f"not YAML: {getattr(error, 'problem', None) or 'unreadable'}"
        problem = Problem(what, "mend the syntax on or just before this line", path, mark.line + 1 if mark else 1)
        raise BadInput([problem]) from error
    except RecursionError as error:
        raise BadInput([Problem("an anchor contains itself, or the nesting has no end", "write it out", path, 1)]) from error


def read_text(path: Path) -> str:
    """The text of a file (UTF-8); raises BadInput."""
    check_regular(path)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput([Problem("not a text file (UTF-8)", "give a YAML or CSV file", path, 1)]) from error
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadInput([Problem(reason, "give a file that exists and can be read", path)]) from error


def _walk(node: yaml.Node, loc: Loc, lines: dict[Loc, int], path: Path) -> Iterator[Problem]:
    """Note the line of every key and item below `node`; yield a problem for each key given twice."""
    if len(lines) > MOST_KEYS:
        raise BadInput([Problem("the file is too large, or its aliases multiply", f"write at most {MOST_KEYS} keys and items", path, 1)])
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            here = (*loc, index)
            lines[here] = item.start_mark.line + 1
            yield from _walk(item, here, lines, path)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here, line = (*loc, str(key.value)), key.start_mark.line + 1
            if here in lines:
                dotted = ".".join(map(str, here))
                yield Problem(f"key '{key.value}' is given twice", f"keep one (the first is on line {lines[here]})", path, line, dotted)
            else:
                lines[here] = line
                yield from _walk(value, here, lines, path)
