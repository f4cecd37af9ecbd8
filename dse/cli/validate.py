"""`dse validate` and `dse r3`: the model compared with measured kernels, areas and powers, and with published efficiencies."""

from argparse import Namespace

from dse.base.errors import InputError
from dse.base.progress import announced_step
from dse.calibrate import r3
from dse.model.cost.validate import report_errors


def execute(options: Namespace) -> int:
    """Print the errors of the model; exit code 1 if one is larger than stated."""
    if (options.what == "power") != (options.table is not None):
        raise InputError("a table of powers goes with 'power' alone", "write 'dse validate power TABLE'")
    if options.what == "cost":
        with announced_step("leaving out each device"):
            text, passed = report_errors(options.json)
    elif options.what == "power":
        text, passed = _report_power(options), True
    else:
        from dse.cli import validate_kernels  # fitting takes more imports than the areas need

        text, passed = validate_kernels.execute(options)
    print(text)
    return 0 if passed else 1


def _report_power(options: Namespace) -> str:
    from dse.calibrate.measurement_set import load_measurements  # more imports than the areas need
    from dse.calibrate.validate.measured_power import report_power

    return report_power(load_measurements(options.table), options.json)


def report_r3(options: Namespace) -> str:
    efficiencies = options.dense_efficiency, options.sparse_efficiency
    return r3.format_report(options.accelerators, options.dtype, options.sparsity, *efficiencies, options.json)
