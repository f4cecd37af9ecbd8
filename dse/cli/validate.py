"""`dse validate` and `dse r3`: the model compared with measured kernels, areas and powers, with published accuracies and efficiencies."""

from argparse import Namespace

from dse.base.errors import InputError
from dse.base.progress import announced_step
from dse.calibrate import r3
from dse.cli.arguments.common import refuse_unused
from dse.model.cost.validate import report_errors

USED: dict[str, set[str]] = {"cost": set(), "power": set(), "accuracy": {"data", "markdown"}}  # options that have an effect, besides --json
TRAINED = "trained"  # of 'validate accuracy --data': networks that 'dse accuracy train' measured


def execute(options: Namespace) -> int:
    """Print the errors of the model; exit code 1 if one is larger than stated."""
    _check_options(options)
    if options.what == "cost":
        with announced_step("leaving out each device"):
            text, passed = report_errors(options.json)
    elif options.what == "power":
        text, passed = _report_power(options), True
    elif options.what == "accuracy":
        text, passed = _report_accuracy(options)
    else:
        from dse.cli import validate_kernels  # fitting takes more imports than the areas need

        text, passed = validate_kernels.execute(options)
    print(text)
    return 0 if passed else 1


def _check_options(options: Namespace) -> None:
    """Raise InputError where the table of powers is missing, or an option has no effect."""
    if options.what == "power" and options.table is None:
        raise InputError("the table of powers is missing", "write 'dse validate power TABLE'")
    if options.what != "power" and options.table is not None:
        raise InputError(
            f"'{options.table}' has no effect after '{options.what}'", "write 'dse validate power TABLE', or '--data' before it"
        )
    if options.json:
        refuse_unused(options, ("brief", "markdown"), "with '--json'")
    if options.what in USED:
        unused = {"data", "out", "brief", "markdown"} - USED[options.what]
        refuse_unused(options, sorted(unused), f"in 'dse validate {options.what}'")


def _report_power(options: Namespace) -> str:
    from dse.calibrate.tables.measurement_set import load_measurements  # more imports than the areas need
    from dse.calibrate.validate.measured_power import report_power

    return report_power(load_measurements(options.table), options.json)


def _report_accuracy(options: Namespace) -> tuple[str, bool]:
    from dse.accuracy.validation_report import (
        report_accuracy,
        report_trained,  # more imports than the areas need
    )

    if options.data is None:
        with announced_step("estimating published accuracies"):
            return report_accuracy(options.json, options.markdown)
    if str(options.data) != TRAINED:
        what = f"'{options.data}' is not a set of accuracies"
        raise InputError(what, f"write '{TRAINED}', the networks that 'dse accuracy train' measured, or leave it out", key="--data")
    with announced_step("estimating measured accuracies"):
        return report_trained(options.json, options.markdown), True


def report_r3(options: Namespace) -> str:
    efficiencies = options.dense_efficiency, options.sparse_efficiency
    return r3.format_report(options.accelerators, options.dtype, options.sparsity, *efficiencies, options.json)
