"""The subcommands of `dse`, in the order in which `dse --help` lists them.

A handler is named as 'module:function' and is imported when its subcommand runs. It takes the parsed options and returns the text to
print, or an exit code if it has printed.
"""

import argparse

from dse.cli.arguments import accuracy, descriptions, evaluation, measurements, networks, results


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(required=True, metavar="SUBCOMMAND", title="subcommands")
    for add in (
        descriptions.add_init,
        evaluation.add_sweep,
        results.add_show,
        results.add_plot,
        results.add_pareto,
        results.add_report,
        results.add_explore,
        results.add_explain,
        networks.add_trace,
        accuracy.add_accuracy,
        networks.add_io,
        descriptions.add_check,
        descriptions.add_list,
        descriptions.add_iso,
        evaluation.add_search,
        descriptions.add_pattern,
        descriptions.add_schema,
        measurements.add_measure,
        measurements.add_calibrate,
        measurements.add_validate,
        measurements.add_r3,
    ):
        add(subcommands)
