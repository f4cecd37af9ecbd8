"""`dse explore`: a page on the loopback interface that evaluates the designs of some results live."""

import socket
from argparse import Namespace
from pathlib import Path

from dse.base.errors import InputError
from dse.explorer.exploration import Exploration
from dse.html_report.results_files import read_results

LOOPBACK = "127.0.0.1"


def execute(options: Namespace) -> str:
    """Serve the page until it is interrupted. Raises InputError for wrong results and for a port that is in use."""
    _check_port(options.port)
    results = read_results(options.results)
    if results.kind == "validation":
        raise InputError(f"'{options.results}' is a validation", "give a dataset of 'dse sweep' or the folder of 'dse search'")
    folder = options.out or Path()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder}' is a file", "give a folder for the descriptions that are saved")
    exploration = Exploration.of_results(results)
    print(f"http://{LOOPBACK}:{options.port}/ (Ctrl-C ends it)", flush=True)
    _serve(exploration, folder, options.port, options.open)
    return "ended"


def _check_port(port: int) -> None:
    """Raise InputError if the port cannot be listened on."""
    if not 1 <= port <= 65535:
        raise InputError(f"{port} is not a valid port", "give one from 1024 to 65535, as in '--port 8400'")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            message = f"port {port} of {LOOPBACK} cannot be used ({error.strerror})"
            raise InputError(message, f"stop what uses it, or give another port, as in '--port {min(port + 1, 65535)}'") from error


def _serve(exploration: Exploration, folder: Path, port: int, open_browser: bool) -> None:
    """Serve until interrupted; each visitor has a page of their own. Raises InputError where Panel is not installed."""
    _check_port(port)
    try:
        import panel
    except ImportError as error:
        raise InputError("Panel is not installed", "install it: pip install 'sparse-dse[explore]'") from error
    from dse.explorer.page import ExplorePage

    panel.extension()
    panel.serve(
        {"/": lambda: ExplorePage(exploration, folder).layout()}, port=port, address=LOOPBACK, show=open_browser, title="dse explore",
        websocket_origin=[f"{LOOPBACK}:{port}", f"localhost:{port}"], verbose=False,
    )  # fmt: skip
