"""The command `dse`: `entry` parses the command line; every verb with work of its own has a module here."""

from dse.cli.entry import main as main
