"""Every subcommand has a handler, a sentence and help for every option; the kinds of figures have one list."""

import argparse
import re
import shlex
from typing import get_args

import pytest

from dse import plot
from dse.cli.arguments.common import add_group, add_subcommand
from dse.cli.completion import subcommand_parsers
from dse.cli.entry import build_parser, load_handler, main
from dse.schema.figures import FIGURE_KINDS, NEEDS, SHOWS
from dse.schema.sweep import SweepSpec

PARSERS = subcommand_parsers(build_parser())


@pytest.mark.parametrize("name", PARSERS)
def test_the_handler_can_be_imported(name):
    assert callable(load_handler(PARSERS[name].get_default("handler")))


@pytest.mark.parametrize("name", PARSERS)
def test_the_help_has_a_sentence_and_a_text_for_every_option(name):
    parser = PARSERS[name]
    assert parser.description
    assert parser.description[0].isupper()
    assert parser.description.endswith(".")
    assert all(action.help for action in parser._actions)


@pytest.mark.parametrize("name", PARSERS)
def test_the_examples_of_the_help_are_commands_that_parse(name):
    lines = PARSERS[name].format_help().partition("\nexamples:\n")[2].splitlines()
    assert len(lines) >= 2
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "dse"
        assert " ".join(words).startswith(f"{name} ")
        assert build_parser().parse_args(words).handler == PARSERS[name].get_default("handler")


def test_a_group_lists_its_members():
    parser = argparse.ArgumentParser()
    calls = []

    def add_member(members):
        calls.append(add_subcommand(members, "member", "module:function", "do it", ["dse group member a"]))

    add_group(parser.add_subparsers(), "group", "do things", (add_member,))
    assert subcommand_parsers(parser) == {"group member": calls[0]}
    assert parser.parse_args(["group", "member"]).handler == "module:function"


@pytest.mark.parametrize(
    ("words", "verbosity"), [(["-q", "list"], -1), (["list", "-q"], -1), (["list", "--verbose"], 1), (["-v", "list"], 1)]
)
def test_quiet_and_verbose_are_accepted_before_and_after_the_subcommand(words, verbosity):
    assert build_parser().parse_args(words).verbosity == verbosity


def test_quiet_leaves_notes_out_and_verbose_adds_files_and_time(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    shown = {}
    for option in ([], ["-q"], ["-v"]):
        assert main(["sweep", "small.yaml", "-o", "out", *option]) == 0
        shown[" ".join(option)] = capsys.readouterr().err
    assert "best designs" in shown[""]
    assert shown["-q"] == ""
    assert {"read small.yaml", "wrote out/results.nc"} <= set(shown["-v"].splitlines())
    assert re.fullmatch(r"\d+\.\d\d s", shown["-v"].splitlines()[-1])
    assert main(["-v", "plot", "none.nc"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("name", PARSERS)
def test_the_help_states_every_default(name):
    for action in PARSERS[name]._actions:
        if action.option_strings and action.nargs != 0 and not action.required and action.default not in (None, []):
            shown = action.default if isinstance(action.default, list) else [action.default]
            assert "(default: " in action.help
            assert all(f"{value:g}" in action.help if isinstance(value, float) else str(value) in action.help for value in shown), (
                action.dest
            )


def test_schema_command_line_and_figures_have_the_same_kinds():
    (plots,) = get_args(SweepSpec.model_fields["plots"].annotation)[:1]
    (kind,) = (action for action in PARSERS["plot"]._actions if action.dest == "kind")
    assert tuple(kind.choices) == get_args(plots) == FIGURE_KINDS == tuple(plot.FIGURES) == tuple(NEEDS) == tuple(SHOWS)


@pytest.mark.parametrize("kind", FIGURE_KINDS)
def test_every_kind_is_drawn_or_says_what_is_missing(kind, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["sweep", "small.yaml", "-o", "out"]) == 0
    code = main(["plot", "out/results.nc", "--kind", kind])
    drawn = kind not in ("axis", "capacity", "efficiency", "inputs")  # of which nothing is swept
    assert (code, (folder / "out" / f"{kind}.png").exists()) == (0 if drawn else 2, drawn)
    assert drawn or f"the figure '{kind}' needs " in capsys.readouterr().err


def test_check_prints_derived_numbers_with_their_formulas(tmp_path, capsys):
    path = tmp_path / "chip.yaml"
    path.write_text(
        "name: chip\nsource: a test\nunits:\n  matrix:\n    peak: {int8: 8 TOP/s, fp16: {link: units.matrix.peak.int8 / 2}}\n"
        "memory:\n  dram: {technology: hbm3, channels: 2}\n"
    )
    assert main(["check", "--derived", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: ok, accelerator 'chip'",
        "  units.matrix.peak.fp16  4 TFLOP/s   = units.matrix.peak.int8 / 2",
        "  memory.dram.bandwidth   1.638 TB/s  = memory.dram.channels * memory.dram.width * memory.dram.rate",
        "  memory.dram.capacity    32 GB       = memory.dram.channels * memory.dram.channel_capacity",
        "  no area and power by model: 'chip' has no process, on which area, power and energy depend; add 'cost: {process: 7 nm}' (3 to 28 nm)",
    ]
