"""Every shipped YAML file and every YAML example of the documentation means the same to readers of YAML 1.1, such as PyYAML's loaders.

They read `2:4` as 124 (base 60), `no` as False and `1e-9` as text, so patterns are quoted.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from yamlcore import CoreLoader

from tests.test_documentation import PAGES, blocks, name

TOP = Path(__file__).parents[1]
FOLDERS = ("accel_models", "sweeps", "workloads", "dse", "docs")
FILES = sorted(file for folder in FOLDERS for file in (TOP / folder).rglob("*.yaml"))


def plain_scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """The scalars that are written without quotes, keys included."""
    if isinstance(node, yaml.ScalarNode) and not node.style:
        yield node
    for child in node.value if isinstance(node, yaml.CollectionNode) else ():
        for part in child if isinstance(child, tuple) else (child,):
            yield from plain_scalars(part)


def read_differently(text: str) -> list[str]:
    """Each plain scalar that YAML 1.1 reads as another value or type, with its line."""
    ours, theirs = CoreLoader(""), yaml.SafeLoader("")
    different = []
    for node in plain_scalars(yaml.compose(text, CoreLoader)):
        tag = theirs.resolve(yaml.ScalarNode, node.value, (True, False))
        values = ours.construct_object(node), theirs.construct_object(yaml.ScalarNode(tag, node.value))
        if repr(values[0]) != repr(values[1]):
            different.append(f"line {node.start_mark.line + 1}: {node.value} is read as {values[1]!r}; write '{node.value}' in quotes")
    return different


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TOP)))
def test_a_shipped_file_means_the_same_to_other_readers(file):
    assert read_differently(file.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_an_example_means_the_same_to_other_readers(page):
    examples = [block for block in blocks(page) if block.language in ("yaml", "yml")]
    assert [f"{block.line}: {line}" for block in examples for line in read_differently(block.text)] == []


@pytest.mark.parametrize("scalar", ["2:4", "64:2:8", "no", "on", "1e-9", "312e12", "0o17", "017", "1_000", "2026-01-01", "1:8x4"])
def test_a_difference_is_found(scalar):
    found = read_differently(f"{{key: {scalar}}}")
    assert len(found) == (0 if scalar == "1:8x4" else 1)
    assert read_differently(f"{{key: '{scalar}'}}") == []
