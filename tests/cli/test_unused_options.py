"""Options that have no effect are refused."""

import pytest

from dse.cli.entry import main


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        ("validate cost --brief -o out", ["--brief: has no effect in 'dse validate cost'; leave it out", "-o: has no effect"]),
        ("validate cost --data silicon --markdown", ["--data: has no effect in 'dse validate cost'", "--markdown: has no effect"]),
        ("validate accuracy -o out", ["-o: has no effect in 'dse validate accuracy'; leave it out"]),
        ("validate power table.csv --brief", ["--brief: has no effect in 'dse validate power'; leave it out"]),
        ("list accelerators resnet50", ["'resnet50' has no effect after 'accelerators'; leave it out, or see 'dse show resnet50'"]),
        ("search tiny_chip --force --storage sqlite://", ["--force and --storage exclude each other; leave one of them out"]),
        ("validate silicon table.csv", ["'table.csv' has no effect after 'silicon'"]),
        ("validate power", ["the table of powers is missing; write 'dse validate power TABLE'"]),
        ("validate --json --brief", ["--brief: has no effect with '--json'"]),
        (
            "calibrate --few 3 --device h100-sxm5-80gb --seed 0 --samples 7",
            ["--seed: has no effect with '--few'", "--samples: has no effect"],
        ),
        ("validate costs", ["did you mean 'cost'?"]),
        ("validate powr", ["did you mean 'power'?"]),
    ],
)
def test_an_option_without_effect_is_refused(command, messages, capsys):
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert all(message in error for message in messages)
