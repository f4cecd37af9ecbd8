"""Options of the subcommands that evaluate a specification: `dse sweep` and `dse search`."""

import argparse
from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_force, add_json, add_subcommand

EXAMPLES = {
    "sweep": (
        "dse sweep sparsity_roofline",
        "dse sweep my_sweep.yaml -o results.zarr --workers 4",
    ),
    "search": (
        "dse search next_tensor_core",
        "dse search my_search.yaml -o out --resume",
    ),
}


def add_sweep(subcommands: Subcommands) -> None:
    parser = add_subcommand(
        subcommands, "sweep", "dse.cli.sweep:execute", "evaluate a sweep specification and write its dataset and figures", EXAMPLES["sweep"]
    )
    parser.add_argument("spec", help="sweep specification: a name of the catalogue or a path")
    out = (
        "folder, .nc file, table (.csv, .parquet), or Zarr store (.zarr), written in chunks (default: a folder named as the specification)"
    )
    parser.add_argument("-o", "--out", type=Path, help=out)
    parser.add_argument("--resume", action="store_true", help="continue an interrupted sweep; this and the next three options need a Zarr "
                        "store, or a specification with 'keep: front', 'top' or 'summary'")  # fmt: skip
    parser.add_argument("--shard", metavar="I/N", help="evaluate shard I of N (I from 1), while other processes evaluate the others")
    parser.add_argument("--workers", metavar="N", type=_process_count, help="evaluate chunks in N processes of this machine (default: 1)")
    parser.add_argument("--dask", metavar="ADDRESS", help="evaluate chunks on the workers of a Dask scheduler, as in tcp://127.0.0.1:8786")
    add_force(parser)
    parser.add_argument("--dry-run", action="store_true", help="check all inputs, print what would be evaluated, and stop")


def add_search(subcommands: Subcommands) -> None:
    parser = add_subcommand(
        subcommands, "search", "dse.cli.search:execute", "search for the best accelerator designs within constraints", EXAMPLES["search"]
    )
    parser.add_argument("spec", help="specification with a 'search' section: a name of the catalogue or a path")
    parser.add_argument("-o", "--out", type=Path, help="output folder (default: named as the specification)")
    storage = "URL of an Optuna storage, as in postgresql+psycopg://... (default: a journal file in OUT)"
    parser.add_argument("--storage", metavar="URL", help=storage)
    parser.add_argument("--resume", action="store_true", help="continue a stopped search")
    parser.add_argument("--join", action="store_true", help="evaluate designs for a search of another process, which writes the report")
    parser.add_argument("--force", action="store_true", help="start again, if OUT has a search already")
    add_json(parser)


def _process_count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a valid number of processes; write a whole number from 1 on")
    return int(text)
