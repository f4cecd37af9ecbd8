"""`dse init`: write a commented description to start from."""

import json
from argparse import Namespace
from pathlib import Path

from dse.base.output_file import check_not_overwritten, check_writable, replace_file
from dse.schema.json_schema import Kind, json_schema
from dse.schema.template import Files, new_files


def execute(options: Namespace) -> str:
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
