"""Subcommands about descriptions: `dse init`, `check`, `list`, `iso`, `pattern` and `schema`."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.output_file import check_not_overwritten, check_writable, replace_file
from dse.base.yaml_document import YamlDocument, load_document
from dse.report import catalog_tables, pattern
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.json_schema import SCHEMAS, Kind, json_schema
from dse.schema.stored_results import RESULT_FILES
from dse.schema.template import Files, new_files
from dse.workload import tables


def write_template(options: Namespace) -> str:
    """Write the files of a new description and return their paths; raises InputError if one exists and is not to be replaced."""
    files = new_files(options.kind, options.file, options.like)
    description = next(iter(files))
    check_not_overwritten(*files, force=options.force)
    if options.editor:
        files = _with_schema(files, description, options.kind)
    check_writable(*files)
    for path, text in files.items():
        replace_file(path, lambda fresh, text=text: fresh.write_text(text, encoding="utf-8"))
    return "\n".join(map(str, files))


def _with_schema(files: Files, description: Path, kind: Kind) -> Files:
    """The files with the JSON Schema in the folder of the description, whose first line names it for editors."""
    schema = description.with_name(f"{kind}.schema.json")
    modeline = f"# yaml-language-server: $schema=./{schema.name}\n"
    return {**files, description: modeline + files[description], schema: json.dumps(json_schema(kind), indent=2) + "\n"}


def check(options: Namespace) -> int:
    """Check every file, also after one with problems; exit code 2 if there is any problem."""
    failed = False
    for reference in options.files:
        try:
            for path in _described_files(reference):
                what, warnings = _check_description(path)
                print(f"{reference}: ok, {what}")
                for warning in warnings:
                    print(f"warning: {warning}", file=sys.stderr)
                if options.derived:
                    print(_list_derived(path), end="")
        except InputError as error:
            print(error, file=sys.stderr)
            failed = True
    return 2 if failed else 0


def _described_files(reference: str) -> list[Path]:
    """The path that is given, or the descriptions of the catalogue with this name; raises InputError if there is neither."""
    path = Path(reference)
    if catalog.is_path(reference) or path.exists():
        return [path]
    if named := catalog.find_named(reference):
        return named
    raise InputError(f"'{reference}' is neither a file nor a name of the catalogue", catalog.suggest_name(reference))


def _check_description(path: Path) -> tuple[str, list[str]]:
    """Kind and name of the description at `path`, and what is unlikely to be meant in it, or what it assumes.

    Raises InputError with every problem of it and of the files that it names.
    """
    if path.is_dir() and any((path / name).exists() for name in RESULT_FILES):
        raise InputError(f"'{path}' is a folder of results, which has no description", f"print them with 'dse show {path}'")
    if path.is_dir() or path.name == "workload.yaml":
        return f"workload '{tables.load(path).name}'", []
    document = load_document(path)
    kind = _kind(document)
    if kind == "accelerator":
        return f"{kind} '{Accelerator.from_document(document).name}'", _accelerator_warnings(path)
    if kind == "workload":
        return f"{kind} '{document.validate(SCHEMAS[kind]).name}'", []
    if document.data.get("search"):
        from dse.searching.problem import load_problem

        _, problem = load_problem(path)
        return f"search '{document.data['name']}'", problem.warnings
    from dse.sweeping.plan_builder import load_plan

    return f"sweep '{load_plan(path).spec.name}'", []


def _kind(document: YamlDocument) -> str:
    """The kind of description that has most keys of a document."""
    return max(SCHEMAS, key=lambda name: len(SCHEMAS[name].model_fields.keys() & document.data.keys()))


def _is_accelerator(path: Path) -> bool:
    return not path.is_dir() and path.name != "workload.yaml" and _kind(load_document(path)) == "accelerator"


def _accelerator_warnings(path: Path) -> list[str]:
    from dse.report.accelerator_check import plausibility_warnings

    return [str(problem) for problem in plausibility_warnings(read_accelerator(path))]


def _list_derived(path: Path) -> str:
    """The numbers of an accelerator that follow from others, with area and power; empty for other descriptions."""
    if not _is_accelerator(path):
        return ""
    from dse.report.accelerator_check import list_derived_numbers

    return list_derived_numbers(read_accelerator(path))


def list_catalog(options: Namespace) -> str:
    """The table of the catalogue; raises InputError."""
    if options.workload is not None and options.what != "variants":
        raise InputError(
            f"'{options.workload}' has no effect after '{options.what}'", f"leave it out, or see 'dse show {options.workload}'"
        )
    return catalog_tables.list_catalog(options.what, options.workload, as_json=options.json)


def list_iso_accuracy(options: Namespace) -> str:
    return catalog_tables.list_iso_accuracy(options.workload, options.drop, options.relative, as_json=options.json)


def report_pattern(options: Namespace) -> str:
    return pattern.report_pattern(options.pattern, options.density, options.shape, options.value, as_json=options.json)


def print_schema(options: Namespace) -> str:
    return json.dumps(json_schema(options.kind), indent=2)
