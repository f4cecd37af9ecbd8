"""Templates of descriptions: the commented files of this package, and descriptions of the catalogue under another name.

A template has the name `NAME`. A description that it is started from keeps its comments; its relative paths are rewritten, so that they
lead to the same files from the new place.
"""

import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import yaml
from yamlcore import CCoreLoader

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.input_file import read_text
from dse.schema.json_schema import Kind

TEMPLATES = Path(__file__).parent / "templates"
FOLDERS: dict[Kind, catalog.CatalogFolder] = {"accelerator": "accel_models", "workload": "workloads", "sweep": "sweeps", "search": "sweeps"}
NAME = re.compile(r"^name: *(?P<name>\"[^\"]*\"|\S+)(?P<gap> *)(?P<comment>#.*)?$", re.MULTILINE)
VALID_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

Files = dict[Path, str]  # text by path


def new_files(kind: Kind, target: Path, like: str | None = None) -> Files:
    """The files of a new description at `target` (for a workload: a folder), from a template or from the description `like`.

    Raises:
        InputError: the target has no valid name, or `like` is not a description of this kind.
    """
    name = _name_of(kind, target)
    source = TEMPLATES / (kind if kind == "workload" else f"{kind}.yaml") if like is None else catalog.find_path(FOLDERS[kind], like)
    origin = (
        "" if like is None else f"# started from '{like}' (sparse-dse {version('sparse-dse')}); state your own source of what you change\n"
    )
    if kind == "workload":
        source = source.parent if source.name == "workload.yaml" else source
        tables = {target / file.relative_to(source): read_text(file) for file in sorted(source.rglob("*.csv"))}
        return {target / "workload.yaml": origin + _renamed(read_text(source / "workload.yaml"), name), **tables}
    text = read_text(source)
    if like is not None and kind in ("sweep", "search"):
        _check_kind(kind, like, text)
    moved = text if like is None else _with_moved_paths(text, source.parent, target.parent)
    return {target: origin + _renamed(moved, name)}


def _name_of(kind: Kind, target: Path) -> str:
    """The name of the description: that of its file or folder."""
    if kind != "workload" and target.suffix not in (".yaml", ".yml"):
        raise InputError(f"'{target}' is not the name of a description", f"end it in .yaml, as in '{target.name or 'my_chip'}.yaml'")
    name = target.name if kind == "workload" else target.stem
    if not VALID_NAME.fullmatch(name):
        raise InputError(f"'{name}' is not a valid name", "write letters, digits, '_', '.' and '-', as in 'my_chip'")
    return name


def _check_kind(kind: Kind, like: str, text: str) -> None:
    """Raise InputError if a search is wanted and a sweep is named, or the other way round."""
    actual = "search" if "search" in (yaml.load(text, CCoreLoader) or {}) else "sweep"
    if kind != actual:
        raise InputError(f"'{like}' is a {actual}", f"write 'dse init {actual} --like {like}', or name a {kind}")


def _renamed(text: str, name: str) -> str:
    """The text with another `name`; a comment behind it keeps its column if there is room."""

    def rename(match: re.Match[str]) -> str:
        width = len(match[0]) - len(match["comment"] or "")
        return f"{f'name: {name} ':<{width}}{match['comment']}" if match["comment"] else f"name: {name}"

    return NAME.sub(rename, text, count=1)


def _with_moved_paths(text: str, old: Path, new: Path) -> str:
    """The text with every path that exists relative to `old` as a path relative to `new`."""
    scalars = {scalar.start_mark.index: scalar for scalar in _scalars(yaml.compose(text, CCoreLoader))}  # once, also if an alias repeats it
    for _, scalar in sorted(scalars.items(), reverse=True):
        if catalog.is_path(scalar.value) and not os.path.isabs(scalar.value) and (old / scalar.value).exists():
            moved = os.path.relpath((old / scalar.value).resolve(), new.resolve())
            moved = moved if catalog.is_path(moved) else f"./{moved}"
            text = text[: scalar.start_mark.index] + moved + text[scalar.end_mark.index :]
    return text


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    for child in node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else ():
        for part in child if isinstance(child, tuple) else (child,):
            yield from _scalars(part)
