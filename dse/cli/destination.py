"""Where a command writes: the rule of overwriting, and the endings of result files.

A file or store that the user names is never replaced without --force, and this is reported before any work. In a folder, the files that
the command writes are replaced, so that it can be run again.
"""

from argparse import Namespace
from pathlib import Path

from dse.base.errors import InputError
from dse.base.output_file import check_not_overwritten
from dse.sweeping.table_file import check_table_path

FORMATS = (".nc", ".zarr", ".csv", ".parquet")
OTHER_FORMATS = (
    ".feather",
    ".h5",
    ".hdf5",
    ".html",
    ".json",
    ".pdf",
    ".png",
    ".pq",
    ".svg",
    ".tsv",
    ".txt",
    ".xls",
    ".xlsx",
    ".yaml",
    ".yml",
)
CONTINUE = "continue it with --resume, start again with --force, or give another path"


def is_file(out: Path | None) -> bool:
    """Whether the option -o names a file or a store of results, and not a folder."""
    return out is not None and out.suffix in FORMATS


def check_results_file(out: Path | None, formats: tuple[str, ...], force: bool, continued: bool = False) -> None:
    """Check what -o names, before any work; `continued`: what is stored there may be continued.

    Raises InputError if results cannot be written in its format, or if it exists.
    """
    if out is None:
        return
    if out.suffix in OTHER_FORMATS or (is_file(out) and out.suffix not in formats):
        raise InputError(f"results cannot be written as '{out.suffix}'", f"end the path in {', '.join(formats)}, or give a folder")
    if out.suffix in formats:
        check_table_path(out)
        check_not_overwritten(out, force=force or continued, **({"fix": CONTINUE} if out.suffix == ".zarr" else {}))


def check_modes(options: Namespace) -> None:
    """Raise InputError if --force is given with an option that continues what is stored, or that stores it elsewhere."""
    for name in ("resume", "shard", "join", "storage"):
        if options.force and getattr(options, name, None):
            raise InputError(f"--force and --{name} exclude each other", "leave one of them out")
