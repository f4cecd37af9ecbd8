"""Subcommands about descriptions: `dse check`, `list`, `iso`, `pattern` and `schema`."""

import json
import sys
from argparse import Namespace

from dse.base.errors import InputError
from dse.report import listing, pattern
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec
from dse.workload.schema import Description

SCHEMAS = {"accelerator": Accelerator, "workload": Description, "sweep": SweepSpec}


def check(options: Namespace) -> int:
    """Check every file, also after one with problems; exit code 2 if there is any problem."""
    failed = False
    for path in options.files:
        try:
            print(f"{path}: ok, {listing.check(path)}")
        except InputError as error:
            print(error, file=sys.stderr)
            failed = True
    return 2 if failed else 0


def list_catalog(options: Namespace) -> str:
    return listing.render(options.what, options.workload, as_json=options.json)


def list_iso_accuracy(options: Namespace) -> str:
    return listing.iso(options.workload, options.drop, options.relative, as_json=options.json)


def report_pattern(options: Namespace) -> str:
    return pattern.report(options.pattern, options.density, options.shape, options.value, options.json)


def print_schema(options: Namespace) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMAS[options.kind].model_json_schema()}
    return json.dumps(schema, indent=2)
