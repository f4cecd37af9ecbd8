"""`dse report`: results as one HTML file that opens offline."""

from argparse import Namespace
from pathlib import Path

from dse.base import output_file
from dse.base.errors import InputError, UnfinishedError
from dse.base.progress import announced_step
from dse.html_report.report import build_report
from dse.html_report.results_files import read_all


def execute(options: Namespace) -> str:
    """Write the report and return its path. Raises InputError with the problems of all inputs."""
    out: Path = options.out or Path("report.html")
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"'{out}' is not a name for a page", "write one that ends in .html, as in '-o report.html'")
    output_file.check_not_overwritten(out, force=options.force or options.out is None)
    output_file.check_writable(out)
    with announced_step("writing the report"):
        page = build_report(read_all(options.results, options.where), options.title, options.maximize, options.minimize)
    try:
        output_file.replace_file(out, lambda path: path.write_text(page, encoding="utf-8"))
    except OSError as error:
        raise UnfinishedError.cannot_write(out, error, "run it again") from error
    return str(out)
