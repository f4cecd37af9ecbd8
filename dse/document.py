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

from dse.errors import BadInput, Problem, suggestion

Loc = tuple[Any, ...]
Model = TypeVar("Model", bound=BaseModel)

# What pydantic calls a mistake -> what to write instead.
_FIXES = {
    "missing": "add it",
    "string_type": "write text",
    "dict_type": "write a mapping, 'key: value' on lines of its own",
    "model_type": "write a mapping, 'key: value' on lines of its own",
    "model_attributes_type": "write a mapping, 'key: value' on lines of its own",
    "list_type": "write a list, as in '[a, b]'",
    "tuple_type": "write a list, as in '[a, b]'",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "finite_number": "write a finite number",
    "too_short": "write at least one",
    "union_tag_not_found": "say of which kind, as in '{kind: csr}'",
    "string_pattern_mismatch": "write letters, digits and '_' (lower case in a key)",
}


_BOUNDS = {"greater_than": "above", "greater_than_equal": "of at least", "less_than": "below", "less_than_equal": "of at most"}


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

    def validate(self, model: type[Model], data: Any = None) -> Model:
        """The document (or `data` in its place) as `model`; raises BadInput with every problem."""
        try:
            return model.model_validate(self.data if data is None else data)
        except ValidationError as error:
            # A list whose items are all wrong is reported by its items, not as too short as well.
            told = [item for item in error.errors() if item["type"] != "too_short" or not item["input"]]
            raise BadInput(self._explain(model, item) for item in told) from error

    def _explain(self, model: type[BaseModel], error: Any) -> Problem:
        loc, kind = error["loc"], error["type"]
        if kind == "dse":
            return self.problem(loc, error["ctx"]["what"], error["ctx"]["fix"])
        if kind == "extra_forbidden":
            return self.problem(loc, f"unknown key '{loc[-1]}'", suggestion(loc[-1], _known_keys(model, loc[:-1])))
        if kind == "missing":
            return self.problem(loc, f"'{loc[-1]}' is missing", f"add '{loc[-1]}: {_example(model, loc)}'")
        if kind in ("literal_error", "union_tag_invalid", "enum"):
            context = error["ctx"]
            what = f"'{_short(context.get('tag', error['input']))}' is not known here"
            return self.problem(loc, what, f"write one of {context.get('expected') or context['expected_tags']}")
        if kind in _BOUNDS:
            return self.problem(
                loc, f"{_short(error['input'])} is out of range", f"write a number {_BOUNDS[kind]} {next(iter(error['ctx'].values())):g}"
            )
        what = f"'{_short(error['input'])}' cannot stand here ({error['msg']})"
        return self.problem(loc, what, _FIXES.get(kind, "see 'dse schema'"))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


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
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput([Problem("not a text file (UTF-8)", "give a YAML or CSV file", path, 1)]) from error
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadInput([Problem(reason, "give a file that exists and can be read", path)]) from error


def _walk(node: yaml.Node, loc: Loc, lines: dict[Loc, int], path: Path) -> Iterator[Problem]:
    """Note the line of every key and item below `node`; yield a problem for each key given twice."""
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


def _known_keys(model: type[BaseModel], loc: Loc) -> list[str]:
    return sorted({key for node in _schema_nodes(model, loc) for key in node.get("properties", {})})


def _example(model: type[BaseModel], loc: Loc) -> str:
    examples = [str(node["examples"][0]) for node in _schema_nodes(model, loc) if node.get("examples")]
    return examples[0] if examples else "..."


def _schema_nodes(model: type[BaseModel], loc: Loc) -> list[dict[str, Any]]:
    """The JSON Schema nodes that may describe `loc`."""
    root = model.model_json_schema()
    nodes = _alternatives(root, root)
    for part in loc:
        below = [child for node in nodes for child in _children(node, part)]
        nodes = [alternative for child in below for alternative in _alternatives(root, child)] or nodes
    return nodes


def _children(node: dict[str, Any], part: Any) -> list[dict[str, Any]]:
    if isinstance(part, int):
        return [node["items"]] if isinstance(node.get("items"), dict) else []
    named, patterned = node.get("properties", {}), node.get("patternProperties", {})
    found = [named[part]] if part in named else [*patterned.values(), node.get("additionalProperties")]
    return [child for child in found if isinstance(child, dict)]


def _alternatives(root: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """`node` with references followed and unions opened."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        return _alternatives(root, root["$defs"][name])
    options = [option for key in ("anyOf", "oneOf", "allOf") for option in node.get(key, ())]
    return [node] + [found for option in options for found in _alternatives(root, option)]
