"""Completion in a shell: names of the catalogue, then files."""

import sys

import pytest

from dse.base import catalog
from dse.cli.completion import COMPLETED, _arguments, add_completers
from dse.cli.entry import build_parser, main


def completions(subcommand: str, argument: str, prefix: str) -> list[str]:
    parser = build_parser()
    add_completers(parser, lambda text: [f"{text}.yaml"])
    (action,) = (action for name, action in _arguments(parser) if (name, action.dest) == (subcommand, argument))
    return action.completer(prefix)


@pytest.mark.parametrize(
    ("subcommand", "argument", "prefix", "expected"),
    [
        ("sweep", "spec", "cache", ["cache_aware", "cache_or_bandwidth", "cache.yaml"]),
        ("show", "what", "edge", ["edge-npu", "edge_accelerator", "edge.yaml"]),
        ("iso", "workload", "resnet", ["resnet50", "resnet.yaml"]),
        ("explain", "accelerator", "t4", ["t4", "t4.yaml"]),
    ],
)
def test_names_of_the_catalogue_are_completed_before_files(subcommand, argument, prefix, expected):
    assert completions(subcommand, argument, prefix) == expected


def test_every_completed_argument_exists():
    assert COMPLETED.keys() <= {(name, action.dest) for name, action in _arguments(build_parser())}
    assert len(completions("check", "files", "")) == sum(len(catalog.list_names(folder)) for folder in catalog.KINDS) + 1


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main([]) == 2
    assert capsys.readouterr().err == "completion needs argcomplete; install it: pip install 'sparse-dse[completion]'\n"
