"""`dse explore`: a page on the loopback interface that evaluates the designs of some results live."""

from argparse import Namespace
from pathlib import Path

from dse.base.errors import InputError
from dse.explorer.exploration import Exploration
from dse.explorer.server import LOOPBACK, check_port, serve
from dse.html_report.results_files import read_results


def execute(options: Namespace) -> str:
    """Serve the page until it is interrupted. Raises InputError for wrong results and for a port that is in use."""
    check_port(options.port)
    results = read_results(options.results)
    if results.kind == "validation":
        raise InputError(f"'{options.results}' is a validation", "give a dataset of 'dse sweep' or the folder of 'dse search'")
    folder = options.out or Path()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder}' is a file", "give a folder for the descriptions that are saved")
    exploration = Exploration.of_results(results)
    print(f"http://{LOOPBACK}:{options.port}/ (Ctrl-C ends it)", flush=True)
    serve(exploration, folder, options.port, options.open)
    return "ended"
