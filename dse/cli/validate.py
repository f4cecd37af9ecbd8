"""`dse validate` and `dse r3`: the model compared with measured kernels, areas and powers, and with published efficiencies."""

from argparse import Namespace

from dse.calibrate import r3
from dse.model.cost.validate import report_errors


def execute(options: Namespace) -> int:
    """Print the errors of the model; exit code 1 if one is larger than stated."""
    if options.what == "cost":
        text, passed = report_errors(options.json)
    else:
        from dse.cli import validate_kernels  # fitting takes more imports than the areas need

        text, passed = validate_kernels.execute(options)
    print(text)
    return 0 if passed else 1


def report_r3(options: Namespace) -> str:
    efficiencies = options.dense_efficiency, options.sparse_efficiency
    return r3.format_report(options.accelerators, options.dtype, options.sparsity, *efficiencies, options.json)
