"""Accelerators and workloads as users give them: a name of the catalogue, a path, a mapping or an object.

`load_accelerator` and `load_workload` load one. `replace_objects` replaces the objects in a specification by their descriptions, so that it
can be validated and stored.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.yaml_document import load_document
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.workload import Workload, tables


def load_accelerator(reference: str | Path | Mapping[str, object] | Accelerator) -> Accelerator:
    """Load an accelerator by its name in the catalogue, by path or from a mapping.

    Args:
        reference: a name of the catalogue (`dse list accelerators` shows them), the path of a YAML file, a mapping with the keys of such
            a file, or an accelerator, which is returned unchanged.

    Returns:
        The validated description. Its quantities are in SI base units.

    Raises:
        InputError: the description is missing or invalid; lists every problem with file, line and fix.

    Examples:
        >>> import dse
        >>> a100 = dse.load_accelerator("a100-sxm4-80gb")
        >>> a100.value("memory.dram.bandwidth")  # in SI units: B/s
        2039000000000.0
    """
    if isinstance(reference, Accelerator):
        return reference
    _check_type(reference, "an accelerator", "an Accelerator")
    return read_accelerator(catalog.resolve_accelerator(reference))


def load_workload(reference: str | Path | Mapping[str, object] | Workload, **inputs: object) -> Workload:
    """Load a network and its pruned variants by its name in the catalogue or by path.

    Args:
        reference: a name of the catalogue (`dse list workloads` shows them), the path of a workload folder, a mapping with the keys of
            a workload.yaml whose `network` describes the layers, or a workload, which is returned unchanged.
        inputs: what the network is run on, where formulas make its layers: `phase`, `sequence` and the like. Default: the inputs that
            the description gives.

    Returns:
        The network with its layers, variants and accuracies.

    Raises:
        InputError: the workload is missing or invalid; lists every problem with file, line and fix.

    Examples:
        >>> import dse
        >>> resnet = dse.load_workload("resnet50")
        >>> pruned = resnet.variant("magnitude_pruning", sparsity=0.9)
        >>> round(pruned.sparsity, 3)
        0.9
        >>> llama = dse.load_workload("llama-2-7b", phase="decode", sequence=4096)
        >>> llama.name
        'llama-2-7b (phase=decode, sequence=4096)'
    """
    if isinstance(reference, Workload):
        if inputs:
            raise InputError(f"'{reference.name}' is loaded, so its inputs are fixed", "give them with its name or path")
        return reference
    _check_type(reference, "a workload", "a Workload")
    if isinstance(reference, Mapping):
        return tables.load_mapping(load_document(reference), inputs)
    return tables.load(catalog.find_path("workloads", reference), inputs)


def _check_type(reference: object, what: str, class_name: str) -> None:
    """Raise InputError unless a reference is text, a path or a mapping."""
    if not isinstance(reference, str | Path | Mapping):
        message = f"'{type(reference).__name__}' is not the type of {what}"
        raise InputError(message, f"give a name of the catalogue, a path, a mapping or {class_name}")


def replace_objects(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Workload]]:
    """Replace objects by descriptions; returns the specification, and the workloads by the keys of their descriptions.

    The description of an accelerator is complete. That of a workload names its folder and inputs; the object itself is evaluated, and a
    hash of its contents is stored with the results. Raises InputError if two workloads have the same key.
    """
    described, workloads = dict(spec), dict[str, Workload]()
    if isinstance(listed := spec.get("accelerators"), list | tuple):
        described["accelerators"] = [item.to_dict() if isinstance(item, Accelerator) else item for item in listed]
    listed = spec.get("workloads")
    entries = list(listed.items()) if isinstance(listed, Mapping) else [split_workload_item(item) for item in listed or ()]
    if any(_workload_object(key, selection) for key, selection in entries):
        described["workloads"] = {}
        for key, selection in entries:
            _add_workload(key, selection, described["workloads"], workloads)
    return described, workloads


def split_workload_item(item: object) -> tuple[Any, Any]:
    """Split an item of a list of workloads (a reference, a selection with `workload`, or a description) into its key and selection."""
    if not isinstance(item, Mapping):
        return item, {}
    selection = item if "workload" in item else {"workload": item}
    reference = selection["workload"]
    return reference.get("name") if isinstance(reference, Mapping) else reference, selection


def _workload_object(key: object, selection: object) -> Workload | None:
    """The workload that is the key itself or the `workload` of a selection; None if that is a name, a path or a mapping."""
    reference = key if isinstance(key, Workload) else selection.get("workload") if isinstance(selection, Mapping) else None
    return reference if isinstance(reference, Workload) else None


def _add_workload(key: Any, selection: Any, described: dict[str, object], workloads: dict[str, Workload]) -> None:
    """Add a workload to the described ones and, if it is an object, to the loaded ones; raises InputError."""
    workload = _workload_object(key, selection)
    name = key.name if isinstance(key, Workload) else key
    if name in described:
        raise InputError(f"two workloads are named '{name}'", "load one of them with other inputs, or list it once", key="workloads")
    described[name] = selection
    if workload is None:
        return
    if "inputs" in (options := dict(selection or {})):
        fix = "give its name or path instead of the object"
        raise InputError("the inputs of a loaded workload are fixed", fix, key=f"workloads.{name}")
    workloads[name] = workload
    options["workload"] = str(workload.folder.resolve()) if workload.mapping is None else workload.mapping
    described[name] = options | ({"inputs": dict(workload.inputs)} if workload.inputs else {})
